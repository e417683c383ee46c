# SPDX-License-Identifier: Apache-2.0
"""Whose words a document is in, told by its keys, and what it means.

Our own flavors are a superset of Valence's, so what is nobody else's is read as theirs.
"""

from __future__ import annotations

from typing import Any

from valence_sched.config.foreign import nova, rsd, valence
from valence_sched.config.foreign.base import Form, Known, Where


def form(document: Any, where: Where, known: Known) -> Form:
    """Read a flavor or a compose body: ours, Valence's, Nova's, or an RSD Allocate body.

    Raises:
        InputError: naming the place in the document, what was found and what was expected.
        UnknownName: it refers to a flavor that is not among the known.
    """
    if nova.knows(document):
        return _whole(nova.form(document, where, known), where)
    if rsd.knows(document):
        return _whole(rsd.form(document, where, known), where)
    return valence.form(document, where, known)


def _whole(form: Form, where: Where) -> Form:
    """Refuse a request that asks for nothing."""
    if not form.flavor.needs:
        raise where.error("nothing asked for", "at least one amount or device")
    return form
