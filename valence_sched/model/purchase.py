# SPDX-License-Identifier: Apache-2.0
"""Purchases: the blocks to add so that so many more nodes fit."""

from __future__ import annotations

from valence_sched.model.base import Noun


class PurchaseLine(Noun, frozen=True, kw_only=True):
    """So many blocks of one sort for one pool; ``price`` is that of one of them."""

    block: str
    podm: str
    pool: str
    number: int
    price: float | None = None


class PurchaseResult(Noun, frozen=True, kw_only=True):
    """The smallest purchase for a number of nodes, None where no purchase is enough.

    ``total`` is its price, or where blocks have no price their number; ``bound`` is the least that
    any purchase comes to. ``placed`` is how many of the ``wanted`` nodes placing one after another
    reaches with these blocks, by the policy of the request.
    """

    flavor: str
    wanted: int
    priced: bool
    lines: tuple[PurchaseLine, ...] | None
    total: float = 0.0
    bound: float = 0.0
    placed: int = 0
    exact_model: bool = True

    @property
    def is_smallest(self) -> bool:
        """Return whether no purchase is smaller: the result meets the bound."""
        return self.total == self.bound
