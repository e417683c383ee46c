# SPDX-License-Identifier: Apache-2.0
"""The effect of each constant of the built-in policies on their losses, at half and twice its
value.

The constants are the weights and numeric options of the weighers that take part in decisions, found
in the policies and in the signatures of the weighers, and the numbers of ``CONSTANTS`` in the code,
which policy ``fragmentation`` reads. Boolean options are inverted. Each other value decides lists
of :mod:`tests.benchmarks.placing` on some nodes of the trace, and generated sites. A variant has a
line for the mean of the lists, for the list with the largest additional loss, and for the mean of
the sites. The line ``another order`` has the shipped constants and other arrivals: smaller
differences are not significant.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tests.benchmarks import placing
from tests.benchmarks.measure import Measurement, sized
from tests.benchmarks.sites import lost, sites
from tests.benchmarks.trace import MISSING, THERE, Trace, allocated, built_in, lists
from valence_sched.core.policy import bind, idle_readers
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import Request

POLICIES = ("default", "pack", "balanced", "fragmentation")
READS_ALL = "fragmentation"  # the policy that reads all of CONSTANTS
CONSTANTS = (
    ("valence_sched.view.fragmentation", "LIGHTER_NODES_FACTOR"),
    ("valence_sched.view.fragmentation", "OTHER_NEEDS_WEIGHT"),
    ("valence_sched.view.fragmentation", "MOST_SCARCITY"),
    ("valence_sched.view.fragmentation", "MOST_COUNTED"),
    ("valence_sched.view.fragmentation", "UNEVEN_WEIGHT"),
    ("valence_sched.view.fragmentation", "UNEVEN_POWER"),
    ("valence_sched.view.fragmentation", "PROTECTION_WEIGHT"),
    ("valence_sched.view.fragmentation", "LEAST_PROTECTION"),
    ("valence_sched.core.evaluation_cache", "SCARCITY_PART"),
)
#: Each way to draw models, for the smallest and the largest share of the requests.
LISTS = (
    "as recorded", "as many several cards", "half several cards, a third by cards",
    *(f"{share} by {draw}" for share in ("a fifth", "half") for draw in placing.DRAWS),
)[: sized(9, 1)]  # fmt: skip
NODES = sized(60, 15)  # nodes of the trace
SITES = sized(3, 1)
SEED = 42
MORE = 1.0  # point of additional loss that another value may have
AS_SHIPPED, ANOTHER_ORDER = "as shipped", "another order"
MEAN, WORST, GENERATED = "mean of lists", "worst list", "generated sites"

Losses = list[float]  # loss in percent, by list or by site
Loss = Callable[[Policy, int], float]  # by policy and number of an order of arrivals


class Variant(NamedTuple):
    """A policy with another value of one constant, in the policy or in the code."""

    name: str
    policy: Policy
    constant: tuple[str, str, float] | None = None  # module, name, value
    order: int = 0


def sensitivity() -> Iterator[Measurement]:
    """Lists and generated sites by policy and value: first as shipped, then each other value."""
    on_lists, on_sites = _on_lists(), [*map(_on_site, sites()[:SITES])]
    shipped: dict[str, tuple[Losses, Losses]] = {}
    every = [one for number, one in enumerate(variants())
             if one.name == AS_SHIPPED or number % sized(1, 28) == 0]  # fmt: skip
    for one in every:
        with changed(one.constant):
            found = (
                [run(one.policy, one.order) for run in on_lists],
                [run(one.policy, one.order) for run in on_sites],
            )
        yield from _measured(one, found, shipped.setdefault(one.policy.name, found))


def variants() -> Iterator[Variant]:
    """Yield each policy as shipped, with another order, and with each other value."""
    for name in POLICIES:
        policy = built_in()[name]
        yield Variant(AS_SHIPPED, policy)
        yield Variant(ANOTHER_ORDER, policy, order=1)
        yield from policy_variants(policy)
        if name == READS_ALL:
            for module, constant in CONSTANTS:
                for value in others(getattr(importlib.import_module(module), constant)):
                    yield Variant(f"{constant} {value:g}", policy, (module, constant, value))


def policy_variants(policy: Policy) -> Iterator[Variant]:
    """Yield a policy with other weights and options of the weighers that take part.

    Only the ratio of weights matters: of two weighers, only the first gets another weight.
    """
    numbers = weighers_that_take_part(policy)
    for number in numbers:
        use = policy.weighers[number]
        if len(numbers) != 2 or number == numbers[0]:
            for weight in others(use.weight):
                new = msgspec.structs.replace(use, weight=weight)
                yield _with(policy, number, new, f"weight {weight:g} of {use.name}")
        for words, value in numeric_options(use):
            for other in others(value):
                text = str(other).lower() if isinstance(other, bool) else f"{other:g}"
                new = _with_option(use, words, other)
                yield _with(policy, number, new, f"{' '.join(words)} {text} of {use.name}")


def weighers_that_take_part(policy: Policy) -> list[int]:
    """Return the numbers of the weighers that affect requests of the lists and sites."""
    idle = idle_readers(Request(), bind(policy))
    names = {one.name for one in idle if one.kind == "weigher"}
    return [number for number, use in enumerate(policy.weighers) if use.name not in names]


def numeric_options(use: WeigherUse) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the number or boolean of each option of a weigher, with its name and key."""
    weigher = getattr(importlib.import_module(f"valence_sched.weighers.{use.name}"), use.name)
    for one in inspect.signature(weigher).parameters.values():
        if one.kind is not one.KEYWORD_ONLY:
            continue
        value = use.options.get(one.name, one.default)
        if isinstance(value, Mapping):
            yield from (((one.name, key), number) for key, number in value.items())
        elif isinstance(value, bool | int | float):
            yield (one.name,), value


