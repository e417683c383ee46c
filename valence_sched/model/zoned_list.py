# SPDX-License-Identifier: Apache-2.0
"""ZonedList: a list over zones that says which zones it lacks, also in a header of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from valence_sched.errors import one_line
from valence_sched.model.decision import SilentZone
from valence_sched.model.redact import redact_text

T = TypeVar("T")

SILENT_HEADER = "Silent-Zones"
MOST_HEADER_CHARS = 4000  # proxies take 8 KiB of headers
MOST_REASON_CHARS = 200


class ZonedList(list[T]):
    """A list over zones; ``silent`` are those that gave no answer, whose part it lacks."""

    def __init__(self, items: Iterable[T] = (), silent: Iterable[SilentZone] = ()) -> None:
        super().__init__(items)
        self.silent = tuple(silent)


def silent_zones(found: object) -> tuple[SilentZone, ...]:
    """Return the zones that a list lacks: none for one that is not over zones."""
    return found.silent if isinstance(found, ZonedList) else ()


def listed(found: Iterable[T]) -> Sequence[T]:
    """Return what a scheduler yields or lists as a sequence; one over zones stays what it is."""
    return found if isinstance(found, ZonedList) else tuple(found)


def silent_header(zones: Sequence[SilentZone]) -> str:
    """Return zones as a header, an array in JSON whose last element counts those left out."""
    texts: list[str] = []
    for number, text in enumerate(map(_json, zones)):
        if sum(map(len, texts)) + len(text) > MOST_HEADER_CHARS:
            reason = "left out of the header: scheduler zone tree tells which"
            rest = SilentZone(zone=f"{len(zones) - number:,} more", reason=reason)
            texts.append(_json(rest))
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def parse_silent_header(text: str) -> tuple[SilentZone, ...]:
    """Return the zones of a header, none for an empty one; ValueError where it is invalid."""
    if not text:
        return ()
    try:
        zones = msgspec.json.decode(text, type=list[SilentZone])
    except msgspec.DecodeError as error:
        raise ValueError(one_line(f"{SILENT_HEADER}: {error}")) from None
    return tuple(SilentZone(zone=one_line(one.zone), reason=one_line(one.reason, MOST_REASON_CHARS))
                 for one in zones)  # fmt: skip


def _json(zone: SilentZone) -> str:
    reason = one_line(redact_text(zone.reason), MOST_REASON_CHARS)
    return json.dumps({"zone": zone.zone, "reason": reason})
