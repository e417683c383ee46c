# SPDX-License-Identifier: Apache-2.0
"""How much more the blocks of a node are worth than what was asked for, in points."""

from __future__ import annotations

from collections.abc import Iterable

from valence_sched.model.kinds import (
    BYTES_PER_POINT,
    MIB_PER_POINT,
    PRICE_ACCELERATOR,
    PRICE_CORE,
    PRICE_DRIVE,
    PRICE_NIC,
    Kinds,
)
from valence_sched.model.need import Need


def waste(kinds: Kinds, blocks: Iterable[tuple[int, int]], needs: Iterable[Need]) -> int:
    """Return what ``(kind, number of blocks)`` are worth beyond the needs; never below 0."""
    price = sum([kinds.kinds[kind].price * number for kind, number in blocks])
    return max(0, price - asked_price(needs))


def asked_price(needs: Iterable[Need]) -> int:
    """Return what the needs themselves are worth."""
    return sum(map(_price, needs))


def _price(need: Need) -> int:
    amount = int(need.amount)
    if need.kind == "stock" or need.measure == "sockets":
        return 0
    if need.measure == "cores":
        return amount * PRICE_CORE
    if need.measure == "capacity_mib":
        return amount // MIB_PER_POINT
    if need.kind == "accelerator":
        return amount * PRICE_ACCELERATOR
    if need.kind == "nic":
        return amount * PRICE_NIC
    least = {test.attribute: int(test.value) for test in need.tests if test.operator == "at_least"}
    if need.kind == "processor":
        return amount * least.get("cores", 0) * PRICE_CORE
    if need.kind == "memory":
        return amount * least.get("capacity_mib", 0) // MIB_PER_POINT
    return amount * (PRICE_DRIVE + least.get("capacity_bytes", 0) // BYTES_PER_POINT)
