# SPDX-License-Identifier: Apache-2.0
"""Zone filter: keeps pod managers of one availability zone."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms
from valence_sched.view.view import View


@reads("zone")
@reads_podm("zone")
@terms
def zone(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers of the requested availability zone."""
    if request.zone is not None:
        holds = view.zone.where(lambda name: name == request.zone)
        yield Term("zone", request.zone, view.zone, holds=holds)
