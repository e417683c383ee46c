# SPDX-License-Identifier: Apache-2.0
"""Count model: how many nodes of each variant the pools of one group make, as columns and rows.

Columns count nodes of a variant in a pool; covers, or blocks of a class, that these nodes take
part by part; grants by stock; and shared blocks by the pool that takes them. Rows keep what is
taken within what is free.

The model is *exact*, that is each whole solution is so many single nodes, where every part of every
node is a chain or has its covers written out. Limits of a pool for each node, blocks in several
pools, several stocks and the size of each grant are modelled. It is a relaxation, which gives
a bound and maybe too many nodes, where a part has too many covers, where a node has topology
constraints (only the bound of a pool counts them), and where blocks are shared by nodes (a node
might get one twice).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from valence_sched.core.fit.optimiser import Floats, ProgrammePart
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.cover_parts import CoverFinder, CoverPart, cover_parts
from valence_sched.planning.optimise.node_types import BlockClasses, GroupOffer

STOCK_ROUNDING = 1.0 + 1e-6  # by which a sum of grants may exceed what is free

Terms = list[tuple[int, float]]  # columns with coefficients


class Addition(NamedTuple):
    """Blocks of one class that may be added to a pool of the group, at most so many."""

    pool: int
    block_class: int
    most: int


class PartColumns(NamedTuple):
    """The columns of one part: one for each cover, or for each class; none if all is settled."""

    part: CoverPart
    columns: tuple[int, ...]


class GrantColumn(NamedTuple):
    """The grants of one amount by one stock: one of the column is so many, each of this size."""

    stock: int
    column: int
    times: int
    size: float


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The nodes of a variant in a pool: their column, parts, and grants as columns by stock."""

    pool: int
    variant: int
    column: int
    parts: tuple[PartColumns, ...]
    grants: tuple[tuple[GrantColumn, ...], ...]


