# SPDX-License-Identifier: Apache-2.0
"""Reads: declarations, next to a filter or weigher, of the fields that it reads.

Fields of a request: a policy refuses a request that sets a field which no plug-in reads. A plug-in
is inactive if the request sets none of its fields. Fields of a pod manager: all except its pools,
blocks and stocks, such as ``status``, ``facts.year`` for one fact, ``facts`` for all facts. A
plug-in without a declaration is active in every decision and may read all fields.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from valence_sched.model.expression import AttributePath
from valence_sched.model.need import Proximity
from valence_sched.model.request import FACT_PREFIX, Mix, MixSupplies, Request
from valence_sched.view.terms import FactRule

CountsBy = Literal["podm", "domain"]
Plugin = TypeVar("Plugin", bound=Callable[..., Any])


def is_given(value: object) -> bool:
    """Return whether a field of a request is set: not None, False or empty; a 0 is set."""
    return bool(value) or (isinstance(value, int | float) and not isinstance(value, bool))


class Reads(Struct, frozen=True):
    """Fields of a request that a plug-in reads; a field counts if ``when`` accepts its value.

    If the field is ``optional``, the plug-in is active in every decision, and a policy without the
    plug-in may still accept the field. ``counts_by`` is for plug-ins that only count the nodes of a
    group or of an owner. ``podm`` counts them on the pod manager, ``domain`` at its value of each
    domain in the rules of the group.
    """

    fields: tuple[str, ...]
    when: Callable[[Any], object] = is_given
    counts_by: CountsBy | None = None
    optional: bool = False


def reads(
    field: str,
    *others: str,
    when: Callable[[Any], object] = is_given,
    counts_by: CountsBy | None = None,
    optional: bool = False,
) -> Callable[[Plugin], Plugin]:
    """Declare the fields of a request that a filter or weigher reads; see :class:`Reads`.

    Write it above or below ``terms`` and ``per_pool``; it may be repeated::

        @reads("group", when=lambda group: group.hard, counts_by="domain")
        @terms
        def spread(view: View, request: Request) -> Iterator[Term]: ...
    """

    def declare(plugin: Plugin) -> Plugin:
        declared = Reads((field, *others), when, counts_by, optional)
        plugin.reads = (declared, *declarations(plugin))  # type: ignore[attr-defined]
        return plugin

    return declare


def declarations(plugin: Callable[..., Any]) -> tuple[Reads, ...]:
    """Return the declarations of a plug-in, empty without declarations."""
    declared = getattr(plugin, "reads", ())
    return declared if isinstance(declared, tuple) else ()


class MixCompletion(NamedTuple):
    """The functions that complete the mix of a request for a weigher.

    Both functions take its options. ``supplies(view, mix)`` returns the supply of all pools of a
    View to each share; supplies of several Views are added up. It is empty if the mix needs no
    completion. ``complete(mix, supplies)`` returns the completed mix.
    """

    supplies: Callable[..., MixSupplies]
    complete: Callable[..., Mix]

    def with_options(self, options: Mapping[str, Any]) -> "MixCompletion":
        supplies = functools.partial(self.supplies, **options)
        return MixCompletion(supplies, functools.partial(self.complete, **options))


def completes_mix(
    supplies: Callable[..., MixSupplies], complete: Callable[..., Mix]
) -> Callable[[Plugin], Plugin]:
    """Declare how the mix is completed for a weigher; see :class:`MixCompletion`."""

    def declare(plugin: Plugin) -> Plugin:
        plugin.mix_completion = MixCompletion(supplies, complete)  # type: ignore[attr-defined]
        return plugin

    return declare


def penalises_unknown(weigher: Plugin) -> Plugin:
    """Declare the weigher that a policy with ``unknown: penalise`` gets if it lacks one."""
    weigher.penalises_unknown = True  # type: ignore[attr-defined]
    return weigher


Options = Mapping[str, Any]
FieldsOf = Callable[[Options, Request | None], Iterable[str]]

#: Fields of a pod manager that are compared with the place of an external resource.
PLACE_FIELDS = ("zone", "aggregates", "facts")
_OTHERS = ("capabilities", "driver", "enabled", "name", "nodes", "status", "traits", "url")
#: Every field that a plug-in may read besides pools, blocks and stocks.
ALL_FIELDS = tuple(sorted((*PLACE_FIELDS, *_OTHERS)))


def reads_podm(*fields: str, of: FieldsOf | None = None) -> Callable[[Plugin], Plugin]:
    """Declare the fields of a pod manager that a filter, a weigher or a scheduler reads.

    ``{option}`` in a field stands for the value of an option. ``of`` returns further fields for the
    options and a request; without a request, the fields for any request. Without arguments, it
    declares that the plug-in reads no field::

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
    """Yield the fields that a plug-in reads for a request, or for any if it is None.

    ``options`` are all options of the call, including defaults.
    """
    # only the class's own declaration: a subclass may read more
    fields, of = vars(plugin).get("podm_fields", (ALL_FIELDS, None))
    for field in fields:
        yield field.format_map(options)
    if of is not None:
        yield from of(options, request)


def rule_fields(options: Options, _request: Request | None) -> Iterator[str]:
    """Yield the fields that the ``rules`` of a plug-in name."""
    rules: Iterable[FactRule] = options["rules"]
    for rule in rules:
        if rule.fact is not None:
            yield f"facts.{rule.fact}"
        elif rule.capability is not None:
            yield f"capabilities.{rule.capability}"
        else:
            yield "zone" if rule.zone is not None else "traits" if rule.trait else "aggregates"


def path_fields(paths: Iterable[AttributePath]) -> Iterator[str]:
    """Return the fields at the paths of an expression; amounts are of blocks and stocks."""
    return (str(path) for path in paths if path.root in ALL_FIELDS)


def reads_near(*, soft: bool) -> Callable[[Plugin], Plugin]:
    """Declare that a plug-in compares pod managers with places of required or soft resources."""

    def is_read(near: Iterable[Proximity]) -> bool:
        return any(place.soft is soft for place in near)

    def fields(_options: Options, request: Request | None) -> Iterator[str]:
        if request is None:
            yield from PLACE_FIELDS
        for place in request.near if request is not None else ():
            if place.soft is soft:
                yield from ["zone"] if place.zone is not None else []
                yield from ["aggregates"] if place.aggregates else []
                yield from (f"facts.{name}" for name in place.facts)

    return lambda plugin: reads("near", when=is_read)(reads_podm(of=fields)(plugin))


def group_fields(_options: Options, request: Request | None) -> Iterator[str]:
    """Yield the fields that are needed to count the nodes of a group by domain."""
    yield "nodes"
    if request is None:
        yield from PLACE_FIELDS
    elif request.group is not None:
        fields = {"podm": None, "zone": "zone", "aggregate": "aggregates"}
        for domain in request.group.domains:
            field = fields.get(domain, f"facts.{domain.removeprefix(FACT_PREFIX)}")
            if field is not None:
                yield field
