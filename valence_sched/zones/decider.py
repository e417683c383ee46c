# SPDX-License-Identifier: Apache-2.0
"""ZoneDecider: decides over the pod managers of a zone and of all zones below it."""

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.core.explain import sensitivity
from valence_sched.core.policy import COST_SCALE
from valence_sched.core.ranking import pool_lot
from valence_sched.model import decision as nouns
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.need import Alternative, Need
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.model.scheduler import OwnScheduler, Scheduler
from valence_sched.model.zone import GroupAnswer, Offer, OfferingZone, Rival, SealedRequest
from valence_sched.planning.batch_orders import all_orders, worthwhile_orders
from valence_sched.zones import paths, result
from valence_sched.zones.mixes import CompletedRequest, SupplySums, ZoneMixes, as_asked_below
from valence_sched.zones.selection import OtherOffer, PlacedOffer, Selected, ZoneSelection

MOST_REQUESTS = 4  # batch size up to which every order is tried
MOST_TRIALS = 24  # orders of one batch: all of four requests

#: Selects the nodes of the request with a number (from 0), given the earlier nodes of a trial.
SelectNodes = Callable[[int, Sequence[OtherOffer]], Selected]


@dataclass(frozen=True)
class ZoneTrial:
    """The selections in one order; the score has the missing required nodes, then all missing."""

    selected: Mapping[int, Selected]
    score: tuple[int, int]


@dataclass(frozen=True)
class ZoneBatch:
    """Requests decided together over zones; ``most_nodes`` is an upper bound for each.

    ``new_trial`` returns a function that selects the nodes of the requests in one order.
    """

    requests: Sequence[Request]
    most_nodes: Sequence[int]
    new_trial: Callable[[], SelectNodes]
    is_late: Callable[[], bool]

    def best(self) -> ZoneTrial | None:
        """Return the best trial, the first of equals; None if a request cannot be fulfilled."""
        pairs = list(zip(self.requests, self.most_nodes, strict=True))
        if any(most < one.required_count for one, most in pairs):
            return None
        missing = sum(max(0, one.count - most) for one, most in pairs)
        orders = worthwhile_orders(self.requests, self.most_nodes)
        if len(self.requests) <= MOST_REQUESTS:
            orders = itertools.chain(orders, all_orders(self.requests))
        best: ZoneTrial | None = None
        for order in itertools.islice(dict.fromkeys(orders), MOST_TRIALS):
            if best is not None and (best.score <= (0, missing) or self.is_late()):
                break
            trial = self._trial(order)
            best = trial if best is None else min(best, trial, key=lambda one: one.score)
        is_short = best is None or best.score[0]
        return None if is_short else best

    def in_order(self) -> list[Selected]:
        """Return the selections in the given order, up to the first that is too small."""
        return list(self._trial(range(len(self.requests)), to_first_short=True).selected.values())

    def _trial(self, order: Sequence[int], *, to_first_short: bool = False) -> ZoneTrial:
        select, others, found = self.new_trial(), list[OtherOffer](), dict[int, Selected]()
        short = missing = 0
        for number in order:
            request = self.requests[number]
            found[number] = selected = select(number, others)
            others += result.taken_by(request, selected)
            short += max(0, request.required_count - len(selected.nodes))
            missing += request.count - len(selected.nodes)
            if short and to_first_short:
                break
        return ZoneTrial(found, (short, missing))


P = ParamSpec("P")
R = TypeVar("R")

NO_REASONS = "zones give no reasons after nodes of other requests: schedule this request alone"
MOST_TRIES = 3  # attempts at a decision while other requests take its offers

#: Returns a request with the pod manager names of a zone below or of this zone (``""``).
RequestFor = Callable[[str], Request]
#: Returns the report of each child zone on a request, or its error.
ReportsBelow = Callable[
    [RequestFor, nouns.Detail], Mapping[str, nouns.Report | errors.SchedulerError]
]


