# SPDX-License-Identifier: Apache-2.0
"""Capacity filter: keeps pools with enough free cores, memory and stock."""

import functools
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from valence_sched.model.request import Request
from valence_sched.view.availability import sufficient, uncounted
from valence_sched.view.terms import Term, reads_podm, terms
from valence_sched.view.view import View


@reads_podm()
@terms
def capacity(
    view: View, request: Request, *, headroom: Annotated[float, Meta(ge=0, le=1000)] = 0.0
) -> Iterator[Term]:
    """Keeps pools with enough free cores, memory and stock; ``headroom`` adds a share to the needs.

    The condition is necessary, not sufficient: the fit decides whether blocks make the node.
    """
    every = view.all_rows
    for need, holds in zip(request.needs, sufficient(view, request.needs), strict=True):
        if holds is every and need.count == 1 and not headroom:
            continue
        if need.kind == "stock":
            yield Term(f"{need.label} at once", need.amount, view.largest_grant(need), holds=holds)
            if need.count > 1 or headroom:
                yield Term(need.label, need.total_amount(headroom), view.free(need))
            if need.count > 1:
                yield Term(f"grants of {need.label}", need.count, view.grant_count(need))
        elif need.measure != "devices":
            amount, have = need.total_amount(headroom), view.free(need)
            podm_have = view.free(need, "podm")
            impaired = functools.partial(uncounted, view, need)
            yield Term(need.label, amount, have, need.unit, podm_have=podm_have, uncounted=impaired)
