# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps pod managers at certain locations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from valence_sched.model.extra_specs import as_text
from valence_sched.model.request import Request
from valence_sched.view.reads import reads
from valence_sched.view.terms import Term, terms
from valence_sched.view.view import View


@reads("locations")
@terms
def location(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers whose fact ``location`` is one that is asked for, or stands below one.

    ``dc1/row-3`` holds ``dc1/row-3/rack-7``. One of several is enough; upper and lower case differ.
    """
    if request.locations:
        have = view.text("location")
        holds = have.where(_within(request.locations))
        yield Term("location", " or ".join(request.locations), have, holds=holds)


def _within(locations: tuple[str, ...]) -> Callable[[object], bool]:
    """Return what tells whether a fact names a place at or below one of these."""
    above = tuple(location.rstrip("/") + "/" for location in locations)

    def within(told: object) -> bool:
        several = told if isinstance(told, (tuple, list)) else (told,)
        places = (f"{as_text(one)}/" for one in several if one is not None)
        return any(place.startswith(above) for place in places)

    return within
