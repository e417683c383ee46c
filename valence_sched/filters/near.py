# SPDX-License-Identifier: Apache-2.0
"""Proximity filter: keeps pools near external resources, such as a volume."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.reads import PLACE_FIELDS, Options, place_fields, reads, reads_podm
from valence_sched.view.terms import Term, proximity_terms, terms
from valence_sched.view.view import View


def _fields(_options: Options, request: Request | None) -> Iterator[str]:
    if request is None:
        return iter(PLACE_FIELDS)
    return place_fields(request.near, soft=False)


@reads("near", when=lambda near: any(not resource.soft for resource in near))
@reads_podm(of=_fields)
@terms
def near(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools that share zone, an aggregate and every fact with each thing to be near to."""
    for resource in request.near:
        if not resource.soft:
            yield from proximity_terms(view, resource)
