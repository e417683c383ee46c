# SPDX-License-Identifier: Apache-2.0
"""Ledger: a snapshot from which nodes are taken and given back, to decide many requests."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from valence_sched.core.evaluation import EvaluationContext, reevaluate
from valence_sched.core.evaluation_cache import CachedEvaluation, EvaluationCache
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import BoundPolicy
from valence_sched.errors import UsageError
from valence_sched.model.request import Request
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.selection import was_derived
from valence_sched.view.view import Floats, Ints, Mask, View

MOST_EVALUATIONS = 512  # evaluations that are remembered
MOST_STATES = 200_000  # answers for podms in a state that are remembered, of all evaluations

MOST_WINDOWS = 4096  # podms whose rows are remembered as a View of their own

#: The verdicts, scores and costs of some rows, and which of these rows are meant.
Answers = tuple[Mask, Floats, Ints, slice]
UsageKey = tuple[int, tuple[int, ...], tuple[tuple[int, float], ...]]


class Ledger:
    """A snapshot that is used up and given back; the View that it began with is not touched.

    Evaluations are cached, and only the rows of podms that changed since are evaluated again: each
    podm once in each state, since nodes that come and go bring it back to states that it had. A
    context shows the ledger as it is when made, so decide on it before the next node is taken.
    """

    def __init__(
        self, view: View, most: int = MOST_EVALUATIONS, most_states: int = MOST_STATES
    ) -> None:
        self._snapshot = _UsedSnapshot(view, most_states)
        self.view = self._snapshot.view  # with what is free now
        self._cache = EvaluationCache(self._snapshot, most)
        self._usage: dict[UsageKey, int] = {}
        self._podm_of: list[int] = view.podm_of.tolist()  # quicker to look up one by one

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return what a decision on a sealed request is made from; errors as for the cache."""
        return self._cache.context(request, bound, strict=strict)

    def take(self, fit: Fit) -> None:
        self._snapshot.overlay.allocate_each([(fit.row, fit.blocks, fit.grants)])
        key = self._usage_key(fit)
        self._usage[key] = self._usage.get(key, 0) + 1
        self._snapshot.note_change(key[0])

    def give_back(self, fit: Fit) -> None:
        """Give back what was taken; UsageError if it was not taken, or given back before."""
        key = self._usage_key(fit)
        count = self._usage.pop(key, 0)  # what nobody has is forgotten: there is ever more of it
        if not count:
            podm = self.view.podm(fit.row).id
            raise UsageError(f"nothing to give back to pod manager {podm!r}: it was not taken")
        if count > 1:
            self._usage[key] = count - 1
        self._snapshot.overlay.deallocate(fit.row, fit.blocks, fit.grants)
        self._snapshot.note_change(key[0])

    def remove_node(self, podm: int, blocks: Iterable[int]) -> None:
        """Free the blocks of a node that the inventory has on a podm, by block number."""
        self._snapshot.overlay.remove_node(podm, blocks)
        self._snapshot.note_change(podm)

    def close(self, podm: int) -> Undo:
        """Leave nothing free on a podm; return what makes it as it is now."""
        undo = self._snapshot.overlay.close(podm)
        self._snapshot.note_change(podm)

        def reopen() -> None:
            undo()
            self._snapshot.note_change(podm)

        return reopen

    def correct(self, podm: int, used: Mapping[int, float]) -> None:
        """Write down how much of some stocks is used, as their podm reports: by stock number."""
        overlay = self._snapshot.overlay
        first, _ = overlay.rows(podm)
        stocks = self.view.block_tables[podm].stocks
        more = [(number, amount - stocks[number].used) for number, amount in used.items()]
        changes = [(number, amount) for number, amount in more if amount]
        if changes:
            overlay.allocate(first, (), changes)
            self._snapshot.note_change(podm)

    def _usage_key(self, fit: Fit) -> UsageKey:
        return self._podm_of[fit.row], fit.blocks, fit.grants


