# SPDX-License-Identifier: Apache-2.0
"""The fragmentation of a site: the share of its free accelerators that is useless for a mix."""

import itertools
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from valence_sched.model.need import MEASURES, Need
from valence_sched.model.request import Mix
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import BlockTable
from valence_sched.view.leftover import Leftover, leftover
from valence_sched.view.mix_room import OTHERS_FACTOR, accepted, distinct_needs
from valence_sched.view.view import Floats, View

ACCELERATORS = "accelerators"
MOST_MEASURED = 50_000  # cached states of podms


class FlavorMix:
    """The shares of a mix that need accelerators.

    Shares that differ only in traits have the same list of needs.
    """

    def __init__(self, mix: Mix) -> None:
        self._shares = [share for share in mix.shares if any(map(_is_scarce, share.needs))]
        weights = np.array([share.weight for share in self._shares])
        self._weights = weights / weights.sum() if len(weights) else weights
        self._needs, self._needs_of = distinct_needs(self._shares)
        flat = itertools.chain.from_iterable(self._needs)
        self._stocks = tuple(sorted({need.resource for need in flat if need.kind == "stock"}))

    def __bool__(self) -> bool:
        return bool(self._shares)

    def useless_and_free(self, view: View) -> tuple[Floats, Floats]:
        """Return the numbers of free accelerators by row: those useless for the mix, and all.

        The useless number is the weighted mean over the shares. If no node of a share fits in the
        row, all free accelerators are useless. Otherwise accelerators of another kind are useless.
        Accelerators beyond a limit are useless, too: the other free resources allow a number of
        nodes, and ``OTHERS_FACTOR`` times the accelerators of these nodes is the limit.
        """
        rows = leftover(view, self._stocks, blocks=True)
        free: Floats = _accelerators(view.kinds) @ rows.blocks
        accepts = accepted(self._shares, view.traits)
        weight_table = np.zeros((len(self._needs), accepts.shape[1]))  # by list of needs and traits
        np.add.at(weight_table, self._needs_of, self._weights[:, None] * accepts)
        useless, weights = free.copy(), weight_table[:, view.traits.codes]
        for needs, weight in zip(self._needs, weights, strict=True):
            useless -= weight * self._usable(needs, rows)
        return useless, free

    def _usable(self, needs: Sequence[Need], rows: Leftover) -> Floats:
        """Return the number of free accelerators by row that nodes with these needs can use."""
        kinds, fits = rows.kinds, np.ones(len(rows), dtype=bool)
        scarce = [need for need in needs if _is_scarce(need)]
        serves = np.logical_or.reduce([kinds.amounts(need) > 0.0 for need in scarce])
        usable: Floats = (_accelerators(kinds) * serves) @ rows.blocks
        of_node = sum(need.amount for need in scarce)
        for need in needs:
            if need.kind == "stock":
                grants = rows.stocks[need.resource]
                sizes, counts = grants.sizes_and_counts(np.array([[need.amount]]))
                fits = fits & (grants.sums(counts)[0] >= need.count)
                nodes = grants.sums(grants.free / sizes)[0] / need.count
            else:
                have = kinds.amounts(need) @ rows.blocks
                fits, nodes = fits & (have >= need.amount), have / need.amount
            if not _is_scarce(need):
                usable = np.minimum(usable, nodes * (of_node * OTHERS_FACTOR))
        return usable * fits


def usable_mix(view: View, mix: Mix) -> FlavorMix | None:
    """Return a compiled mix; None if the View has no accelerator or no flavor needs one."""
    if not mix.shares or not has_accelerators(view):
        return None
    return FlavorMix(mix) or None


def has_accelerators(view: View) -> bool:
    """Return whether any row has an accelerator, free or in use."""
    return bool((view.block_counts.sum(_accelerators(view.kinds), free=False) > 0.0).any())


def _is_scarce(need: Need) -> bool:
    return need.kind == "accelerator" and need.amount > 0


def _accelerators(kinds: BlockKinds) -> Floats:
    return kinds.amounts(MEASURES[ACCELERATORS])


# the numbers of useless and of all free accelerators
Amounts = tuple[float, float]


class FragmentationMeasure:
    """Measures the fragmentation of a changing View; each state of a podm is measured once.

    ``view`` returns the present View; ``spend`` receives each number of podms to measure.
    """

    def __init__(
        self, view: Callable[[], View], mix: FlavorMix, spend: Callable[[int], None] | None = None
    ) -> None:
        self._view, self._mix = view, mix
        self._known: dict[Hashable, Amounts] = {}
        self._latest: list[tuple[BlockTable, Amounts] | None] = [None] * len(view().podms)
        self._spend: Callable[[int], None] | None = None
        self.all_amounts()  # measure the first View before a search
        self._spend = spend

    def all_amounts(self) -> list[Amounts]:
        """Return the numbers of useless and of all free accelerators of every podm."""
        return self._amounts(range(len(self._latest)))

    def excess(self, podm: int, wanted: float) -> float:
        """Return the useless accelerators of a podm minus a share of its free accelerators."""
        ((useless, free),) = self._amounts([podm])
        return useless - wanted * free

    def share(self) -> float:
        """Return the useless share of the free accelerators; 0 if no accelerator is free."""
        amounts = self.all_amounts()
        free = sum(each for _, each in amounts)
        return sum(useless for useless, _ in amounts) / free if free > 0.0 else 0.0

    def _amounts(self, podms: Sequence[int]) -> list[Amounts]:
        view, unknown = self._view(), dict[int, Hashable]()
        tables = view.block_tables
        for podm in podms:
            latest, table = self._latest[podm], tables[podm]
            if latest is None or latest[0] is not table:
                used = tuple(stock.used for stock in table.stocks)
                key: Hashable = (podm, tuple(table.slots), used)
                if (known := self._known.get(key)) is not None:
                    self._latest[podm] = table, known
                else:
                    unknown[podm] = key
        if unknown:
            if self._spend is not None:
                self._spend(len(unknown))  # measuring a podm takes about as long as a fit
            if len(self._known) >= MOST_MEASURED:
                self._known.clear()
            spans = [view.first_row[podm : podm + 2].tolist() for podm in unknown]
            rows = np.concatenate([np.arange(first, last) for first, last in spans])
            useless, free = self._mix.useless_and_free(view.take(rows))
            at = 0
            for (podm, key), (first, last) in zip(unknown.items(), spans, strict=True):
                own = slice(at, at := at + last - first)
                amounts = self._known[key] = float(useless[own].sum()), float(free[own].sum())
                self._latest[podm] = tables[podm], amounts
        return [self._latest[podm][1] for podm in podms]  # type: ignore[index]
