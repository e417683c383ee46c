# SPDX-License-Identifier: Apache-2.0
"""Topology search: the cheapest blocks of one pool that satisfy every topology constraint (exact).

The node is an integer programme. Its variables are the blocks of each group, the devices that count
for each need, and the domain values of each need. The cheapest cover without the constraints is a
lower bound of the price. A search with propagation nearly always finds a solution at this price, or
proves that no solution exists. HiGHS solves the other problems. Domain values are numbered in the
order of their blocks, so pools that differ only in the names of the values share a search.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.core.fit import optimiser, set_cover
from valence_sched.core.fit.optimiser import INFINITY, ProgrammePart, PropagationSearch
from valence_sched.core.fit.stocks import FREE_TOPOLOGY_STATES, SearchOutcome
from valence_sched.model.inventory import BlockType, Pool
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.view.block_kinds import BlockKinds, device_amount
from valence_sched.view.blocks import KindAndTopology
from valence_sched.view.view import View

ENTRIES_PER_STATE = 2  # a state of a set cover takes as long as adding this many entries

Terms = list[tuple[int, float]]  # columns and their coefficients
#: By domain, value and name: the 0/1 column that is 1 if devices of this name use the value.
Uses = dict[tuple[int, Hashable, str], int]
ValueNumbers = tuple[int | None, ...]  # numbers of the domain values, None where unreported


class BlockGroup(NamedTuple):
    """Free blocks of one kind with the same domain values, at most the useful number."""

    kind: int
    values: ValueNumbers
    number: int


Groups = tuple[BlockGroup, ...]
KindCounts = Mapping[int, int]  # of blocks, by kind


#: The groups of a pool in a stable order, and their kinds and domain values.
BlockOffer = tuple[Groups, tuple[KindAndTopology, ...]]


@dataclass(slots=True)
class TopologyFitter:
    """Fits one request with topology constraints in many pools."""

    needs: tuple[Need, ...]
    constraints: tuple[TopologyConstraint, ...]
    demands: list[set_cover.Demand]
    kinds: BlockKinds
    domains: tuple[str, ...] = field(init=False)
    _device_coverage: dict[int, list[dict[Need, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Merge needs that differ only in amount; drop constraints on ``zone``: it is the pool."""
        self.constraints = tuple(one for one in self.constraints if one.place != "zone")
        amounts: Counter[Need] = Counter()
        for need in (one for one in self.needs if one.kind != "stock"):
            subject, amount = replace(need, amount=0), math.ceil(need.amount)
            if need.measure == "devices":
                amounts[subject] += amount
            else:  # the larger of two totals includes the other
                amounts[subject] = max(amounts[subject], amount)
        self.needs = tuple(replace(need, amount=amount) for need, amount in amounts.items())
        self.domains = tuple(sorted({constraint.place for constraint in self.constraints}))

    def search(self, groups: Groups, pool: Pool, states: int) -> SearchOutcome:
        """Return the number of blocks by group in the cheapest node found within ``states``."""
        outcome = self._search(groups, pool, states)
        if outcome.complete or outcome.found is None:
            return outcome
        found = outcome.found  # an incomplete search may leave needless blocks
        chosen = tuple(groups[group]._replace(number=number) for group, number in found.items())
        needed = self._search(chosen, pool, FREE_TOPOLOGY_STATES)
        if needed.complete:
            found = {group: needed.found.get(n, 0) for n, group in enumerate(found)}
        return SearchOutcome(found, False, outcome.states + needed.states)

    def _search(self, groups: Groups, pool: Pool, states: int) -> SearchOutcome:
        cover, bound, spent = self._cover(groups, pool)
        if cover is None:
            return SearchOutcome(None, True, spent)
        programme = TopologyProgramme(self, groups, pool, cover)
        built = programme.build((states - spent) * ENTRIES_PER_STATE) // ENTRIES_PER_STATE
        spent += built
        if spent > states:
            return SearchOutcome(None, False, states)
        part, prices = programme.part, programme.prices
        search = PropagationSearch(part, prices, programme.demands)
        complete = search.run(bound, min(states - spent, max(FREE_TOPOLOGY_STATES, 8 * built)))
        spent += search.states
        best = search.best
        if not complete and states > FREE_TOPOLOGY_STATES:
            left = states - spent if best is None else min(states - spent, set_cover.IMPROVE_STATES)
            further = optimiser.optimum(part, prices, left, best)
            best, complete, spent = further.found, further.complete, spent + further.states
        found = None if best is None else programme.blocks_by_group(best)
        return SearchOutcome(found, complete, spent)

    def _cover(self, groups: Groups, pool: Pool) -> tuple[KindCounts | None, int | None, int]:
        """Return the cheapest blocks by kind without the constraints, their price and the states.

        The blocks are None if none suffice, the price if the search is not complete.
        """
        numbers: Counter[int] = Counter()
        for group in groups:
            numbers[group.kind] += group.number
        sizes = {one.needs[0].kind: len(one.needs) for one in self.demands}  # the last has all
        demands = [one for one in self.demands if len(one.needs) in (1, sizes[one.needs[0].kind])]
        coverage = functools.partial(set_cover.coverage, self.kinds, demands)
        items, caps, amounts = set_cover.problem(
            self.kinds, pool.limits, numbers.items(), demands, coverage
        )
        cover = set_cover.cheapest_cover(items, amounts, caps)
        if cover.found is None:
            return (None if cover.complete else {}), None, cover.states
        price = sum(item.price * n for item, n in zip(items, cover.found, strict=True))
        chosen = {kind: n for kind, n in zip(numbers, cover.found, strict=True) if n}
        return chosen, price if cover.complete else None, cover.states

    def shortfall(
        self, groups: Groups, pool: Pool, states: int
    ) -> tuple[str, float, float, str] | None:
        """Return the constraint that a pool cannot satisfy, as :meth:`Fitter.shortfall`."""
        for constraint, need in itertools.product(self.constraints, self.needs):
            if constraint.applies_to(need):
                shortfall = self._constraint_shortfall(groups, constraint, need)
                if shortfall:
                    return shortfall
        for constraint in self.constraints:
            alone = TopologyFitter(self.needs, (constraint,), self.demands, self.kinds)
            domain = self.domains.index(constraint.place)
            projected = tuple(group._replace(values=(group.values[domain],)) for group in groups)
            answer = alone.search(projected, pool, states)
            if answer.found is None and answer.complete:
                labels = [need.label for need in self.needs if constraint.applies_to(need)]
                where = "on one" if constraint.relation == "same" else "apart by"
                return f"{' and '.join(labels)} {where} {constraint.place}", 1, 0, ""
        return None

    def _constraint_shortfall(
        self, groups: Groups, constraint: TopologyConstraint, need: Need
    ) -> tuple[str, float, float, str] | None:
        domain = self.domains.index(constraint.place)
        covered_by_value: Counter[int] = Counter()
        unreported = blocks = 0
        for group in groups:
            of_block = sum(line.get(need, 0) for line in self.device_coverage(group.kind))
            coverage = of_block * group.number
            value = group.values[domain]
            if coverage and value is not None:
                covered_by_value[value] += coverage
            elif coverage and need.unknown == "allow":
                unreported, blocks = unreported + coverage, blocks + group.number
        if not covered_by_value and not blocks:
            return f"blocks with {need.label} that report their {constraint.place}", 1, 0, ""
        needed = math.ceil(need.amount)
        if constraint.relation == "same":
            most = max(covered_by_value.values(), default=0) + unreported
            label = f"{need.label} on one {constraint.place}"
            return (label, needed, most, need.unit) if most < needed else None
        most = len(covered_by_value) + blocks
        if len(set(constraint.of)) == 1 and most < needed:
            return f"{need.label}, each on a {constraint.place} of its own", needed, most, ""
        return None

    def block_offer(self, view: View, row: int) -> BlockOffer:
        """Return the useful free blocks of a pool, by kind and topology."""
        table = view.block_tables[view.podm_of[row]]
        free = table.free_by_topology(int(view.position_of[row]), self.domains)
        least = set_cover.least_blocks(view.pools[row].limits)
        useful = {kind: self._useful(kind, least) for kind, _ in free}
        return block_offer(free, self.kinds, useful.__getitem__, sum(useful.values()))

    def _useful(self, kind: int, least: Mapping[BlockType, int]) -> int:
        """Return the largest number of blocks of a kind in a node without needless blocks."""
        total = 0
        lines = self.device_coverage(kind)
        for need in self.needs:
            if coverage := sum(line.get(need, 0) for line in lines):
                each = 1 if need.measure == "devices" else coverage
                total += math.ceil(need.amount / each)
        one = self.kinds.kinds[kind]
        if not all(need.tolerates(one.condition) for need in self.needs):
            return 0
        return total + sum(n for name, n in least.items() if name in one.types)

    def device_coverage(self, kind: int) -> list[dict[Need, int]]:
        """Return the coverage of each need by each device line of a kind."""
        coverage = self._device_coverage.get(kind)
        if coverage is None:
            lines = self.kinds.devices_of(kind)
            amounts = ({need: device_amount(need, *line) for need in self.needs} for line in lines)
            useful = ({need: n for need, n in line.items() if n} for line in amounts)
            coverage = self._device_coverage[kind] = [line for line in useful if line]
        return coverage


