# SPDX-License-Identifier: Apache-2.0
"""Quarantine filter: keeps pod managers that are not in quarantine."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from valence_sched.model.request import Request
from valence_sched.view.terms import Options, Term, reads_podm, terms_of_podms
from valence_sched.view.view import View

_NO = ("", "0", "false", "no")


def _fields(options: Options, _request: Request | None) -> Iterator[str]:
    yield f"facts.{options['fact']}"
    if options["most"] is not None:
        yield f"facts.{options['failures']}"


@reads_podm(of=_fields)
@terms_of_podms
def quarantine(
    view: View,
    request: Request,
    *,
    fact: str = "quarantine",
    failures: str = "failures",
    most: Annotated[float, Meta(ge=0)] | None = None,
) -> Iterator[Term]:
    """Keeps pod managers that are not in quarantine; ``most`` also limits their failures.

    A pod manager is in quarantine if its ``fact`` is a text, such as the reason, or a number other
    than 0; ``false`` and ``no`` do not count. With ``most``, a pod manager is also rejected if its
    fact ``failures`` is above ``most``. A fact that is not reported rejects no pod manager.
    """
    if view.has_fact(fact):
        reported = view.text(fact)
        yield Term("quarantine", "no", reported, holds=reported.where(_is_clear))
    if most is not None:
        counts = view.number(failures)
        yield Term(failures, f"at most {most:g}", counts, holds=~(counts > most))


def _is_clear(reported: object) -> bool:
    values = reported if isinstance(reported, tuple) else (reported,)
    return all(one.strip().lower() in _NO if isinstance(one, str) else not one for one in values)
