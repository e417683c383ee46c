# SPDX-License-Identifier: Apache-2.0
"""Zones below: pod managers of a zone and its children, found by name, queried in parallel."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from valence_sched import errors
from valence_sched.calls import call_all, call_below, errors_of
from valence_sched.model.claim import Claim
from valence_sched.model.decision import Detail, Report, SilentZone
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request, with_inherited
from valence_sched.model.scheduler import OwnScheduler, Scheduler
from valence_sched.model.zone import ENDED_STATES, ZoneClaim, ZoneClaimPart, ZonedList, silent_zones
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.zones import paths

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

DEADLINE_S = 30.0  # time limit of the query to each zone
MOST_ROWS = 10_000  # claims or nodes read from one child

#: A child zone, or the reason why it cannot be queried.
Child = RemoteScheduler | str


class _NamedZone(Scheduler):
    """A child zone, named in its errors: a refusal there is not a refusal of this zone."""

    def __init__(self, zone: str, scheduler: Scheduler) -> None:
        self._zone, self._scheduler = zone, scheduler

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        with errors.errors_at(f"zone {self._zone}"):
            answer: R = getattr(self._scheduler, verb.__name__)(*words, **named)
            return answer


class ZoneAnswers(NamedTuple):
    """Answers by zone, ``""`` for own pod managers; ``silent`` zones, of all levels, gave none."""

    by_zone: Mapping[str, Any]
    silent: Sequence[SilentZone]


@dataclass(frozen=True)
class ZonesBelow:
    """The parts of a zone: its ``own`` pod managers (``""``), and its children by name.

    ``disabled`` children are queried only for claims and nodes. ``stated`` capabilities of the zone
    also apply to its children.
    """

    own: OwnScheduler
    children: Mapping[str, Child]
    deadline_s: float = DEADLINE_S
    note_silence: Callable[[SilentZone], object] = field(default=lambda _zone: None)
    disabled: Container[str] = ()
    stated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def part(self, zone: str) -> Scheduler:
        return self.child(zone) if zone else self.own

    def child(self, zone: str) -> RemoteScheduler:
        """Return a child; ServiceError if it cannot be queried, or is no longer a child."""
        found = self.children.get(zone)
        if found is None:
            raise errors.ServiceError("it is no longer a child zone: add it again")
        if isinstance(found, str):
            raise errors.ServiceError(found)
        return found

    def named(self, zone: str) -> Scheduler:
        """Return the scheduler of a zone, whose errors name the zone; same errors as ``child``."""
        return _NamedZone(zone, self.child(zone)) if zone else self.own

    def find(self, name: str) -> tuple[str, Scheduler, str]:
        """Return the zone, its scheduler and the rest of a path, as ``named`` does."""
        zone, rest = paths.split(name, self.children)
        return zone, self.named(zone), rest

    def find_podm(self, name: str) -> tuple[str, Scheduler, str]:
        """Return what ``find`` does for the part with a pod manager; this zone if no zone has it.

        A plain name is looked up in all zones. UsageError: several zones have a pod manager of this
        name. ServiceError: only a zone that does not answer may have it.
        """
        zone, verbs, rest = self.find(name)
        if zone or self.has("", name):
            return zone, verbs, rest
        having = self._children_having(name)
        if len(having) > 1:
            names = " or ".join(paths.path(child, name) for child in having)
            raise errors.UsageError(f"several zones have pod manager {name!r}: use {names}")
        zone = next(iter(having), "")
        return zone, self.named(zone), name

    def requests(self, request: Request) -> Callable[[str], Request]:
        """Return a function that returns the request with the names that a given zone uses."""
        request = with_inherited(request, self.stated)
        having: dict[str, list[str]] = {}
        for name in dict.fromkeys((*request.podms, *request.exclude_podms)):
            child, rest = paths.split(name, self.children)
            if child:
                try:
                    having[name] = [child] if self.has(child, rest) else []
                except errors.SchedulerError:
                    having[name] = [child]  # the child does not answer: the next query reports it
            else:
                here = [""] if self.has("", name) else []
                having[name] = here + self._children_having(name, surely=not here)
            if not having[name]:
                raise errors.UnknownName("pod manager", name, ())
        return lambda zone: paths.request_for(zone, request, self.children, having.__getitem__)

    def has(self, zone: str, name: str) -> bool:
        try:
            self.part(zone).podm(name)
        except (errors.UnknownName, errors.NoPodm):
            return False
        return True

    def _children_having(self, name: str, *, surely: bool = True) -> list[str]:
        """Return the children with a pod manager; ServiceError if only silent ones may have it."""
        answers = self._call_enabled(lambda child: self.has(child, name))
        having = [child for child, answer in answers.items() if answer is True]
        silent = errors_of(answers)
        if silent and surely and not having:
            child, error = next(iter(silent.items()))
            text = f"zone {child} may have pod manager {name!r}, but does not answer: {error}"
            raise errors.ServiceError(text)
        return having

    def _call_enabled(self, call: Callable[[str], R]) -> dict[str, R | errors.SchedulerError]:
        enabled = (name for name in self.children if name not in self.disabled)
        return call_below(call, enabled, self.deadline_s)

    def ask(self, ask: Callable[..., Any], *requests: Request) -> ZoneAnswers:
        """Return the answers of zones; raise UnknownName or NoPodm only if every zone raises it."""
        named = [self.requests(one) for one in requests]

        def call(zone: str) -> Any:
            return ask(self.part(zone), *(one(zone) for one in named))

        answers: dict[str, Any] = {}
        lacking, silent = list[errors.SchedulerError](), list[SilentZone]()
        try:
            answers[""] = call("")
        except (errors.UnknownName, errors.NoPodm) as error:
            lacking.append(error)
        for zone, answer in self._call_enabled(call).items():
            if isinstance(answer, errors.UnknownName | errors.NoPodm):
                lacking.append(answer)
            elif isinstance(answer, errors.SchedulerError):
                silent.append(SilentZone(zone=zone, reason=errors.one_line(str(answer))))
            else:
                answers[zone] = answer
        if not answers and not silent:
            raise next((one for one in lacking if isinstance(one, errors.UnknownName)), lacking[0])
        for zone, answer in answers.items():
            silent += (paths.below(zone, one) for one in silent_zones(answer))
        return ZoneAnswers(answers, silent)

    def merged(
        self, ask: Callable[..., Sequence[T]], below: Callable[[str, T], R], *requests: Request
    ) -> ZonedList[R]:
        answers, silent = self.ask(ask, *requests)
        rows = [below(zone, one) for zone, found in answers.items() for one in found]
        return ZonedList(rows, silent)

    def reports(
        self, request_for: Callable[[str], Request], detail: Detail
    ) -> dict[str, Report | errors.SchedulerError]:
        def report(zone: str) -> Report:
            asked = request_for(zone)
            return self.part(zone).select_destinations(asked, detail=detail).report

        return self._call_enabled(report)

    def records(self, ask: Callable[[Scheduler], Sequence[Any]]) -> ZoneAnswers:
        """Return the claims or nodes of every part, even of disabled zones; note silent zones."""
        names = ("", *self.children)
        answers = call_below(lambda name: ask(self.part(name)), names, self.deadline_s)
        lists, silent = dict[str, Sequence[Any]](), list[SilentZone]()
        for name, answer in answers.items():
            if not isinstance(answer, errors.SchedulerError):
                lists[name] = answer[:MOST_ROWS] if name else answer
                if len(lists[name]) < len(answer):
                    rows = f"{format_count(len(answer), 'row')}, of which {MOST_ROWS:,} are read"
                    silent.append(SilentZone(zone=name, reason=f"it lists {rows}"))
                silent += (paths.below(name, one) for one in silent_zones(answer))
            elif not name:
                raise answer
            else:
                silent.append(SilentZone(zone=name, reason=errors.one_line(str(answer))))
                self.note_silence(silent[-1])
        return ZoneAnswers(lists, silent)

    def claims_of(self, part: ZoneClaimPart, row: ZoneClaim) -> list[Claim]:
        """Return the claims that a zone has for its part: one claim, or one for each node."""
        claims = self.part(part.zone).claims(owner=row.owner, ended=row.state in ENDED_STATES)
        found = parts_of(row, claims)
        check_nodes(sum(claim.nodes for claim in found), len(part.nodes))
        return found

    def release(self, row: ZoneClaim) -> dict[str, errors.SchedulerError]:
        def release(part: ZoneClaimPart) -> None:
            known = [part.claim]
            if not part.claim or row.state == "COMPOSED":  # it may now be one claim per node
                known = [claim.id for claim in self.claims_of(part, row)]
            for error in self.part(part.zone).release(known):
                if not isinstance(error, errors.UnknownName):  # it ended long ago: purged
                    raise error

        parts = {part.zone: part for part in row.parts}
        return errors_of(call_all(release, parts, self.deadline_s))


def zone_claim_id(claim: Claim) -> str:
    """Return the id of the zone claim to which the key of a part belongs."""
    return (claim.key or "").partition("#")[0]


def parts_of(row: ZoneClaim, claims: Iterable[Claim]) -> list[Claim]:
    found = [claim for claim in claims if zone_claim_id(claim) == row.id]
    single = [claim for claim in found if claim.key != row.id]
    return single or found


def check_nodes(nodes: int, asked: int, least: int = 0) -> None:
    if not least <= nodes <= asked:
        found = format_count(nodes, "node")
        raise errors.ServiceError(f"it answers with {found}, expected {asked:,}")


def in_zone(zone: str, error: errors.SchedulerError) -> errors.SchedulerError:
    return error.at(f"zone {zone}") if zone else error