class ZoneDecider(Scheduler):
    """Decides over ``zone``, the tree of a zone; its ``own`` scheduler handles every other verb.

    With ``own_has_all``, the own scheduler decides on the pod managers of all zones. ``requests``
    returns the request with the pod manager names of each zone, ``reports_below`` the report of
    each child on it, or its error. Deciders over the same zones may share ``sums``.
    """

    def __init__(
        self,
        own: OwnScheduler,
        zone: OfferingZone,
        *,
        deadline_s: float = 30.0,
        most_hops: int = MOST_HOPS,
        own_has_all: bool = False,
        reports_below: ReportsBelow = lambda _request_for, _detail: {},
        requests: Callable[[Request], RequestFor] = lambda request: lambda _zone: request,
        sums: SupplySums | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._sums = SupplySums() if sums is None else sums
        self._reports_below, self._requests = reports_below, requests
        self._own, self._zone = own, zone
        self._deadline_s, self._most_hops = deadline_s, most_hops
        self._own_has_all = own_has_all

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        answer: R = getattr(self._own, verb.__name__)(*words, **named)
        return answer

    def select_destinations(
        self, request: Request, *, detail: nouns.Detail = "placements"
    ) -> nouns.DecisionResult:
        return self.result(request, *self.select(request), detail)

    def select(
        self, request: Request, avoid: Sequence[nouns.SilentZone] = ()
    ) -> tuple[SealedRequest, Selected]:
        """Return a sealed request and its offers; StaleOffer: each attempt lost its offers."""

        def select() -> tuple[SealedRequest, Selected]:
            sealed = self._own.seal(request)
            return sealed, self._selection(sealed, avoid=avoid).nodes()

        return _retried(select)

    def result(
        self, request: Request, sealed: SealedRequest, selected: Selected, detail: nouns.Detail
    ) -> nouns.DecisionResult:
        reasons = self._reasons(request, sealed, selected, detail)
        return result.zoned_result(sealed, selected, reasons)

    def rank(self, request: Request, limit: int) -> nouns.Ranking:
        sealed = self._own.seal(request)
        offers, selected = self._selection(sealed).ranking(limit)
        missing = [f"zone {one.zone}: {one.reason}" for one in selected.silent.values()]
        missing += [f"{one.podm}: undecided" for one in selected.undecided.values()]
        return nouns.Ranking(
            candidates=tuple(paths.below(one.zone, one.candidate) for one in offers),
            missing=tuple(missing),
            request_id=sealed.request.id,
            seed=sealed.request.seed,
        )

    def select_all(
        self, requests: Sequence[Request], *, detail: nouns.Detail = "placements"
    ) -> nouns.DecisionResults:
        if not requests:
            return self._own.select_all(requests, detail=detail)
        return _retried(functools.partial(self._select_all, requests, detail))

    def _select_all(
        self, requests: Sequence[Request], detail: nouns.Detail
    ) -> nouns.DecisionResults:
        sealed = [
            _at(number, requests, functools.partial(self._own.seal, one))
            for number, one in enumerate(requests)
        ]
        until = self._clock() + self._deadline_s
        mixes = ZoneMixes(self._own, self._sums)

        def new_trial() -> SelectNodes:
            mixes = ZoneMixes(self._own, self._sums)

            def select(number: int, others: Sequence[OtherOffer]) -> Selected:
                selection = self._selection(sealed[number], mixes, others)
                return _at(number, requests, selection.nodes)

            return select

        most = [self._selection(one, mixes).most_nodes() for one in sealed] if sealed[1:] else []
        asked = [one.request for one in sealed]
        batch = ZoneBatch(asked, most, new_trial, lambda: self._clock() >= until)
        best = batch.best() if sealed[1:] else None
        if best is not None:
            selections = [best.selected[number] for number in range(len(sealed))]
        else:
            selections = batch.in_order()
        result.drop_conflicting_alternates(selections)
        required = (one.required_count for one in asked)
        counts = zip((len(one.nodes) for one in selections), required, strict=False)
        others = sum(count for count, least in counts if count >= least)
        reports = []
        for request, one, selected in zip(requests, sealed, selections, strict=False):
            reasons = self._reasons(request, one, selected, detail, others)
            report = result.zoned_result(one, selected, reasons).report
            if others and not report.placed:
                report = replace(report, warnings=(*report.warnings, NO_REASONS))
            reports.append(report)
        return result.zoned_results(requests, reports)

    def _selection(
        self,
        sealed: SealedRequest,
        mixes: ZoneMixes | None = None,
        others: Sequence[OtherOffer] = (),
        avoid: Sequence[nouns.SilentZone] = (),
    ) -> ZoneSelection:
        mixes = ZoneMixes(self._own, self._sums) if mixes is None else mixes

        def complete(ask: Callable[[], GroupAnswer], anew: bool) -> CompletedRequest:
            return mixes.complete(sealed, ask, len(others), anew=anew)

        return ZoneSelection(
            self._zone,
            sealed.policy,
            sealed.request,
            deadline_s=self._deadline_s,
            most_hops=self._most_hops,
            most_cost=sealed.most_cost,
            others=others,
            avoid=avoid,
            complete=complete if sealed.needs_supplies else None,
        )

    def _reasons(
        self,
        request: Request,
        sealed: SealedRequest,
        selected: Selected,
        detail: nouns.Detail,
        others: int = 0,
    ) -> nouns.Report | None:
        """Return the report of the own scheduler on the decision, None if it is incomplete.

        The report explains why too few nodes fit. With detail ``report``, it explains the whole
        decision and contains the reports of the children.
        """
        placed = len(selected.nodes) >= request.required_count
        if others or (placed and not self._own_has_all and detail != "report"):
            return None
        try:
            # the sealed id, by which every zone breaks ties
            asked = selected.request or replace(request, id=request.id or sealed.request.id)
            if placed and len(selected.nodes) == request.count and not self._own_has_all:
                asked = replace(asked, count=1, min_count=None)  # each zone explains the first node
            request_for = self._requests(asked)
        except (errors.UnknownName, errors.ServiceError):  # a silent zone may have the named object
            return None
        try:
            report: nouns.Report | None
            report = self._own.select_destinations(request_for(""), detail=detail).report
        except (errors.NoPodm, errors.UnknownName):  # only this zone lacks the named pod managers
            report = None
        chosen = [one.chosen for one in selected.nodes if placed]
        if self._own_has_all:
            own = [one.chosen for one in report.placements] if report is not None else None
            return report if own == [one.candidate for one in chosen] else None
        below = self._reports_below(request_for, detail)
        candidates = [paths.below(one.zone, one.candidate) for one in chosen]
        alternates = {
            paths.path(other.zone, other.candidate.podm)
            for one in selected.nodes
            for other in (one.alternates if placed else ())
        }
        report = result.with_reasons_below(report, below, candidates, alternates)
        if report is None or report.explanation is None:
            return report
        request = as_asked_below(selected.request or sealed.request)
        sealed = replace(sealed, request=request, needs_supplies=False)
        selection = self._selection(sealed, avoid=tuple(selected.silent.values()))
        choices = ZoneChoices(selection, request, sealed.policy, selected.nodes, placed=placed)
        return replace(report, explanation=choices.explained(report.explanation))


def _retried(decide: Callable[[], R]) -> R:
    for _ in range(MOST_TRIES - 1):
        with contextlib.suppress(errors.StaleOffer):
            return decide()
    return decide()


def _at(number: int, requests: Sequence[Request], call: Callable[[], R]) -> R:
    try:
        return call()
    except (errors.RequestError, errors.UnknownName) as error:
        raise (error if len(requests) == 1 else error.at(f"request {number + 1}")) from None


class ZoneChoices:
    """The choices of a decision over zones; unless ``placed``, there are too few ``nodes``."""

    def __init__(
        self,
        selection: ZoneSelection,
        request: Request,
        policy: Policy,
        nodes: list[PlacedOffer],
        *,
        placed: bool,
    ) -> None:
        self._selection, self.request, self.policy = selection, request, policy
        self._offer = nodes[0].chosen if nodes and placed else None
        self.chosen = _pool(self._offer) if self._offer else None
        self.attempt_index = nodes[0].choice - 1 if nodes else 0
        self._most_free: dict[Need, float] = {}

    def needs_anchor(self) -> bool:
        return self._selection.needs_anchor

    def choose(self, alternative: Alternative) -> sensitivity.Choice:
        best_of = self.policy.pick.best_of
        answer = self._selection.first_node(alternative, max(2, best_of))
        best = self._selection.drawn(answer.ranking[:best_of])
        if best is None:
            return sensitivity.Choice(None, bool(answer.undecided), lambda: False)
        pool, cost = _pool(best), best.candidate.cost
        others = [one.candidate.cost for one in answer.ranking if _pool(one).podm != pool.podm]
        return sensitivity.Choice(pool, bool(answer.undecided), lambda: cost in others)

    def weight_changes(self) -> Iterator[nouns.Sensitivity] | None:
        assert self._offer is not None, "no weight makes a node fit"
        one, alternative = self._offer.candidate, self.request.alternatives[self.attempt_index]
        rival = Rival(
            cost=one.cost,
            lot=pool_lot(one.podm, one.pool, self.request),
            scores={name: round(score * COST_SCALE) for name, score in one.scores.items()},
        )
        answer = self._selection.first_node(alternative, 0, rival)
        self._most_free = dict(zip(alternative.needs, answer.most_free, strict=False))
        if answer.overtakings is UNSET:
            return None
        found = [replace(one, pool=paths.below(one.zone, one.pool)) for one in answer.overtakings]
        return sensitivity.weight_changes(self.policy, rival, self.chosen, found)

    def most_free(self, need: Need) -> float:
        return self._most_free.get(need, 0.0)

    def explained(self, explanation: nouns.Explanation) -> nouns.Explanation:
        notes: list[str] = []
        earlier = self._selection.silent
        changes = sorted(sensitivity.choice_changes(self, notes), key=sensitivity.relative_size)
        if silent := self._selection.silent - earlier:
            changes, names = [], ", ".join(sorted(silent))
            notes = [errors.one_line(f"sensitivity: unknown, these zones did not answer: {names}")]
        return replace(explanation, flips=tuple(changes), notes=(*explanation.notes, *notes))


def _pool(offer: Offer) -> nouns.PoolRef:
    one = offer.candidate
    return paths.below(offer.zone, nouns.PoolRef(podm=one.podm, pool=one.pool))
