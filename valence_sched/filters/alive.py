# SPDX-License-Identifier: Apache-2.0
"""Alive filter: keeps pod managers that are Online."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads_podm, terms_of_podms
from valence_sched.view.view import View


@reads_podm("status")
@terms_of_podms
def alive(view: View, request: Request, *, unknown: bool = False) -> Iterator[Term]:
    """Keeps pod managers whose status is Online; with ``unknown`` also status Unknown."""
    accepted = ("Online", "Unknown") if unknown else ("Online",)
    holds = view.status.where(lambda status: status in accepted)
    yield Term("status", " or ".join(accepted), view.status, holds=holds)
