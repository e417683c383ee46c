# SPDX-License-Identifier: Apache-2.0
"""Capabilities filter: keeps pod managers that have the requested capabilities."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Options, Term, reads, reads_podm, terms
from valence_sched.view.view import Labels, View


def _fields(_options: Options, request: Request | None) -> Iterator[str]:
    if request is None:
        return iter(("capabilities",))
    return (f"capabilities.{key}" for key in request.capabilities)


@reads("capabilities")
@reads_podm(of=_fields)
@terms
def capabilities(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers that have, for every requested key, one of the requested values.

    A pod manager without the key has the values of its zones.
    """
    has, codes = view.capabilities.values, view.capabilities.codes
    for key, values in request.capabilities.items():
        inherited = request.inherited.get(key, ())
        offered = Labels([one.get(key, inherited) for one in has], codes)
        holds = offered.where(lambda some, own=frozenset(values): not own.isdisjoint(some))  # type: ignore[misc]
        yield Term(f"capability {key}", ";".join(values), offered, holds=holds)
