# SPDX-License-Identifier: Apache-2.0
"""Totals of zones: how many nodes fit on all of them, as each counts them on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from valence_sched.model.capacity import Capacity, ProvenMost, exhausted
from valence_sched.model.decision_result import FitCounts
from valence_sched.model.decision_zones import SilentZone
from valence_sched.zones import paths

MIX_NOTE = (
    "each zone counts the mix until a node finds no place in it, and that is added up: with all "
    "pod managers as one zone more or fewer may fit"
)


def added_fit_counts(
    counts: Mapping[str, FitCounts], silent: Sequence[SilentZone] = ()
) -> FitCounts:
    """Return how many nodes fit on the pod managers of all zones; ``silent`` ones do not count."""
    return FitCounts(
        podms=tuple((paths.path(zone, podm), number) for zone, one in counts.items()
                    for podm, number in one.podms),
        warnings=tuple(_lines(counts)),
        undecided=tuple(_undecided(counts)),
        silent=(*silent, *_silent(counts)),
    )  # fmt: skip


def added_capacities(
    name: str,
    counts: Mapping[str, Capacity],
    silent: Sequence[SilentZone] = (),
    *,
    mix: bool = False,
) -> Capacity:
    """Return how many nodes of one flavor, or of a ``mix``, fit on all zones together.

    Nodes of one flavor add up, also those that are proven to be the most. What the free amounts of
    all zones promise if they are added up is known of one zone alone.
    """
    every = list(counts.values())
    if len(counts) == 1 and not silent and "" in counts:
        return counts[""]
    sums = [one.podm_sums for one in every]
    proven = [one.proven for one in every]
    bounds = [one for one in proven if one is not None]
    by_flavor: Counter[str] = Counter()
    for one in every:
        by_flavor.update(one.by_flavor)
    podms = tuple(replace(podm, podm=paths.path(zone, podm.podm))
                  for zone, one in counts.items() for podm in one.podms)  # fmt: skip
    notes = (MIX_NOTE,) if mix and len(every) > 1 else ()
    return Capacity(
        name=next((one.name for one in every), name),
        podms=podms,
        podm_sums=None if None in sums else sum(one for one in sums if one is not None),
        site_sums=every[0].site_sums if len(every) == 1 else None,
        proven=None if mix or not every or len(bounds) < len(every) else ProvenMost(
            bound=sum(one.bound for one in bounds), found=sum(one.found for one in bounds)
        ),
        exhausted=exhausted(podms),
        by_flavor=dict(by_flavor),
        refused=every[0].refused if len(every) == 1 else None,
        warnings=(*_lines(counts), *notes),
        undecided=tuple(_undecided(counts)),
        silent=(*silent, *_silent(counts)),
    )  # fmt: skip


def _lines(counts: Mapping[str, FitCounts] | Mapping[str, Capacity]) -> Iterable[str]:
    return paths.lines_below({zone: one.warnings for zone, one in counts.items()})


def _undecided(counts: Mapping[str, FitCounts] | Mapping[str, Capacity]) -> Iterator[str]:
    return (paths.path(zone, podm) for zone, one in counts.items() for podm in one.undecided)


def _silent(counts: Mapping[str, FitCounts] | Mapping[str, Capacity]) -> Iterator[SilentZone]:
    return (replace(silent, zone=paths.path(zone, silent.zone))
            for zone, one in counts.items() for silent in one.silent)  # fmt: skip
