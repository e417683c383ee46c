# SPDX-License-Identifier: Apache-2.0
"""Zones below: the pod managers of a zone and its children, as what holds claims and nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from valence_sched.errors import SchedulerError, ServiceError, UnknownName, one_line
from valence_sched.model.claim import Claim
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.quantity import format_count
from valence_sched.model.scheduler import OwnScheduler, Scheduler
from valence_sched.model.zone_claim import (
    ENDED_STATES,
    ZoneClaim,
    ZoneClaimBody,
    ZoneClaimPart,
)
from valence_sched.model.zoned_list import silent_zones
from valence_sched.zones import paths
from valence_sched.zones.calls import call_all, call_below

DEADLINE_S = 30.0  # for what each zone is asked
MOST_ROWS = 10_000  # of the claims, or the nodes, of one child


class HoldingZone(Protocol):
    """A zone that can be asked to hold what it offers."""

    def hold_offers(self, body: ZoneClaimBody, *, key: str | None = None) -> Claim:
        """Hold offers of the zone, all or none; errors as of :meth:`ZoneClaims.hold_offers`."""


class ChildClaims(NamedTuple):
    """A zone directly below: what holds its offers, and its verbs."""

    zone: HoldingZone
    verbs: Scheduler


class ZoneLists(NamedTuple):
    """The lists that zones gave by name, empty for a zone's own pod managers.

    ``silent`` are the zones whose part they lack, at any level below.
    """

    lists: Mapping[str, Sequence[Any]]
    silent: Sequence[SilentZone]


@dataclass(frozen=True)
class ZonesBelow:
    """What is directly below a zone: its ``own`` pod managers, None for a router, and children.

    Its own part has no name (``""``), a child has the zone's name for it; why one cannot be asked
    stands in its place. ``note_silence`` takes each zone that a list lacks.
    """

    own: OwnScheduler | None
    children: Mapping[str, ChildClaims | str]
    deadline_s: float = DEADLINE_S
    note_silence: Callable[[SilentZone], object] = field(default=lambda _zone: None)

    def part(self, zone: str) -> Scheduler:
        """Return what is directly below by its name; errors as for a child."""
        if zone or self.own is None:
            return self._child(zone).verbs
        return self.own

    def child(self, zone: str) -> HoldingZone:
        """Return a child by its name.

        Raises:
            ServiceError: it cannot be asked, or is not a child any more.
        """
        return self._child(zone).zone

    def _child(self, zone: str) -> ChildClaims:
        found = self.children.get(zone)
        if found is None:
            raise ServiceError("it is no longer a child zone: add it again")
        if isinstance(found, str):
            raise ServiceError(found)
        return found

    def find(self, kind: str, name: str) -> tuple[str, Scheduler, str]:
        """Return which part has what a path names, and its name there; else UnknownName."""
        zone, rest = paths.split(name, self.children)
        if not zone and self.own is None:
            raise UnknownName(kind, name, ())
        return zone, self.part(zone), rest

    def ask(self, ask: Callable[[Scheduler], Sequence[Any]]) -> ZoneLists:
        """Return the list of every part, and the zones whose rows it lacks; note silent children.

        Errors of the zone's own pod managers are raised.
        """
        names = [*([] if self.own is None else [""]), *self.children]
        calls = {name: functools.partial(self._ask, ask, name) for name in names}
        lists: dict[str, Sequence[Any]] = {}
        silent: list[SilentZone] = []
        for name, answer in call_below(calls, self.deadline_s).items():
            if not isinstance(answer, SchedulerError):
                lists[name] = answer[:MOST_ROWS] if name else answer
                if len(lists[name]) < len(answer):
                    rows = f"{format_count(len(answer), 'row')}, of which {MOST_ROWS:,} are read"
                    silent.append(SilentZone(zone=name, reason=f"it lists {rows}"))
                silent += [replace(one, zone=paths.path(name, one.zone))
                           for one in silent_zones(answer)]  # fmt: skip
            elif not name:
                raise answer
            else:
                silent.append(SilentZone(zone=name, reason=one_line(str(answer))))
                self.note_silence(silent[-1])
        return ZoneLists(lists, silent)

    def _ask(self, ask: Callable[[Scheduler], Sequence[Any]], name: str) -> Sequence[Any]:
        return ask(self.part(name))

    def claims_of(self, part: ZoneClaimPart, row: ZoneClaim) -> list[Claim]:
        """Return what a zone has for a part: one claim, or a claim for each node of it.

        Of a claim that has ended also those that ended. ServiceError for more nodes than the part
        has.
        """
        claims = self.part(part.zone).claims(owner=row.owner, ended=row.state in ENDED_STATES)
        found = parts_of(row, claims)
        check_nodes(sum(claim.nodes for claim in found), len(part.nodes))
        return found

    def release(self, row: ZoneClaim) -> dict[str, SchedulerError]:
        """Release the parts of a claim, all at once; return the error of each zone with one."""
        calls = {f"{number}": functools.partial(self._release_part, part, row)
                 for number, part in enumerate(row.parts)}  # fmt: skip
        answers = call_all(calls, self.deadline_s)
        return {row.parts[int(number)].zone: error for number, error in answers.items()
                if isinstance(error, SchedulerError)}  # fmt: skip

    def _release_part(self, part: ZoneClaimPart, row: ZoneClaim) -> None:
        known = [part.claim]
        if not part.claim or row.state == "COMPOSED":  # by then it may be a claim for each node
            known = [claim.id for claim in self.claims_of(part, row)]
        for error in self.part(part.zone).release(known):
            if not isinstance(error, UnknownName):  # forgotten: it ended long ago
                raise error


def zone_claim_id(claim: Claim) -> str:
    """Return the id of the zone claim that a claim is a part of, by its key; else any word."""
    return (claim.key or "").partition("#")[0]


def parts_of(row: ZoneClaim, claims: Iterable[Claim]) -> list[Claim]:
    """Return those of a zone's claims that are parts of a claim above it."""
    found = [claim for claim in claims if zone_claim_id(claim) == row.id]
    single = [claim for claim in found if claim.key != row.id]
    return single or found


def check_nodes(nodes: int, asked: int, least: int = 0) -> None:
    """Raise ServiceError where a zone answers with more nodes than it was asked, or fewer."""
    if not least <= nodes <= asked:
        found = format_count(nodes, "node")
        raise ServiceError(f"it answers with {found}, and was asked for {asked:,}")


def in_zone(zone: str, error: SchedulerError) -> SchedulerError:
    """Return an error with the name of the zone that it is about."""
    return error.at(f"zone {zone}") if zone else error