@dataclass(slots=True)
class GroupModel:
    """The model of one group offer.

    ``takers`` are the pools that can use the blocks of each class offer; where there are several,
    ``flows`` are the columns that divide the blocks, by class offer and pool.
    ``uses`` are the columns that take blocks, by pool and class.
    """

    offer: GroupOffer
    classes: BlockClasses
    finder: CoverFinder
    additions: tuple[Addition, ...] = ()
    programme: ProgrammePart = field(default_factory=ProgrammePart)
    nodes: list[NodeColumn] = field(default_factory=list)
    flows: dict[tuple[int, int], int] = field(default_factory=dict)
    takers: list[tuple[int, ...]] = field(default_factory=list)
    addition_columns: list[int] = field(default_factory=list)
    is_exact: bool = True
    uses: dict[tuple[int, int], Terms] = field(default_factory=dict)
    _granted: dict[int, Terms] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_exact = all(one.slots == 1 for one in self.offer.blocks)
        free, distinct = self._supply()
        added = {one.pool for one in self.additions}
        for pool, offer in enumerate(self.offer.pools):
            present = {key for at, key in free if at == pool}
            own = {key: self.classes.classes[key] for key in sorted(present)}
            for variant, most in zip(offer.variants, offer.most, strict=True):
                demands = self.classes.variants[variant].demands
                parts = cover_parts(demands, offer.limits, variant, own, self.finder)
                if parts is not None:
                    # by each demand of each part alone
                    alone = min(
                        (
                            sum(
                                free[pool, key] * gift
                                for key, gift in zip(part.classes, line, strict=True)
                            )
                            // demand
                            for part in parts
                            for line, demand in zip(
                                zip(*part.gives, strict=True), part.demands, strict=True
                            )
                        ),
                        default=MAX_NODES,
                    )
                    # where an added block will be is not known
                    bound = alone if pool in added else min(most, alone)
                    self._add_nodes(pool, variant, parts, bound, distinct)
        self._add_supply_rows()

    def taken(self, values: Floats) -> dict[tuple[int, int], int]:
        """Return how many blocks a solution takes, by pool and class."""
        return {
            key: round(sum(values[column] * number for column, number in terms))
            for key, terms in self.uses.items()
        }

    def _supply(self) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
        """Return by pool and class how often a block can be taken, and how many blocks differ."""
        free: dict[tuple[int, int], int] = {}
        distinct: dict[tuple[int, int], int] = {}
        for one in self.offer.blocks:
            for pool in one.pools:
                key = (pool, one.block_class)
                free[key] = free.get(key, 0) + one.slots * one.number
                distinct[key] = distinct.get(key, 0) + one.number
        for pool, block_class, most in self.additions:
            free[pool, block_class] = free.get((pool, block_class), 0) + most
            distinct[pool, block_class] = distinct.get((pool, block_class), 0) + most
        return free, distinct

    def _add_nodes(
        self,
        pool: int,
        variant: int,
        parts: tuple[CoverPart, ...],
        most: int,
        distinct: dict[tuple[int, int], int],
    ) -> None:
        granting = list(self._granting(pool, variant))
        if not most or any(not stocks for _, _, stocks in granting):
            return
        column = self.programme.column(most)
        columns = []
        for part in parts:
            room = [distinct[pool, key] for key in part.classes]
            columns.append(self._add_part(pool, column, part, room))
        if any(one.part.covers == () for one in columns):
            self.programme.upper[column] = 0
            return
        grants = tuple(self._add_grants(granting, column))
        self.nodes.append(NodeColumn(pool, variant, column, tuple(columns), grants))
        fitter = self.classes.variants[variant].fitter
        bound = any(bond.place != "zone" for bond in fitter.bonds)
        self.is_exact = self.is_exact and not bound and all(part.is_exact for part in parts)

    def _add_part(
        self, pool: int, nodes: int, part: CoverPart, distinct: Sequence[int]
    ) -> PartColumns:
        add = self.programme
        if part.covers is not None:
            covers = tuple(
                cover for cover in part.covers
                if all(number <= most for number, most in zip(cover, distinct, strict=True))
            )  # fmt: skip
            part = CoverPart(part.classes, part.gives, part.demands, part.caps, False, covers)
            columns = [nodes] if len(covers) == 1 else [add.column() for _ in covers]
            if len(columns) > 1:
                add.row([*((one, 1.0) for one in columns), (nodes, -1.0)], 0.0, 0.0)
            for column, cover in zip(columns, covers, strict=True):
                for key, number in zip(part.classes, cover, strict=True):
                    if number:
                        self.uses.setdefault((pool, key), []).append((column, number))
            return PartColumns(part, tuple(columns))
        columns = [add.column() for _ in part.classes]
        for line, demand in zip(zip(*part.gives, strict=True), part.demands, strict=True):
            terms: Terms = [(one, float(gift)) for one, gift in zip(columns, line, strict=True)
                            if gift]  # fmt: skip
            add.row([*terms, (nodes, -float(demand))], lower=0.0)
        for members, cap in part.caps if not part.is_chain else ():
            add.row([*((columns[member], 1.0) for member in members), (nodes, -float(cap))],
                    upper=0.0)  # fmt: skip
        for key, column in zip(part.classes, columns, strict=True):
            self.uses.setdefault((pool, key), []).append((column, 1.0))
        return PartColumns(part, tuple(columns))

    def _granting(self, pool: int, variant: int) -> Iterator[tuple[int, int, list[int]]]:
        """Yield for each amount of a variant its number, how often, and the stocks of the pool."""
        number = sum(len(one.grants) for one in self.classes.variants[:variant])
        for _, _, count in self.classes.variants[variant].grants:
            yield number, count, [
                stock for stock, one in enumerate(self.offer.stocks)
                if pool in one.pools and one.grants[number] is not None
            ]  # fmt: skip
            number += 1

    def _add_grants(
        self, granting: Sequence[tuple[int, int, list[int]]], nodes: int
    ) -> Iterator[tuple[GrantColumn, ...]]:
        for number, count, stocks in granting:
            sizes = [(stock, self.offer.stocks[stock].grants[number] or 0.0) for stock in stocks]
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
            yield tuple(columns)

    def _add_supply_rows(self) -> None:
        add = self.programme
        direct: dict[tuple[int, int], int] = {}
        shared: dict[tuple[int, int], Terms] = {}
        for number, one in enumerate(self.offer.blocks):
            pools = [pool for pool in one.pools if (pool, one.block_class) in self.uses]
            self.takers.append(tuple(pools))
            if len(pools) == 1:
                key = (pools[0], one.block_class)
                direct[key] = direct.get(key, 0) + one.slots * one.number
            elif pools:
                for pool in pools:
                    column = self.flows[number, pool] = add.column(one.slots * one.number)
                    shared.setdefault((pool, one.block_class), []).append((column, -1.0))
                terms = [(self.flows[number, pool], 1.0) for pool in pools]
                add.row(terms, upper=one.slots * one.number)
        for pool, block_class, most in self.additions:
            column = add.column(most)
            self.addition_columns.append(column)
            shared.setdefault((pool, block_class), []).append((column, -1.0))
        for key, terms in self.uses.items():
            add.row([*_merged(terms), *shared.get(key, ())], upper=direct.get(key, 0))
        for terms in self._granted.values():
            add.row(_merged(terms), upper=STOCK_ROUNDING)


def _merged(terms: Terms) -> Terms:
    merged: dict[int, float] = {}
    for column, value in terms:
        merged[column] = merged.get(column, 0.0) + value
    return list(merged.items())
