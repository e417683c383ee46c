# SPDX-License-Identifier: Apache-2.0
"""Occupancy: what is in use on a site over time: resources, nodes, pod managers and their price."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from valence_sched.core.fit.fit import Fit
from valence_sched.model.inventory import free_amount
from valence_sched.model.need import MEASURES
from valence_sched.model.replay import NodeSpread, Utilisation
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import View

MEASURED = ("cores", "memory_mib", "accelerators", "drives")
PRICE = "price"  # the fact of a pod manager: of one hour
EVENTS = ("requested", "placed", "refused", "undecided")
MOST_SUMS = 10_000  # sets of kinds of blocks whose amounts are remembered
DECIMALS = 6

MOST_BUCKETS = 200  # then two at a time become one


class Bucket:
    """What a closed bucket holds: the mean of each level, its counts, and a sample at its end."""

    __slots__ = ("counts", "means", "sample")

    def __init__(self, means: list[float], counts: list[int], sample: float | None) -> None:
        self.means, self.counts, self.sample = means, counts, sample

    def merged(self, later: Bucket) -> Bucket:
        """Return this bucket and the one after it, of equal length, as one."""
        means = [(one + other) / 2 for one, other in zip(self.means, later.means, strict=True)]
        counts = [one + other for one, other in zip(self.counts, later.counts, strict=True)]
        return Bucket(means, counts, later.sample)


class Timeline:
    """Levels that change at moments in order, and events that are counted.

    ``levels`` may be read at any time and are changed by :meth:`change`, after :meth:`advance` to
    the moment. Memory does not grow with time: when there are ``MOST_BUCKETS``, each two become
    one. ``sample`` is called at the end of each bucket.
    """

    def __init__(
        self,
        start: float,
        width: float,
        levels: Sequence[float],
        counts: int,
        sample: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.start, self.width = start, width
        self.levels = list(levels)
        self.counts = [0] * counts  # of the open bucket
        self.buckets: list[Bucket] = []
        self._sample = sample
        self._open()

    def advance(self, moment: float) -> None:
        """Close the buckets that end until a moment, not before the latest one."""
        while moment >= self.end:
            self._close(self.end)
            if len(self.buckets) >= MOST_BUCKETS:
                pairs = zip(self.buckets[::2], self.buckets[1::2], strict=True)
                self.buckets = [one.merged(other) for one, other in pairs]
                self.width *= 2
            self._open()

    def change(self, changes: Sequence[tuple[int, float]], sign: float, moment: float) -> None:
        """Add to levels, by their number, ``sign`` times an amount at a moment."""
        levels, integral, rest = self.levels, self._integral, self.end - moment
        for number, amount in changes:
            change = sign * amount
            levels[number] += change
            integral[number] += change * rest

    def finish(self, moment: float) -> None:
        """Close the last bucket at a moment; one of no length has its counts in the one before."""
        self.advance(moment)
        begin = self.end - self.width
        if moment > begin or not self.buckets:
            self._close(moment)
            return
        last = self.buckets[-1]
        last.counts = [one + other for one, other in zip(last.counts, self.counts, strict=True)]
        last.sample = self._sample()

    def mean(self, number: int, end: float) -> float:
        """Return the mean of a level from the start to the end at which it was finished."""
        lengths = [self.width] * len(self.buckets)
        lengths[-1] = end - self.start - self.width * (len(lengths) - 1)
        whole = sum(lengths)
        if whole <= 0.0:
            return self.buckets[-1].means[number]
        parts = zip(self.buckets, lengths, strict=True)
        return sum(bucket.means[number] * length for bucket, length in parts) / whole

    def _open(self) -> None:
        self.end = self.start + self.width * (len(self.buckets) + 1)
        self._integral = [level * self.width for level in self.levels]

    def _close(self, moment: float) -> None:
        begin = self.start + self.width * len(self.buckets)
        length, missing = moment - begin, self.end - moment
        means = list(self.levels)
        if length > 0.0:
            pairs = zip(self._integral, self.levels, strict=True)
            means = [(integral - level * missing) / length for integral, level in pairs]
        self.buckets.append(Bucket(means, self.counts, self._sample()))
        self.counts = [0] * len(self.counts)


Changes = tuple[tuple[int, float], ...]  # amounts by the number of their level


class Occupancy:
    """Follows nodes that are taken and given back on a View, and what they use.

    A block is in use when no further node can use it, as lists of pod managers count.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        amounts, counts = view.kinds.amounts, view.podm_block_counts
        measured = {name: amounts(MEASURES[name]) for name in MEASURED}
        totals, free = (
            {name: float(counts.sum(each, free=only).sum()) for name, each in measured.items()}
            for only in (False, True)
        )
        for resource in sorted(view.resources):  # memory may be in blocks and in stocks
            totals.setdefault(resource, 0.0)
            free.setdefault(resource, 0.0)
        for stock in (stock for table in view.block_tables for stock in table.stocks):
            totals[stock.resource] += stock.total or 0.0  # one without a total counts nothing
            free[stock.resource] += free_amount(stock)
        self.totals = totals
        self._levels = [totals[name] - free[name] for name in totals]
        self._number = {name: number for number, name in enumerate(self.totals)}
        self._nodes, self._podms, self._price = range(len(self._levels), len(self._levels) + 3)
        self._kind_changes = [
            tuple((number, float(each[kind])) for number, each in enumerate(measured.values())
                  if each[kind])
            for kind in range(len(view.kinds))
        ]  # fmt: skip
        self._sums: BoundedMemo[tuple[int, ...], Changes] = BoundedMemo(MOST_SUMS)
        self._nodes_on = [len(podm.nodes) for podm in view.podms]
        self._placed_on = [0] * len(view.podms)
        self._prices = [_price(podm.facts.get(PRICE)) for podm in view.podms]
        self.most_on_one = max(self._nodes_on, default=0)
        in_use = [podm for podm, nodes in enumerate(self._nodes_on) if nodes]
        price = sum(self._prices[podm] or 0.0 for podm in in_use)
        self._levels += [sum(self._nodes_on), len(in_use), price]
        self._peaks = list(self._levels)

    def start(self, moment: float, width: float, sample: Callable[[], float | None]) -> Timeline:
        """Return the timeline that this occupancy is written on; its first bucket is so wide."""
        self._timeline = Timeline(moment, width, self._levels, len(EVENTS), sample)
        return self._timeline

    def take(self, moment: float, podm: int, fit: Fit, after: BlockTable) -> None:
        """Note a node that was taken; ``after`` is the block table of the podm since then."""
        slots, kinds = after.slots, after.kinds
        full = tuple([kinds[block] for block in fit.blocks if not slots[block]])
        changes = self._changes(full, fit, after)
        timeline, peaks = self._timeline, self._peaks
        timeline.change(changes, 1.0, moment)
        self._nodes_on[podm] += 1
        self._placed_on[podm] += 1
        self._count_node(moment, podm, 1)
        levels = timeline.levels
        for number, _ in changes:
            if levels[number] > peaks[number]:
                peaks[number] = levels[number]
        if self._nodes_on[podm] > self.most_on_one:
            self.most_on_one = self._nodes_on[podm]
        for number in (self._nodes, self._podms):
            if levels[number] > peaks[number]:
                peaks[number] = levels[number]

    def give_back(self, moment: float, podm: int, fit: Fit, before: BlockTable) -> None:
        """Note a node that departed; ``before`` is the block table of the podm until then."""
        slots, kinds = before.slots, before.kinds
        full = tuple([kinds[block] for block in fit.blocks if not slots[block]])
        self._timeline.change(self._changes(full, fit, before), -1.0, moment)
        self._nodes_on[podm] -= 1
        self._count_node(moment, podm, -1)

    def spread(self, end: float) -> NodeSpread:
        """Return how many nodes the pod managers have."""
        nodes, podms = (self._timeline.mean(number, end) for number in (self._nodes, self._podms))
        names = self._view.podms
        return NodeSpread(
            mean=rounded(nodes / podms) if podms else 0.0,
            most=self.most_on_one,
            placed={names[podm].id: count for podm, count in enumerate(self._placed_on) if count},
        )

    def utilisation(self, end: float) -> dict[str, Utilisation]:
        """Return mean and peak of each resource of which there is any."""
        return {
            name: Utilisation(
                total=total,
                mean=rounded(self._timeline.mean(number, end) / total),
                peak=rounded(self._peaks[number] / total),
            )
            for number, (name, total) in enumerate(self.totals.items())
            if total
        }

    def used_shares(self) -> dict[str, tuple[float, ...]]:
        """Return the mean share of each resource in use, by bucket."""
        return {
            name: tuple(rounded(one.means[number] / total) for one in self._timeline.buckets)
            for number, (name, total) in enumerate(self.totals.items())
            if total
        }

    def means_by_bucket(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the mean numbers of nodes and of pod managers in use, by bucket."""
        buckets = self._timeline.buckets
        nodes, podms = (tuple(rounded(one.means[number]) for one in buckets)
                        for number in (self._nodes, self._podms))  # fmt: skip
        return nodes, podms

    @property
    def peak_nodes(self) -> int:
        return round(self._peaks[self._nodes])

    @property
    def peak_podms(self) -> int:
        return round(self._peaks[self._podms])

    def cost(self, end: float) -> float | None:
        """Return the price of all hours in which pod managers had nodes, None without any price."""
        hours = (end - self._timeline.start) / 3600.0
        if not hours or all(price is None for price in self._prices):
            return None
        return rounded(self._timeline.mean(self._price, end) * hours)

    def _count_node(self, moment: float, podm: int, number: int) -> None:
        changes: tuple[tuple[int, float], ...] = ((self._nodes, 1.0),)
        if self._nodes_on[podm] == (number > 0):  # the first one, or the last one
            changes = (*changes, (self._podms, 1.0), (self._price, self._prices[podm] or 0.0))
        self._timeline.change(changes, number, moment)

    def _changes(self, kinds: tuple[int, ...], fit: Fit, table: BlockTable) -> Changes:
        changes = self._sums.get(kinds)
        if changes is None:
            sums: dict[int, float] = {}
            for number, amount in (pair for kind in kinds for pair in self._kind_changes[kind]):
                sums[number] = sums.get(number, 0.0) + amount
            changes = self._sums.store(kinds, tuple(sums.items()))
        if not fit.grants:
            return changes
        stocks = ((table.stocks[number], amount) for number, amount in fit.grants)
        grants = ((self._number[stock.resource], amount) for stock, amount in stocks
                  if stock.total is not None)  # fmt: skip
        return (*changes, *grants)


def rounded(number: float) -> float:
    """Return a number as results have it: without the last digits of sums."""
    return round(number, DECIMALS) + 0.0


def _price(fact: object) -> float | None:
    price = fact if isinstance(fact, float | int) else None
    return float(price) if price is not None and math.isfinite(price) and price >= 0 else None
