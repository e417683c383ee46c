# SPDX-License-Identifier: Apache-2.0
"""Capabilities filter: keeps pod managers that have the requested capabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from valence_sched.model.request import Request
from valence_sched.view.reads import reads
from valence_sched.view.terms import Term, terms
from valence_sched.view.view import View


@reads("capabilities")
@terms
def capabilities(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that have, for every key asked for, one of the asked values."""
    for key, values in request.capabilities.items():
        holds = view.capabilities.where(_offers(key, set(values)))
        yield Term(f"capability {key}", ";".join(values), view.capabilities, holds=holds)


def _offers(key: str, values: set[str]) -> Callable[[Mapping[str, tuple[str, ...]]], bool]:
    return lambda has: not values.isdisjoint(has.get(key, ()))