class _UsedSnapshot:
    """An overlay whose podms change one by one; evaluations of it are changed in place."""

    def __init__(self, view: View, most_states: int) -> None:
        self.overlay = Overlay(view)
        self.view = self.overlay.view
        self.version = 0
        self.overlay.remember_tables()
        self._whole: View | None = None  # all rows, as they are at any time
        self._evaluated = False  # since what no node changes was last remembered
        self._states = _PodmStates(self.view)
        self._answers: defaultdict[int, dict[int, Answers]] = defaultdict(dict)
        self._answer_count = 0
        self._most_states = most_states
        self._windows: BoundedMemo[int, View] = BoundedMemo(MOST_WINDOWS)  # by podm
        self._last_change = np.zeros(len(view.podms), dtype=np.int64)  # its version, by podm
        ends = view.first_row.tolist()
        self._rows = [slice(first, last) for first, last in itertools.pairwise(ends)]  # by podm

    def note_change(self, podm: int) -> None:
        self.version += 1
        self._last_change[podm] = self.version
        self._states.change(podm)

    def uncached_view(self) -> View:
        if self._whole is None:
            self._whole = self.overlay.whole_window()
        self._whole.forget_changes()
        self._evaluated = True
        return self._whole

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int:
        """Write the rows of podms that are in a state seen before, and evaluate the others."""
        if self._evaluated and self._whole is not None:
            self.overlay.remember_fixed(self._whole)
            self._evaluated = False
        if max(self._answer_count, len(self._states)) >= self._most_states:
            self._answers.clear()
            self._answer_count = 0
            self._states.clear()
        evaluation, answers = cached.evaluation, self._answers[cached.number]
        verdicts, scores, cost = evaluation.verdicts, evaluation.scores, evaluation.cost
        new: list[tuple[int, int]] = []
        states, state_of = self._states.current, self._states.number
        for podm in (self._last_change > cached.version).nonzero()[0].tolist():
            state = states[podm]
            if state is None:
                state = state_of(podm)
            known = answers.get(state)
            if known is None:
                new.append((podm, state))
            else:
                rows, part = self._rows[podm], known[3]
                verdicts[:, rows], scores[:, rows] = known[0][:, part], known[1][:, part]
                cost[rows] = known[2][part]
        return self._evaluate(new, cached, request, strict) if new else 0

    def _evaluate(
        self, podms: list[tuple[int, int]], cached: CachedEvaluation, request: Request, strict: bool
    ) -> int:
        """Evaluate podms, given with the state that each is in; return how many rows."""
        if len(podms) == 1:
            return self._evaluate_podm(*podms[0], cached, request, strict)
        of_podm, numbers = self._rows, [podm for podm, _ in podms]
        if len(of_podm) == len(self.view):  # a row each
            dirty = np.array(numbers)
        else:
            spans = (of_podm[podm] for podm in numbers)
            dirty = np.array([row for one in spans for row in range(one.start, one.stop)])
        part = cached.evaluation.select(dirty)
        every = len(dirty) == len(self.view)
        view = self.uncached_view() if every else self.view.take_counts(dirty)
        view.precompute_free(request.needs)
        reevaluate(view, request, cached.bound, part, strict=strict)
        cached.evaluation.write(dirty, part)
        if every or part.failed_plugins or was_derived(view, "block_tables"):
            return len(dirty)  # the counts may not be all that the answers depend on
        verdicts, scores, cost = part.verdicts, part.scores, part.cost
        position, answers = 0, self._answers[cached.number]
        for podm, state in podms:
            one = of_podm[podm]
            end = position + one.stop - one.start
            answers[state] = verdicts, scores, cost, slice(position, end)
            position = end
        self._answer_count += len(podms)
        return len(dirty)

    def _evaluate_podm(
        self, podm: int, state: int, cached: CachedEvaluation, request: Request, strict: bool
    ) -> int:
        """Evaluate a podm in place, on a window that is kept for the next time."""
        view = self._windows.get(podm)
        if view is None:
            view = self._windows.store(podm, self.view.podm_window(podm))
        view.forget_changes()
        view.precompute_free(request.needs)
        part = cached.evaluation.select(self._rows[podm])
        reevaluate(view, request, cached.bound, part, strict=strict)
        if was_derived(view, "block_tables"):
            del self._windows[podm]  # the counts may not be all that the answers depend on
        elif not part.failed_plugins:
            answers = part.verdicts.copy(), part.scores.copy(), part.cost.copy(), slice(None)
            self._answers[cached.number][state] = answers
            self._answer_count += 1
        return len(view)


class _PodmStates:
    """Numbers for the states of podms: one number, one podm, the same free blocks and amounts."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._numbers: dict[tuple[object, ...], int] = {}
        self.current: list[int | None] = [None] * len(view.podms)  # by podm, where known
        self._entries = view.block_counts.start[view.first_row].tolist()
        self._podm_entries = view.podm_block_counts.start.tolist()

    def __len__(self) -> int:
        return len(self._numbers)

    def change(self, podm: int) -> None:
        self.current[podm] = None

    def clear(self) -> None:
        """Forget all numbers: the next ones begin anew."""
        self._numbers.clear()
        self.current = [None] * len(self.current)

    def number(self, podm: int) -> int:
        """Return the number of the state that a podm is in."""
        number = self.current[podm]
        if number is None:
            number = self._numbers.setdefault(self._state(podm), len(self._numbers))
            self.current[podm] = number
        return number

    def _state(self, podm: int) -> tuple[object, ...]:
        pools, podms = self._entries, self._podm_entries
        return (
            podm,
            self._view.block_counts.free[pools[podm] : pools[podm + 1]].tobytes(),
            self._view.podm_block_counts.free[podms[podm] : podms[podm + 1]].tobytes(),
            *[stock.used for stock in self._view.block_tables[podm].stocks],
        )
