# SPDX-License-Identifier: Apache-2.0
"""Timeline: means of levels and sums of counts over time, in a bounded number of buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        """Close the open bucket at a moment within it."""
        begin = self.start + self.width * len(self.buckets)
        length, missing = moment - begin, self.end - moment
        means = list(self.levels)
        if length > 0.0:
            pairs = zip(self._integral, self.levels, strict=True)
            means = [(integral - level * missing) / length for integral, level in pairs]
        self.buckets.append(Bucket(means, self.counts, self._sample()))
        self.counts = [0] * len(self.counts)
