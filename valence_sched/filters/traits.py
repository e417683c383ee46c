# SPDX-License-Identifier: Apache-2.0
"""Traits filter: keeps pools with the required traits and none of the forbidden."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.reads import reads, reads_podm
from valence_sched.view.terms import Term, terms, terms_for_names
from valence_sched.view.view import View


@reads("traits")
@reads_podm("traits")
@terms
def traits(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools whose traits, their podm's included, are all required and none forbidden."""
    return terms_for_names("trait", view.traits, request.traits)
