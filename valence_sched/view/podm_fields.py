# SPDX-License-Identifier: Apache-2.0
"""Podm fields: how a filter or a weigher declares, next to its function, which it reads.

What a pod manager describes itself with beside its pools, blocks and stocks: ``status``, ``zone``,
one fact as ``facts.year``, all facts as ``facts``. A plug-in without a declaration may read all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from valence_sched.model.expression import AttributePath
from valence_sched.model.group import DOMAINS, FACT_PREFIX
from valence_sched.model.request import Proximity, Request
from valence_sched.view.fact_rules import FactRule

Options = Mapping[str, Any]
FieldsOf = Callable[[Options, Request | None], Iterable[str]]
Plugin = TypeVar("Plugin", bound=Callable[..., Any])

#: Every field that a plug-in may read beside pools, blocks and stocks.
ALL_FIELDS = (
    "aggregates", "capabilities", "driver", "enabled", "facts", "name", "nodes", "status", "traits",
    "url", "zone",
)  # fmt: skip
#: Those that a pod manager may share with the place of a resource.
PLACE_FIELDS = ("zone", "aggregates", "facts")


def reads_podm(*fields: str, of: FieldsOf | None = None) -> Callable[[Plugin], Plugin]:
    """Declare the fields of a pod manager that a filter, a weigher or a scheduler reads.

    ``{option}`` in a field stands for the value of an option. ``of`` returns more fields for the
    options, and for a request; without a request for any. No field at all is a declaration, too::

        @reads_podm("facts.{fact}")
        def failures(view: View, request: Request, *, fact: str = "failures") -> Floats: ...
    """

    def declare(plugin: Plugin) -> Plugin:
        plugin.podm_fields = (fields, of)  # type: ignore[attr-defined]
        return plugin

    return declare


def podm_fields(
    plugin: Callable[..., Any], options: Options, request: Request | None = None
) -> Iterator[str]:
    """Yield the fields that a plug-in reads for a request, without one for any request.

    ``options`` are those that it is called with, the defaults included.
    """
    # of a class its own declaration: one that inherits from it may read more
    fields, of = vars(plugin).get("podm_fields", (ALL_FIELDS, None))
    for field in fields:
        yield field.format_map(options)
    if of is not None:
        yield from of(options, request)


def rule_fields(options: Options, _request: Request | None) -> Iterator[str]:
    """Yield the fields that the ``rules`` of a plug-in are about."""
    rules: Iterable[FactRule] = options["rules"]
    for rule in rules:
        if rule.fact is not None:
            yield f"facts.{rule.fact}"
        elif rule.capability is not None:
            yield f"capabilities.{rule.capability}"
        else:
            yield "zone" if rule.zone is not None else "traits" if rule.trait else "aggregates"


def path_fields(paths: Iterable[AttributePath]) -> Iterator[str]:
    """Yield the fields at the paths of an expression; amounts are of blocks and stocks."""
    for path in paths:
        if path.root in ALL_FIELDS:
            yield str(path)


def place_fields(near: Iterable[Proximity], *, soft: bool) -> Iterator[str]:
    """Yield the fields that pod managers share with the places of hard or of soft resources."""
    for place in near:
        if place.soft is not soft:
            continue
        if place.zone is not None:
            yield "zone"
        if place.aggregates:
            yield "aggregates"
        yield from (f"facts.{name}" for name in place.facts)


def group_fields(_options: Options, request: Request | None) -> Iterator[str]:
    """Yield the fields that count the nodes of a group at the values of its domains."""
    yield "nodes"
    if request is None:
        yield from PLACE_FIELDS
    elif request.group is not None:
        yield from filter(None, map(_domain_field, request.group.domains))


def _domain_field(domain: str) -> str | None:
    assert domain in DOMAINS or domain.startswith(FACT_PREFIX), "a request has such domains alone"
    fields = {"podm": None, "zone": "zone", "aggregate": "aggregates"}
    if domain in fields:
        return fields[domain]
    return f"facts.{domain.removeprefix(FACT_PREFIX)}"
