# SPDX-License-Identifier: Apache-2.0
"""Lists the hardware of a View: its blocks, its pools, and its devices counted by model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

from valence_sched.errors import UnknownName, UsageError, one_line
from valence_sched.model.hardware import (
    BlockFilter,
    BlockOverview,
    BlockUse,
    DeviceCount,
    PoolOverview,
    count_devices,
    device_groups,
)
from valence_sched.model.inventory import Devices
from valence_sched.model.need import has_words
from valence_sched.model.quantity import format_count
from valence_sched.view.blocks import BlockTable
from valence_sched.view.summary import summarise_pools
from valence_sched.view.view import View

_MOST_NAMED = 4  # blocks of one name that an error names


def blocks(view: View, wanted: BlockFilter) -> Iterator[BlockOverview]:
    """Yield the blocks that a filter keeps, in the order of the inventory.

    Raises:
        UnknownName: the filter names a pod manager or a pool that is not there.
    """
    podm_numbers = _podm_numbers(view, wanted.podm)
    _check_pool(view, podm_numbers, wanted.pool)
    keeps_kind = [
        (wanted.type is None or wanted.type in kind.types)
        and (wanted.model is None or _has_model(kind.devices, wanted.model))
        for kind in view.kinds.kinds
    ]
    for number in podm_numbers:
        podm, table, first = view.podms[number], view.block_tables[number], view.first_row[number]
        users: dict[str, list[str]] = defaultdict(list)
        for node in podm.nodes:
            for uri in node.blocks:
                users[uri].append(node.name or node.uri.rstrip("/").rpartition("/")[2])
        for block, uri in enumerate(table.uris):
            pools = tuple(view.pools[first + position].id for position in table.pools[block])
            if not keeps_kind[table.kinds[block]] or (wanted.free and table.slots[block] <= 0):
                continue
            if wanted.pool is not None and wanted.pool not in pools:
                continue
            kind = view.kinds.kinds[table.kinds[block]]
            topology = (table.topologies[block] if table.topologies else None) or {}
            yield BlockOverview(
                podm=podm.id, uri=uri, types=kind.types, pools=pools, devices=kind.devices,
                slots=table.slots[block], use=_use(table, block, users),
                nodes=tuple(users.get(uri, ())), topology=dict(topology),
                condition=kind.condition,
            )  # fmt: skip


def _use(table: BlockTable, block: int, users: Container[str]) -> BlockUse:
    """Return the use of a block; ``users`` has the URIs of the blocks that nodes are made of."""
    in_use = table.gains[block] > 0 or table.shared[block] or table.uris[block] in users
    if table.slots[block] > 0:
        return "shared" if in_use else "free"
    return "used" if in_use else "unusable"


def block(view: View, name: str, podm: str | None = None) -> BlockOverview:
    """Return one block by its URI or the last part of it.

    Raises:
        UnknownName: there is no such block.
        UsageError: several blocks have this name.
    """
    every = list(blocks(view, BlockFilter(podm=podm)))
    found = [one for one in every if one.uri == name] or [
        one for one in every if one.uri.rstrip("/").rpartition("/")[2] == name
    ]
    if not found:
        raise UnknownName("block", name, {one.uri.rstrip("/").rpartition("/")[2] for one in every})
    if len(found) > 1:
        places = ", ".join(f"{one.uri} of {one.podm}" for one in found[:_MOST_NAMED])
        hint = f"name the URI, and --podm where two pod managers share it ({places})"
        raise UsageError(
            one_line(f"{format_count(len(found), 'block')} are named {name!r}: {hint}")
        )
    return found[0]


def pools(view: View, podm: str | None = None) -> Iterator[PoolOverview]:
    """Yield the pools of every pod manager, or of one; UnknownName where that is not there."""
    for number in _podm_numbers(view, podm):
        summaries = summarise_pools(view, number)
        for row in range(int(view.first_row[number]), int(view.first_row[number + 1])):
            pool = view.pools[row]
            yield PoolOverview(podm=view.podms[number].id, pool=pool.id, name=pool.name,
                               traits=pool.traits, amounts=summaries[pool.id])  # fmt: skip


def device_counts(view: View, wanted: BlockFilter) -> list[DeviceCount]:
    """Count the devices of the blocks that a filter keeps, by kind and model.

    With ``model`` the blocks are those that have such a device, and only such are counted.
    """
    return count_devices(blocks(view, wanted), wanted.model)


def _has_model(devices: Devices, words: str) -> bool:
    return any(model and has_words(model, words) for _, model, _ in device_groups(devices))


def _podm_numbers(view: View, name: str | None) -> list[int]:
    if name is None:
        return list(range(len(view.podms)))
    found = [number for number, podm in enumerate(view.podms) if name in (podm.id, podm.name)]
    if not found:
        raise UnknownName("pod manager", name, [podm.id for podm in view.podms])
    return found[:1]


def _check_pool(view: View, podm_numbers: list[int], pool: str | None) -> None:
    known = {
        view.pools[row].id
        for number in podm_numbers
        for row in range(int(view.first_row[number]), int(view.first_row[number + 1]))
    }
    if pool is not None and pool not in known:
        raise UnknownName("pool", pool, sorted(known))
