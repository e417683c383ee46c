# SPDX-License-Identifier: Apache-2.0
"""Location filter: keeps pod managers at or below the requested locations."""

from collections.abc import Callable, Iterator

from valence_sched.model.base import as_text
from valence_sched.model.request import Request
from valence_sched.view.terms import Term, reads, reads_podm, terms
from valence_sched.view.view import View


@reads("locations")
@reads_podm("facts.location")
@terms
def location(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers at or below one of the requested locations.

    The fact ``location`` states the location: ``dc1/row-3/rack-7`` is below ``dc1/row-3``. Case
    matters.
    """
    if request.locations:
        have = view.text("location")
        holds = have.where(_within(request.locations))
        yield Term("location", " or ".join(request.locations), have, holds=holds)


def _within(locations: tuple[str, ...]) -> Callable[[object], bool]:
    prefixes = tuple(location.rstrip("/") + "/" for location in locations)

    def within(reported: object) -> bool:
        values = reported if isinstance(reported, (tuple, list)) else (reported,)
        paths = (f"{as_text(one)}/" for one in values if one is not None)
        return any(path.startswith(prefixes) for path in paths)

    return within
