# SPDX-License-Identifier: Apache-2.0
"""Health filter: keeps pod managers by their reported health."""

from collections.abc import Iterator

from valence_sched.model.inventory import Health
from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads_podm, terms_of_podms
from valence_sched.view.view import View

_ORDER = ("ok", "warning", "critical")


@reads_podm("facts.{fact}")
@terms_of_podms
def health(
    view: View,
    request: Request,
    *,
    worst: Health = "Warning",
    unknown: bool = True,
    fact: str = "health",
) -> Iterator[Term]:
    """Keeps pod managers whose health is no worse than ``worst``.

    The ``fact`` has a Redfish health value: OK, Warning or Critical. A pod manager without the
    fact, or with another value, passes only with ``unknown``.
    """
    if unknown and not view.has_fact(fact):
        return
    passing = _ORDER[: _ORDER.index(worst.lower()) + 1]

    def accepts(reported: object) -> bool:
        word = reported.lower() if isinstance(reported, str) else None
        return word in passing if word in _ORDER else unknown

    reported = view.text(fact)
    need = worst if worst == "OK" else f"{worst} or better"
    yield Term("health", need, reported, holds=reported.where(accepts))
