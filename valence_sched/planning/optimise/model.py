# SPDX-License-Identifier: Apache-2.0
"""Count model: an integer programme of the nodes of each variant in the pools of one group.

Columns count the nodes of each variant in each pool, their covers or their blocks by class, their
grants by stock, and shared blocks by pool. Rows limit them to the free blocks and amounts.

The demands of a node are divided into parts so that no block serves two parts: processors and
memory from sleds, accelerators from trays. A part is in the model in one of three forms:

- ``chain``: one demand; the sizes of the blocks divide one another and the demand. Blocks in order
  of size fill one node after another, so that sums over all nodes are exact;
- ``covers``: all minimal covers. Each node has one of them, which is also exact;
- otherwise, sums over all nodes, which may count too many nodes.

Worked example: a node of 4 GPUs from trays of 1, 2 and 8 is a chain (a tray of 8 gives 4, the rest
of it is lost); from trays of 3 and 2 it has the covers {3, 3}, {3, 2} and {2, 2}.

The model is *exact* if every part is a chain or has its covers: then each integer solution can be
divided into single nodes. The model includes a pool's limits per node, blocks in several pools,
several stocks and the size of each grant. A model that is not exact is a relaxation, whose bound
may count too many nodes. A model is not exact if a part has too many covers, if blocks are shared
(a node might get one twice), or if there are topology constraints, which only bound each pool.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from valence_sched.core.fit.optimiser import LARGEST_TRUSTED, ProgrammePart
from valence_sched.core.fit.set_cover import connected, least_blocks, whole_units
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.node_types import BlockClass, BlockClasses, GroupOffer, Limits

MOST_COVERS = 1_500  # the limit of minimal covers of a part in the model
MOST_STATES, ALL_STATES = 20_000, 200_000  # search states for the covers of one part, of all parts
MOST_CLASSES = 40  # block classes of a part whose covers are searched
STOCK_ROUNDING = 1.0 + 1e-6  # rounding error of a sum of grants
Counts = tuple[int, ...]
Line = dict[int, int]  # the coverage of one demand by a block of each class, without zeros
Terms = list[tuple[int, float]]  # columns with coefficients


class CoverPart(Struct, frozen=True):
    """The demands served by the same classes; ``coverage`` has shape ``(classes, demands)``.

    A cap limits the blocks of several positions in ``classes``; ``covers`` count blocks by class.
    """

    classes: tuple[int, ...]
    coverage: tuple[Counts, ...]
    demands: Counts
    caps: tuple[tuple[Counts, int], ...]
    is_chain: bool = False
    covers: tuple[Counts, ...] | None = None

    @property
    def is_exact(self) -> bool:
        return self.is_chain or self.covers is not None

    @property
    def lines(self) -> list[tuple[Counts, int]]:
        return list(zip(zip(*self.coverage, strict=True), self.demands, strict=True))


class CoverFinder:
    """Finds the cheapest exact form of parts, each once, in at most ``ALL_STATES`` states."""

    def __init__(self) -> None:
        self._left = ALL_STATES
        self._solved: dict[CoverPart, CoverPart] = {}

    def solve(self, part: CoverPart) -> CoverPart:
        """Return the part as a chain or with its covers; unchanged if it has too many covers."""
        if part in self._solved:
            return self._solved[part]
        found = part
        if len(part.demands) == 1:
            sizes = [*sorted({size for (size,) in part.coverage}), part.demands[0]]
            most = -(-part.demands[0] // sizes[0])
            divide = all(large % small == 0 for small, large in itertools.pairwise(sizes))
            if divide and sizes[-1] <= LARGEST_TRUSTED and all(cap >= most for _, cap in part.caps):
                found = msgspec.structs.replace(part, is_chain=True)
        if not found.is_chain and len(part.classes) <= MOST_CLASSES and self._left > 0:
            search = _CoverSearch(part, min(self._left, MOST_STATES))
            if search.run():
                found = msgspec.structs.replace(part, covers=tuple(search.found))
            self._left -= search.states
        self._solved[part] = found
        return found


class _CoverSearch:
    """Finds all minimal covers of a part, class by class."""

    def __init__(self, part: CoverPart, most_states: int) -> None:
        self.part, self.most_states = part, most_states
        self.found: list[Counts] = []
        self.states = 0
        size = range(len(part.demands))
        self._served = [
            tuple(any(coverage[line] for coverage in part.coverage[position:]) for line in size)
            for position in range(len(part.classes) + 1)
        ]

    def run(self) -> bool:
        """Return whether all covers were found within the limits."""
        self._search((), self.part.demands)
        return self.states <= self.most_states and len(self.found) <= MOST_COVERS

    def _search(self, counts: Counts, missing: Counts) -> None:
        self.states += 1
        position = len(counts)
        if max(missing) <= 0:
            used = itertools.compress(self.part.coverage, counts)
            if all(self._is_needed(coverage, missing) for coverage in used):
                self.found.append(counts + (0,) * (len(self.part.classes) - position))
            return
        served = zip(missing, self._served[position], strict=True)
        if any(amount > 0 and not serves for amount, serves in served):
            return
        pairs = list(zip(missing, self.part.coverage[position], strict=True))
        helpful = [-(-amount // size) for amount, size in pairs if size]
        rooms = [  # the amounts that the caps leave
            cap - sum(counts[member] for member in members if member < position)
            for members, cap in self.part.caps
            if position in members
        ]
        most = min([max([*helpful, 0]), *(rooms or [max(self.part.demands)])])
        for number in range(most, -1, -1):
            if self.states > self.most_states:
                return
            left = tuple(amount - number * size for amount, size in pairs)
            self._search((*counts, number), left)

    @staticmethod
    def _is_needed(coverage: Counts, missing: Counts) -> bool:
        pairs = zip(missing, coverage, strict=True)
        return any(amount + size > 0 for amount, size in pairs if size)


def cover_parts(
    demands: Sequence[int],
    limits: Limits,
    variant: int,
    classes: dict[int, BlockClass],
    finder: CoverFinder,
) -> list[CoverPart] | None:
    """Return the parts of a node of a variant in a pool that has blocks of these classes.

    Parts share neither a class nor a cap. None: blocks of these classes cannot make the node.
    """
    coverage = [
        ([one.coverage[variant][n] for one in classes.values()], amount)
        for n, amount in enumerate(demands)
    ]
    for name, amount in least_blocks(dict(limits)).items():
        coverage.append(([int(name in one.types) for one in classes.values()], amount))
    lines: list[tuple[Line, int]] = []
    for sizes, amount in coverage:
        whole, units = whole_units(amount, [min(size, amount) for size in sizes])
        line = {key: size for key, size in zip(classes, units, strict=True) if size}
        if amount and not line:
            return None
        lines += [(line, whole)] if amount else []
    lines = _without_implied(lines)
    useful = sorted(set().union(*(line for line, _ in lines)))
    capped = [
        ([key for key in useful if name in classes[key].types], limit.max)
        for name, limit in limits
        if limit.max is not None
    ]
    links = [[*line] for line, _ in lines] + [members for members, _ in capped]
    parts = []
    for keys in connected(useful, links):
        own = [(line, amount) for line, amount in lines if not line.keys().isdisjoint(keys)]
        caps = [
            (tuple(map(keys.index, members)), most)
            for members, most in capped
            if {*members} & {*keys}
        ]
        table = (tuple(line.get(key, 0) for line, _ in own) for key in keys)
        amounts = tuple(amount for _, amount in own)
        part = finder.solve(CoverPart(tuple(keys), tuple(table), amounts, tuple(caps)))
        if part.covers == ():
            return None
        parts.append(part)
    return parts


def _without_implied(lines: list[tuple[Line, int]]) -> list[tuple[Line, int]]:
    def implies(one: int, other: int) -> bool:
        (sizes, amount), (others, implied) = lines[one], lines[other]
        return all(others.get(key, 0) * amount >= size * implied for key, size in sizes.items())

    def is_implied(other: int) -> bool:
        after = range(other + 1, len(lines))
        return any(implies(one, other) for one in range(other)) or any(
            implies(one, other) and not implies(other, one) for one in after
        )

    return [line for number, line in enumerate(lines) if not is_implied(number)]


class Addition(NamedTuple):
    """At most ``most`` blocks of one class that may be added to a pool of the group."""

    pool: int
    block_class: int
    most: int


class GrantColumn(NamedTuple):
    """The grants of one amount by one stock: one unit of the column is ``times`` grants."""

    stock: int
    column: int
    times: int
    size: float


class NodeColumn(NamedTuple):
    """The nodes of a variant in a pool: their column, and columns by part and by grant."""

    pool: int
    variant: int
    node_type: int
    column: int
    parts: list[tuple[CoverPart, list[int]]]
    grants: list[list[GrantColumn]]


class GroupModel:
    """The model of one group offer.

    By class offer: ``takers`` are the pools that can use the blocks, ``flows`` the columns that
    divide these among pools. ``uses`` are the columns that take blocks, by pool and class.
    """

    def __init__(
        self,
        offer: GroupOffer,
        classes: BlockClasses,
        finder: CoverFinder,
        additions: tuple[Addition, ...] = (),
    ) -> None:
        self.offer, self.classes, self.additions = offer, classes, additions
        self.programme = ProgrammePart()
        self.nodes: list[NodeColumn] = []
        self.flows: dict[tuple[int, int], int] = {}
        self.takers: list[list[int]] = []
        self.addition_columns: list[int] = []
        self.uses: dict[tuple[int, int], Terms] = {}
        self._granted: dict[int, Terms] = {}
        self.is_exact = all(one.slots == 1 for one in offer.blocks)
        # by pool and class: the free slots of blocks, and the number of these blocks
        free, distinct = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for one in offer.blocks:
            for pool in one.pools:
                free[pool, one.block_class] += one.slots * one.number
                distinct[pool, one.block_class] += one.number
        for pool, block_class, most in additions:
            free[pool, block_class] += most
            distinct[pool, block_class] += most
        added = {one.pool for one in additions}
        for pool, open_pool in enumerate(offer.pools):
            present = sorted(key for at, key in free if at == pool)
            own = {key: classes.classes[key] for key in present}
            for variant, most in zip(open_pool.variants, open_pool.most, strict=True):
                demands = classes.variants[variant].demands
                parts = cover_parts(demands, open_pool.limits, variant, own, finder)
                if parts is not None:
                    # a bound by each demand of each part; the topology of added blocks is unknown
                    bound = MAX_NODES if pool in added else most
                    for part in parts:
                        amounts = [free[pool, key] for key in part.classes]
                        for line, demand in part.lines:
                            pairs = zip(amounts, line, strict=True)
                            bound = min(bound, sum(n * size for n, size in pairs) // demand)
                    self._add_nodes(pool, variant, parts, bound, distinct)
        self._add_supply_rows()

    def _add_nodes(
        self,
        pool: int,
        variant: int,
        parts: list[CoverPart],
        most: int,
        distinct: Counter[tuple[int, int]],
    ) -> None:
        prepared = self.classes.variants[variant]
        first = sum(len(one.grants) for one in self.classes.variants[:variant])
        granting = []  # the number of each amount, and the stocks of the pool with their grants
        for number, (_, _, count) in enumerate(prepared.grants, first):
            sizes = [
                (stock, size)
                for stock, one in enumerate(self.offer.stocks)
                if pool in one.pools and (size := one.grants[number]) is not None
            ]
            granting.append((count, sizes))
        if not most or any(not sizes for _, sizes in granting):
            return
        column = self.programme.column(most)
        columns = [self._add_part(pool, column, part, distinct) for part in parts]
        if any(part.covers == () for part, _ in columns):
            self.programme.upper[column] = 0
            return
        grants = [self._add_grant(count, sizes, column) for count, sizes in granting]
        self.nodes.append(NodeColumn(pool, variant, prepared.node_type, column, columns, grants))
        bound = any(constraint.place != "zone" for constraint in prepared.fitter.constraints)
        self.is_exact = self.is_exact and not bound and all(part.is_exact for part in parts)

    def _add_part(
        self, pool: int, nodes: int, part: CoverPart, distinct: Counter[tuple[int, int]]
    ) -> tuple[CoverPart, list[int]]:
        add = self.programme
        if part.covers is not None:
            room = [distinct[pool, key] for key in part.classes]
            covers = [one for one in part.covers if all(map(int.__le__, one, room))]
            columns = [nodes] if len(covers) == 1 else [add.column() for _ in covers]
            if len(columns) > 1:
                add.row([*((one, 1.0) for one in columns), (nodes, -1.0)], 0.0, 0.0)
            for column, cover in zip(columns, covers, strict=True):
                for key, number in zip(part.classes, cover, strict=True):
                    if number:
                        self.uses.setdefault((pool, key), []).append((column, number))
            return msgspec.structs.replace(part, covers=tuple(covers)), columns
        columns = [add.column() for _ in part.classes]
        for line, demand in part.lines:
            unit = -(-demand // LARGEST_TRUSTED)  # rounded up, a sum is never too small for a node
            terms: Terms = [(nodes, -demand // unit)]
            terms += [
                (one, -(-size // unit)) for one, size in zip(columns, line, strict=True) if size
            ]
            add.row(terms, lower=0.0)
        for members, cap in part.caps if not part.is_chain else ():
            terms = [(columns[member], 1.0) for member in members]
            add.row([*terms, (nodes, -float(cap))], upper=0.0)
        for key, column in zip(part.classes, columns, strict=True):
            self.uses.setdefault((pool, key), []).append((column, 1.0))
        return part, columns

    def _add_grant(
        self, count: int, sizes: list[tuple[int, float]], nodes: int
    ) -> list[GrantColumn]:
        if len(sizes) == 1:
            columns = [GrantColumn(sizes[0][0], nodes, count, sizes[0][1])]
        else:
            columns = [
                GrantColumn(stock, self.programme.column(), 1, size) for stock, size in sizes
            ]
            terms = [(one.column, 1.0) for one in columns]
            self.programme.row([*terms, (nodes, -float(count))], 0.0, 0.0)
        for one in columns:
            free = self.offer.stocks[one.stock].free
            if free:
                share = (one.column, one.times * one.size / free)
                self._granted.setdefault(one.stock, []).append(share)
        return columns

    def _add_supply_rows(self) -> None:
        add = self.programme
        direct = Counter[tuple[int, int]]()
        shared: dict[tuple[int, int], Terms] = {}
        for number, one in enumerate(self.offer.blocks):
            pools = [pool for pool in one.pools if (pool, one.block_class) in self.uses]
            self.takers.append(pools)
            slots = one.slots * one.number
            if len(pools) == 1:
                direct[pools[0], one.block_class] += slots
            elif pools:
                for pool in pools:
                    column = self.flows[number, pool] = add.column(slots)
                    shared.setdefault((pool, one.block_class), []).append((column, -1.0))
                add.row([(self.flows[number, pool], 1.0) for pool in pools], upper=slots)
        for pool, block_class, most in self.additions:
            column = add.column(most)
            self.addition_columns.append(column)
            shared.setdefault((pool, block_class), []).append((column, -1.0))
        for key, terms in self.uses.items():
            add.row([*merged(terms), *shared.get(key, ())], upper=direct[key])
        for terms in self._granted.values():
            add.row(merged(terms), upper=STOCK_ROUNDING)


def merged(terms: Iterable[tuple[int, float]]) -> Terms:
    sums: dict[int, float] = {}
    for column, value in terms:
        sums[column] = sums.get(column, 0.0) + value
    return list(sums.items())
