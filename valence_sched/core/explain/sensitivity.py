# SPDX-License-Identifier: Apache-2.0
"""Sensitivity: the smallest change of a weight or an amount that changes the choice; near misses.

A pool's cost is linear in each weight, in whole numbers. So the weight at which a pool overtakes
the chosen pool is computed, then verified by a new ranking. For an amount, the search doubles the
change until the choice changes, then bisects; each try is placed like any request.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import numpy as np

from valence_sched.core.batch import Batch, goes_by_cost, needs_anchor, schedule
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import (
    EvaluationContext,
    context_of,
    reevaluate,
    reevaluate_group_state,
    write_costs,
)
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fit
from valence_sched.core.group_state import counts_member, with_members
from valence_sched.core.policy import COST_SCALE, INFINITE_COST, WEIGHT_UNITS
from valence_sched.core.ranking import batch_lots
from valence_sched.model.decision import NearMiss, NodeRemoval, PoolRef, Sensitivity, Shortfall
from valence_sched.model.inventory import Node, uri_tail
from valence_sched.model.need import Alternative, Need
from valence_sched.model.policy import Policy
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.model.zone import Overtaking, Rival
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Ints

MOST_WEIGHT = 1000 * WEIGHT_UNITS
MOST_FITS = 2000  # fits tried for one weight and direction
MOST_TIES = 64  # tried fits of pools with equal cost
MOST_LOT = (1 << 64) - 1
MOST_TRIES = 160  # tries for all needs of a request together
GIB_IN_MIB = 1024

#: The beginnings of the notes of ``choice_changes``.
NOTES = ("sensitivity: ", "drawn among ", "the scheduler ")


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of the first node: its pool, if any, and whether it is undecided or tied."""

    pool: PoolRef | None
    undecided: bool
    has_ties: Callable[[], bool]


class Choices(Protocol):
    """Chooses the first node of a decision, before or after a change of one weight or need.

    ``attempt_index`` is the index of the first alternative that fits.
    """

    request: Request
    policy: Policy
    chosen: PoolRef | None
    attempt_index: int

    def needs_anchor(self) -> bool:
        """Return whether the place of the first node decides the places of its group."""

    def choose(self, alternative: Alternative) -> Choice:
        """Return the choice for one node of an alternative; the request's lots break ties."""

    def weight_changes(self) -> Iterator[Sensitivity] | None:
        """Return the least change of each weight that changes the choice; None if weights vary."""

    def most_free(self, need: Need) -> float:
        """Return the largest free amount of a need in one pool."""


def choice_changes(choices: Choices, notes: list[str]) -> Iterator[Sensitivity]:
    """Yield the least changes of weights, in thousandths, and needs, and note limits."""
    request, pick = choices.request, choices.policy.pick
    weights = None
    if choices.chosen is None:
        if choices.choose(request.alternatives[choices.attempt_index]).pool:
            notes.append("sensitivity: one node would fit, but not the required number")
            return
    elif request.count > 1 and choices.needs_anchor():
        text = "the group determines the place of the first node: no other weight or need was tried"
        notes.append(f"sensitivity: {text}")
        return
    elif pick.best_of > 1:
        notes.append(f"drawn among the best {pick.best_of}: another seed may choose another pool")
        return
    elif not goes_by_cost(choices.policy):
        text = f"the scheduler {choices.policy.scheduler!r} does not use weights"
        notes.append(f"{text}: another seed may choose another pool")
        return
    elif (weights := choices.weight_changes()) is None:
        notes.append("sensitivity: weights differ by aggregate or zone: no other weight was tried")
    yield from weights or ()
    amounts = AmountSearch(choices)
    yield from amounts.changes()
    if amounts.out_of_tries:
        notes.append(f"sensitivity: stopped after {MOST_TRIES} tries of other amounts")


