# SPDX-License-Identifier: Apache-2.0
"""Expression filter: keeps pools for which the expression of a request holds."""

from collections.abc import Iterator

from valence_sched.errors import one_line
from valence_sched.model.expression import conjuncts
from valence_sched.model.request import Request
from valence_sched.view.expression import reported_values, truth_values
from valence_sched.view.terms import (
    ALL_FIELDS,
    Options,
    Term,
    path_fields,
    reads,
    reads_podm,
    terms,
)
from valence_sched.view.view import View


def _fields(_options: Options, request: Request | None) -> Iterator[str]:
    if request is None:
        return (field for field in ALL_FIELDS if field not in ("nodes", "url"))
    expression = request.where_expression
    return path_fields(expression.paths if expression is not None else ())


@reads("where", when=lambda expression: True)
@reads_podm(of=_fields)
@terms
def json(view: View, request: Request, *, unknown: bool = False) -> Iterator[Term]:
    """Keeps pools for which the expression holds, with ``unknown`` also if it is unknown.

    A comparison with a value that a pod manager does not report is unknown.
    """
    if request.where_expression is None:
        return
    least = 0 if unknown else 1
    for part in conjuncts(request.where_expression):
        holds = truth_values(view, part, request.inherited) >= least
        has = reported_values(view, part, request.inherited)
        yield Term("json", one_line(str(part), 200), has, holds=holds)
