# SPDX-License-Identifier: Apache-2.0
"""A pod manager that a program or a person wrote as JSON: checked against itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from valence_sched.errors import InputError, one_line
from valence_sched.model.inventory import Podm, Status, parse_status, to_json
from valence_sched.model.quantity import check_time, format_count

P = TypeVar("P", bound=Podm[Any, Any])


def check_podm(podm: Podm[Any, Any], file: str, place: str) -> None:
    """Check what no type says: the time of the reading, and the URIs of stocks and nodes.

    Raises:
        InputError: the time is none, or a URI stands there twice.
    """
    check_time(podm.read_at, file, f"{place}.read_at")
    for field in ("stocks", "nodes"):
        known: set[str] = set()
        for index, uri in enumerate(one.uri for one in getattr(podm, field)):
            if uri in known:
                where = f"{place}.{field}[{index}].uri"
                raise InputError(file, where, f"{uri!r} again", "a URI of its own")
            known.add(uri)


def contradicted_limits(podm: Podm[Any, Any], file: str, place: str) -> Iterator[str]:
    """Yield a remark on each pool and stock whose least number is above its largest."""
    for index, pool in enumerate(podm.pools):
        for kind, limit in pool.limits.items():
            if limit.max is not None and limit.min > limit.max:
                where, found = f"pools[{index}].limits.{kind}", f"{limit.min} above max {limit.max}"
                text = f"found min {found}: no node of the pool meets both"
                yield one_line(f"{file}: {place}.{where}: {text}")
    for index, stock in enumerate(podm.stocks):
        if stock.max is not None and stock.min > stock.max:
            text = f"found min {stock.min:g} above max {stock.max:g}: nothing of it is granted"
            yield one_line(f"{file}: {place}.stocks[{index}]: {text}")


def with_use_of_nodes(podm: P, file: str, place: str, *, lean: bool) -> tuple[P, str | None]:
    """Return a podm in which the blocks that a node has are in use; a ``lean`` one stays so.

    With it comes a remark on the first such block that says Unused, None without one. Shareable
    ones are passed over: they say it by their number of compositions.
    """
    used = {uri: node for node in podm.nodes for uri in node.blocks}
    blocks, doubtful = list(podm.blocks), []
    for index, block in enumerate(podm.blocks if used else ()):
        if block.uri not in used:
            continue
        status = block.status
        known = status if isinstance(status, Status) else parse_status(bytes(status or b""))
        if known.slots > 0 and not known.shareable:  # a node may have it for itself alone
            composed = replace(known, state="Composed")
            blocks[index] = replace(block, status=Raw(to_json(composed)) if lean else composed)
            doubtful.append(index)
    if not doubtful:
        return podm, None
    node = used[blocks[doubtful[0]].uri].uri
    text = f"found Unused, expected Composed: node {node} has the block, and it counts as in use"
    if len(doubtful) > 1:
        text += f"; so do {format_count(len(doubtful) - 1, 'other')}"
    remark = one_line(f"{file}: {place}.blocks[{doubtful[0]}].status: {text}")
    return replace(podm, blocks=tuple(blocks)), remark
