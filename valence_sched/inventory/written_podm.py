# SPDX-License-Identifier: Apache-2.0
"""A pod manager that a program or a person wrote as JSON: checked against itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from valence_sched.errors import InputError, one_line
from valence_sched.model.age import check_time
from valence_sched.model.inventory import Podm, Status, parse_status
from valence_sched.model.quantity import format_count


def check_podm(podm: Podm[Any, Any], file: str, place: str) -> None:
    """Check what no type says: the time of the reading, and the URIs of stocks and nodes.

    Raises:
        InputError: the time is none, or a URI stands there twice.
    """
    check_time(podm.read_at, file, f"{place}.read_at")
    _check_uris((stock.uri for stock in podm.stocks), file, f"{place}.stocks")
    _check_uris((node.uri for node in podm.nodes), file, f"{place}.nodes")


def _check_uris(uris: Iterable[str], file: str, place: str) -> None:
    known: set[str] = set()
    for index, uri in enumerate(uris):
        if uri in known:
            raise InputError(file, f"{place}[{index}].uri", f"{uri!r} again", "a URI of its own")
        known.add(uri)


def contradicted_limits(podm: Podm[Any, Any], file: str, place: str) -> Iterator[str]:
    """Yield a remark on each pool and stock whose least number is above its largest."""
    for index, pool in enumerate(podm.pools):
        for kind, limit in pool.limits.items():
            if limit.max is not None and limit.min > limit.max:
                yield one_line(f"{file}: {place}.pools[{index}].limits.{kind}: found min "
                               f"{limit.min} above max {limit.max}: no node of the pool meets "
                               "both")  # fmt: skip
    for index, stock in enumerate(podm.stocks):
        if stock.max is not None and stock.min > stock.max:
            yield one_line(f"{file}: {place}.stocks[{index}]: found min {stock.min:g} above max "
                           f"{stock.max:g}: nothing of it is granted")  # fmt: skip


def doubtful_use(podm: Podm[Any, Any], file: str, place: str) -> str | None:
    """Return a remark on the first block that a node has and that says Unused, None without one.

    Its own status says whether a block is in use, so that such a block is handed out once more.
    Shareable ones are passed over: they say it by their number of compositions.
    """
    used = {uri: node for node in podm.nodes for uri in node.blocks}
    if not used:
        return None
    doubtful = [
        index for index, block in enumerate(podm.blocks)
        if block.uri in used and _is_free(block.status)
    ]  # fmt: skip
    if not doubtful:
        return None
    first = podm.blocks[doubtful[0]]
    text = (f"found Unused, expected Composed: node {used[first.uri].uri} has the block, and it is "
            "handed out again")  # fmt: skip
    if len(doubtful) > 1:
        text += f"; so are {format_count(len(doubtful) - 1, 'other')}"
    return one_line(f"{file}: {place}.blocks[{doubtful[0]}].status: {text}")


def _is_free(status: Any) -> bool:
    """Return whether a status, a noun or JSON, lets a node have the block for itself alone."""
    known = status if isinstance(status, Status) else parse_status(bytes(status or b""))
    return known.slots > 0 and not known.shareable
