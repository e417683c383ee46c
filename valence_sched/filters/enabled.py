# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps pod managers an operator has not switched off."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, terms_of_podms
from valence_sched.view.view import View


@terms_of_podms
def enabled(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that are enabled."""
    yield Term("enabled", True, view.enabled, holds=view.enabled)
