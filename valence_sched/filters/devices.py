# SPDX-License-Identifier: Apache-2.0
"""Devices filter: keeps pools with enough free devices of each requested kind."""

import functools
from collections.abc import Iterator, Mapping

from valence_sched.model.need import Need
from valence_sched.model.request import Request
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
            models = functools.partial(_free_models, view, need)
            yield Term(need.label, need.amount, have, podm_have=podm_have, instead=models)


def _free_models(view: View, need: Need, row: int) -> Mapping[str, int]:
    from valence_sched.view.hardware import free_models  # only to explain

    return free_models(view, need, row)
