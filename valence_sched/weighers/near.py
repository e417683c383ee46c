# SPDX-License-Identifier: Apache-2.0
"""Proximity weigher: prefers pools near external resources, such as volumes."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.terms import proximity_terms, reads_near
from valence_sched.view.view import Floats, View


@reads_near(soft=True)
def near(view: View, request: Request) -> Floats:
    """Prefers pools near the external resources that a request prefers.

    The score is the share of a resource's reported location (zone, aggregates, each fact) that the
    pool shares. For several resources, it is the mean of these shares. The weigher is active only
    in requests with such resources.
    """
    places = (proximity_terms(view, resource) for resource in request.near if resource.soft)
    soft = [[term.mask for term in terms] for terms in places]
    score = np.ones(len(view))
    if reported := [masks for masks in soft if masks]:
        score = np.mean([np.mean(masks, axis=0) for masks in reported], axis=0)
    return score