class _BlockItem(NamedTuple):
    """Blocks of one kind that are equal for the constraints, as ``(group, number)`` pairs.

    A value is None if unreported or irrelevant, and unique for unreported ``apart`` needs.
    """

    kind: int
    values: tuple[Hashable, ...]
    groups: list[tuple[int, int]]

    @property
    def number(self) -> int:
        return sum(number for _, number in self.groups)


class TopologyProgramme:
    """The integer programme of the groups of a pool; blocks of the ``preferred`` kinds come first.

    ``prices`` are the prices of the blocks, by column; ``demands`` are the rows of the needs.
    """

    def __init__(
        self, fitter: TopologyFitter, groups: Groups, pool: Pool, preferred: KindCounts
    ) -> None:
        self.part = ProgrammePart()
        self.demands: list[int] = []
        self.prices: dict[int, int] = {}
        self._fitter, self._pool, self._groups = fitter, pool, groups
        self._relations: dict[Need, dict[int, set[str]]] = {need: {} for need in fitter.needs}
        self._owners: dict[tuple[int, str], str] = {}
        self._relate()
        self._apart: Uses = {}
        self._together: Uses = {}  # by the name that represents names with the same value
        self._sources: dict[Need, Terms] = {need: [] for need in fitter.needs}
        self._sources_at: defaultdict[tuple[int, Hashable, Need], Terms] = defaultdict(list)
        self._unreported: defaultdict[tuple[int, Need], Terms] = defaultdict(list)
        self._units: dict[Need, tuple[int, dict[float, int]]] = {}  # amount, units by coverage
        self._blocks: list[int] = []  # the column of each item
        kinds = fitter.kinds.kinds
        self._items = self._block_items()
        self._items.sort(key=lambda one: (one.kind not in preferred, kinds[one.kind].price))

    def build(self, most: int) -> int:
        """Build the programme, up to ``most`` entries; return the number of entries."""
        for item in self._items:
            self._add_blocks(item)
            if len(self.part.entries) > most:
                break
        else:
            for (domain, value, need), terms in self._sources_at.items():
                # one row for all of them gives a tighter bound
                if need.measure == "devices" and len(terms) > 1:
                    self._place(domain, value, need, terms)
            for need, terms in self._sources.items():
                coverage = [int(covered) for _, covered in terms]
                amount, units = set_cover.whole_units(math.ceil(need.amount), coverage)
                self._units[need] = amount, dict(zip(coverage, units, strict=True))
                self.demands.append(self.part.row(self._in_units(need, terms), lower=amount))
            kinds = self._fitter.kinds.kinds
            for name, limit in self._pool.limits.items():
                pairs = zip(self._items, self._blocks, strict=True)
                of_type: Terms = [(n, 1) for one, n in pairs if name in kinds[one.kind].types]
                upper = INFINITY if limit.max is None else limit.max
                row = self.part.row(of_type, lower=limit.min or 0, upper=upper)
                self.demands += [row] if limit.min else []
            self._keep_together()
            self._keep_apart()
        return len(self.part.entries)

    def blocks_by_group(self, values: list[int]) -> dict[int, int]:
        counts: Counter[int] = Counter()
        for item, column in zip(self._items, self._blocks, strict=True):
            left = values[column]
            for group, number in item.groups if left else ():
                taken = min(left, number)
                counts[group] += taken
                left -= taken
        return dict(+counts)

    def _block_items(self) -> list[_BlockItem]:
        items: dict[tuple[int, tuple[Hashable, ...]], _BlockItem] = {}
        for index, group in enumerate(self._groups):
            offered = set(itertools.chain.from_iterable(self._fitter.device_coverage(group.kind)))
            constraints = [
                (c, [n for n in offered if c.applies_to(n)]) for c in self._fitter.constraints
            ]
            relevant = {c.place for c, needs in constraints if needs}
            apart = [(c.place, needs) for c, needs in constraints if c.relation == "apart"]
            alone = {place for place, needs in apart if any(n.unknown == "allow" for n in needs)}
            pairs = list(zip(self._fitter.domains, group.values, strict=True))
            alone.intersection_update(place for place, value in pairs if value is None)
            for part in range(group.number) if alone else (None,):
                values: list[Hashable] = [
                    value if place in relevant else None for place, value in pairs
                ]
                for position, (place, _) in enumerate(pairs):
                    if place in alone:  # each of these blocks has a value of its own
                        values[position] = (index, part)
                key = (group.kind, tuple(values))
                item = items.setdefault(key, _BlockItem(*key, []))
                item.groups.append((index, group.number if part is None else 1))
        return list(items.values())

    def _add_blocks(self, item: _BlockItem) -> None:
        """Add the blocks of an item, and the assignment of their devices to needs."""
        part, lines = self.part, self._fitter.device_coverage(item.kind)
        column = part.column(item.number)
        self._blocks.append(column)
        self.prices[column] = self._fitter.kinds.kinds[item.kind].price
        counted: dict[Need, Terms] = {}
        for need in self._fitter.needs:
            reported = all(isinstance(item.values[at], int) for at in self._relations[need])
            if (reported or need.unknown == "allow") and any(need in line for line in lines):
                counted[need] = []
        for line in lines:
            needs = [need for need in counted if need in line and need.measure == "devices"]
            uppers = [min(line[need] * item.number, math.ceil(need.amount)) for need in needs]
            devices: Terms = [(part.column(upper), 1) for upper in uppers]
            for need, term in zip(needs, devices, strict=True):
                counted[need].append(term)
            if devices:
                part.row([*devices, (column, -max(line[need] for need in needs))], upper=0)
        for need, terms in counted.items():
            if need.measure != "devices":
                coverage = sum(line.get(need, 0) for line in lines)
                blocks = part.column(min(item.number, math.ceil(need.amount / coverage)))
                terms.append((blocks, coverage))
                part.row([(blocks, 1), (column, -1)], upper=0)
            self._sources[need] += terms
            for domain in self._relations[need]:
                value = item.values[domain]
                self._sources_at[domain, value, need] += terms
                self._place(domain, value, need, terms)
                if not isinstance(value, int):
                    self._unreported[domain, need] += terms

    def _place(self, domain: int, value: Hashable, need: Need, terms: Terms) -> None:
        """Let devices at a domain value count for a need only if its name uses the value."""
        name, relations = need.name or need.kind, self._relations[need][domain]
        most = sum(self.part.upper[column] for column, _ in terms)
        most = min(most, math.ceil(need.amount)) if need.measure == "devices" else most
        columns: Terms = [(column, 1) for column, _ in terms]
        users = [(self._apart, name)] if "apart" in relations else []
        if "same" in relations and isinstance(value, int):
            users.append((self._together, self._owners[domain, name]))
        for uses, user in users:
            key = (domain, value, user)
            if key not in uses:
                uses[key] = self.part.column(1)
            self.part.row([*columns, (uses[key], -most)], upper=0)

    def _relate(self) -> None:
        """Find the relations of each need by domain, and one name for all names of equal value."""
        for constraint in self._fitter.constraints:
            relation: str = constraint.relation
            if relation == "apart" and len(set(constraint.of)) == 1:
                relation = "single"
            domain = self._fitter.domains.index(constraint.place)
            for need in filter(constraint.applies_to, self._fitter.needs):
                self._relations[need].setdefault(domain, set()).add(relation)
            if relation == "same":
                joined = {self._owners.get((domain, name), name) for name in constraint.of}
                known = [key for key, one in self._owners.items() if one in joined]
                names = {name for place, name in known if place == domain}
                owner = min(joined)
                self._owners.update({(domain, one): owner for one in names.union(constraint.of)})

    def _in_units(self, need: Need, terms: Terms) -> Terms:
        return [(column, self._units[need][1][covered]) for column, covered in terms]

    def _keep_together(self) -> None:
        """Require that a single domain value serves all needs of a ``same`` constraint."""
        together: defaultdict[tuple[int, str], list[Need]] = defaultdict(list)
        for need, relations in self._relations.items():
            for domain in relations:
                owner = self._owners.get((domain, need.name or need.kind))
                if owner is not None:
                    together[domain, owner].append(need)
        for (domain, owner), needs in together.items():
            uses = {
                value: column
                for (place, value, user), column in self._together.items()
                if (place, user) == (domain, owner)
            }
            unreported = {need: self._unreported.get((domain, need), []) for need in needs}
            least = 0 if all(unreported.values()) else 1
            row = self.part.row([(column, 1) for column in uses.values()], lower=least, upper=1)
            self.demands += [row] if least else []
            if not any(unreported.values()):
                self._exclude_scarce_values(domain, needs, uses)
            for need, (value, column) in itertools.product(needs, uses.items()):
                terms = self._sources_at.get((domain, value, need), []) + unreported[need]
                amount = self._units[need][0]
                self.part.row([*self._in_units(need, terms), (column, -amount)], lower=0)
                apart = self._apart.get((domain, value, need.name or need.kind))
                if apart is not None and not unreported[need]:
                    self.part.row([(column, 1), (apart, -1)], upper=0)

    def _exclude_scarce_values(
        self, domain: int, needs: list[Need], uses: Mapping[Hashable, int]
    ) -> None:
        """Exclude domain values with too few devices for the needs of a ``same`` constraint."""
        devices = [need for need in needs if need.measure == "devices"]
        supply: Counter[Hashable] = Counter()
        for item in self._items:
            for line in self._fitter.device_coverage(item.kind):
                most = max((line.get(need, 0) for need in devices), default=0)
                supply[item.values[domain]] += most * item.number
        for value, column in uses.items():
            if supply[value] < sum(math.ceil(need.amount) for need in devices):
                self.part.upper[column] = 0

    def _keep_apart(self) -> None:
        """Let a value serve at most one ``apart`` need, and one device of a ``single`` need."""
        singles: defaultdict[tuple[int, Hashable, str], Terms] = defaultdict(list)
        for (domain, value, need), terms in self._sources_at.items():
            if "single" in self._relations[need][domain]:
                singles[domain, value, need.name or need.kind] += terms
        for terms in singles.values():
            if sum(self.part.upper[column] for column, _ in terms) > 1:
                self.part.row(terms, upper=1)
        cliques = _cliques(self._fitter)
        for domain, value in {(domain, value): None for domain, value, _ in self._apart}:
            for clique in cliques[domain]:
                keys = ((domain, value, name) for name in clique)
                columns: Terms = [(self._apart[key], 1) for key in keys if key in self._apart]
                if len(columns) > 1:
                    self.part.row(columns, upper=1)


