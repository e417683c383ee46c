# SPDX-License-Identifier: Apache-2.0
"""Proximity weigher: prefers pools near external resources, such as volumes."""

from collections.abc import Iterator

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.reads import PLACE_FIELDS, Options, place_fields, reads, reads_podm
from valence_sched.view.terms import proximity_terms
from valence_sched.view.view import Floats, View


def _fields(_options: Options, request: Request | None) -> Iterator[str]:
    if request is None:
        return iter(PLACE_FIELDS)
    return place_fields(request.near, soft=True)


@reads("near", when=lambda near: any(resource.soft for resource in near))
@reads_podm(of=_fields)
def near(view: View, request: Request) -> Floats:
    """Prefers pools that stand near the things that a request wishes to be near to.

    Of each such thing the share of the reported parts of its place (zone, aggregates, each fact)
    that the pool has in common with it; of several things the mean; 1 where all of it holds.
    Where nothing is wished for it takes no part in a policy.
    """
    places = (proximity_terms(view, resource) for resource in request.near if resource.soft)
    soft = [[term.mask for term in terms] for terms in places]
    score = np.ones(len(view))
    if reported := [masks for masks in soft if masks]:
        score = np.mean([np.mean(masks, axis=0) for masks in reported], axis=0)
    return score
