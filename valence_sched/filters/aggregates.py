# SPDX-License-Identifier: Apache-2.0
"""Aggregates filter: keeps pod managers by the aggregates they are members of."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms, terms_for_names
from valence_sched.view.view import View


@reads("aggregates")
@reads_podm("aggregates")
@terms
def aggregates(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers in all required aggregates, in one of each list, in no forbidden one."""
    return terms_for_names("aggregate", view.aggregates, request.aggregates)
