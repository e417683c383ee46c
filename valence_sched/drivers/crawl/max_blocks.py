# SPDX-License-Identifier: Apache-2.0
"""The most blocks of a type in one node, as registered, in the limits of pools."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from valence_sched.drivers.fields import Notes
from valence_sched.model.inventory import BlockType, FullPodm, Limit
from valence_sched.model.quantity import format_count

MaxBlocks = Mapping[BlockType, int]


def with_max_blocks(podm: FullPodm, max_blocks: MaxBlocks, notes: Notes) -> FullPodm:
    """Return the pod manager with these limits; where it states a stricter one, that is noted."""
    stricter: dict[tuple[BlockType, int], list[str]] = {}
    pools = []
    for pool in podm.pools:
        limits = dict(pool.limits)
        for kind, most in max_blocks.items():
            least, stated = limits[kind].min if kind in limits else 0, limits.get(kind, Limit()).max
            top = most if stated is None else min(most, stated)
            limits[kind] = Limit(least, max(top, least))
            if max(top, least) != most:
                stricter.setdefault((kind, max(top, least)), []).append(pool.id)
        pools.append(replace(pool, limits=limits) if max_blocks else pool)
    for (kind, found), ids in stricter.items():
        where = f"pool {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
        limit = format_count(found, f"{kind} block")
        what = f"found a limit of {limit} in a node, expected {max_blocks[kind]}"
        notes.remark(f"{where}: {what} as registered (what the pod manager states holds)")
    return replace(podm, pools=tuple(pools))
