# SPDX-License-Identifier: Apache-2.0
"""Whose words a document is in, told by its keys, and what it means.

Our own flavors are a superset of Valence's, so what is nobody else's is read as theirs.
"""

from __future__ import annotations

from typing import Any

from valence_sched.config.foreign import nova, rsd, valence
from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, ForeignFlavor


def parse_flavor(document: Any, where: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Read a flavor or a compose body: ours, Valence's, Nova's, or an RSD Allocate body.

    Raises:
        InputError: naming the place in the document, what was found and what was expected.
        UnknownName: it refers to a flavor that is not among the known.
    """
    if nova.recognises(document):
        return _check_not_empty(nova.parse_flavor(document, where, known), where)
    if rsd.recognises(document):
        return _check_not_empty(rsd.parse_flavor(document, where, known), where)
    return valence.parse_flavor(document, where, known)


def _check_not_empty(form: ForeignFlavor, where: DocumentCursor) -> ForeignFlavor:
    """Refuse a request that asks for nothing."""
    if not form.flavor.needs:
        raise where.error("nothing asked for", "at least one amount or device")
    return form
