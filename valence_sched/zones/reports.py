# SPDX-License-Identifier: Apache-2.0
"""Zone reports: what the pod managers of a zone and of those below it have, and what fits on them.

Pod managers of zones below are named by their path. What a zone that gives no answer would add is
lacking, and a report says of which zones that is true.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from valence_sched.errors import (
    NoPodm,
    SchedulerError,
    ServiceError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.decision_result import FitCounts
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.hardware import (
    BlockFilter,
    BlockOverview,
    DeviceCount,
    PoolOverview,
    added_devices,
)
from valence_sched.model.podm_overview import BlockUsage, PodmOverview
from valence_sched.model.request import Request
from valence_sched.model.zoned_list import ZonedList, listed, silent_zones
from valence_sched.zones import paths
from valence_sched.zones.calls import call_below
from valence_sched.zones.podms import ZonePodms
from valence_sched.zones.totals import added_capacities, added_fit_counts

if TYPE_CHECKING:
    from valence_sched.model.scheduler import Scheduler

R = TypeVar("R")
T = TypeVar("T")


class _Answers(NamedTuple):
    """What zones answered by name, empty for this one, and which gave no answer."""

    by_zone: dict[str, object]
    silent: list[SilentZone]


@dataclass(frozen=True)
class ZoneReports:
    """The reports of a zone's ``own`` pod managers and of those of its children, by name.

    Each verb is that of a scheduler, with its errors; ``child`` returns the verbs of a child,
    errors as of it. ``find`` finds the zone of a pod manager that is named.
    """

    own: Scheduler
    children: Mapping[str, Callable[[], Scheduler]]
    deadline_s: float
    find: ZonePodms

    def podms(self) -> Sequence[PodmOverview]:
        return self._list(lambda zone: zone.podms(), paths.overview_below)

    def pools(self, podm: str | None = None) -> Sequence[PoolOverview]:
        if podm is None:
            return self._list(lambda zone: zone.pools(), paths.podm_below)
        zone, verbs, name = self._place(podm)
        return [paths.podm_below(zone, one) for one in verbs.pools(name)]

    def blocks(self, wanted: BlockFilter) -> Sequence[BlockOverview]:
        if wanted.podm is None:
            return self._list(lambda zone: listed(zone.blocks(wanted)), paths.podm_below)
        zone, verbs, name = self._place(wanted.podm)
        found = verbs.blocks(replace(wanted, podm=name))
        return [paths.podm_below(zone, one) for one in found]

    def block(self, name: str, podm: str | None = None) -> BlockOverview:
        """Return a block by its URI or the last part of it.

        Raises:
            UsageError: several zones have one of this name.
            ServiceError: no zone that answers has it, and one that does not may have it.
        """
        if podm is not None:
            zone, verbs, known = self._place(podm)
            return paths.podm_below(zone, verbs.block(name, known))
        answers = self._ask(lambda zone: zone.block(name))
        found = [paths.podm_below(zone, one) for zone, one in answers.by_zone.items()
                 if isinstance(one, BlockOverview)]  # fmt: skip
        if len(found) > 1:
            podms = ", ".join(one.podm for one in found)
            text = f"block {name!r} is on pod managers {podms}: name one with --podm"
            raise UsageError(one_line(text))
        if not found:
            first = answers.silent[0]
            text = f"zone {first.zone} may have block {name!r}, and does not answer: {first.reason}"
            raise ServiceError(one_line(text))
        return found[0]

    def device_counts(self, wanted: BlockFilter) -> Sequence[DeviceCount]:
        if wanted.podm is not None:
            _, verbs, name = self._place(wanted.podm)
            return verbs.device_counts(replace(wanted, podm=name))
        found = self._list(lambda zone: zone.device_counts(wanted), lambda _zone, one: one)
        return ZonedList(added_devices(found), found.silent)

    def block_usage(self, podm: str) -> BlockUsage:
        zone, verbs, name = self._place(podm)
        found = verbs.block_usage(name)
        held = {uri: paths.paths(zone, claims) for uri, claims in found.held.items()}
        return replace(found, held=held)

    def count_fits(self, request: Request, most: int) -> FitCounts:
        answers = self._ask(lambda zone, one: zone.count_fits(one, most), request)
        return added_fit_counts(_of_kind(answers, FitCounts), answers.silent)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        answers = self._ask(
            lambda zone, one: zone.capacity(one, most, explain=explain, proven=proven), request
        )
        found = _of_kind(answers, Capacity)
        return added_capacities(request.flavor or "", found, answers.silent)

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        """Return what each zone makes of the mix by itself, added up.

        As one zone they may make more or fewer, and no most is proven.
        """
        answers = self._ask(
            lambda zone, *mix: zone.mix_capacity(mix, shares, most, explain=explain, proven=proven),
            *requests,
        )
        found = _of_kind(answers, Capacity)
        return added_capacities("", found, answers.silent, mix=True)

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        return self._list(lambda zone, *mix: zone.stranded(mix), paths.podm_below, *requests)

    def _place(self, podm: str) -> tuple[str, Scheduler, str]:
        place = self.find.find(podm)
        verbs = self.children[place.zone]() if place.zone else self.own
        return place.zone, verbs, place.name

    def _list(
        self, ask: Callable[..., Sequence[T]], below: Callable[[str, T], R], *requests: Request
    ) -> ZonedList[R]:
        """Return what all zones list, each element as ``below`` names it, with what it lacks."""
        answers, silent = self._ask(ask, *requests)
        rows: list[R] = []
        for zone, found in answers.items():
            rows += [below(zone, one) for one in found]  # type: ignore[attr-defined]
            silent += [replace(one, zone=paths.path(zone, one.zone))
                       for one in silent_zones(found)]  # fmt: skip
        return ZonedList(rows, silent)

    def _ask(self, ask: Callable[..., object], *requests: Request) -> _Answers:
        """Return the answer of each zone; one without what is named, or any pod manager, has none.

        Each is asked with the ``requests`` as it names pod managers.

        Raises:
            UnknownName, NoPodm: no zone has it, and all answer.
        """
        zoned = [self.find.requests(one) for one in requests]
        answers: dict[str, object] = {}
        lacking: list[SchedulerError] = []
        silent: list[SilentZone] = []
        try:
            answers[""] = ask(self.own, *(one("") for one in zoned))
        except (UnknownName, NoPodm) as error:
            lacking.append(error)
        calls = {zone: functools.partial(_asked, ask, verbs, *(one(zone) for one in zoned))
                 for zone, verbs in self.children.items()}  # fmt: skip
        for zone, answer in call_below(calls, self.deadline_s).items():
            if isinstance(answer, UnknownName | NoPodm):
                lacking.append(answer)
            elif isinstance(answer, SchedulerError):
                silent.append(SilentZone(zone=zone, reason=one_line(str(answer))))
            else:
                answers[zone] = answer
        if not answers and not silent:
            raise next((one for one in lacking if isinstance(one, UnknownName)), lacking[0])
        return _Answers(answers, silent)


def _asked(
    ask: Callable[..., object], verbs: Callable[[], Scheduler], *requests: Request
) -> object:
    return ask(verbs(), *requests)


def _of_kind(answers: _Answers, kind: type[T]) -> dict[str, T]:
    return {zone: one for zone, one in answers.by_zone.items() if isinstance(one, kind)}
