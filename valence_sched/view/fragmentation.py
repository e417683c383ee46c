# SPDX-License-Identifier: Apache-2.0
"""The fragmentation of a site: the share of the free amount of a resource useless for a mix."""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from msgspec import structs

from valence_sched.errors import UnknownName
from valence_sched.model.need import ACCELERATORS, MEASURES, Need, measure_name
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.view.blocks import BlockTable
from valence_sched.view.mix_room import OTHERS_FACTOR, MixRoom
from valence_sched.view.remaining import ORDER, mean_amounts
from valence_sched.view.view import Floats, View

MOST_MEASURED = 50_000  # cached states of podms


class FlavorMix:
    """The shares of a mix that need the measured ``resource``, at least one; it has no amount."""

    def __init__(self, shares: Sequence[FlavorShare], resource: Need) -> None:
        self.resource = resource
        measured = [share for share in shares if any(map(self._is_measured, share.needs))]
        self._room = MixRoom(Mix(tuple(measured)))

    def _is_measured(self, need: Need) -> bool:
        return need.amount > 0 and need.as_measure == self.resource

    def useless_and_free(self, view: View) -> tuple[Floats, Floats]:
        """Return the free amounts of the resource by row: those useless for the mix, and all.

        The useless amount is the weighted mean over the shares: all if no node fits, else blocks
        without the requested devices, stocks without a grant, and the amount beyond
        ``OTHERS_FACTOR`` times that of the nodes which the other free resources allow.
        """
        room, free = self._room, view.free(self.resource)
        useless = free.copy()
        weights = room.weight_table(view.traits)[:, view.traits.codes]
        for needs, weight in zip(room.needs, weights, strict=True):
            useless -= weight * self._usable(needs, view)
        return np.maximum(useless, 0.0), free  # rounding may make a 0 negative

    def _serving(self, needs: Sequence[Need], view: View) -> Floats:
        """Return the free amount by row of the blocks or stocks that serve one of the needs."""
        if self.resource.kind == "stock":
            grants = view.stock(self.resource.resource).by_stock
            counts = grants.counts(np.array([[need.amount] for need in needs]))
            return grants.sums(grants.free * (counts > 0.0).any(axis=0))
        amounts = view.kinds.amounts
        serves = np.logical_or.reduce([amounts(need) > 0.0 for need in needs])
        return view.block_counts.sum(amounts(self.resource) * serves, free=True)

    def _usable(self, needs: Sequence[Need], view: View) -> Floats:
        """Return the free amount by row that nodes with these needs can use."""
        fits = np.ones(len(view), dtype=bool)
        measured = list(filter(self._is_measured, needs))
        usable, of_node = self._serving(measured, view), sum(map(Need.total_amount, measured))
        for need in needs:
            if need.kind == "stock":
                grants = view.stock(need.resource).by_stock
                sizes, counts = grants.sizes_and_counts(np.array([[need.amount]]))
                fits = fits & (grants.sums(counts)[0] >= need.count)
                nodes = grants.sums(grants.free / sizes)[0] / need.count
            else:
                have = view.block_counts.sum(view.kinds.amounts(need), free=True)
                fits, nodes = fits & (have >= need.amount), have / need.amount
            if need not in measured:
                usable = np.minimum(usable, nodes * (of_node * OTHERS_FACTOR))
        return usable * fits


def usable_mix(view: View, mix: Mix, of: str | None = None) -> FlavorMix | None:
    """Return a mix compiled for the measured resource, ``of`` if given; None without any resource.

    The default is accelerators if a flavor needs them, else the scarcest resource: its total in all
    rows, divided by its mean amount in a node of the mix, is least. Flavors that need a resource of
    which no row has any do not count. UnknownName: no flavor needs ``of``.
    """

    def has(need: Need) -> bool:
        total = view.total(structs.replace(need, tests=()))
        return not need.amount or need.unknown == "allow" or bool(total.any())

    shares = [share for share in mix.shares if all(map(has, share.needs))]
    means, cards = mean_amounts(*shares), MEASURES[ACCELERATORS]
    totals = ((one, float(view.total(one).sum())) for one in sorted(means, key=ORDER))
    nodes = {one: total / means[one] for one, total in totals if total}
    if not nodes:
        return None
    if of is None:
        return FlavorMix(shares, cards if cards in nodes else min(nodes, key=nodes.__getitem__))
    named = {measure_name(one): one for one in nodes}
    if of not in named:
        raise UnknownName("resource", of, named)
    return FlavorMix(shares, named[of])


# the useless and the whole free amount
Amounts = tuple[float, float]


class FragmentationMeasure:
    """Measures the fragmentation of a changing View; each state of a podm is measured once.

    ``view`` returns the present View; ``spend`` receives each number of podms to measure.
    """

    def __init__(
        self, view: Callable[[], View], mix: FlavorMix, spend: Callable[[int], None] | None = None
    ) -> None:
        self._view, self._mix, self.resource = view, mix, mix.resource
        self._known: dict[Hashable, Amounts] = {}
        self._latest: list[tuple[BlockTable, Amounts] | None] = [None] * len(view().podms)
        self._spend: Callable[[int], None] | None = None
        self.all_amounts()  # measure the first View before a search
        self._spend = spend

    def all_amounts(self) -> list[Amounts]:
        """Return the useless and the whole free amount of every podm."""
        return self._amounts(range(len(self._latest)))

    def excess(self, podm: int, wanted: float) -> float:
        """Return the useless amount of a podm minus a share of its free amount."""
        ((useless, free),) = self._amounts([podm])
        return useless - wanted * free

    def share(self) -> float:
        """Return the useless share of the free amount; 0 if no amount is free."""
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
