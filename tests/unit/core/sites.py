# SPDX-License-Identifier: Apache-2.0
"""Random small sites: few kinds of block, many states, overlapping pools, limits and stocks."""

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from valence_sched.model.request import Need, Test

TYPES = ["Compute", "Processor", "Memory", "Storage", "Network"]
POOLS = ["p", "q"]

STATUSES = [
    *[{}] * 6,
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
    {"count": st.integers(1, 2)},
    optional={"cores": maybe([None, 0, 4, 6]), "architecture": maybe(["x86", "ARM"])},
)
MEMORY = st.fixed_dictionaries(
    {"count": st.integers(1, 2)},
    optional={"capacity_mib": maybe([None, 8, 24]), "type": maybe(["DDR4", "DDR5"])},
)
CARDS = st.fixed_dictionaries(
    {"kind": maybe(["GPU", "FPGA"]), "count": st.integers(1, 2)},
    optional={
        "model": maybe([None, "NVIDIA A100-PCIe", "NVIDIA A40", "Gaudi"]),
        "memory_mib": maybe([None, 40, 80]),
    },
)
DRIVES = st.fixed_dictionaries(
    {"count": st.integers(1, 3)},
    optional={"media": maybe([None, "SSD", "HDD"]), "capacity_bytes": maybe([None, 1 << 31, 7])},
)
NICS = st.fixed_dictionaries(
    {"count": st.integers(1, 2)}, optional={"speed_mbps": maybe([None, 10, 25])}
)
KINDS = st.fixed_dictionaries(
    {"type": st.lists(maybe(TYPES), max_size=2, unique=True)},
    optional={
        "processors": st.lists(CPUS, min_size=1, max_size=2),
        "memory": st.lists(MEMORY, min_size=1, max_size=1),
        "accelerators": st.lists(CARDS, min_size=1, max_size=2),
        "drives": st.lists(DRIVES, min_size=1, max_size=1),
        "nics": st.lists(NICS, min_size=1, max_size=1),
    },
)
LIMITS = st.dictionaries(
    maybe(TYPES[:3]),
    st.fixed_dictionaries({}, optional={"min": st.integers(0, 2), "max": st.integers(0, 3)}),
    max_size=2,
)

A100 = Test("model", "words", "A100")
GPU = Test("kind", "equal", "gpu")
BIG = Test("memory_mib", "at_least", 80)
X86 = Test("architecture", "equal", "x86")


def need(kind: str, measure: str, amount: int, *tests: Test) -> Need:
    return Need(kind=kind, measure=measure, amount=amount, tests=tests)  # type: ignore[arg-type]


CORES = st.builds(lambda n, t: need("processor", "cores", n, *t), st.integers(1, 20),
                  maybe([(), (X86,)]))  # fmt: skip
SOCKETS = st.builds(lambda n, t: need("processor", "sockets", n, *t), st.integers(1, 3),
                    maybe([(), (X86,)]))  # fmt: skip
MIB = st.builds(lambda n, t: need("memory", "capacity_mib", n, *t), st.integers(1, 60),
                maybe([(), (Test("type", "equal", "DDR5"),)]))  # fmt: skip
GROUP = st.builds(lambda n, t: need("accelerator", "devices", n, *t), st.integers(1, 3),
                  maybe([(), (GPU,), (GPU, A100), (A100,), (BIG,), (GPU, BIG)]))  # fmt: skip
SPINDLES = st.builds(
    lambda n, t: need("drive", "devices", n, *t), st.integers(1, 3),
    maybe([(), (Test("media", "equal", "SSD"),), (Test("capacity_bytes", "at_least", 1 << 30),)]),
)  # fmt: skip
PORTS = st.builds(lambda n, t: need("nic", "devices", n, *t), st.integers(1, 2),
                  maybe([(), (Test("speed_mbps", "at_least", 25),)]))  # fmt: skip
ASKED = st.tuples(
    st.lists(CORES, max_size=1),
    st.lists(SOCKETS, max_size=1),
    st.lists(MIB, max_size=1),
    st.lists(GROUP, max_size=3),
    st.lists(SPINDLES, max_size=2),
    st.lists(PORTS, max_size=2),
).map(lambda parts: tuple(one for part in parts for one in part))


@st.composite
def sites(draw: st.DrawFn) -> tuple[list[dict], tuple[Need, ...]]:
    """Draw one or two podms of few kinds of block, and what is asked of them."""
    kinds = draw(st.lists(KINDS, min_size=1, max_size=4))
    podms = []
    for number in range(draw(st.integers(1, 2))):
        blocks = []
        for block in range(draw(st.integers(0, 8))):
            parts = dict(draw(maybe(kinds)))
            blocks.append(
                {
                    "uri": f"b{block}",
                    "type": parts.pop("type"),
                    "devices": parts,
                    "status": draw(maybe(STATUSES)),
                    "pools": draw(maybe([["p"], ["p"], ["q"], ["p", "q"], ["q", "p"], []])),
                }
            )
        pools = [{"id": name, "limits": draw(LIMITS)} for name in POOLS]
        podms.append({"id": str(number), "pools": pools, "blocks": blocks})
    unknown = draw(maybe(["reject", "allow"]))
    needs = draw(ASKED)
    return podms, tuple(msgspec.structs.replace(one, unknown=unknown) for one in needs)


def quietly(examples: int):
    return settings(
        max_examples=examples,
        deadline=None,
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
