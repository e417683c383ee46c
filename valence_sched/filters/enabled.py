# SPDX-License-Identifier: Apache-2.0
"""Enabled filter: keeps pod managers that the operator has not disabled."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads_podm, terms_of_podms
from valence_sched.view.view import View


@reads_podm("enabled")
@terms_of_podms
def enabled(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that are enabled."""
    yield Term("enabled", True, view.enabled, holds=view.enabled)