def _cliques(fitter: TopologyFitter) -> dict[int, list[list[str]]]:
    """Return the maximal sets of names that must be pairwise apart, for each domain."""
    apart: defaultdict[int, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for constraint in fitter.constraints:
        if constraint.relation == "apart":
            for one, other in itertools.permutations(sorted(set(constraint.of)), 2):
                apart[fitter.domains.index(constraint.place)][one].add(other)
    cliques: defaultdict[int, list[list[str]]] = defaultdict(list)
    for constraint in fitter.constraints:
        domain = fitter.domains.index(constraint.place)
        clique = sorted(set(constraint.of))
        if constraint.relation == "apart" and len(clique) > 1:
            for name, others in sorted(apart[domain].items()):
                if others.issuperset(clique):
                    clique.append(name)
            if sorted(clique) not in cliques[domain]:
                cliques[domain].append(sorted(clique))
    return cliques


def block_offer(
    free: Mapping[KindAndTopology, int], kinds: BlockKinds, useful: Callable[[int], int], most: int
) -> BlockOffer:
    """Return the useful blocks, at most ``useful(kind)`` in a group and ``most`` equal values."""
    counts = {key: min(number, useful(key[0])) for key, number in free.items() if useful(key[0])}
    width = len(next(iter(counts))[1]) if counts else 0
    tables = [_number_values(counts, domain, kinds) for domain in range(width)]
    pairs = []
    for (kind, values), number in counts.items():
        numbers = tuple(table[value] for value, table in zip(values, tables, strict=True))
        pairs.append((BlockGroup(kind, numbers, number), (kind, values)))
    for domain in range(width):
        blocks: defaultdict[int, set[Hashable]] = defaultdict(set)  # blocks of each value
        for (kind, numbers, number), _ in pairs:
            value = numbers[domain]
            if value is not None:
                blocks[value].add((kind, numbers[:domain] + numbers[domain + 1 :], number))
        equals: defaultdict[Hashable, list[int]] = defaultdict(list)
        for value in sorted(blocks):
            equals[frozenset(blocks[value])].append(value)
        surplus = {value for equal in equals.values() for value in equal[most:]}
        pairs = [pair for pair in pairs if pair[0].values[domain] not in surplus]

    def order(pair: tuple[BlockGroup, KindAndTopology]) -> tuple[bytes, list[int]]:
        group, _ = pair
        numbers = [-1 if value is None else value for value in group.values]
        return kinds.kinds[group.kind].sort_key, numbers

    pairs.sort(key=order)
    return tuple(group for group, _ in pairs), tuple(key for _, key in pairs)


def _number_values(
    counts: Mapping[KindAndTopology, int], domain: int, kinds: BlockKinds
) -> dict[str | None, int | None]:
    blocks: dict[str, list[tuple[bytes, int]]] = {}
    for (kind, values), number in counts.items():
        value = values[domain]
        if value is not None:
            blocks.setdefault(value, []).append((kinds.kinds[kind].sort_key, number))
    ordered = sorted(blocks, key=lambda value: (sorted(blocks[value]), value))
    return {None: None, **{value: number for number, value in enumerate(ordered)}}
