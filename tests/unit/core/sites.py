# SPDX-License-Identifier: Apache-2.0
"""Random small sites: few kinds of block, many states, overlapping pools, limits and stocks."""

import os
from collections.abc import Iterator
from random import Random

import msgspec
from hypothesis import HealthCheck, settings, strategies as st

from valence_sched.model.need import Need, Test

TYPES = ["Compute", "Processor", "Memory", "Storage", "Network"]
POOLS = ["p", "q"]

STATUSES = [
    *[{}] * 20,
    {"reserved": True},
    {"enabled": False},
    {"health": "Warning"},
    {"health": "Critical"},
    {"active": True},
    {"state": "Composed", "compositions": 1},
    {"state": "Composed", "shareable": True, "max_compositions": 9},
    {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 2, "compositions": 1},
    {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 2, "compositions": 2},
    {"shareable": True, "max_compositions": 3},
    {"shareable": True, "max_compositions": 0},
]

maybe = st.sampled_from
CPUS = st.fixed_dictionaries(
    {
        "count": st.integers(1, 2),
        "cores": maybe([4, 6, 9, 4, 6, 0, None]),
        "architecture": maybe(["x86", "x86", "ARM", None]),
    }
)
MEMORY = st.fixed_dictionaries(
    {
        "count": st.integers(1, 2),
        "capacity_mib": maybe([8, 16, 24, None]),
        "type": maybe(["DDR5", "DDR5", "DDR4", None]),
    }
)
CARDS = st.fixed_dictionaries(
    {
        "kind": maybe(["GPU", "GPU", "FPGA"]),
        "count": st.integers(1, 2),
        "model": maybe(["NVIDIA A100-PCIe", "NVIDIA A100-PCIe", "NVIDIA A40", "Gaudi", None]),
        "memory_mib": maybe([40, 80, None]),
    }
)
DRIVES = st.fixed_dictionaries(
    {
        "count": st.integers(1, 3),
        "media": maybe(["SSD", "SSD", "HDD", None]),
        "capacity_bytes": maybe([1 << 31, 1 << 31, 7, None]),
    }
)
NICS = st.fixed_dictionaries({"count": st.integers(1, 2), "speed_mbps": maybe([10, 25, 25, None])})
DEVICES = {
    "processors": st.lists(CPUS, min_size=1, max_size=2),
    "memory": st.lists(MEMORY, min_size=1, max_size=1),
    "accelerators": st.lists(CARDS, min_size=1, max_size=2),
    "drives": st.lists(DRIVES, min_size=1, max_size=1),
    "nics": st.lists(NICS, min_size=1, max_size=1),
}
LIMITS = st.one_of(
    st.just({}),
    st.dictionaries(
        maybe(TYPES[:3]),
        st.fixed_dictionaries({}, optional={"min": st.integers(0, 2), "max": st.integers(0, 4)}),
        max_size=2,
    ),
)

A100 = Test("model", "words", "A100")
GPU = Test("kind", "equal", "gpu")
BIG = Test("memory_mib", "at_least", 80)
X86 = Test("architecture", "equal", "x86")
DDR5 = Test("type", "equal", "DDR5")
SSD = Test("media", "equal", "SSD")
LARGE = Test("capacity_bytes", "at_least", 1 << 30)
FAST = Test("speed_mbps", "at_least", 25)
SIX = Test("cores", "at_least", 6)
SIXTEEN = Test("capacity_mib", "at_least", 16)


def need(kind: str, measure: str, amount: int, *tests: Test) -> Need:
    return Need(kind=kind, measure=measure, amount=amount, tests=tests)  # type: ignore[arg-type]


CORES = st.builds(lambda n, t: need("processor", "cores", n, *t), st.integers(1, 20),
                  maybe([(), (X86,)]))  # fmt: skip
SOCKETS = st.builds(lambda n, t: need("processor", "sockets", n, *t), st.integers(1, 3),
                    maybe([(), (X86,)]))  # fmt: skip
MIB = st.builds(lambda n, t: need("memory", "capacity_mib", n, *t), st.integers(1, 60),
                maybe([(), (DDR5,)]))  # fmt: skip
