# SPDX-License-Identifier: Apache-2.0
"""Detects the format of a flavor or compose body, and parses it.

The project's own flavors are a superset of Valence's, so all other documents are parsed as such.
"""

from __future__ import annotations

from typing import Any

from valence_sched.config.foreign import nova, rsd, valence
from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, ForeignFlavor


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Parse a flavor or a compose body: our own, Valence's, Nova's, or an RSD Allocate body.

    Raises:
        InputError: naming the path in the document, what was found and what was expected.
        UnknownName: it refers to an unknown flavor.
    """
    if nova.recognises(document):
        return _check_not_empty(nova.parse_flavor(document, cursor, known), cursor)
    if rsd.recognises(document):
        return _check_not_empty(rsd.parse_flavor(document, cursor, known), cursor)
    return valence.parse_flavor(document, cursor, known)


def _check_not_empty(parsed: ForeignFlavor, cursor: DocumentCursor) -> ForeignFlavor:
    """Refuse a request that asks for nothing."""
    if not parsed.flavor.needs:
        raise cursor.error("nothing asked for", "at least one amount or device")
    return parsed
