# SPDX-License-Identifier: Apache-2.0
"""Devices filter: keeps pools with enough free devices of each requested kind."""

import functools
from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.hardware import free_models
from valence_sched.view.podm_fields import reads_podm
from valence_sched.view.terms import Term, terms
from valence_sched.view.view import View


@reads_podm()
@terms
def devices(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools with enough free devices of each kind that pass the tests."""
    for need in request.needs:
        if need.measure == "devices":
            have, podm_have = view.free(need), view.free(need, "podm")
            models = functools.partial(free_models, view, need)
            yield Term(need.label, need.amount, have, podm_have=podm_have, instead=models)
