# SPDX-License-Identifier: Apache-2.0
"""Proximity filter: keeps pools near external resources, such as a volume."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, proximity_terms, reads_near, terms
from valence_sched.view.view import View


@reads_near(soft=False)
@terms
def near(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools that share the zone, an aggregate and all facts of each required resource."""
    for resource in request.near:
        if not resource.soft:
            yield from proximity_terms(view, resource)
