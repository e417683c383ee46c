# SPDX-License-Identifier: Apache-2.0
"""Amounts of one stock: what is free, the largest grant, and the size of a grant for an amount."""

import math

from valence_sched.model.inventory import Stock


def free_amount(stock: Stock) -> float:
    """Return how much of a stock is free, to a billionth; 0 when its total is unknown."""
    if stock.total is None:
        return 0.0
    free = stock.total - stock.used
    if free % 1:
        free = round(free, 9)
    return free if free > 0.0 else 0.0


def to_a_billionth(amount: float) -> float:
    """Return an amount without rounding errors; most are whole, and rounding is slow.

    Written out in the other functions here, which every fit calls once a stock.
    """
    return amount if amount % 1 == 0 else round(amount, 9)


def largest_grant(stock: Stock) -> float:
    """Return the largest amount that the stock can grant at once, 0 for none."""
    largest = free_amount(stock)
    if stock.max is not None and stock.max < largest:
        largest = stock.max
    if stock.step:
        largest = math.floor(largest / stock.step + 1e-9) * stock.step
        if largest % 1:
            largest = round(largest, 9)
    return largest if largest >= stock.min else 0.0


def grant_size(stock: Stock, requested: float) -> float | None:
    """Return the smallest grant of at least ``requested``, None if the stock has none.

    A grant is at least ``min``, at most ``max`` and a multiple of ``step``: a stock with a step of
    64 MiB grants 1,024 MiB for 1,000.
    """
    amount = requested if requested >= stock.min else stock.min
    if stock.step:
        amount = math.ceil(amount / stock.step - 1e-9) * stock.step
        if amount % 1:
            amount = round(amount, 9)
    return amount if amount <= largest_grant(stock) else None
