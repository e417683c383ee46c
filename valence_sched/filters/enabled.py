# SPDX-License-Identifier: Apache-2.0
"""Enabled filter: keeps pod managers that the operator has not disabled."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, terms_of_podms
from valence_sched.view.view import View


@terms_of_podms
def enabled(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that are enabled."""
    yield Term("enabled", True, view.enabled, holds=view.enabled)