class FlatChoices:
    """The choices of a decision on one view."""

    def __init__(self, decision: Decision, row: int | None) -> None:
        context = decision.context
        self._context, self._row = context, row
        self.request = decision.request
        self.policy = context.bound.policy
        self.chosen = None if row is None else context.view.pool_ref(row)
        self.attempt_index = len(decision.failed_attempts)
        # a memo of its own: values of the tries are not stored in the View
        self._tried = dataclasses.replace(context, view=context.view.with_own_memo())

    def needs_anchor(self) -> bool:
        return needs_anchor(self._context.request)

    def choose(self, alternative: Alternative) -> Choice:
        context, needs, constraints = self._tried, alternative.needs, alternative.topology
        request = msgspec.structs.replace(context.request, needs=needs, topology=constraints)
        tried = context_of(context.view, request, context.bound)
        tried = tried.with_others(context.other_nodes, context.spending)
        batch = _schedule_one(dataclasses.replace(tried, strict=context.strict))
        undecided = bool(batch.undecided_rows)
        if not batch.nodes:
            return Choice(None, undecided, lambda: False)
        row = batch.nodes[0].chosen.row
        return Choice(context.view.pool_ref(row), undecided, lambda: _has_ties(tried, row))

    def weight_changes(self) -> Iterator[Sensitivity] | None:
        context, row = self._context, self._row
        assert row is not None, "no weight makes a node fit"
        scores = np.rint(context.evaluation.scores[:, row] * COST_SCALE).astype(np.int64).tolist()
        names = [weigher.name for weigher in context.bound.weighers]
        rival = Rival(
            cost=int(context.evaluation.cost[row]),
            lot=int(batch_lots(context.view, context.request)[row]),
            scores=dict(zip(names, scores, strict=True)),
        )
        found = overtakings(context, rival)
        return None if found is None else weight_changes(self.policy, rival, self.chosen, found)

    def most_free(self, need: Need) -> float:
        return float(self._context.view.free(need).max(initial=0.0))


def _schedule_one(context: EvaluationContext) -> Batch:
    alone = msgspec.structs.replace(context.request, count=1, min_count=None, alternates=0)
    return schedule(dataclasses.replace(context, request=alone))


def _has_ties(context: EvaluationContext, row: int) -> bool:
    """Return whether the node fits on another podm at equal cost: a tie, broken by lots."""
    equal = context.evaluation.cost == context.evaluation.cost[row]
    others = np.flatnonzero(equal & (context.view.podm_of != context.view.podm_of[row]))[:MOST_TIES]
    return any(isinstance(context.fit(context.view, other), Fit) for other in others.tolist())


def weight_changes(
    policy: Policy, rival: Rival, chosen: PoolRef | None, found: Sequence[Overtaking]
) -> Iterator[Sensitivity]:
    """Yield the least change of each weight that lets a pool, ``found`` in any zone, overtake."""
    assert chosen is not None, "no weight makes a node fit"
    for use in policy.weighers:
        mine = [one for one in found if one.weigher == use.name and one.step]
        if not mine:
            continue
        mine.sort(key=lambda one: (abs(one.step), one.step, one.cost, one.lot))
        best, *others = mine
        weight = round(use.weight * WEIGHT_UNITS)
        loss = COST_SCALE - rival.scores.get(use.name, 0)
        ties = [one.cost for one in others if one.step == best.step]
        if best.pool.podm != chosen.podm:
            ties.append(rival.cost + best.step * loss)
        yield Sensitivity(
            of="weight",
            name=use.name,
            unit="",
            was=weight / WEIGHT_UNITS,
            becomes=(weight + best.step) / WEIGHT_UNITS,
            podm=best.pool.podm,
            pool=best.pool.pool,
            instead_of=chosen.podm,
            instead_of_pool=chosen.pool,
            by_lot=best.by_lot or best.cost in ties,
        )


def overtakings(context: EvaluationContext, rival: Rival) -> list[Overtaking] | None:
    """Return the first pool to overtake as each weight rises or falls; None if weights vary."""
    if context.bound.weights_vary:
        return None
    cost = context.evaluation.cost
    # cheaper pools do not fit
    rows = np.flatnonzero((cost != INFINITE_COST) & (cost >= rival.cost))
    margin = cost[rows] - rival.cost
    lots = batch_lots(context.view, context.request)[rows]
    ahead = (lots < np.uint64(min(rival.lot, MOST_LOT))).astype(np.int64)
    scores = np.rint(context.evaluation.scores[:, rows] * COST_SCALE).astype(np.int64)
    found = []
    for number, weigher in enumerate(context.bound.weighers):
        if weigher.name not in rival.scores:
            continue
        gain = scores[number] - rival.scores[weigher.name]
        for sign, most in ((1, MOST_WEIGHT - weigher.weight), (-1, weigher.weight)):
            step = _least_step(context, rows, margin, ahead, sign * gain, most)
            change = step and _verify(context, rival, number, sign * step)
            if change:
                found.append(change)
    return found


