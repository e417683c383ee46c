# SPDX-License-Identifier: Apache-2.0
"""Disruptions: pod managers of which blocks, pools or all fail, are drained or are removed.

A block or a stock goes with a pool if it is in no other pool; one that is also in others only
leaves the pool. All pools of a pod manager are the pod manager itself.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from valence_sched.model.inventory import LeanBlock, LeanPodm, Node, Status, Stock
from valence_sched.planning.statuses import StatusChanges, drained, failed
from valence_sched.planning.targets import TargetMatch, members, pools_of


@dataclass(frozen=True, slots=True)
class Disruption:
    """A pod manager afterwards, None where it is gone, and how many of what were concerned."""

    podm: LeanPodm | None
    pools: int
    blocks: int
    stocks: int
    nodes: int


DisruptionRule = Callable[[LeanPodm, TargetMatch, StatusChanges], Disruption]


def fail(podm: LeanPodm, match: TargetMatch, statuses: StatusChanges) -> Disruption:
    """Return a pod manager after blocks failed; nodes on them are lost, and their others free.

    A stock that failed has nothing left. A pod manager that failed is Offline as well.
    """
    scope = Scope.of(podm, match)
    nodes, released = _lost_nodes(podm, scope)
    blocks = tuple(
        statuses.apply(block, failed) if number in scope.blocks
        else _release(scope.outside(block), released, statuses)
        for number, block in enumerate(podm.blocks)
    )  # fmt: skip
    stocks = tuple(
        replace(stock, total=0.0, used=0.0) if stock.uri in scope.stocks
        else scope.outside_stock(stock)
        for stock in podm.stocks
    )  # fmt: skip
    status = "Offline" if scope.whole else podm.status
    return scope.disruption(
        podm, replace(podm, status=status, blocks=blocks, stocks=stocks, nodes=nodes)
    )


def drain(podm: LeanPodm, match: TargetMatch, statuses: StatusChanges) -> Disruption:
    """Return a pod manager of which blocks take no new node; nodes that are there stay.

    A stock that is drained has nothing free. A pod manager that is drained is disabled as well.
    """
    scope = Scope.of(podm, match)
    blocks = tuple(
        statuses.apply(block, drained) if number in scope.blocks else scope.outside(block)
        for number, block in enumerate(podm.blocks)
    )
    stocks = tuple(
        replace(stock, total=stock.total and min(stock.total, stock.used))
        if stock.uri in scope.stocks else scope.outside_stock(stock)
        for stock in podm.stocks
    )  # fmt: skip
    enabled = podm.enabled and not scope.whole
    return scope.disruption(podm, replace(podm, enabled=enabled, blocks=blocks, stocks=stocks))


def remove(podm: LeanPodm, match: TargetMatch, statuses: StatusChanges) -> Disruption:
    """Return a pod manager without blocks and their nodes; the other blocks of these are free."""
    scope = Scope.of(podm, match)
    if scope.whole:
        return scope.disruption(podm, None)
    nodes, released = _lost_nodes(podm, scope)
    left = replace(
        podm,
        pools=tuple(pool for pool in podm.pools if pool.id not in scope.pools),
        blocks=tuple(
            _release(scope.outside(block), released, statuses)
            for number, block in enumerate(podm.blocks)
            if number not in scope.blocks
        ),
        stocks=tuple(scope.outside_stock(stock) for stock in podm.stocks
                     if stock.uri not in scope.stocks),
        nodes=nodes,
    )  # fmt: skip
    return scope.disruption(podm, left)


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a pod manager is concerned: numbers of blocks, URIs of stocks, ids of pools.

    Blocks and stocks are those that are in no other pool.
    """

    whole: bool
    pools: frozenset[str]
    blocks: frozenset[int]
    stocks: frozenset[str]

    @classmethod
    def of(cls, podm: LeanPodm, match: TargetMatch) -> Scope:
        if match.blocks:
            return cls(False, frozenset(), frozenset(match.blocks), frozenset())
        pools = frozenset(pool.id for pool in pools_of(podm))
        if not match.pools or match.pools == pools:
            every = frozenset(range(len(podm.blocks)))
            return cls(True, pools, every, frozenset(stock.uri for stock in podm.stocks))

        @functools.cache
        def alone(names: tuple[str, ...]) -> bool:
            return bool(names) and match.pools.issuperset(members(podm, names))

        return cls(
            False,
            match.pools,
            frozenset(number for number, block in enumerate(podm.blocks) if alone(block.pools)),
            frozenset(stock.uri for stock in podm.stocks if alone(stock.pools)),
        )

    def outside(self, block: LeanBlock) -> LeanBlock:
        """Return a block that stays, without the pools that are concerned."""
        if self.pools.isdisjoint(block.pools):
            return block
        return replace(block, pools=self._other_pools(block.pools))

    def outside_stock(self, stock: Stock) -> Stock:
        """Return a stock that stays, without the pools that are concerned."""
        if self.pools.isdisjoint(stock.pools):
            return stock
        return replace(stock, pools=self._other_pools(stock.pools))

    def _other_pools(self, pools: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(pool for pool in pools if pool not in self.pools)

    def disruption(self, before: LeanPodm, after: LeanPodm | None) -> Disruption:
        nodes = len(before.nodes) - (len(after.nodes) if after else 0)
        return Disruption(after, len(self.pools), len(self.blocks), len(self.stocks), nodes)


def _lost_nodes(podm: LeanPodm, scope: Scope) -> tuple[tuple[Node, ...], Counter[str]]:
    """Return the nodes that are left, and by URI how many nodes each block lost."""
    if scope.whole:
        return (), Counter()
    gone = {podm.blocks[number].uri for number in scope.blocks}
    left = tuple(node for node in podm.nodes if gone.isdisjoint(node.blocks))
    lost = (node for node in podm.nodes if not gone.isdisjoint(node.blocks))
    return left, Counter(uri for node in lost for uri in set(node.blocks))


def _release(block: LeanBlock, released: Counter[str], statuses: StatusChanges) -> LeanBlock:
    nodes = released.get(block.uri)
    if nodes is None:
        return block

    def release(status: Status) -> Status:
        return status.released(nodes)

    return statuses.apply(block, release, ("released", nodes))
