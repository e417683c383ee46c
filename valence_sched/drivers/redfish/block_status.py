# SPDX-License-Identifier: Apache-2.0
"""The status and types of each block, from its own document and from composed systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import get_args

from msgspec.structs import replace

from valence_sched.drivers.redfish.describe import ContentMemo
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.model.inventory import BlockType, CompositionState, Node, Status

_STATES: dict[str, CompositionState] = {
    word.casefold(): word for word in get_args(CompositionState)
}
_TYPES: dict[str, BlockType] = {word.casefold(): word for word in get_args(BlockType)}


def statuses(blocks: Iterable[ResourceBlock], nodes: Iterable[Node]) -> Mapping[str, Status]:
    """Return the status of each block by its URI."""
    used = Counter(uri for node in nodes for uri in set(node.blocks))
    alike = ContentMemo(_status)
    return {
        block.uri: _correct_by_nodes(block, alike.of(block), used[block.uri]) for block in blocks
    }


def types(block: ResourceBlock) -> tuple[BlockType, ...]:
    """Return the types of a block without repetition; words of no known type are noted."""
    found = [_TYPES.get(word.casefold()) for word in block.types]
    if None in found:
        expected = "expected " + ", ".join(_TYPES.values())
        block.notes.remark(f"{block.uri}: ResourceBlockType: found {list(block.types)}, {expected}")
    return tuple(dict.fromkeys(kind for kind in found if kind))


def _status(block: ResourceBlock) -> Status:
    word = block.composition_state or "Unknown"
    return Status(
        state=_STATES.get(word.casefold(), "Unknown"),
        reserved=bool(block.reserved),
        enabled=None if block.state is None else block.state.casefold() == "enabled",
        health=block.health or block.rollup,  # type: ignore[arg-type]
        active=(block.pool or "").casefold() == "active",
        shareable=bool(block.sharing_capable and block.sharing_enabled),
        max_compositions=block.max_compositions,
        compositions=block.compositions or 0,
        client=block.client,
    )


def _correct_by_nodes(block: ResourceBlock, status: Status, used: int) -> Status:
    """Believe composed systems: a block they link is in use, whatever it says itself."""
    if not used:
        return status
    if status.state == "Unused":
        path = ResourceBlock.composition_state.path
        what = f"found Unused, expected Composed: {used} composed system(s) link the block"
        block.notes.remark(f"{block.uri}: {path}: {what}")
        status = replace(status, state="Composed")
    return replace(status, compositions=max(status.compositions, used))