CPU_GROUP = st.builds(lambda n, t: need("processor", "devices", n, *t), st.integers(1, 3),
                      maybe([(), (X86,), (SIX,), (X86, SIX)]))  # fmt: skip
MODULES = st.builds(lambda n, t: need("memory", "devices", n, *t), st.integers(1, 3),
                    maybe([(), (DDR5,), (SIXTEEN,)]))  # fmt: skip
GROUP = st.builds(lambda n, t: need("accelerator", "devices", n, *t), st.integers(1, 3),
                  maybe([(), (GPU,), (GPU, A100), (A100,), (BIG,), (GPU, BIG)]))  # fmt: skip
SPINDLES = st.builds(
    lambda n, t: need("drive", "devices", n, *t), st.integers(1, 3),
    maybe([(), (SSD,), (LARGE,)]),
)  # fmt: skip
PORTS = st.builds(lambda n, t: need("nic", "devices", n, *t), st.integers(1, 2),
                  maybe([(), (FAST,)]))  # fmt: skip
#: Possible needs of one kind of device: each need up to this number of times.
ASKED = {
    "processors": ((CORES, 1), (SOCKETS, 1), (CPU_GROUP, 2)),
    "memory": ((MIB, 1), (MODULES, 2)),
    "accelerators": ((GROUP, 3),),
    "drives": ((SPINDLES, 2),),
    "nics": ((PORTS, 2),),
}


@st.composite
def sites(draw: st.DrawFn) -> tuple[list[dict], tuple[Need, ...]]:
    """Draw one or two podms of few kinds of block, and a request."""
    theme = draw(st.lists(maybe(sorted(DEVICES)), min_size=1, max_size=3, unique=True))
    kinds = []
    for _ in range(draw(st.integers(1, 4))):
        some = draw(st.lists(maybe(theme), min_size=1, max_size=3, unique=True))
        types = draw(st.lists(maybe(TYPES), max_size=2, unique=True))
        kinds.append({"type": types, "devices": {name: draw(DEVICES[name]) for name in some}})
    podms = []
    for number in range(draw(st.integers(1, 2))):
        blocks = [
            {
                **draw(maybe(kinds)),
                "uri": f"b{block}",
                "status": draw(maybe(STATUSES)),
                "pools": draw(maybe([["p", "q"], ["q", "p"], ["p"], ["q"], []])),
            }
            for block in range(draw(st.integers(0, 9)))
        ]
        pools = [{"id": name, "limits": draw(LIMITS)} for name in POOLS]
        podms.append({"id": str(number), "pools": pools, "blocks": blocks})
    unknown = draw(maybe(["reject", "allow"]))
    needs = [
        need
        for name in theme
        for asked, most in ASKED[name]
        for need in draw(st.lists(asked, max_size=most))
    ]
    return podms, tuple(msgspec.structs.replace(need, unknown=unknown) for need in needs)


def near_site(random: Random) -> tuple[list[dict], tuple[Need, ...]]:
    """Return a podm whose pools are just about enough for the request, drawn evenly.

    Hypothesis prefers small and repeated values, which seldom make a node; these values often do.
    """
    theme = random.sample(
        ["processor", "memory", "accelerator", "drive", "nic"], random.randint(1, 3)
    )
    kinds = [
        {
            "type": random.sample(TYPES[:4], random.choice([1, 1, 2])),
            "devices": _devices(
                random,
                random.sample(theme, random.choice([len(theme), random.randint(1, len(theme))])),
            ),
        }
        for _ in range(random.randint(2, 4))
    ]
    blocks = [
        {
            **random.choice(kinds),
            "uri": f"b{number}",
            "status": random.choice(STATUSES),
            "pools": random.choice([["p", "q"], ["q", "p"], ["p"]]),
        }
        for number in range(random.randint(4, 9))
    ]
    pools = [{"id": name, "limits": _limits(random)} for name in POOLS]
    needs = tuple(_needs(random, theme))
    unknown = random.choice(["reject", "allow"])
    needs = tuple(msgspec.structs.replace(one, unknown=unknown) for one in needs)
    return [{"id": "a", "pools": pools, "blocks": blocks}], needs


