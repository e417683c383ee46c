# SPDX-License-Identifier: Apache-2.0
"""What a decision rests on, as documents name it: the inventory, and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.model import decision as words
from valence_sched.model.inventory import to_json
from valence_sched.view.view import View


def inventory_source(view: View, skipped: Sequence[str]) -> words.InventorySummary:
    """Return what a View was built from, as reports name it."""
    return words.InventorySummary(
        digest=inventory_digest(view),
        podms=len(view.podms),
        pools=len(view),
        blocks=view.block_count,
        skipped=tuple(skipped),
    )


def inventory_digest(view: View) -> str:
    """Return a digest of all that the View was built from, whatever held it and whenever read."""
    total = hashlib.blake2b(digest_size=16)
    order = [kind.sort_key for kind in view.kinds.kinds]
    for podm, shelf in zip(view.podms, view.block_tables, strict=True):
        total.update(to_json(replace(podm, read_at=None)))
        total.update("\0".join(shelf.uris).encode())
        total.update(b"\0".join(order[kind] for kind in shelf.kinds))
        total.update(repr((shelf.slots, shelf.pools, shelf.stock_pools)).encode())
        total.update(to_json(shelf.stocks))
        if shelf.topologies:
            total.update(to_json(shelf.topologies))
    return total.hexdigest()


def digest(data: bytes) -> str:
    """Return a short digest of a document."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
