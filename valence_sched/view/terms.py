# SPDX-License-Identifier: Apache-2.0
"""Terms and rules: the comparisons of a filter, and decorators that make functions plug-ins.

A filter returns a bool per pool. Written as a generator of :class:`Term` under :func:`terms`, it
explains itself: the comparison that rejects a pool is shown.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
from msgspec import Meta, Struct

from valence_sched.model.base import Noun
from valence_sched.model.decision import Uncounted
from valence_sched.model.expression import AttributePath
from valence_sched.model.inventory import LeanPodm, Pool
from valence_sched.model.need import NameRequirements, Proximity
from valence_sched.model.quantity import as_number
from valence_sched.model.request import FACT_PREFIX, Mix, MixSupplies, Request
from valence_sched.view.block_kinds import read_only
from valence_sched.view.view import Floats, Labels, Mask, View

P = ParamSpec("P")


class Term(Struct, frozen=True):
    """One comparison of a filter: the need, the value of each row, and the rows where it holds.

    ``have`` is an array or labels. ``holds`` defaults to ``have >= need``, false if ``have`` is NaN
    (unknown). ``podm_have`` is the amount in all pools of the pod manager, ``instead`` counts the
    devices of the same kind by model, and ``uncounted`` those excluded by their condition.
    """

    label: str
    need: Any
    have: Floats | Mask | Labels
    unit: str = ""
    holds: Mask | None = None
    podm_have: Floats | None = None
    instead: Callable[[int], Mapping[str, int]] | None = None
    uncounted: Callable[[int], Uncounted | None] | None = None

    @property
    def mask(self) -> Mask:
        """Return whether the term holds for each row."""
        if self.holds is not None:
            return self.holds
        assert isinstance(self.have, np.ndarray), "labels need holds"
        mask: Mask = np.greater_equal(self.have, self.need)
        return mask


def terms(
    make: Callable[Concatenate[View, Request, P], Iterator[Term]],
) -> Callable[Concatenate[View, Request, P], Mask]:
    """Turn a generator of terms into a filter that keeps the pools where all terms hold.

    The filter carries the generator as ``terms``: the explanation reads the same comparisons.
    """

    @functools.wraps(make)
    def keep(view: View, request: Request, *args: P.args, **options: P.kwargs) -> Mask:
        verdict = all_rows = view.all_rows
        for term in make(view, request, *args, **options):
            mask = term.mask
            if mask is not all_rows:
                verdict = mask if verdict is all_rows else verdict & mask
        return verdict

    keep.terms = make  # type: ignore[attr-defined]
    return keep  # type: ignore[return-value]


def terms_of_podms(
    make: Callable[Concatenate[View, Request, P], Iterator[Term]],
) -> Callable[Concatenate[View, Request, P], Mask]:
    """Turn terms that read neither request nor free amounts into a filter, computed once a View."""
    evaluate = terms(make)

    @functools.wraps(evaluate)
    def keep(view: View, request: Request, *args: P.args, **options: P.kwargs) -> Mask:
        def compute() -> Mask:
            mask = evaluate(view, request, *args, **options)
            return view.all_rows if mask.all() else mask

        return view.memoise((make, *sorted(options.items())), compute)  # type: ignore[no-any-return]

    return keep  # type: ignore[return-value]


def terms_for_names(label: str, has: Labels, requirements: NameRequirements) -> Iterator[Term]:
    """Yield a term for each required and forbidden name, and for each list of names."""
    for name in requirements.required:
        yield Term(label, name, has, holds=has.where({name}.issubset))
    for names in requirements.any_of:
        accepted = frozenset(names)
        holds = has.where(lambda reported, names=accepted: not names.isdisjoint(reported))  # type: ignore[misc]
        yield Term(label, " or ".join(names), has, holds=holds)
    for name in requirements.forbidden:
        yield Term(label, f"not {name}", has, holds=has.where({name}.isdisjoint))


def per_pool(
    function: Callable[Concatenate[LeanPodm, Pool, Request, P], bool | float],
) -> Callable[Concatenate[View, Request, P], Mask | Floats]:
    """Turn a function of one podm and one pool into a plug-in; fast enough for 1,000s of pools."""

    @functools.wraps(function)
    def plugin(view: View, request: Request, *args: P.args, **options: P.kwargs) -> Mask | Floats:
        pools = enumerate(view.pools)
        answers = [function(view.podm(row), one, request, *args, **options) for row, one in pools]
        kind = bool if all(isinstance(answer, bool) for answer in answers) else np.float64
        return np.array(answers, dtype=kind)

    return plugin  # type: ignore[return-value]


def proximity_terms(view: View, near: Proximity) -> Iterator[Term]:
    """Yield one comparison for each known property of the place of a resource.

    Zone, one of the aggregates, and one value of each fact must match; unknown does not.
    """
    if near.zone is not None:
        same = view.zone.where(lambda zone: zone == near.zone)
        yield Term(f"zone of {near.thing}", near.zone, view.zone, holds=same)
    if near.aggregates:
        shared = view.aggregates.where(lambda has: not has.isdisjoint(near.aggregates))
        need = " or ".join(near.aggregates)
        yield Term(f"aggregate of {near.thing}", need, view.aggregates, holds=shared)
    for name, fact in near.facts.items():
        labels = view.text(name)
        values = fact if isinstance(fact, tuple) else (fact,)
        rules = [FactRule(fact=name, equals=value) for value in values]
        holds = labels.where(lambda has, rules=rules: any(rule.accepts(has) for rule in rules))  # type: ignore[misc]
        need = " or ".join(map(str, values))
        yield Term(f"facts.{name} of {near.thing}", need, labels, holds=holds)


_NAMES = ("trait", "zone", "aggregate")
_SUBJECTS = ("capability", "fact", *_NAMES)


class FactRule(Noun, frozen=True, kw_only=True):
    """A condition on exactly one capability, fact, trait, zone or aggregate.

    A trait, zone or aggregate matches by its name. A capability or fact matches if one of its
    values is equal to ``equals``, or is a number of at least ``at_least``. Without both, it matches
    if it is reported. A text that is a number compares as that number.
    """

    capability: str | None = None
    fact: str | None = None
    trait: str | None = None
    zone: str | None = None
    aggregate: str | None = None
    equals: float | str | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        # In the words of msgspec's own errors, so that the message names the path and the value.
        subjects = [name for name in _SUBJECTS if getattr(self, name) is not None]
        if len(subjects) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(_SUBJECTS)}")
        if self.equals is not None and self.at_least is not None:
            raise ValueError("Expected equals or at_least, not both")
        compares = self.equals is not None or self.at_least is not None
        if compares and subjects[0] in _NAMES:
            raise ValueError(f"Expected {subjects[0]} alone, without equals or at_least")

    def accepts(self, reported: object) -> bool:
        """Return whether a reported capability or fact matches; None is unknown."""
        if reported is None:
            return False
        values = reported if isinstance(reported, (tuple, list)) else (reported,)
        if self.at_least is not None:
            return any(_number(value) >= self.at_least for value in values)
        if self.equals is not None:
            equal, number = self.equals, _number(self.equals)
            return any(value == equal or _number(value) == number for value in values)
        return True


class CostRule(FactRule, frozen=True, kw_only=True):
    """The cost of a pod manager that matches, in whole points from 0."""

    cost: Annotated[int, Meta(ge=0, le=1_000_000)]


class PreferenceRule(FactRule, frozen=True, kw_only=True):
    """The weight of a match; below 0 it is a preference against the pod manager."""

    weight: Annotated[float, Meta(ge=-1000, le=1000)]


def matches(view: View, rule: FactRule) -> Mask:
    """Return whether the pod manager of each row (of a trait: the pool) matches the rule."""
    if rule.zone is not None:
        return view.zone.where(lambda name: name == rule.zone)
    if rule.trait is not None:
        return view.traits.where({rule.trait}.issubset)
    if rule.aggregate is not None:
        return view.aggregates.where({rule.aggregate}.issubset)
    if rule.fact is not None:
        return view.text(rule.fact).where(rule.accepts)
    return view.capabilities.where(lambda has: rule.accepts(has.get(rule.capability)))


def sum_matches(view: View, name: str, weighted_rules: Sequence[tuple[FactRule, float]]) -> Floats:
    """Return the sum per row of the values of matching rules; the View memoises it by ``name``."""

    def compute() -> Floats:
        total = np.zeros(len(view))
        for rule, value in weighted_rules:
            total += value * matches(view, rule)
        return read_only(total)

    return view.memoise_latest(f"sum of {name}", weighted_rules, compute)  # type: ignore[no-any-return]


def _number(value: object) -> float:
    return as_number(value) if isinstance(value, (int, float, str)) else math.nan


CountsBy = Literal["podm", "domain"]
Plugin = TypeVar("Plugin", bound=Callable[..., Any])


def is_given(value: object) -> bool:
    """Return whether a field of a request is set: not None, False or empty; a 0 is set."""
    return bool(value) or (isinstance(value, int | float) and not isinstance(value, bool))


class Reads(Struct, frozen=True):
    """Fields of a request that a plug-in reads; a field counts if ``when`` accepts its value.

    If it is ``optional``, the plug-in is active in every decision, and other policies may accept
    the field. ``counts_by`` is for plug-ins that only count the nodes of a group or an owner, on
    the ``podm`` or at its values of each ``domain`` in the rules of the group.
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
    """The functions that complete the mix of a request for a weigher; both take its options.

    ``supplies(view, mix)`` returns the supply of all pools for each share, empty if the mix needs
    no completion; those of several Views add up. ``complete(mix, supplies)`` returns the mix.
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
    """Yield the fields that a plug-in with these options reads for a request; None: for any."""
    # not the declaration of a base class, since a subclass may read more
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
    """Return the fields at the paths of an expression, without amounts of blocks and stocks."""
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
