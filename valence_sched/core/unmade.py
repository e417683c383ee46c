# SPDX-License-Identifier: Apache-2.0
"""What a request asks of devices and no device has: most likely a value that is misspelt."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from valence_sched.errors import closest, nearest, one_line
from valence_sched.model.kinds import passes
from valence_sched.model.need import Ask
from valence_sched.model.request import Request
from valence_sched.model.view import View

NOUNS = {"memory": "memory module"}  # of needs whose devices are not called as they are
YES_NO = "remote"  # tells of a device whether, and not what
LIKE = 0.6  # from 0 to 1; models are short, and H200 has half of A100


def unmade(view: View, request: Request) -> list[str]:
    """Return a line for each value and place that no device or block has, with the nearest.

    A request whose alternatives are not all so has foreseen that one may be nowhere.
    """
    lines = [list(_lines(view, ask)) for ask in request.asks]
    return list(dict.fromkeys(itertools.chain.from_iterable(lines))) if all(lines) else []


def _lines(view: View, ask: Ask) -> Iterator[str]:
    for need in ask.needs:
        devices = view.kinds.devices(need.kind)  # that there is none at all is told elsewhere
        for test in need.tests if devices else ():
            if test.operator == "at_least" or test.attribute == YES_NO:
                continue
            if not any(passes(test, device, need.unknown) for device in devices):
                told = {getattr(device, test.attribute) for device in devices} - {None}
                hint = _hint(str(test.value), told)
                noun = NOUNS.get(need.kind, need.kind)
                yield one_line(f"no {noun} has the {test.attribute} {test.value!r} ({hint})")
    for bond in ask.bonds:
        if bond.place != "zone" and not _is_place(view, bond.place):
            hint = nearest(bond.place, _places(view))
            yield one_line(f"no block tells its place {bond.place!r} ({hint})")


def _hint(value: str, known: Collection[str]) -> str:
    """Return the nearest of what devices tell, or of its words: a model is often named by one."""
    words = {word for text in known for word in text.split()}
    close = closest(value, known, LIKE) or closest(value, words, LIKE)
    return nearest(value, known if close is None else [close], LIKE)


def _is_place(view: View, name: str) -> bool:
    found = view.keep(("is place", name), lambda: any(name in places for places in _told(view)))
    return bool(found)


def _places(view: View) -> set[str]:
    return {name for places in _told(view) for name in places}


def _told(view: View) -> Iterator[Mapping[str, str]]:
    """Yield the places of every block that tells any."""
    for shelf in view.shelves:
        yield from filter(None, shelf.places or ())
