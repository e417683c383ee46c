# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps pod managers whose attributes are as asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valence_sched.model.extra_specs import as_text, parse_condition, split_attribute
from valence_sched.model.request import Request
from valence_sched.view.reads import reads
from valence_sched.view.terms import Term, terms
from valence_sched.view.view import Labels, View


@reads("attributes")
@terms
def attributes(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers whose facts, capabilities and other attributes fulfil what is asked."""
    for path, text in request.attributes.items():
        told = _attribute(view, *split_attribute(path))
        have = Labels([_display(value) for value in told.values], told.codes)
        yield Term(path, text, have, holds=told.where(parse_condition(text).holds))


def _attribute(view: View, place: str, name: str) -> Labels:
    """Return an attribute per row, as it was told."""
    if place == "facts":
        return view.text(name)
    if place == "capabilities":
        values = [has.get(name, ()) for has in view.capabilities.values]
        return Labels(values, view.capabilities.codes)
    if place == "zone":
        return view.zone
    if place == "status":
        return view.status
    return Labels([getattr(podm, place) for podm in view.podms], view.podm_of)


def _display(value: Any) -> Any:
    """Return a value as it is explained: a year is no amount, so it has no thousands."""
    return as_text(value) if isinstance(value, (int, float)) else value
