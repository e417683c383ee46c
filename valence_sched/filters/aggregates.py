# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps members of aggregates."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.opinion import Term, terms
from valence_sched.model.request import Request
from valence_sched.model.view import View


@terms
def aggregates(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that are members of every aggregate asked for."""
    for name in request.aggregates:
        holds = view.aggregates.where({name}.issubset)
        yield Term("aggregate", name, view.aggregates, holds=holds)