def _least_step(
    context: EvaluationContext, rows: Ints, margin: Ints, ahead: Ints, gain: Ints, most: int
) -> int | None:
    """Return the least step (thousandths) after which a row overtakes; ``gain`` is per step."""
    able = np.flatnonzero(gain > 0)
    gain, margin, ahead = gain[able], margin[able], ahead[able]
    steps = -(-margin // gain)
    steps += (steps * gain == margin) & (ahead == 0)
    within = steps <= most
    able, steps = able[within], steps[within]
    for index in np.argsort(steps, kind="stable")[:MOST_FITS].tolist():
        if isinstance(context.fit(context.view, int(rows[able[index]])), Fit):
            return int(steps[index])
    return None


def _verify(context: EvaluationContext, rival: Rival, number: int, step: int) -> Overtaking | None:
    """Return the pool that overtakes a rival at another weight, after a new ranking."""
    weighers = list(context.bound.weighers)
    old = weighers[number]
    weighers[number] = msgspec.structs.replace(old, weight=old.weight + step)
    bound = msgspec.structs.replace(context.bound, weighers=tuple(weighers))
    evaluation = context.evaluation.copy()
    write_costs(evaluation, bound)
    changed = dataclasses.replace(context, bound=bound, evaluation=evaluation)
    batch = _schedule_one(changed)
    if batch.undecided_rows or not batch.nodes:
        return None
    row = batch.nodes[0].chosen.row
    cost, lot = int(evaluation.cost[row]), int(batch_lots(context.view, context.request)[row])
    if (cost, lot) >= (rival.cost + step * (COST_SCALE - rival.scores[old.name]), rival.lot):
        return None  # the rival, or a pool behind it
    pool, by_lot = context.view.pool_ref(row), _has_ties(changed, row)
    return Overtaking(weigher=old.name, step=step, pool=pool, cost=cost, lot=lot, by_lot=by_lot)


def relative_size(change: Sensitivity) -> float:
    """Return the size of a change relative to the old value."""
    return abs(change.becomes - change.was) / change.was if change.was else math.inf


@dataclass(slots=True)
class AmountSearch:
    """Tries other amounts of each need; ``out_of_tries`` is true after the last allowed try.

    All tries have the same lots. If all alternatives begin with equal needs, all change.
    """

    choices: Choices
    out_of_tries: bool = False
    _undecided: bool = False  # whether the choice at a tried amount was undecided
    _tries: int = 0
    _choice_by_amount: dict[tuple[int, float], Choice] = field(default_factory=dict)

    def changes(self) -> Iterator[Sensitivity]:
        """Yield the smallest increase and decrease of each need that change the choice."""
        present = self.choices.request.alternatives[self.choices.attempt_index]
        for number, need in enumerate(present.needs):
            yield from self._smallest_change(number, need, -1, self._most_less(number, need))
            if self.choices.chosen is not None:
                most = self.choices.most_free(need)
                steps = max(1, int((most - need.amount) // _step(need)) + 1)
                yield from self._smallest_change(number, need, 1, steps)

    def _most_less(self, number: int, need: Need) -> int:
        alternatives = self.choices.request.alternatives
        changed = [alternatives[index] for index in self._changed_alternatives(number)]
        constraints = [constraint for one in changed for constraint in one.topology]
        is_alone = any(len(one.needs) == 1 for one in changed)
        is_needed = is_alone or any(one.applies_to(need) for one in constraints)
        steps = int(need.amount // _step(need))
        # an amount of 0 drops the need
        return steps - 1 if is_needed and steps * _step(need) == need.amount else steps

    def _smallest_change(
        self, number: int, need: Need, sign: int, most: int
    ) -> Iterator[Sensitivity]:
        """Yield the change after the fewest steps, at most ``most``, while tries are left."""
        unchanged, step = 0, min(1, most)
        self._undecided = False
        while step and not self._differs(number, need, sign * step):
            unchanged, step = step, min(2 * step, most) if step < most else 0
        while step - unchanged > 1 and not (self.out_of_tries or self._undecided):
            middle = (unchanged + step) // 2
            if self._differs(number, need, sign * middle):
                step = middle
            else:
                unchanged = middle
        if step and not (self.out_of_tries or self._undecided):
            amount = need.amount + sign * step * _step(need)
            choice, chosen = self._choice_by_amount[number, amount], self.choices.chosen
            pool = choice.pool
            yield Sensitivity(
                of="need",
                name=need.label,
                unit=need.unit,
                was=need.amount,
                becomes=amount,
                podm=pool.podm if pool else None,
                pool=pool.pool if pool else None,
                instead_of=chosen.podm if chosen else None,
                instead_of_pool=chosen.pool if chosen else None,
                by_lot=pool is not None and choice.has_ties(),
            )

    def _differs(self, number: int, need: Need, steps: int) -> bool:
        """Return whether a number of steps changes the choice; True if the search has to end."""
        amount = need.amount + steps * _step(need)
        key = number, amount
        if key not in self._choice_by_amount:
            if self._tries >= MOST_TRIES:
                self.out_of_tries = True
                return True
            choice = self._decide(number, need, amount)
            if self._undecided:
                return True
            self._choice_by_amount[key] = choice
        return self._choice_by_amount[key].pool != self.choices.chosen

    def _changed_alternatives(self, number: int) -> list[int]:
        """Return the alternatives in which a need changes: all, if all begin with equal needs."""
        alternatives = self.choices.request.alternatives
        alike = len({alternative.needs[: number + 1] for alternative in alternatives}) == 1
        return list(range(len(alternatives))) if alike else [self.choices.attempt_index]

    def _decide(self, number: int, need: Need, amount: float) -> Choice:
        changing = self._changed_alternatives(number)
        choice = Choice(None, False, lambda: False)
        for index, alternative in enumerate(self.choices.request.alternatives):
            needs = list(alternative.needs)
            if index in changing:
                changed = [msgspec.structs.replace(need, amount=amount)] if amount else []
                needs[number : number + 1] = changed
            elif index < self.choices.attempt_index or self.choices.chosen is None:
                continue  # no node fits this alternative, as in the decision
            self._tries += 1
            choice = self.choices.choose(Alternative(tuple(needs), alternative.topology))
            self._undecided = self._undecided or choice.undecided
            if choice.pool:
                break
        return choice


def _step(need: Need) -> int:
    """Return the step for changes of an amount: one unit, for memory one GiB."""
    in_gib = need.measure == "capacity_mib" and not need.amount % GIB_IN_MIB
    return GIB_IN_MIB if in_gib and need.amount > GIB_IN_MIB else 1


MOST_PODMS = 8  # most pod managers reported for missing hardware, and as many blocked by policy
MOST_NODES = 64  # nodes of each pod manager whose removal is tried
MOST_FREED_FITS = 20_000  # fits tried for near misses


def misses_in_order(misses: Iterable[NearMiss]) -> tuple[NearMiss, ...]:
    """Return near misses: first those that a removal resolves, last those by policy."""
    return tuple(sorted(misses, key=lambda one: (one.kind == "word", one.freeing is None)))


@dataclass
class NearMissSearch:
    """Searches for pod managers that a node nearly fits, and for a node whose removal makes room.

    The results are exact: it removes the node on a copy, evaluates the copy, and fits again.
    ``notes`` name the reached limits.
    """

    decision: Decision
    notes: list[str] = field(default_factory=list)
    _fits: int = 0

    def run(self) -> tuple[NearMiss, ...]:
        """Return near misses: those that one removal resolves come first, then by shortfall."""
        misses = [*itertools.islice(self._by_hardware(), MOST_PODMS)]
        if self._fits >= MOST_FREED_FITS:
            tried = format_count(MOST_FREED_FITS, "pool")
            self.notes.append(f"near misses: the search ended after {tried}")
        return misses_in_order([*misses, *itertools.islice(self._by_policy(), MOST_PODMS)])

    def _by_hardware(self) -> Iterator[NearMiss]:
        view, evaluation = self.decision.batch.view, self.decision.batch.evaluation
        readers = evaluation.availability_readers - evaluation.failed_plugins
        fixed = [filter_.name not in readers for filter_ in self.decision.context.bound.filters]
        rows = np.flatnonzero(np.logical_and.reduce(evaluation.verdicts[fixed]))
        if not len(rows):
            return
        missing = np.zeros(len(view))  # as a share of each need
        for need in self.decision.context.request.needs:
            if amount := need.amount * need.count:
                missing += np.clip(1.0 - view.free(need) / amount, 0.0, 1.0)
        seen_podms = self._chosen_podms()
        by_name = sorted(rows.tolist(), key=lambda row: (view.podm(row).id, view.pools[row].id))
        for row in sorted(by_name, key=missing.tolist().__getitem__):
            podm = int(view.podm_of[row])
            if podm in seen_podms:
                continue
            seen_podms.add(podm)
            if not self._takes_node(podm):
                nodes = view.podms[podm].nodes
                by_size = sorted(nodes, key=lambda node: (len(node.blocks), node.uri))[:MOST_NODES]
                yield NearMiss(
                    podm=view.podms[podm].id,
                    pool=view.pools[row].id,
                    kind="hardware",
                    lacks=self._lacks(row),
                    freeing=self._freeing(podm, by_size),
                    nodes=len(nodes),
                    tried=len(by_size),
                )

    def _by_policy(self) -> Iterator[NearMiss]:
        """Yield the podms that only one filter rejects, if this filter ignores free hardware."""
        evaluation, view = self.decision.batch.evaluation, self.decision.batch.view
        seen_podms, filters = self._chosen_podms(), self.decision.context.bound.filters
        other_reasons = evaluation.availability_readers | evaluation.failed_plugins
        rows = np.flatnonzero((~evaluation.verdicts).sum(axis=0) == 1).tolist()
        for row in sorted(rows, key=lambda row: (view.podm(row).id, view.pools[row].id)):
            podm = int(view.podm_of[row])
            name = filters[int(evaluation.verdicts[:, row].argmin())].name
            if podm in seen_podms or name in other_reasons or self._takes_node(podm):
                continue
            if self._fits >= MOST_FREED_FITS:
                return
            self._fits += 1
            if self.decision.row_fit(row) == "fits":
                seen_podms.add(podm)
                name, pool = view.podms[podm].id, view.pools[row].id
                yield NearMiss(podm=name, pool=pool, kind="word", lacks=self._lacks(row))

    def _chosen_podms(self) -> set[int]:
        """Return the chosen podms if all nodes were placed: they are not near misses."""
        return set(self.decision.chosen_podms() if self.decision.outcome == "placed" else ())

    @functools.cached_property
    def _may_fit(self) -> list[bool]:
        """Whether each row passes every filter and may have a fit."""
        passing = self.decision.batch.evaluation.cost != INFINITE_COST
        passing[list(self.decision.batch.rows_without_fit)] = False
        return passing.tolist()  # type: ignore[no-any-return]

    def _takes_node(self, podm: int) -> bool:
        """Return whether a podm takes the next node, or may take it."""
        for row in range(*self.decision.batch.view.rows(podm)):
            if not self._may_fit[row]:
                continue
            if self._fits >= MOST_FREED_FITS:
                return True
            self._fits += 1
            if self.decision.row_fit(row) != "none":
                return True
        return False

    def _lacks(self, row: int) -> tuple[Shortfall, ...]:
        reasons = map(msgspec.structs.asdict, Verdicts(self.decision).reasons(row))
        names = Shortfall.__struct_fields__
        return tuple(Shortfall(**{name: reason[name] for name in names}) for reason in reasons)

    def _freeing(self, podm: int, nodes: list[Node]) -> NodeRemoval | None:
        """Return the first of these nodes of a podm whose removal makes the next node fit."""
        context, batch = self.decision.context, self.decision.batch
        request = batch.request
        first, last = batch.view.rows(podm)
        overlay = Overlay(batch.view.window(first, last))
        table = overlay.view.block_tables[0]
        for node in nodes:
            blocks = [table.numbers[uri] for uri in node.blocks if uri in table.numbers]
            if not any(table.gains[block] for block in blocks):
                continue
            undo = overlay.remove_node(0, blocks)
            view = overlay.view.window(0, last - first)
            part = batch.evaluation.select(slice(first, last)).copy()
            if counts_member(request, node):
                fewer = with_members(batch.view, request, [first], -1)
                reevaluate_group_state(view, fewer, context.bound, part)
            reevaluate(view, request, context.bound, part)
            passing = np.flatnonzero(part.cost != INFINITE_COST).tolist()
            for row in sorted(passing, key=lambda row: view.pools[row].id):
                if isinstance(context.fit(view, row), Fit):
                    name = node.name or uri_tail(node.uri)
                    return NodeRemoval(node=name, uri=node.uri, pool=view.pools[row].id)
            undo()
        return None
