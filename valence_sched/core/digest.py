# SPDX-License-Identifier: Apache-2.0
"""Digests: short hashes that identify the inventory and the documents of a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.model.decision import InventorySummary
from valence_sched.model.inventory import to_json
from valence_sched.view.view import View


def inventory_source(view: View, skipped: Sequence[str]) -> InventorySummary:
    """Return the summary of the inventory that a View was built from, as reports hold it."""
    return InventorySummary(
        digest=inventory_digest(view),
        podms=len(view.podms),
        pools=len(view),
        blocks=view.block_count,
        skipped=tuple(skipped),
    )


def inventory_digest(view: View) -> str:
    """Return a digest of the inventory of a View, from whatever source and whenever it was read."""
    total = hashlib.blake2b(digest_size=16)
    order = [kind.sort_key for kind in view.kinds.kinds]
    for podm, table in zip(view.podms, view.block_tables, strict=True):
        total.update(to_json(replace(podm, read_at=None)))
        total.update("\0".join(table.uris).encode())
        total.update(b"\0".join(order[kind] for kind in table.kinds))
        total.update(repr((table.slots, table.pools, table.stock_pools)).encode())
        total.update(to_json(table.stocks))
        if table.topologies:
            total.update(to_json(table.topologies))
    return total.hexdigest()


def digest(data: bytes) -> str:
    """Return a short digest of a document."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
