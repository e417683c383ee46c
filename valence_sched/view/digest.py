# SPDX-License-Identifier: Apache-2.0
"""The inventory digest: of all that a View was built from, whenever and from wherever it was read.

Reports name their inventory by it, so that it is the same for the same inventory in any release.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from valence_sched.model.inventory import to_json
from valence_sched.view.view import View

DIGITS = b"0123456789".ljust(256, b"\0")  # as text, by number
NAME = "inventory digest"  # what a View remembers it by


def inventory_digest(view: View) -> str:
    """Return a digest of the inventory of a View, as 32 hexadecimal digits."""
    return view.memoise_free(NAME, None, lambda: _digest(view))  # type: ignore[no-any-return]


def set_inventory_digest(view: View, digest: str) -> None:
    """Let a View remember the digest that another one of the same inventory had."""
    view.memoise_free(NAME, None, lambda: digest)


def _digest(view: View) -> str:
    total = hashlib.blake2b(digest_size=16)
    order = [kind.text for kind in view.kinds.kinds]
    texts = _Texts()
    for podm, table in zip(view.podms, view.block_tables, strict=True):
        total.update(to_json(replace(podm, read_at=None)) + "\0".join(table.uris).encode())
        total.update(b"\0".join([order[number] for number in table.kinds]))
        pools = ", ".join(map(texts.__getitem__, table.pools))
        text = f"([{_digits(table.slots)}], [{pools}], {table.stock_pools!r})"
        total.update(text.encode() + to_json(table.stocks))
        if table.topologies:
            total.update(to_json(table.topologies))
    return total.hexdigest()


def _digits(numbers: list[int]) -> str:
    """Return numbers as ``repr`` has them in a list; quickly where each is one digit."""
    try:
        text = bytes(numbers).translate(DIGITS)
    except ValueError:  # one is above all bytes
        text = b"\0"
    return ", ".join(map(str, numbers) if b"\0" in text else text.decode())


class _Texts(dict[object, str]):
    """What ``repr`` makes of equal things, made once."""

    def __missing__(self, thing: object) -> str:
        text = self[thing] = repr(thing)
        return text
