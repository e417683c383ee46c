# SPDX-License-Identifier: Apache-2.0
"""Demands: a request's needs as whole-number lines of a set cover, and their value in points."""

import itertools
import math
from collections.abc import Iterable, Iterator

import msgspec

from valence_sched.model.inventory import BlockType, Limit
from valence_sched.model.need import Need
from valence_sched.view import block_kinds as prices
from valence_sched.view.block_kinds import BlockKinds

DEVICE_KINDS = ("processor", "memory", "accelerator", "drive", "nic")


class Demand(msgspec.Struct, frozen=True):
    """One line of the cover: an amount, and the needs that it stands for."""

    amount: int
    needs: tuple[Need, ...]

    @property
    def label(self) -> str:
        return " and ".join(need.label for need in self.needs)


def demands(needs: tuple[Need, ...]) -> Iterator[Demand]:
    """Yield the totals, and one demand for each set of groups of one kind (Hall's theorem)."""
    for need in needs:
        if need.kind != "stock" and need.measure != "devices":
            yield Demand(math.ceil(need.amount), (need,))
    devices = [need for need in needs if need.measure == "devices"]
    for kind in DEVICE_KINDS:
        groups = [need for need in devices if need.kind == kind]
        for size in range(1, len(groups) + 1):
            for chosen in itertools.combinations(groups, size):
                yield Demand(sum(math.ceil(need.amount) for need in chosen), chosen)


def least_blocks(limits: dict[BlockType, Limit]) -> dict[BlockType, int]:
    """Return how many blocks of each type a node of a pool must have at least, if any."""
    return {name: limit.min for name, limit in limits.items() if limit.min}


def waste(kinds: BlockKinds, blocks: Iterable[tuple[int, int]], needs: Iterable[Need]) -> int:
    """Return the value of ``(kind, number of blocks)`` beyond the needs; never below 0."""
    price = sum([kinds.kinds[kind].price * number for kind, number in blocks])
    return max(0, price - price_of_needs(needs))


def price_of_needs(needs: Iterable[Need]) -> int:
    """Return the value of the needs themselves, in points."""
    return sum(map(_price, needs))


def _price(need: Need) -> int:
    amount = int(need.amount)
    if need.kind == "stock" or need.measure == "sockets":
        return 0
    if need.measure == "cores":
        return amount * prices.PRICE_CORE
    if need.measure == "capacity_mib":
        return amount // prices.MIB_PER_POINT
    if need.kind == "accelerator":
        return amount * prices.PRICE_ACCELERATOR
    if need.kind == "nic":
        return amount * prices.PRICE_NIC
    least = {test.attribute: int(test.value) for test in need.tests if test.operator == "at_least"}
    if need.kind == "processor":
        return amount * least.get("cores", 0) * prices.PRICE_CORE
    if need.kind == "memory":
        return amount * least.get("capacity_mib", 0) // prices.MIB_PER_POINT
    return amount * (prices.PRICE_DRIVE + least.get("capacity_bytes", 0) // prices.BYTES_PER_POINT)
