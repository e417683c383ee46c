# SPDX-License-Identifier: Apache-2.0
"""A pod manager that a program or a person wrote as JSON: checked against itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def with_use_of_nodes(podm: P, file: str, place: str, *, lean: bool) -> tuple[P, str | None]:
    """Return a podm in which the blocks that a node has are in use; a ``lean`` one stays so.

    With it comes a remark on the first such block that says Unused, None without one. Shareable
    ones are passed over: they say it by their number of compositions.
    """
    used = {uri: node for node in podm.nodes for uri in node.blocks}
    doubtful = {index: block for index, block in enumerate(podm.blocks)
                if block.uri in used and _is_free(block.status)} if used else {}  # fmt: skip
    if not doubtful:
        return podm, None
    index, first = next(iter(doubtful.items()))
    text = (f"found Unused, expected Composed: node {used[first.uri].uri} has the block, and it "
            "counts as in use")  # fmt: skip
    if len(doubtful) > 1:
        text += f"; so do {format_count(len(doubtful) - 1, 'other')}"
    blocks = list(podm.blocks)
    for number, block in doubtful.items():
        composed = replace(_status_of(block.status), state="Composed")
        blocks[number] = replace(block, status=Raw(to_json(composed)) if lean else composed)
    remark = one_line(f"{file}: {place}.blocks[{index}].status: {text}")
    return replace(podm, blocks=tuple(blocks)), remark


def _is_free(status: Any) -> bool:
    """Return whether a status, a noun or JSON, lets a node have the block for itself alone."""
    known = _status_of(status)
    return known.slots > 0 and not known.shareable


def _status_of(status: Any) -> Status:
    return parse_status(bytes(status or b"")) if not isinstance(status, Status) else status
