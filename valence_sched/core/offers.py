# SPDX-License-Identifier: Apache-2.0
"""Offers: the nodes of a request that fit on the podms of a zone; verification of offers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import UNSET, UnsetType, structs

from valence_sched.core.batch import (
    PlacedNode,
    candidate_of,
    ranked_nodes,
    schedule,
    with_anchor_rows,
)
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.group_state import affects_own_podm_only, with_members
from valence_sched.core.policy import COST_SCALE
from valence_sched.core.ranking import random_order, rank_rows
from valence_sched.errors import StaleOffer
from valence_sched.model.decision import Candidate
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import DOMAINS, MAX_NODES, Request
from valence_sched.model.zone import Offer, OfferQuery, Overtaking, ZoneAnswer
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Mask, View, domain_values

SLACK = 1e-6  # rounding error of sums of floats


def offers(
    context: EvaluationContext, query: OfferQuery, earlier: Sequence[Candidate]
) -> ZoneAnswer:
    """Return the offers of the podms of a context: nodes one after another, and a ranking.

    The context has the group state; StaleOffer if an ``earlier`` candidate is not free.
    """
    view, asked, rival = context.view, query.request, query.rival
    fits = tuple(fit_of(view, candidate) for candidate in earlier)
    context = replace(context, earlier=fits, turn=query.turn)
    if query.closed:  # exclude the rows of podms at closed places
        is_open = [not any(_is_at(podm, place) for place in query.closed) for podm in view.podms]
        context = with_anchor_rows(context, np.array(is_open, dtype=bool)[view.podm_of])
    order = rank_rows if query.order == "cost" else random_order
    ranked, open_rows = ranked_nodes(context, order, query.limit, per_podm=query.per_podm)
    batch = schedule(context)
    readers = context.evaluation.group_state_readers
    named = (*asked.podms, *asked.exclude_podms)
    known = {name for podm in view.podms for name in (podm.id, podm.name)} if named else set()
    most_free: Sequence[float] = ()
    found: tuple[Overtaking, ...] | UnsetType = UNSET
    if rival is not None:
        from valence_sched.core.explain.sensitivity import overtakings  # only for explanations

        overtaking = overtakings(context, rival)
        found = UNSET if overtaking is None else tuple(overtaking)
        most_free = [float(view.free(need).max(initial=0.0)) for need in asked.needs]
    return ZoneAnswer(
        nodes=tuple(_offers(context, batch.nodes)),
        ranking=tuple(_offers(context, ranked)),
        undecided=tuple(map(view.pool_ref, sorted(batch.undecided_rows.union(open_rows)))),
        worst_cost=context.bound.worst_cost * COST_SCALE,
        coupled=not affects_own_podm_only(context.request, context.bound, readers),
        unknown_podms=tuple(name for name in named if name not in known),
        overtakings=found,
        most_free=tuple(most_free),
    )


def _is_at(podm: LeanPodm, place: Mapping[str, Sequence[str]]) -> bool:
    return all(sorted(domain_values(podm, name)) == list(place[name]) for name in place)


def with_candidates(
    view: View, request: Request, candidates: Sequence[Candidate], number: int = 1
) -> Request:
    """Return the request with ``number``, 1 or -1, added to its group counts by candidate."""
    return with_members(view, request, [fit_of(view, one).row for one in candidates], number)


def _offers(context: EvaluationContext, nodes: Sequence[PlacedNode]) -> Iterator[Offer]:
    group = context.request.group
    domains = dict.fromkeys((*DOMAINS, *group.domains)) if group else ()
    for node in nodes:
        podm = context.view.podm(node.chosen.row)
        place = {domain: tuple(sorted(domain_values(podm, domain))) for domain in domains}
        candidate = candidate_of(context, node.chosen, node.cost, node.scores)
        yield Offer(candidate=candidate, place=place)


def fit_of(view: View, candidate: Candidate) -> Fit:
    """Return the fit that a candidate names; StaleOffer if a part of it is not free."""
    podm, pool = candidate.podm, candidate.pool
    try:
        first, last = view.rows_of(podm)
    except KeyError:
        raise StaleOffer(f"{podm}: this pod manager is not in the inventory") from None
    rows = [row for row in range(first, last) if view.pools[row].id == pool]
    if not rows:
        raise StaleOffer(f"{podm}: no pool {pool!r}")
    table, position = view.block_tables[view.podm_of[first]], int(view.position_of[rows[0]])
    stocks = {stock.uri: number for number, stock in enumerate(table.stocks)}
    blocks: list[int] = []
    grants: list[tuple[int, float]] = []
    for block in candidate.blocks:
        number = table.numbers.get(block.uri)
        if number is None or position not in table.pools[number] or not table.slots[number]:
            raise StaleOffer(f"{podm}: block {block.uri} is not free in pool {pool!r}")
        blocks.append(number)
    for grant in candidate.grants:
        number = stocks.get(grant.uri)
        if number is None or position not in table.stock_pools[number]:
            raise StaleOffer(f"{podm}: no stock {grant.uri} in pool {pool!r}")
        grants.append((number, grant.amount))
    return Fit(rows[0], tuple(blocks), tuple(grants), candidate.waste)


class CandidateFitter:
    """Fits nodes into exactly the parts of candidates; ``fitters`` has one per alternative."""

    def __init__(self, view: View, fitters: Sequence[Fitter]) -> None:
        self._view, self._fitters = view, fitters
        self._closed: dict[str, Overlay] = {}  # by podm

    def fit(self, view: View, candidate: Candidate) -> tuple[Fit, int]:
        """Return the fit and its alternative; StaleOffer if no alternative takes these parts."""
        wanted = fit_of(view, candidate)
        first, last = view.rows_of(candidate.podm)
        if candidate.podm not in self._closed:
            self._closed[candidate.podm] = Overlay(self._view.window(first, last))
            self._closed[candidate.podm].close(0)
        alone = self._closed[candidate.podm]
        closed, taken = alone.view.block_tables[0], (wanted.blocks, wanted.grants)
        alone.apply([(0, closed.only(*taken), *taken)])
        try:
            for number, fitter in enumerate(self._fitters):
                found = fitter.fit(alone.view, wanted.row - first)
                if not isinstance(found, Fit) or len(found.blocks) != len(wanted.blocks):
                    continue
                missing: defaultdict[int, float] = defaultdict(float)  # by stock
                for stock, amount in wanted.grants:
                    missing[stock] += amount
                for stock, amount in found.grants:
                    missing[stock] -= amount
                if all(abs(amount) < SLACK for amount in missing.values()):
                    return structs.replace(found, row=wanted.row), number
        finally:
            alone.apply([(0, closed, *taken)])
        text = f"{candidate.podm}: these blocks and amounts of pool {candidate.pool!r}"
        raise StaleOffer(f"{text} do not match a node of the request")


def most_nodes_alone(view: View, request: Request, rows: Mask) -> int:
    """Return an upper bound of the nodes that fit in some rows; each need is considered alone."""
    most = 0.0
    for alternative in request.alternatives:
        amounts = [(need, need.total_amount()) for need in alternative.needs]
        lines = [view.free(need) // amount for need, amount in amounts if amount > 0]
        if not lines:
            return MAX_NODES
        most += min(float(np.minimum.reduce(lines)[rows].sum()), MAX_NODES)
    return int(min(MAX_NODES, most))
