# SPDX-License-Identifier: Apache-2.0
"""Parses the flavors, policies, requests and resources files."""

from __future__ import annotations

from typing import Any, TypeVar

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup
from valence_sched.config.foreign.detect import parse_flavor
from valence_sched.core.policy import bind
from valence_sched.errors import InputError, RequestError
from valence_sched.model import expression, extra_specs, request
from valence_sched.model.codec import check_schema, convert, load_yaml
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.policy import Policy, PolicyText
from valence_sched.model.request import Request, sealed
from valence_sched.model.request_spec import RequestFile, RequestSpec, compile_request

T = TypeVar("T")


def parse_flavors(
    data: bytes, file: str, known: FlavorLookup = dict, remarks: list[str] | None = None
) -> list[Flavor]:
    """Parse a flavors file: a list, also under ``flavors``, or a single flavor.

    Each is in our words or in those of Valence, Nova or an RSD pod manager. ``known`` returns the
    flavors that one may refer to; words that nobody looks at add a line each to ``remarks``.

    Raises:
        InputError: naming the place, what was found and what was expected.
        UnknownName: a flavor refers to one that is not known.
        RequestError: naming the place, a flavor contradicts itself.
    """
    forms = [
        (place, parse_flavor(item, DocumentCursor(file, place), known))
        for place, item in _items(load_yaml(data, file), "flavors", file)
    ]
    if remarks is not None:
        remarks += [line for _, read in forms for line in read.remarks]
    found = _check_unique_names([(place, read.flavor) for place, read in forms], file)
    for place, flavor in found:
        _check_syntax(flavor, file, place)
        if not all(ask.needs for ask in flavor.alternatives):
            raise InputError(file, f"{place}.properties", "nothing asked for", "at least one need")
        try:
            sealed(compile_request(RequestSpec(flavor=flavor.name), flavor))
        except RequestError as error:
            raise error.at(f"{file}: {place}") from None
    return [flavor for _, flavor in found]


def _check_syntax(noun: Flavor | RequestSpec, file: str, place: str) -> None:
    """Refuse words that have a grammar of their own and do not follow it."""
    if isinstance(noun.capabilities, str):
        try:
            parse_capabilities(noun.capabilities)
        except ValueError as error:
            raise InputError(file, f"{place}.capabilities", str(error), "key=value") from None
    for path, text in noun.attributes.items():
        if wrong := extra_specs.condition_problem(path, text):
            raise InputError(file, f"{place}.attributes[{path!r}]", wrong)
    if noun.where is not None:
        expression.parse_expression(noun.where, file, f"{place}.where")


def parse_policies(data: bytes, file: str) -> list[Policy]:
    """Parse a policies file, a list under ``policies`` or a single policy, and bind each.

    Raises:
        InputError: naming the place, what was found and what was expected.
        UnknownName: a filter, weigher or scheduler that is not installed.
    """
    items = _items(load_yaml(data, file), "policies", file)
    texts = [(place, convert(item, PolicyText, file, place)) for place, item in items]
    found = [text.policy() for _, text in _check_unique_names(texts, file)]
    for policy in found:
        bind(policy, file)
    return found


def parse_requests(data: bytes, file: str) -> list[tuple[str, RequestSpec | Request]]:
    """Parse a file of requests: ``(place, request)`` of each in a list under ``requests``.

    A single request is a file, too, and so is one as a report holds it, compiled.

    Raises:
        InputError: naming the place, what was found and what was expected.
    """
    document = load_yaml(data, file)
    if isinstance(document, dict) and not {"schema", "needs"}.isdisjoint(document):
        words = {"schema": request.SCHEMA, "version": request.VERSION} | document
        check_schema(
            str(words["schema"]), str(words["version"]), request.SCHEMA, request.VERSION, file
        )
        return [("$", convert(document, Request, file))]
    if not (isinstance(document, dict) and "requests" in document):
        asked = convert(document, RequestSpec, file)
        _check_syntax(asked, file, "$")
        return [("$", asked)]
    found = convert(document, RequestFile, file).requests
    ids: set[str] = set()
    for number, asked in enumerate(found):
        if asked.id and asked.id in ids:
            raise InputError(file, f"$.requests[{number}].id", f"{asked.id!r} again", "its own id")
        ids.add(asked.id)
        _check_syntax(asked, file, f"$.requests[{number}]")
    return [(f"$.requests[{number}]", asked) for number, asked in enumerate(found)]


def parse_resources(data: bytes, file: str) -> list[CustomResource]:
    """Parse a resources file: a list under ``resources``, or a single resource.

    Raises:
        InputError: naming the place, what was found and what was expected.
    """
    items = _items(load_yaml(data, file), "resources", file)
    found = [(place, convert(item, CustomResource, file, place)) for place, item in items]
    return [resource for _, resource in _check_unique_names(found, file)]


def _items(document: Any, key: str, file: str) -> list[tuple[str, Any]]:
    """Return ``(place, item)`` of a list, of a list under ``key``, or of a single item."""
    many = isinstance(document, dict) and key in document
    if not many and not isinstance(document, list):
        return [("$", document)]
    items, above = (document[key], f"$.{key}") if many else (document, "$")
    if many and set(document) != {key}:
        extra = sorted(str(name) for name in set(document) - {key})
        raise InputError(file, "$", f"unknown field {extra[0]!r}", f"only {key!r}")
    if not isinstance(items, list) or not items:
        raise InputError(file, above, "nothing", f"a list of {key}")
    return [(f"{above}[{number}]", item) for number, item in enumerate(items)]


def _check_unique_names(found: list[tuple[str, T]], file: str) -> list[tuple[str, T]]:
    """Return nouns as they are when no two have one name."""
    names: set[str] = set()
    for place, noun in found:
        name: str = noun.name  # type: ignore[attr-defined]
        if name in names:
            raise InputError(file, f"{place}.name", f"{name!r} again", "a name of its own")
        names.add(name)
    return found
