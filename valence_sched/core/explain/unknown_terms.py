# SPDX-License-Identifier: Apache-2.0
"""What a request asks about and no pod manager has or tells: most likely a misspelt word."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from valence_sched.errors import closest, one_line, suggest
from valence_sched.model.extra_specs import PLAIN_ATTRIBUTES, as_text, split_attribute
from valence_sched.model.group import FACT_PREFIX
from valence_sched.model.need import Alternative
from valence_sched.model.request import NameRequirements, Request
from valence_sched.view.block_kinds import passes
from valence_sched.view.view import View

DEVICE_NOUNS = {"memory": "memory module"}  # of needs whose devices are not called as they are
BOOLEAN_ATTRIBUTE = "remote"  # tells of a device whether, and not what
SIMILARITY = 0.6  # from 0 to 1; models are short, and H200 has half of A100


def unknown_device_terms(view: View, request: Request) -> list[str]:
    """Return a line for each value and place that no device or block has, with the nearest.

    A request whose alternatives are not all so has foreseen that one may be nowhere.
    """
    lines = [list(_unknown_in_alternative(view, ask)) for ask in request.alternatives]
    return list(dict.fromkeys(itertools.chain.from_iterable(lines))) if all(lines) else []


def _unknown_in_alternative(view: View, alternative: Alternative) -> Iterator[str]:
    for need in alternative.needs:
        devices = view.kinds.distinct_devices(
            need.kind
        )  # that there is none at all is told elsewhere
        for test in need.tests if devices else ():
            if test.operator == "at_least" or test.attribute == BOOLEAN_ATTRIBUTE:
                continue
            if not any(passes(test, device, need.unknown) for device in devices):
                told = {getattr(device, test.attribute) for device in devices} - {None}
                hint = _hint(str(test.value), told)
                noun = DEVICE_NOUNS.get(need.kind, need.kind)
                yield one_line(f"no {noun} has the {test.attribute} {test.value!r} ({hint})")
    for bond in alternative.bonds:
        if bond.place != "zone" and not _is_topology_name(view, bond.place):
            hint = suggest(bond.place, _location_paths(view))
            yield one_line(f"no block tells its place {bond.place!r} ({hint})")


def _hint(value: str, known: Collection[str]) -> str:
    """Return the nearest of what devices tell, or of its words: a model is often named by one."""
    words = {word for text in known for word in text.split()}
    close = closest(value, known, SIMILARITY) or closest(value, words, SIMILARITY)
    return suggest(value, known if close is None else [close], SIMILARITY)


def _is_topology_name(view: View, name: str) -> bool:
    found = view.memoise(
        ("is place", name), lambda: any(name in places for places in _block_topologies(view))
    )
    return bool(found)


def _location_paths(view: View) -> set[str]:
    return {name for places in _block_topologies(view) for name in places}


def _block_topologies(view: View) -> Iterator[Mapping[str, str]]:
    """Yield the places of every block that tells any."""
    for shelf in view.block_tables:
        yield from filter(None, shelf.topologies or ())


def unknown_terms(view: View, request: Request) -> list[str]:
    """Return a line for each word asked about that nobody has or tells, with the nearest.

    They are facts and capabilities, be it in attributes, in the expression or in the rules of a
    group; the zone, locations, aggregates, traits and values of capabilities; what devices are; and
    places.
    """
    asked = dict.fromkeys(_request_terms(request))
    lines = [
        _unknown_line(view, place, name)
        for place, name in asked
        if not _is_reported(view, place, name)
    ]
    return [
        *unknown_resources(view, request),
        *lines,
        *_unknown_values(view, request),
        *unknown_device_terms(view, request),
    ]


def unknown_resources(view: View, request: Request) -> list[str]:
    """Return a line for each resource asked for that no pod manager has, with the nearest one."""
    names = [
        need.resource for one in request.alternatives for need in one.needs if need.kind == "stock"
    ]
    return [
        one_line(f"no pod manager has a resource named {name!r} ({suggest(name, view.resources)})")
        for name in dict.fromkeys(names)
        if name not in view.resources
    ]


def _request_terms(request: Request) -> Iterator[tuple[str, str]]:
    yield from map(split_attribute, request.attributes)
    if request.where_expression is not None:
        yield from ((path.root, path.name) for path in request.where_expression.paths)
    yield from (("capabilities", key) for key in request.capabilities)
    if request.group is not None:
        facts = (domain for domain in request.group.domains if domain.startswith(FACT_PREFIX))
        yield from (("facts", domain.removeprefix(FACT_PREFIX)) for domain in facts)


def _is_reported(view: View, place: str, name: str) -> bool:
    if place == "facts":
        return view.has_fact(name)
    if place == "capabilities":
        return any(name in podm.capabilities for podm in view.podms)
    return True


def _unknown_line(view: View, place: str, name: str) -> str:
    known = {name for podm in view.podms for name in getattr(podm, place)}
    known.update(
        PLAIN_ATTRIBUTES if place == "facts" else ()
    )  # a name alone is one of these, else a fact
    return one_line(f"no pod manager tells '{place}.{name}' ({suggest(name, known)})")


def _unknown_values(view: View, request: Request) -> Iterator[str]:
    """Yield a line for each value of what is told that no pod manager has."""
    if request.zone is not None:
        zones = {zone for zone in view.zone.values if zone is not None}
        yield from _unknown_lines("is in the zone", [request.zone], zones)
    if request.locations:
        yield from _unknown_lines("is at the location", _trim(request.locations), _locations(view))
    yield from _unknown_names("is in the aggregate", request.aggregates, view.aggregates.values)
    yield from _unknown_names("has the trait", request.traits, view.traits.values)
    for key, wanted in request.capabilities.items():
        told = {value for has in view.capabilities.values for value in has.get(key, ())}
        if told:  # else the key is what nobody tells
            yield from _unknown_lines(f"has the capability {key}", wanted, told)


def _trim(locations: Iterable[str]) -> list[str]:
    return [location.rstrip("/") for location in locations]


def _locations(view: View) -> set[str]:
    """Return every location that a pod manager is at, and those that hold it."""
    told = view.text("location").values
    several = (one if isinstance(one, (tuple, list)) else (one,) for one in told)
    paths = {as_text(one).rstrip("/") for some in several for one in some if one is not None}
    parts = [path.split("/") for path in paths]
    return {"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1)}


def _unknown_names(
    what: str, names: NameRequirements, has: Iterable[Iterable[str]]
) -> Iterator[str]:
    """Yield a line for each name that must be there and is nowhere, alone or among others.

    What must not be there may well be nowhere, so that is doubtful only where one is like it.
    """
    if not names:
        return
    known = {name for one in has for name in one}
    wanted = [*names.required, *(name for one in names.any_of for name in one)]
    wanted += [name for name in names.forbidden if closest(name, known) is not None]
    yield from _unknown_lines(what, wanted, known)


def _unknown_lines(what: str, wanted: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    have = set(known)
    for name in dict.fromkeys(wanted):
        if name not in have:
            yield one_line(f"no pod manager {what} {name!r} ({suggest(name, have)})")
