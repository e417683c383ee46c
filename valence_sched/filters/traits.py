# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps pools with the required traits and none of the forbidden."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.opinion import Term, terms
from valence_sched.model.request import Request
from valence_sched.model.view import View


@terms
def traits(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools that have every required trait, their podm's included, and no forbidden one."""
    for name in request.traits.required:
        holds = view.traits.where({name}.issubset)
        yield Term("trait", name, view.traits, holds=holds)
    for name in request.traits.forbidden:
        holds = view.traits.where({name}.isdisjoint)
        yield Term("trait", f"not {name}", view.traits, holds=holds)