def others(value: float) -> tuple[float, ...]:
    """Return the other values of a constant: half and double, or the inverse boolean."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return value // 2, value * 2
    return value / 2, value * 2


@contextlib.contextmanager
def changed(constant: tuple[str, str, float] | None) -> Iterator[None]:
    """Give a constant of a module another value until the context ends."""
    if constant is None:
        yield
        return
    module, name, value = constant
    home = importlib.import_module(module)
    before = getattr(home, name)
    setattr(home, name, value)
    try:
        yield
    finally:
        setattr(home, name, before)


def _with(policy: Policy, number: int, use: WeigherUse, name: str) -> Variant:
    uses = (*policy.weighers[:number], use, *policy.weighers[number + 1 :])
    return Variant(name, msgspec.structs.replace(policy, weighers=uses))


def _with_option(use: WeigherUse, words: tuple[str, ...], value: float) -> WeigherUse:
    if len(words) == 1:
        return msgspec.structs.replace(use, options={**use.options, words[0]: value})
    option, key = words
    old = {word: number for (name, *rest), number in numeric_options(use)
           if name == option for word in rest}  # fmt: skip
    return msgspec.structs.replace(use, options={**use.options, option: {**old, key: value}})


def _on_lists() -> list[Loss]:
    """Return a function that runs a policy on each list, None without a trace."""
    if not THERE:
        sys.stderr.write(f"sensitivity: the lists are skipped, {MISSING}\n")
        return []
    replay, nodes, requests = lists()
    nodes = replay.subset(nodes, NODES, SEED)
    every = placing.named_lists(replay, nodes, requests)

    def loss(some: Any) -> Loss:
        return lambda policy, order: (
            100.0
            - allocated(replay.replay(nodes, some, Trace(policy), SEED + order, 1.005, (100,)))
        )

    return [loss(every[name]) for name in LISTS]


def _on_site(site: Any) -> Loss:
    return lambda policy, order: lost(site, policy, order)


def _measured(
    one: Variant, found: tuple[Losses, Losses], shipped: tuple[Losses, Losses]
) -> Iterator[Measurement]:
    pairs = list(zip(found[0], shipped[0], strict=True))
    if pairs:
        yield _line(one, MEAN, statistics.mean(found[0]), statistics.mean(shipped[0]))
        if one.name != AS_SHIPPED:
            yield _line(one, WORST, *max(pairs, key=lambda pair: pair[0] - pair[1]))
    yield _line(one, GENERATED, statistics.mean(found[1]), statistics.mean(shipped[1]))


def _line(one: Variant, where: str, loss: float, shipped: float) -> Measurement:
    """Return a loss, and the largest loss that another value may have."""
    name = f"sensitivity: {one.policy.name}: {one.name}: {where}"
    return Measurement(name=name, value=loss, unit="% lost", probe=shipped,
                       ratio=loss / (shipped + MORE), target=1.0)  # fmt: skip
