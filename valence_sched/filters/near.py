# SPDX-License-Identifier: Apache-2.0
"""Proximity filter: keeps pools near external resources, such as a volume."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.proximity import proximity_terms
from valence_sched.view.reads import reads
from valence_sched.view.terms import Term, terms
from valence_sched.view.view import View


@reads("near", when=lambda near: any(not resource.soft for resource in near))
@terms
def near(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools that share zone, an aggregate and every fact with each thing to be near to."""
    for resource in request.near:
        if not resource.soft:
            yield from proximity_terms(view, resource)
