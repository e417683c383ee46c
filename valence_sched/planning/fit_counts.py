# SPDX-License-Identifier: Apache-2.0
"""Fit counts: the number of nodes of a request that fit on each pod manager, one after another.

The counts are lower bounds, since an optimal packing may have more nodes. If a fit is only a set
cover of blocks, each turn places one node on every podm that has room; the counts are the same as
if podms were counted one at a time.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from valence_sched.core.batch import AttemptListener, place, try_alternatives
from valence_sched.core.decider import Decider
from valence_sched.core.evaluation import EvaluationContext, reevaluate
from valence_sched.core.explain.report import undecided_text, unknown_terms
from valence_sched.core.fit.pool_covers import MIN_POOLS, PoolCovers
from valence_sched.core.policy import INFINITE_COST
from valence_sched.core.ranking import draw_lots, rank_rows
from valence_sched.errors import RequestError
from valence_sched.model.decision import FitCounts, PoolRef
from valence_sched.model.request import Request
from valence_sched.view.block_kinds import BlockCounts
from valence_sched.view.columns import BlockArrays, block_arrays
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Ints, View, was_derived


@dataclass(frozen=True, slots=True)
class BlockEntries:
    """The blocks by entry of the block counts, and the entries by block.

    The blocks of entry ``e`` of the pools are ``blocks[start[e]:start[e + 1]]``, those in the
    fewest pools first. The pool entries of block ``b``, numbered across all podms, are
    ``entries[first[b]:first[b + 1]]``; its entry in the block counts of podms is ``podm_entry[b]``.
    """

    start: Ints
    blocks: Ints
    first: Ints
    entries: Ints
    podm_entry: Ints


class BlockSlots:
    """The free slots of all blocks while nodes take them; the View is unchanged."""

    def __init__(self, view: View) -> None:
        arrays = view.memoise_free("block arrays", (), lambda: block_arrays(view.block_tables))
        self._slots = arrays.slots.astype(np.int64)
        self._shared = arrays.shared.copy()
        self.of: BlockEntries = view.memoise_latest(
            ("constant", "block entries"), (), lambda: _block_entries(view, arrays)
        )

    def take(self, entries: Ints, numbers: Ints) -> Ints:
        """Take a slot of ``numbers[n]`` free blocks of pool entry ``entries[n]``.

        The order is that of :meth:`BlockTable.free_blocks`; no block may be in two of the entries.
        Return the blocks that are full now.
        """
        low = self.of.start[entries]
        sizes = self.of.start[entries + 1] - low
        blocks = self.of.blocks[ranges(low, sizes)]
        question = np.repeat(np.arange(len(entries)), sizes)
        free = self._slots[blocks] > 0
        blocks, question = blocks[free], question[free]
        if (shared := self._shared[blocks]).any():
            order = np.lexsort((~shared, question))
            blocks, question = blocks[order], question[order]
        begin = np.searchsorted(question, np.arange(len(entries)))
        chosen = blocks[np.arange(len(blocks)) - begin[question] < numbers[question]]
        self._slots[chosen] -= 1
        self._shared[chosen] = True
        full: Ints = chosen[self._slots[chosen] == 0]
        return full

    def entries(self, blocks: Ints) -> Ints:
        low = self.of.first[blocks]
        entries: Ints = self.of.entries[ranges(low, self.of.first[blocks + 1] - low)]
        return entries


def _block_entries(view: View, arrays: BlockArrays) -> BlockEntries:
    size = len(arrays.kind)
    podm_of = np.repeat(np.arange(len(view.podms)), np.diff(arrays.start))
    pool_numbers = np.array([len(some) for some in arrays.positions], dtype=np.int64)
    flat = np.array([place for some in arrays.positions for place in some], dtype=np.int64)
    starts = np.cumsum(pool_numbers) - pool_numbers
    codes = arrays.pools.astype(np.int64)
    in_pools = pool_numbers[codes]
    block = np.repeat(np.arange(size), in_pools)
    row = view.first_row[podm_of][block] + flat[ranges(starts[codes], in_pools)]
    kinds = len(view.kinds)
    entries = _find_entries(view.block_counts, row, arrays.kind[block], kinds)
    order = np.lexsort((in_pools[block], entries))  # a stable order
    ends = np.searchsorted(entries[order], np.arange(len(view.block_counts.kind) + 1))
    return BlockEntries(
        start=ends,
        blocks=block[order],
        first=np.concatenate(([0], np.cumsum(in_pools))),
        entries=entries,
        podm_entry=_find_entries(view.podm_block_counts, podm_of, arrays.kind, kinds),
    )


def _find_entries(counts: BlockCounts, rows: Ints, kinds: Ints, kind_count: int) -> Ints:
    """Return the existing entries of rows and kinds; ``kind_count`` is larger than all kinds."""
    keys = np.repeat(np.arange(len(counts)), np.diff(counts.start)) * kind_count + counts.kind
    order = np.argsort(keys, kind="stable")
    found: Ints = order[np.searchsorted(keys, rows * kind_count + kinds, sorter=order)]
    return found


def ranges(low: Ints, sizes: Ints) -> Ints:
    """Return the concatenation of the ranges that begin at ``low`` and have these ``sizes``."""
    ends = np.cumsum(sizes)
    ranges: Ints = np.repeat(low - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)
    return ranges


NO_ROW = -1
FitCount = tuple[int, int, int | None]  # podm number, nodes, and a pool that may make more


def count_fits(
    decider: Decider, request: Request, most: int, listener: AttemptListener | None = None
) -> FitCounts:
    """Return the number of nodes of a request that fit on each podm, at most ``most``.

    The warnings are as for a decision. A ``listener`` receives each podm with its attempts; this
    takes longer.
    """
    group = request.group
    if group is not None and group.hard:  # each pod manager is counted alone
        apart = {*group.anti_affinity, *group.at_most}
        firm = any(not rule.soft for rule in group.spread)
        if group.affinity or firm or apart - {"podm"}:
            text = "counts by pod manager allow only the rules anti-affinity and at-most per podm"
            raise RequestError(f"group {group.name!r}: {text}: remove the other rules")
    context = decider.context(request)
    view, counts, open_pools = context.view, [], []
    warnings = [*context.evaluation.notes, *unknown_terms(view, context.request)]
    for podm, number, row in counts_by_podm(context, most, listener):
        counts.append((view.podms[podm].id, number))
        if row is not None:
            open_pools.append(PoolRef(podm=view.podms[podm].id, pool=view.pools[row].id))
    decider.check_decided(open_pools, context.bound.policy)
    if open_pools:
        warnings.append(undecided_text(open_pools, context.bound.policy))
    return FitCounts(
        podms=tuple(counts),
        warnings=tuple(dict.fromkeys(warnings)),
        undecided=tuple(pool.podm for pool in open_pools),
    )


def counts_by_podm(
    context: EvaluationContext, most: int, listener: AttemptListener | None = None
) -> Iterator[FitCount]:
    """Yield ``(podm number, nodes, undecided row or None)``; with a listener one at a time."""
    counts = None
    request, readers = context.request, context.evaluation.group_state_readers
    can_share = not request.other_alternatives and not readers
    can_share = can_share and context.bound.policy.pick.best_of == 1
    if listener is None and can_share and context.fitter.covers_blocks_alone:
        counts = _CoverRounds(context, most).run()
    if counts is not None:
        yield from counts
        return
    best_first = functools.partial(place, order=rank_rows)
    for podm in range(len(context.view.podms)):
        first, last = context.view.first_row[podm : podm + 2].tolist()
        attempts = try_alternatives(context.window(first, last, most), best_first)
        if listener is not None:
            listener(podm, attempts)
        number = sum(len(attempt.batch.nodes) for attempt in attempts)
        undecided = set().union(*(one.batch.undecided_rows for one in attempts))
        yield podm, number, first + min(undecided) if undecided and number < most else None


class _CoverRounds:
    """Places nodes that are set covers of blocks alone, each in the best pool that it fits.

    A pool keeps its cover while the blocks of the cover are free (``pool_covers``). Block tables
    are not updated, so no plug-in may read them.
    """

    def __init__(self, context: EvaluationContext, most: int, min_pools: int = MIN_POOLS) -> None:
        self._context, self._most = context, most
        self._overlay = Overlay(context.view)
        self._evaluation = context.evaluation.copy()
        self._lots = draw_lots(context.view.lot, context.request)
        self._covers = PoolCovers(context.fitter, self._overlay.view, min_pools)
        self._slots = BlockSlots(context.view)
        self._open: dict[int, int] = {}  # the first pool of a podm that may make more

    def run(self) -> list[FitCount] | None:
        """Return the count of each podm; None if a plug-in fails or reads block tables."""
        podms = np.arange(len(self._context.view.podms))
        counts = np.zeros(len(podms), dtype=np.int64)
        failed = set(self._evaluation.failed_plugins)
        for turn in range(self._most):
            podms, rows = self._choose(podms)
            if not len(podms):
                break
            counts[podms] += 1
            if turn + 1 < self._most:
                counts_alone = self._take(podms, rows)
                if not counts_alone or self._evaluation.failed_plugins != failed:
                    return None
        return [
            (podm, count, self._open.get(podm) if count < self._most else None)
            for podm, count in enumerate(counts.tolist())
        ]

    def _choose(self, podms: Ints) -> tuple[Ints, Ints]:
        view, cost, covers = self._overlay.view, self._evaluation.cost, self._covers
        rows, sizes = self._rows(podms)
        rows = rows[np.lexsort((self._lots[rows], cost[rows], view.podm_of[rows]))]
        passing = cost[rows] != INFINITE_COST
        free = covers.free(rows)
        has_cover = covers.holds(rows, free)
        ends = np.cumsum(sizes)
        begins = ends - sizes  # the best pool of each podm; rows that do not pass are sorted last
        chosen = np.where(passing[begins] & has_cover[begins], rows[begins], NO_ROW)
        for number in (passing[begins] & ~has_cover[begins]).nonzero()[0].tolist():
            for position in range(begins[number], ends[number]):
                row = int(rows[position])
                if not passing[position]:
                    break
                if has_cover[position] or covers.find(row, free[position]):
                    chosen[number] = row
                    break
                if row in covers.undecided_rows:
                    podm = int(podms[number])
                    self._open[podm] = min(row, self._open.get(podm, row))
        making = chosen != NO_ROW
        return podms[making], chosen[making]

    def _rows(self, podms: Ints) -> tuple[Ints, Ints]:
        first_row = self._context.view.first_row
        low = first_row[podms]
        sizes = first_row[podms + 1] - low
        return ranges(low, sizes), sizes

    def _take(self, podms: Ints, rows: Ints) -> bool:
        """Take a node of each podm, and evaluate its rows; false if block tables were read."""
        context, slots = self._context, self._slots
        full = slots.take(*self._covers.of(rows))
        if len(full):
            self._overlay.reduce_counts(slots.entries(full), slots.of.podm_entry[full])
        rows, _ = self._rows(podms)
        view = self._overlay.view.take_podms(podms)
        view.precompute_free(context.request.needs)
        part = self._evaluation.select(rows)
        reevaluate(view, context.request, context.bound, part, strict=context.strict)
        self._evaluation.write(rows, part)
        return not was_derived(view, "block_tables")