def _limits(random: Random) -> dict[str, dict[str, int]]:
    limits = {}
    for name in random.sample(TYPES[:4], random.choice([0, 0, 0, 1, 2])):
        low = random.choice([0, 0, 0, 1, 2])
        limits[name] = {"min": low, "max": random.choice([low, low + 1, 3, 5])}
    return limits


def _devices(random: Random, groups: list[str]) -> dict[str, list[dict]]:
    some = random.choice
    made = {
        "processor": lambda: {"cores": some([4, 6, 9, None]), "architecture": some(["x86", "ARM"])},
        "memory": lambda: {"capacity_mib": some([8, 16, 24]), "type": some(["DDR5", "DDR4", None])},
        "accelerator": lambda: {
            "kind": some(["GPU", "GPU", "GPU", "FPGA"]),
            "model": some(["NVIDIA A100-PCIe", "NVIDIA A40", None]),
            "memory_mib": some([40, 80, 80]),
        },
        "drive": lambda: {
            "media": some(["SSD", "HDD"]),
            "capacity_bytes": some([1 << 31, 7, None]),
        },
        "nic": lambda: {"speed_mbps": some([10, 25, 25])},
    }
    names = {"memory": "memory"}
    return {
        names.get(group, f"{group}s"): [
            {"count": some([1, 1, 2]), **made[group]()} for _ in range(some([1, 1, 2]))
        ]
        for group in groups
    }


def _needs(random: Random, theme: list[str]) -> Iterator[Need]:
    some = random.choice
    for kind in theme:
        if kind == "processor":
            yield need(kind, "cores", random.randint(3, 30), *some([(), (X86,)]))
            if some([True, False]):
                yield need(kind, "sockets", random.randint(1, 4), *some([(), (X86,)]))
            for tests in random.sample([(X86,), (SIX,)], some([0, 0, 1, 2])):
                yield need(kind, "devices", some([1, 1, 2]), *tests)
        elif kind == "memory":
            yield need(kind, "capacity_mib", random.randint(8, 60), *some([(), (DDR5,)]))
            for tests in random.sample([(DDR5,), (SIXTEEN,)], some([0, 0, 1, 2])):
                yield need(kind, "devices", some([1, 1, 2]), *tests)
        elif kind == "accelerator":
            for tests in random.sample([(), (GPU,), (GPU, A100), (BIG,), (GPU, BIG)],
                                       random.randint(1, 3)):  # fmt: skip
                yield need(kind, "devices", some([1, 1, 2, 2, 3]), *tests)
        elif kind == "drive":
            for tests in random.sample([(), (SSD,), (LARGE,), (SSD, LARGE)], random.randint(1, 2)):
                yield need(kind, "devices", some([1, 1, 2, 2, 3]), *tests)
        else:
            for tests in random.sample([(), (FAST,)], random.randint(1, 2)):
                yield need(kind, "devices", some([1, 1, 2, 2, 3]), *tests)


SOAK = os.environ.get("VALENCE_SCHED_SOAK")


def sized(number: int) -> int:
    """Return the number of random cases to try: an eighth, or all in a soak test."""
    return number if SOAK else -(-number // 8)


def quietly(examples: int):
    """Return settings that try the same examples each time: two thirds, or all in a soak test."""
    return settings(
        max_examples=examples if SOAK else -(-2 * examples // 3),
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


STOCKS = st.lists(
    st.fixed_dictionaries(
        {"resource": maybe(["gib", "gib", "mib"]), "pools": maybe([["p"], ["p", "q"], ["q"]])},
        optional={
            "total": maybe([None, *map(float, range(13))]),
            "used": st.integers(0, 4),
            "min": st.integers(0, 4),
            "max": maybe([None, 0, 3, 5, 8]),
            "step": maybe([0, 1, 2, 3]),
        },
    ),
    max_size=3,
)
AMOUNTS = st.lists(
    st.tuples(maybe(["gib", "gib", "mib"]), st.integers(1, 6), st.integers(1, 2)),
    min_size=1,
    max_size=3,
)
