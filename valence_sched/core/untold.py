# SPDX-License-Identifier: Apache-2.0
"""What a request asks about and no pod manager tells: most likely a name that is misspelt."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.errors import nearest, one_line
from valence_sched.model.domain import FACTS
from valence_sched.model.operators import SINGLE, locate
from valence_sched.model.request import Request
from valence_sched.model.view import View


def untold(view: View, request: Request) -> list[str]:
    """Return a line for each fact and capability asked about that nobody tells, with the nearest.

    They are those of attributes, of the expression, of capabilities and of the rules of a group.
    """
    asked = dict.fromkeys(_asked(request))
    return [_line(view, place, name) for place, name in asked if not _is_told(view, place, name)]


def _asked(request: Request) -> Iterator[tuple[str, str]]:
    yield from map(locate, request.attributes)
    if request.condition is not None:
        yield from ((path.place, path.name) for path in request.condition.paths)
    yield from (("capabilities", key) for key in request.capabilities)
    if request.group is not None:
        facts = (domain for domain in request.group.domains if domain.startswith(FACTS))
        yield from (("facts", domain.removeprefix(FACTS)) for domain in facts)


def _is_told(view: View, place: str, name: str) -> bool:
    if place == "facts":
        return view.told(name)
    if place == "capabilities":
        return any(name in podm.capabilities for podm in view.podms)
    return True


def _line(view: View, place: str, name: str) -> str:
    known = {name for podm in view.podms for name in getattr(podm, place)}
    known.update(SINGLE if place == "facts" else ())  # a name alone is one of these, else a fact
    return one_line(f"no pod manager tells '{place}.{name}' ({nearest(name, known)})")
