# SPDX-License-Identifier: Apache-2.0
"""Attributes filter: keeps pod managers whose attributes fulfil the conditions of a request."""

from collections.abc import Iterator
from typing import Any

from valence_sched.model.base import as_text
from valence_sched.model.expression import AttributePath
from valence_sched.model.extra_specs import parse_condition, split_attribute
from valence_sched.model.request import Request
from valence_sched.view.expression import argument_values
from valence_sched.view.terms import Options, Term, path_fields, reads, reads_podm, terms
from valence_sched.view.view import Labels, View


def _fields(_options: Options, request: Request | None) -> Iterator[str]:
    if request is None:
        yield from ("zone", "status", "driver", "name", "facts", "capabilities")
        return
    paths = (AttributePath(*split_attribute(path)) for path in request.attributes)
    yield from path_fields(paths)


@reads("attributes")
@reads_podm(of=_fields)
@terms
def attributes(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers whose facts, capabilities and other attributes fulfil the request."""
    for path, text in request.attributes.items():
        place = AttributePath(*split_attribute(path))
        inherited = {place.name: (), **request.inherited}  # a missing capability has no values
        values = argument_values(view, place, inherited)
        assert isinstance(values, Labels), "only amounts are arrays"
        have = Labels([_display(value) for value in values.values], values.codes)
        yield Term(path, text, have, holds=values.where(parse_condition(text, path).holds))


def _display(value: Any) -> Any:
    """Return a value for an explanation: numbers as text, since a year is not ``2,024``."""
    return as_text(value) if isinstance(value, (int, float)) else value
