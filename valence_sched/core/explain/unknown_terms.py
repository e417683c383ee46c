# SPDX-License-Identifier: Apache-2.0
"""What a request asks about and no pod manager has or tells: most likely a misspelt word."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from valence_sched.errors import closest, nearest, one_line
from valence_sched.model.extra_specs import SINGLE, locate, written
from valence_sched.model.need import Ask
from valence_sched.model.request import Names, Request
from valence_sched.view.block_kinds import passes
from valence_sched.view.domains import FACTS
from valence_sched.view.view import View

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


def untold(view: View, request: Request) -> list[str]:
    """Return a line for each word asked about that nobody has or tells, with the nearest.

    They are facts and capabilities, be it in attributes, in the expression or in the rules of a
    group; the zone, locations, aggregates, traits and values of capabilities; what devices are; and
    places.
    """
    asked = dict.fromkeys(_asked(request))
    lines = [_line(view, place, name) for place, name in asked if not _is_told(view, place, name)]
    return [*lines, *_values(view, request), *unmade(view, request)]


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


def _values(view: View, request: Request) -> Iterator[str]:
    """Yield a line for each value of what is told that no pod manager has."""
    if request.zone is not None:
        zones = {zone for zone in view.zone.values if zone is not None}
        yield from _strangers("is in the zone", [request.zone], zones)
    if request.locations:
        yield from _strangers("is at the location", _trimmed(request.locations), _locations(view))
    yield from _names("is in the aggregate", request.aggregates, view.aggregates.values)
    yield from _names("has the trait", request.traits, view.traits.values)
    for key, wanted in request.capabilities.items():
        told = {value for has in view.capabilities.values for value in has.get(key, ())}
        if told:  # else the key is what nobody tells
            yield from _strangers(f"has the capability {key}", wanted, told)


def _trimmed(locations: Iterable[str]) -> list[str]:
    return [location.rstrip("/") for location in locations]


def _locations(view: View) -> set[str]:
    """Return every location that a pod manager is at, and those that hold it."""
    told = view.text("location").values
    several = (one if isinstance(one, (tuple, list)) else (one,) for one in told)
    paths = {written(one).rstrip("/") for some in several for one in some if one is not None}
    parts = [path.split("/") for path in paths]
    return {"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1)}


def _names(what: str, names: Names, has: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a line for each name that must be there and is nowhere, alone or among others.

    What must not be there may well be nowhere, so that is doubtful only where one is like it.
    """
    if not names:
        return
    known = {name for one in has for name in one}
    wanted = [*names.required, *(name for one in names.any_of for name in one)]
    wanted += [name for name in names.forbidden if closest(name, known) is not None]
    yield from _strangers(what, wanted, known)


def _strangers(what: str, wanted: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    have = set(known)
    for name in dict.fromkeys(wanted):
        if name not in have:
            yield one_line(f"no pod manager {what} {name!r} ({nearest(name, have)})")
