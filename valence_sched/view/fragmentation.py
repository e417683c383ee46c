# SPDX-License-Identifier: Apache-2.0
"""The compiled mix of flavors: the expected fragmentation of a scarce resource per row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from valence_sched.model.need import MEASURES, NameRequirements, Need
from valence_sched.model.request import FlavorShare, Mix, MixSupplies, exact_sum
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import BlockTable
from valence_sched.view.leftover import Leftover, leftover
from valence_sched.view.stocks import StockGrants
from valence_sched.view.view import Floats, Ints, Labels, Mask, View

MOST_SCARCITY = 1000.0  # the scarcity of a share with hardly any supply
MOST_COUNTED = 1e6  # the largest factor of a share, with its protection
#: The factor and the power of the weight of shares that run out sooner.
UNEVEN_WEIGHT = 10.0
UNEVEN_POWER = 2
PROTECTION_WEIGHT = 10.0  # weight of a unit that is certainly needed
LEAST_PROTECTION = 0.001  # lower probabilities count as 0


class ShareSupply(Struct, frozen=True):
    """The amounts of all pools for one share of a mix, in the unit of the scarce resource.

    ``weight`` is the fraction of requests that belong to the share. One node of the share needs
    ``amount``. Nodes of the share can use ``usable`` of the free amount, and ``total`` of the whole
    amount, free or in use. ``hardware`` identifies the hardware that the share names; None if it
    names no hardware.
    """

    weight: float
    amount: float
    usable: float
    total: float
    hardware: Hashable | None


def scarcity(
    supplies: Sequence[ShareSupply], one: float, *, protect: bool = False
) -> tuple[float, ...]:
    """Return the factor of the weight of each share, 1 for a share that is not scarce.

    The factor of a share that names hardware is ``(best + one) / (own + one)``, at most
    ``MOST_SCARCITY``. ``own`` is the usable amount of the share, ``best`` that of the share with
    the largest usable amount. ``one`` is one device, or the largest amount that a share needs of
    one stock. The growth of the fragmentation is then the gradient of ``-sum(weight ×
    log(supply))``.

    ``protect`` changes three things. First, a share with the largest total counts as naming no
    hardware. Second, if any share still names hardware, every share gets such a factor, multiplied
    by ``1 + UNEVEN_WEIGHT × (u ** UNEVEN_POWER − 1)``, where ``u`` is its :func:`unevenness`.
    Third, shares with the same named hardware and number of cards are one kind of request. Each
    kind adds to the factors of its shares: ``PROTECTION_WEIGHT`` times its :func:`protection`,
    divided by its weight in the mix. Requests for one card that name no hardware add 0.
    """
    if not supplies:
        return ()
    best = max(supplies, key=lambda supply: supply.usable)
    most = max(supply.total for supply in supplies)
    named = [
        supply.hardware is not None and not (protect and supply.total >= most)
        for supply in supplies
    ]
    counted = [1.0] * len(supplies)
    for number, supply in enumerate(supplies):
        if supply.usable < best.usable and (named[number] or (protect and any(named))):
            counted[number] = min((best.usable + one) / (supply.usable + one), MOST_SCARCITY)
            if protect:
                uneven = unevenness(best, supply, one) ** UNEVEN_POWER
                counted[number] *= 1.0 + UNEVEN_WEIGHT * (uneven - 1.0)
    if protect:
        asked = math.fsum(supply.weight * supply.amount for supply in supplies)
        for numbers in _kinds(supplies, named, one):
            kind = [supplies[number] for number in numbers]
            weight = math.fsum(supply.weight for supply in kind)
            amount = math.fsum(supply.weight * supply.amount for supply in kind) / weight
            usable = math.fsum(supply.weight * supply.usable for supply in kind) / weight
            share = protection(weight * best.usable / asked, usable / amount)
            for number in numbers:
                counted[number] += PROTECTION_WEIGHT * share / weight
    return tuple(min(number, MOST_COUNTED) for number in counted)


def protection(expected: float, room: float) -> float:
    """Return the probability that a kind is requested more often than there is room for.

    ``expected`` is the number of nodes of the kind that the mix requests until all free hardware is
    used. ``room`` is the number of nodes of the kind that the free hardware makes, at least 1. A
    unit that is reserved for the kind is used with the returned probability (Littlewood's rule of
    revenue management). The number of requested nodes has a Poisson distribution. Its tail is a
    tail of the chi-squared distribution, computed by the cube-root approximation of Wilson and
    Hilferty (1931) and limited to Markov's bound.
    """
    room = max(room, 1.0)
    if expected <= 0.0:
        return 0.0
    ratio, ninth = expected / room, 1.0 / (9.0 * room)
    deviations = (ratio ** (1.0 / 3.0) - (1.0 - ninth)) / math.sqrt(ninth)
    tail = min(0.5 * math.erfc(-deviations / math.sqrt(2.0)), ratio)
    return tail if tail >= LEAST_PROTECTION else 0.0


def unevenness(best: ShareSupply, own: ShareSupply, one: float) -> float:
    """Return the free part of the total of ``best`` divided by that of ``own``, at least 1."""
    left = (best.usable + one) / (best.total + one)
    return max(left / ((own.usable + one) / (own.total + one)), 1.0)


def _kinds(
    supplies: Sequence[ShareSupply], named: Sequence[bool], one: float
) -> Iterable[Sequence[int]]:
    """Return the numbers of the shares of each kind of request that is protected."""
    kinds: dict[tuple[Hashable | None, int], list[int]] = {}
    for number, supply in enumerate(supplies):
        cards = math.ceil(supply.amount / one)
        if named[number] or cards > 1:
            key = supply.hardware if named[number] else None, cards
            kinds.setdefault(key, []).append(number)
    return kinds.values()


def exact_sums(table: Floats) -> list[tuple[float, ...]]:
    """Return for each line of a table of finite numbers a few floats with its exact sum.

    Each round splits off leading digits of all numbers, few enough for a sum without rounding:
    ``ExtractVector`` of Rump, Ogita, Oishi, "Accurate Floating-Point Summation" (2008).
    """
    parts: list[list[float]] = [[] for _ in range(len(table))]
    if not table.size:
        return [()] * len(table)
    rest = table
    room = int(table.shape[1] + 1).bit_length()
    while len(lines := np.flatnonzero(rest.any(axis=1))):
        _, exponents = np.frexp(np.abs(rest).max(axis=1, keepdims=True))
        unit = np.ldexp(1.0, exponents + room)
        leading = (unit + rest) - unit
        rest = rest - leading
        sums = leading.sum(axis=1)
        for line in lines.tolist():
            if sums[line]:
                parts[line].append(float(sums[line]))
    return [tuple(some) for some in parts]


ACCELERATORS = "accelerators"  # the scarce resource that is not a stock but devices of blocks
#: Free cards beyond those of large nodes still count: lighter nodes of the mix can use them.
LIGHTER_NODES_FACTOR = 2.5
#: The factor of the weight of shares that name traits, for all other needs.
OTHER_NEEDS_WEIGHT = 5.0
MANY_ROWS = 256  # from this number of rows on, adding line by line is faster


class MixSupply(NamedTuple):
    """The supply of some rows to the mix.

    ``have`` is the amount of each line of the mix per row, shape ``(lines, rows)``. ``fractions``
    is the same, not rounded down to whole grants; it is infinite for the scarce resource.
    ``useful`` is the free amount of the scarce resource whose kind and size suit each list of
    needs, shape ``(needs, rows)``. ``free`` is the whole free amount of the scarce resource.
    """

    have: Floats
    fractions: Floats
    useful: Floats
    free: Floats

    def columns(self, rows: Ints | slice) -> MixSupply:
        """Return the supply of some rows."""
        return MixSupply(*(amounts[..., rows] for amounts in self))


class FlavorMix:
    """The shares of a mix that need one scarce resource, with the demands of each on a row.

    ``scarce_resource`` is a stock resource, or ``accelerators`` of blocks. ``largest_request`` is
    the largest amount that a share needs of one stock, or one device.
    """

    def __init__(self, shares: Sequence[FlavorShare], scarce_resource: str) -> None:
        self.scarce_resource = scarce_resource
        scarce = [bool(self._scarce_needs(share.needs)) for share in shares]
        self._indices = [number for number, one in enumerate(scarce) if one]
        self._share_count = len(shares)
        self._shares = [shares[number] for number in self._indices]
        weights = np.array([share.weight for share in self._shares])
        self._weights = weights / weights.sum() if len(weights) else weights
        self._useful = np.empty((0, 0))
        self._table: tuple[Sequence[Any] | None, tuple[Sequence[float], bool], Floats]
        self._table = None, ((), False), self._useful
        self._hardware = list(map(_named_hardware, self._shares))
        names_traits = [share.traits != NameRequirements() for share in self._shares]
        self._names_traits = np.array(names_traits, dtype=bool)
        numbers: dict[tuple[Need, ...], int] = {}
        #: The number of the list of needs of each share: shares that differ only in traits have
        #: equal numbers.
        self._needs_of = [
            numbers.setdefault(tuple(need for need in share.needs if need.amount > 0), len(numbers))
            for share in self._shares
        ]
        self._needs_weights = np.bincount(self._needs_of, self._weights, len(numbers))
        needs = list(numbers)
        flat = list(itertools.chain.from_iterable(needs))
        stocks = sorted({(need.resource, need.amount) for need in flat if need.kind == "stock"})
        self._stocks = {
            name: np.array([[amount] for _, amount in group])
            for name, group in itertools.groupby(stocks, key=lambda line: line[0])
        }
        self._amounts = stocks
        self._blocks = tuple(dict.fromkeys(need for need in flat if need.kind != "stock"))
        lines: dict[object, int] = {line: number for number, line in enumerate(stocks)}
        lines |= {need: len(stocks) + number for number, need in enumerate(self._blocks)}
        line = np.array(
            [lines[(need.resource, need.amount) if need.kind == "stock" else need] for need in flat]
        )
        # the demand of a need on its line: a number of grants, or an amount of blocks
        least = np.array([[one.count if one.kind == "stock" else one.amount] for one in flat])
        self._scarce = [self._scarce_needs(some) for some in needs]
        smallest = [min(need.amount for need in some) for some in self._scarce]
        amounts = [amount for name, amount in stocks if name == scarce_resource]
        self._unit = [amounts.index(amount) for amount in smallest] if amounts else []
        self.largest_request = float(max(amounts, default=1.0))
        amounts_per_node = [
            sum(need.amount * (need.count if need.kind == "stock" else 1) for need in some)
            for some in self._scarce
        ]
        amounts_per_need = np.repeat(amounts_per_node, [len(some) for some in needs])
        #: One element for the first need of every list of needs, one for the second, and so on. An
        #: element has the lines of these needs, the amounts that a node takes of them, and the
        #: amount of the scarce resource that one unit makes usable. Shorter lists repeat their last
        #: need.
        self._terms = []
        if needs:
            rate = amounts_per_need[:, None] * (LIGHTER_NODES_FACTOR / least)
            sizes = np.array([len(some) for some in needs])
            first = np.cumsum(sizes) - sizes
            for number in range(sizes.max()):
                terms = first + np.minimum(number, sizes - 1)
                self._terms.append((line[terms], least[terms], rate[terms]))
        cards = scarce_resource == ACCELERATORS
        self._node_amounts = [amounts_per_node[number] for number in self._needs_of]
        endless = [cards and need.kind == "accelerator" for need in self._blocks]
        self._endless = np.where(endless, np.inf, 0.0)[:, None]

    def __bool__(self) -> bool:
        return bool(self._shares)

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(self._stocks)

    @property
    def uses_blocks(self) -> bool:
        return bool(self._blocks)

    def _scarce_needs(self, needs: Sequence[Need]) -> list[Need]:
        if self.scarce_resource == ACCELERATORS:
            return [need for need in needs if need.kind == "accelerator" and need.amount]
        return [one for one in needs if one.resource == self.scarce_resource and one.amount]

    def weights(
        self, traits: Labels, scarcity: Sequence[float] = (), *, protect: bool = False
    ) -> Floats:
        """Return the weight of the usable amount of each row, by the traits that shares require.

        The shape is ``(needs, rows)``. The weight of each share is multiplied by its ``scarcity``,
        if given. With ``protect`` and a scarcity, a row with requested traits also counts for the
        needs of other shares, because later requests for the traits may have these needs. The added
        weight is ``OTHER_NEEDS_WEIGHT`` times the weight of the shares that name traits and accept
        the row, times the weight of all shares with those needs.
        """
        values, known, table = self._table
        if values is not traits.values or known != (scarcity, protect):
            scarce = [scarcity[one] if scarcity else 1.0 for one in self._indices]
            accepts = self._accepts(traits)
            table = np.zeros((len(self._scarce), accepts.shape[1]))
            np.add.at(table, self._needs_of, (self._weights * scarce)[:, None] * accepts)
            if protect and scarcity and self._names_traits.any():
                named = (self._weights[:, None] * accepts)[self._names_traits]
                # numbers are added in order, so that the sum of a row does not depend on the
                # number of rows
                asked = OTHER_NEEDS_WEIGHT * np.add.accumulate(named, axis=0)[-1]
                table += self._needs_weights[:, None] * asked
            # selections of one View share the label values
            self._table = (traits.values, (scarcity, protect), table)
        weights: Floats = table[:, traits.codes]
        return weights

    def _accepts(self, traits: Labels) -> Mask:
        names = [share.traits for share in self._shares]
        table = [[traits_match(one, has) for has in traits.values] for one in names]
        return np.array(table, dtype=bool)

    def supply(self, leftover: Leftover) -> MixSupply:
        """Return the part of the leftover that the mix can use."""
        have = np.empty((len(self._amounts) + len(self._blocks), len(leftover)))
        fractions = np.full_like(have, np.inf)
        useful, free = np.zeros((len(self._scarce), have.shape[1])), np.zeros(have.shape[1])
        kinds, blocks = leftover.kinds, leftover.blocks
        if self._blocks:
            have[len(self._amounts) :] = kinds.amount_matrix(self._blocks) @ blocks
        if self.scarce_resource == ACCELERATORS:
            useful = self._useful_accelerators(kinds) @ blocks
            free = _accelerators_by_kind(kinds) @ blocks
        return self._add_stocks(leftover.stocks, MixSupply(have, fractions, useful, free))

    def supply_after(
        self, before: MixSupply, rest: Leftover, needs: Sequence[Need], feasible: Mask | None = None
    ) -> MixSupply:
        """Return the supply after every row made one node; undefined for infeasible rows."""
        have, stocks = before.have.copy(), len(self._amounts)
        fractions = np.empty_like(have)  # fractions of blocks follow from their amounts
        fractions[:stocks] = before.fractions[:stocks]
        useful, free, kinds = before.useful, before.free, rest.kinds
        if self._blocks:
            taken = rest.blocks_for(needs, feasible)
            taken.subtract(kinds.amount_matrix(self._blocks), have[stocks:])
            if self.scarce_resource == ACCELERATORS:
                accelerators = taken.supply(_accelerators_by_kind(kinds))
                if accelerators is not None:
                    free, useful = free - accelerators, useful.copy()
                    taken.subtract(self._useful_accelerators(kinds), useful)
        supply = MixSupply(have, fractions, useful, free)
        return self._add_stocks(rest.stocks_after(needs), supply)

    def may_be_scarce(self, *, protect: bool = False) -> bool:
        """Return whether the scarcity of a share may be above 1 with some supplies."""
        if any(hardware is not None for hardware in self._hardware):
            return True
        return protect and any(amount > self.largest_request for amount in self._node_amounts)

    def supplies(self, view: View, *, protect: bool = False) -> MixSupplies:
        """Return the supply of the scarce resource by all rows of a View to the shares.

        The first half has for each share the free amount that its nodes can use. The second half
        has the amount in use or free that they can use; only ``protect`` needs it. Each amount is
        the exact sum of a few floats, so that amounts of several Views can be added in any order.
        """
        found: list[tuple[float, ...]] = [()] * (2 * self._share_count)
        if not self._shares:
            return tuple(found)
        usable = self._usable(self.supply(leftover(view, self.resources, blocks=self.uses_blocks)))
        table, line_of = usable, np.arange(0)
        if protect:
            totals, line_of = self._totals(view)
            table = np.concatenate((usable, totals))
        codes = view.traits.codes
        by_value = [exact_sums(table[:, codes == code]) for code in range(len(view.traits.values))]
        shares = zip(self._indices, self._needs_of, self._accepts(view.traits), strict=True)
        for index, number, accepts in shares:
            some = [by_value[code] for code in accepts.nonzero()[0].tolist()]
            lines = [(index, number)]
            if protect:
                lines.append((self._share_count + index, len(usable) + int(line_of[number])))
            for place, line in lines:
                parts = itertools.chain.from_iterable([sums[line] for sums in some])
                found[place] = exact_sum(list(parts))
        return tuple(found)

    def _totals(self, view: View) -> tuple[Floats, Ints]:
        """Return lines of amounts per row, in use or free, and the line of each list of needs."""
        if self.scarce_resource != ACCELERATORS:
            return view.total(self._scarce[0][0])[None], np.zeros(len(self._scarce), dtype=int)
        useful = self._useful_accelerators(view.kinds)
        return view.block_counts.sums(useful, free=False), np.arange(len(self._scarce))

    def scarcity(self, supplies: MixSupplies, *, protect: bool = False) -> tuple[float, ...]:
        """Return the :func:`scarcity` of each share, empty if it is 1 for all.

        ``supplies`` are the supplies of all pools together, as :meth:`supplies` returns them.
        """
        amounts = [math.fsum(parts) for parts in supplies]
        free = [amounts[index] for index in self._indices]
        total = [amounts[self._share_count + index] for index in self._indices]
        weights = self._weights.tolist()
        found = map(ShareSupply, weights, self._node_amounts, free, total, self._hardware)
        counted = scarcity(list(found), self.largest_request, protect=protect)
        every = [1.0] * self._share_count
        for index, number in zip(self._indices, counted, strict=True):
            every[index] = number
        return tuple(every) if max(every, default=1.0) > 1.0 else ()

    def fragmentation(self, supply: MixSupply, weights: Floats) -> Floats:
        """Return per row the free amount that is expected to be useless for the mix.

        It is the weighted mean over the shares. If the row cannot make a node of the share, its
        whole free amount is useless. Otherwise two parts are useless: the units that are too small
        or of another kind, and the amount beyond ``LIGHTER_NODES_FACTOR`` times the amount of the
        nodes for which the other resources suffice. If ``weights`` include scarcity, the mean may
        be below 0; then only its growth has a meaning.
        """
        used = self._usable(supply) * weights
        # Numbers are added in order, so that the sum of a row does not depend on the number of
        # rows.
        if used.shape[1] < MANY_ROWS:
            total: Floats = np.add.accumulate(used, axis=0)[-1]
        else:
            total = used[0]
            for line in used[1:]:
                total += line
        expected: Floats = supply.free - total
        return expected

    def _usable(self, supply: MixSupply) -> Floats:
        usable, fits = supply.useful, np.True_
        for line, least, rate in self._terms:
            fits = fits & (supply.have[line] >= least)
            usable = np.minimum(usable, supply.fractions[line] * rate)
        amounts: Floats = usable * fits
        return amounts

    def _add_stocks(self, stocks: Mapping[str, StockGrants], supply: MixSupply) -> MixSupply:
        useful, free, blocks = supply.useful, supply.free, len(self._amounts)
        if self._blocks:
            supply.fractions[blocks:] = supply.have[blocks:] + self._endless
        for name, amounts in self._stocks.items():
            if name not in stocks:
                continue
            grants = stocks[name]
            if name == self.scarce_resource:
                number = grants.counts(amounts)
            else:
                size, number = grants.sizes_and_counts(amounts)
            first = self._amounts.index((name, float(amounts[0, 0])))
            supply.have[first : first + len(amounts)] = grants.sums(number)
            if name != self.scarce_resource:
                supply.fractions[first : first + len(amounts)] = grants.sums(grants.free / size)
            else:
                useful = grants.sums(np.where(number > 0.0, grants.free, 0.0))[self._unit]
                free = grants.sums(grants.free)
        return MixSupply(supply.have, supply.fractions, useful, free)

    def _useful_accelerators(self, kinds: BlockKinds) -> Floats:
        if self._useful.shape[1] != len(kinds):
            serves = [
                np.logical_or.reduce([kinds.amounts(need) > 0.0 for need in some])
                for some in self._scarce
            ]
            self._useful = _accelerators_by_kind(kinds) * np.array(serves)
        return self._useful


def _named_hardware(share: FlavorShare) -> Hashable | None:
    """Return the key of the hardware that a share names; None if it names no hardware."""
    tests = frozenset(need.tests for need in share.needs if need.tests)
    return (share.traits, tests) if tests or share.traits != NameRequirements() else None


def flavor_mix(view: View, mix: Mix, scarce_resource: str) -> FlavorMix:
    """Return a mix compiled for one scarce resource; the View's block kinds remember it."""
    key = ("flavor mix", mix.digest, scarce_resource)
    compiled: FlavorMix | None = view.kinds.derived.get(key)
    if compiled is None:
        compiled = view.kinds.derived.store(key, FlavorMix(mix.shares, scarce_resource))
    return compiled


