# SPDX-License-Identifier: Apache-2.0
"""Amounts of one stock: what is free, the largest grant, and the size of a grant for an amount."""

from __future__ import annotations

import math

from valence_sched.model.inventory import Stock


def free_amount(stock: Stock) -> float:
    """Return how much of a stock is free, to a billionth; 0 when its total is unknown."""
    return max(0.0, to_a_billionth(stock.total - stock.used)) if stock.total is not None else 0.0


def to_a_billionth(amount: float) -> float:
    """Return an amount without what rounding costs; most are whole, and rounding is slow."""
    return amount if amount % 1 == 0 else round(amount, 9)


def largest_grant(stock: Stock) -> float:
    """Return the largest amount that the stock can hand out at once, 0 for none."""
    most = free_amount(stock)
    if stock.max is not None and stock.max < most:
        most = stock.max
    if stock.step:
        most = to_a_billionth(math.floor(most / stock.step + 1e-9) * stock.step)
    return most if most >= stock.min else 0.0


def grant_size(stock: Stock, amount_asked: float) -> float | None:
    """Return the smallest amount the stock hands out that is at least ``asked``, None for none.

    At least ``min``, at most ``max``, a multiple of ``step``: a domain that grows by 64 MiB
    answers 1,000 MiB with 1,024.
    """
    amount = max(amount_asked, stock.min)
    if stock.step:
        amount = to_a_billionth(math.ceil(amount / stock.step - 1e-9) * stock.step)
    return amount if amount <= largest_grant(stock) else None
