# SPDX-License-Identifier: Apache-2.0
"""Traits filter: keeps pools with the required traits and no forbidden one."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms, terms_for_names
from valence_sched.view.view import View


@reads("traits")
@reads_podm("traits")
@terms
def traits(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools with all required traits and no forbidden trait, including traits of the podm."""
    return terms_for_names("trait", view.traits, request.traits)