def useless_and_free(view: View, rows: Ints, workload: FlavorMix) -> tuple[Floats, Floats]:
    """Return per row the free accelerators that are useless for a mix, and all free ones."""
    part = view.take(rows)
    supply = workload.supply(leftover(part, workload.resources, blocks=workload.uses_blocks))
    return workload.fragmentation(supply, workload.weights(part.traits)), supply.free


def may_have(view: View, scarce_resource: str) -> bool:
    """Return whether any row of a View can have an amount of a scarce resource."""
    if scarce_resource == ACCELERATORS:
        return bool(_accelerators_by_kind(view.kinds).any())
    return scarce_resource in view.resources


def has_accelerators(view: View) -> bool:
    """Return whether any row has an accelerator, free or in use."""
    cards = view.kinds.amounts(MEASURES[ACCELERATORS])
    return bool((view.block_counts.sum(cards, free=False) > 0.0).any())


def _accelerators_by_kind(kinds: BlockKinds) -> Floats:
    return kinds.amounts(MEASURES[ACCELERATORS])


def traits_match(names: NameRequirements, has: frozenset[str]) -> bool:
    """Return whether a row with these traits meets the requirements of a share."""
    if not has.issuperset(names.required) or not has.isdisjoint(names.forbidden):
        return False
    return not any(map(has.isdisjoint, names.any_of))


MOST_MEASURED = 50_000  # states of podms that are remembered

# numbers of useless and of all free accelerators
Amounts = tuple[float, float]


def usable_mix(view: View, mix: Mix) -> FlavorMix | None:
    """Return a compiled mix; None if the View has no accelerator or no flavor needs one."""
    if not mix.shares or not has_accelerators(view):
        return None
    return flavor_mix(view, mix, ACCELERATORS) or None


class FragmentationMeasure:
    """Measures the fragmentation of a changing View; each state of a podm is measured once.

    ``view`` returns the present View; ``spend`` gets the number of podms that were measured.
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
        """Return the number of useless accelerators of a podm above a share of its free ones."""
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
            useless, free = useless_and_free(view, rows, self._mix)
            at = 0
            for (podm, key), (first, last) in zip(unknown.items(), spans, strict=True):
                own = slice(at, at := at + last - first)
                amounts = self._known[key] = float(useless[own].sum()), float(free[own].sum())
                self._latest[podm] = tables[podm], amounts
        return [self._latest[podm][1] for podm in podms]  # type: ignore[index]
