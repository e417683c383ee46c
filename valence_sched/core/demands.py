# SPDX-License-Identifier: Apache-2.0
"""What a choice of blocks must bring to make a node: the whole-number lines of the cover."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec

from valence_sched.model.inventory import BlockType, Limit
from valence_sched.model.need import Need

KINDS = ("processor", "memory", "accelerator", "drive", "nic")


class Demand(msgspec.Struct, frozen=True):
    """One line of the cover: how much, of what, and the needs that it speaks for."""

    amount: int
    needs: tuple[Need, ...]

    @property
    def label(self) -> str:
        """Return the demand in an operator's words."""
        return " and ".join(need.label for need in self.needs)


def demands(needs: tuple[Need, ...]) -> Iterator[Demand]:
    """Yield the totals, and one demand for each set of groups of one kind (Hall's theorem)."""
    for need in needs:
        if need.kind != "stock" and need.measure != "devices":
            yield Demand(math.ceil(need.amount), (need,))
    devices = [need for need in needs if need.measure == "devices"]
    for kind in KINDS if devices else ():
        groups = [need for need in devices if need.kind == kind]
        for size in range(1, len(groups) + 1):
            for chosen in itertools.combinations(groups, size):
                yield Demand(sum(math.ceil(need.amount) for need in chosen), chosen)


def least_blocks(limits: dict[BlockType, Limit]) -> dict[BlockType, int]:
    """Return how many blocks of each type a node of a pool must have at least, where any."""
    return {name: limit.min for name, limit in limits.items() if limit.min}
