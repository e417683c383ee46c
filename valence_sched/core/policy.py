# SPDX-License-Identifier: Apache-2.0
"""Bound policies: a policy with its plug-ins loaded, its options checked, and its readers."""

import contextlib
import functools
import itertools
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from valence_sched.core import plugins
from valence_sched.core.plugins import Plugins
from valence_sched.errors import (
    InputError,
    PluginError,
    RequestError,
    UnknownName,
    describe_error,
    suggest,
)
from valence_sched.model.base import digest_of
from valence_sched.model.codec import convert
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import FilterUse, Policy, WeigherUse, WeightOverrides
from valence_sched.model.request import Mix, MixSupplies, Request, sealed, with_inherited
from valence_sched.view.expression import check_amounts
from valence_sched.view.terms import MixCompletion, Reads, declarations, podm_fields
from valence_sched.view.view import Floats, Ints, Mask, View

NO_OVERRIDES = WeightOverrides()
#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, lower is better.
COST_SCALE = 1_000_000
INFINITE_COST = np.iinfo(np.int64).max
WEIGHT_UNITS = 1000  # weights count in thousandths, so that costs are whole numbers

#: The filters that every policy applies first: podms are available, and the request allows them.
REQUIRED_FILTERS = ("enabled", "alive", "target", "zone", "isolation")
#: Fields with parts: a plug-in that reads the whole field reads each part.
MAPS = ("facts", "capabilities")

Kind = Literal["filter", "weigher"]
ReadField = tuple[str, Callable[[Any], object]]

#: The fields that are checked first, in this order: the first unread field is reported.
_FIRST = "podms zone locations aggregates capabilities traits attributes where near group owner"
REPORTED_FIRST = tuple(_FIRST.split())


class RequestReader(Struct, frozen=True, eq=False):
    """A plug-in, and the request fields, with tests, that make it active; ``optional``: always."""

    kind: Kind
    name: str
    required: tuple[ReadField, ...]
    optional: tuple[ReadField, ...]

    def is_active(self, request: Request) -> bool:
        """Return whether a request makes the plug-in active; PluginError if a declaration fails."""
        try:
            for field, when in self.required:
                value = getattr(request, field, None)
                if value is not None and when(value):
                    return True
        except Exception as error:
            text = f"{self.kind} {self.name!r} cannot read {field!r}: {describe_error(error)}"
            raise PluginError(text) from error
        return False

    def missing_fields(self, request: Request, readers: Sequence["RequestReader"]) -> Iterator[str]:
        """Yield the fields that the request sets and only this plug-in would read."""
        for field, when in self.required:
            value = getattr(request, field, None)
            is_set = value is not None and when(value)
            if is_set and not any(one.serves(self.kind, field, when, value) for one in readers):
                yield field

    def serves(self, kind: Kind, field: str, when: Callable[[Any], object], value: object) -> bool:
        """Return whether this plug-in can replace a plug-in of ``kind`` as reader of a field.

        A filter and a weigher with different tests ``when`` read different parts of the field.
        """
        required = (one for one in self.required if self.kind == kind or one[1] is when)
        return any(name == field and holds(value) for name, holds in (*required, *self.optional))


class BoundFilter(Struct, frozen=True):
    """A filter with its options filled in."""

    name: str
    evaluate: Callable[[View, Request], Mask]
    terms: Callable[[View, Request], Any] | None
    reads: tuple[Reads, ...] = ()


class BoundWeigher(Struct, frozen=True):
    """A weigher with its options filled in and its weight in thousandths."""

    name: str
    weight: int
    evaluate: Callable[[View, Request], Floats]
    overrides: WeightOverrides = NO_OVERRIDES
    reads: tuple[Reads, ...] = ()
    mix_completion: MixCompletion | None = None

    @property
    def heaviest(self) -> int:
        if not self.overrides:
            return self.weight
        use = WeigherUse(self.name, self.weight / WEIGHT_UNITS, overrides=self.overrides)
        return round(use.max_weight * WEIGHT_UNITS)

    def weights(self, view: View) -> Ints:
        """Return its weight per row, by the aggregates and the zone of the pod manager."""
        by_zone = {name: round(w * WEIGHT_UNITS) for name, w in self.overrides.zone.items()}
        zones = [by_zone.get(zone, self.weight) for zone in view.zone.values]
        weights: Ints = np.array(zones, dtype=np.int64)[view.zone.codes]
        own = self.overrides.aggregate
        named = [[own[name] for name in has if name in own] for has in view.aggregates.values]
        if any(named):
            least = [round(min(some) * WEIGHT_UNITS) if some else -1 for some in named]
            ours = np.array(least, dtype=np.int64)[view.aggregates.codes]
            weights = np.where(ours < 0, weights, ours)
        return weights


class BoundPolicy(Struct, frozen=True, dict=True):
    """A policy with loaded plug-ins; idle filters, which keep every pool, are left out.

    ``readers`` are the plug-ins of the policy that declare the fields of a request that they read.
    ``absent_readers`` are other installed plug-ins with such a declaration.
    """

    policy: Policy
    scheduler: Callable[[], Any]
    filters: tuple[BoundFilter, ...]
    weighers: tuple[BoundWeigher, ...]
    idle_filters: frozenset[str] = frozenset()
    readers: tuple[RequestReader, ...] = ()
    absent_readers: tuple[RequestReader, ...] = ()

    @property
    def filter_names(self) -> list[str]:
        """Return the names of all filters in order, including idle filters."""
        uses = filter_uses(self.policy) if self.idle_filters else self.filters
        return [use.name for use in uses]

    @property
    def plugins(self) -> tuple[BoundFilter | BoundWeigher, ...]:
        return (*self.filters, *self.weighers)

    @functools.cached_property
    def digest(self) -> str:
        return digest_of(to_json(self.policy))

    @functools.cached_property
    def idle_candidates(self) -> tuple[RequestReader, ...]:
        """Return the readers that are inactive unless a request sets their fields."""
        return tuple(reader for reader in self.readers if not reader.optional)

    @functools.cached_property
    def mix_completions(self) -> dict[str, MixCompletion]:
        """Return the functions that complete the mix of a request, by the name of their weigher."""
        return {one.name: one.mix_completion for one in self.weighers if one.mix_completion}

    def mix_supplies(self, view: View, mix: Mix) -> dict[str, MixSupplies]:
        """Return the supplies of the pools for a mix, by the name of the weigher."""
        found = ((name, one.supplies(view, mix)) for name, one in self.mix_completions.items())
        return {name: supplies for name, supplies in found if supplies}

    def completed_mix(self, mix: Mix, supplies: Mapping[str, MixSupplies]) -> Mix:
        """Return a mix with its scarcity, from the first weigher that finds a scarce resource."""
        for name, completion in self.mix_completions.items():
            if name in supplies and not mix.scarcity:
                mix = completion.complete(mix, supplies[name])
        return mix

    @functools.cached_property
    def fields_read(self) -> frozenset[str]:
        """Return the request fields that the plug-ins of the policy declare."""
        return frozenset(field for use in self.plugins for one in use.reads for field in one.fields)

    @functools.cached_property
    def worst_cost(self) -> int:
        return sum(weigher.heaviest for weigher in self.weighers)

    @functools.cached_property
    def weights(self) -> Ints:
        """The weights without overrides, in thousandths; shape ``(weighers, 1)``."""
        return np.array([[weigher.weight] for weigher in self.weighers]).reshape(-1, 1)

    @functools.cached_property
    def weights_vary(self) -> bool:
        return any(weigher.overrides for weigher in self.weighers)


def bind(policy: Policy, file: str = "policy") -> BoundPolicy:
    """Resolve a policy's names and check its options.

    UnknownName: no such plug-in. InputError: an unknown option, or one of the wrong type, a plug-in
    twice, or goals for a scheduler without goals.
    """
    where = f"{file}: policy {policy.name!r}"
    scheduler = plugins.load(plugins.SCHEDULERS).get(policy.scheduler, where)
    if policy.goals and not getattr(scheduler, "plans_batches", False):
        found, expected = ", ".join(policy.goals), f"no goals with scheduler {policy.scheduler!r}"
        raise InputError(where, "goals", found, expected, "choose scheduler joint")
    for kind, uses in (("filter", policy.filters), ("weigher", policy.weighers)):
        names = [use.name for use in uses]
        if twice := [name for name in names if names.count(name) > 1]:
            hint = "remove one of them"
            raise InputError(where, "", f"{kind} {twice[0]!r} twice", "it once", hint)
    weighers = (*policy.weighers, *_unknown_penalties(policy))
    filters = filter_uses(policy)
    used = {("filter", use.name) for use in filters}
    used.update(("weigher", use.name) for use in weighers)
    readers = _readers(plugins.load(plugins.FILTERS), plugins.load(plugins.WEIGHERS))
    return BoundPolicy(
        policy=policy,
        scheduler=scheduler,
        filters=tuple(_bind_filter(use, where) for use in filters),
        weighers=tuple(_bind_weigher(use, where) for use in weighers),
        readers=tuple(one for one in readers if (one.kind, one.name) in used),
        absent_readers=tuple(one for one in readers if (one.kind, one.name) not in used),
    )


def filter_uses(policy: Policy) -> tuple[FilterUse, ...]:
    """Return the filters that a policy applies: the filters of all policies, and its own."""
    listed = {use.name for use in policy.filters}
    required = (FilterUse(name) for name in REQUIRED_FILTERS if name not in listed)
    return (*required, *policy.filters)


def _unknown_penalties(policy: Policy) -> Iterator[WeigherUse]:
    """Yield the weigher that penalises unknown attributes, heavier than all others together."""
    if policy.unknown != "penalise":
        return
    loaded = plugins.load(plugins.WEIGHERS)
    names, weighers = loaded.ours_first(), loaded.by_name
    penalties = [name for name in names if getattr(weighers[name], "penalises_unknown", False)]
    if penalties and all(use.name not in penalties for use in policy.weighers):
        weight = max(1.0, 2 * sum(use.max_weight for use in policy.weighers))
        yield WeigherUse(penalties[0], min(1000.0, weight))


def _bind_filter(use: FilterUse, where: str) -> BoundFilter:
    function, options = _checked_plugin("filter", use, where)
    explain = getattr(function, "terms", None)
    terms = functools.partial(explain, **options) if explain else None
    evaluate = functools.partial(function, **options)
    return BoundFilter(use.name, evaluate, terms, declarations(function))


def _bind_weigher(use: WeigherUse, where: str) -> BoundWeigher:
    function, options = _checked_plugin("weigher", use, where)
    completion: MixCompletion | None = getattr(function, "mix_completion", None)
    return BoundWeigher(
        use.name,
        round(use.weight * WEIGHT_UNITS),
        functools.partial(function, **options),
        use.overrides,
        declarations(function),
        None if completion is None else completion.with_options(options),
    )


def _checked_plugin(
    kind: Kind, use: FilterUse | WeigherUse, where: str
) -> tuple[Callable[..., Any], dict[str, Any]]:
    group = plugins.FILTERS if kind == "filter" else plugins.WEIGHERS
    function = plugins.load(group).get(use.name, where)
    request_fields = _fields_of(Request)
    declared = itertools.chain.from_iterable(one.fields for one in declarations(function))
    for field in declared:
        if field not in request_fields:
            path, hint = f"{kind} {use.name!r} reads {field!r}", suggest(field, request_fields)
            raise InputError(where, path, "no such field of a request", hint=hint)
    types: dict[str, Any] = {}
    if use.options:
        with contextlib.suppress(NameError):  # a name only for type checkers
            types = typing.get_type_hints(function, include_extras=True)
    known, checked = plugins.options(function), {}
    for option, value in use.options.items():
        path = f"option {option!r} of {use.name!r}"
        if option not in known:
            raise InputError(where, path, "no such option", hint=suggest(option, known))
        checked[option] = convert(value, types.get(option, Any), where, path)
    return function, checked


def missing_readers(request: Request, bound: BoundPolicy) -> list[RequestReader]:
    """Return the plug-ins that a request needs and that the policy lacks."""
    absent = []
    for reader in bound.absent_readers:
        with contextlib.suppress(PluginError):  # the error concerns only policies with the plug-in
            if reader.is_active(request) and any(reader.missing_fields(request, bound.readers)):
                absent.append(reader)
    return absent


def idle_readers(request: Request, bound: BoundPolicy) -> frozenset[RequestReader]:
    """Return the plug-ins of a policy that are inactive for a request."""
    return frozenset([one for one in bound.idle_candidates if not one.is_active(request)])


def without_readers(bound: BoundPolicy, readers: frozenset[RequestReader]) -> BoundPolicy:
    """Return the policy without these readers, which are inactive for a request."""
    idle = frozenset(reader.name for reader in readers if reader.kind == "filter")
    idle_weighers = {reader.name for reader in readers if reader.kind == "weigher"}
    filters = tuple(use for use in bound.filters if use.name not in idle)
    weighers = tuple(use for use in bound.weighers if use.name not in idle_weighers)
    return replace(bound, filters=filters, weighers=weighers, idle_filters=idle)


def resolve_needs(request: Request, policy: Policy) -> Request:
    """Return a request whose needs have its tolerations and the policy's rules on unknowns."""
    unknown: Literal["reject", "allow"] = "reject" if policy.unknown == "reject" else "allow"
    is_strict = any(
        use.name == "health" and use.options.get("worst") == "OK" for use in policy.filters
    )
    worst: Literal["OK", "Warning"] = "OK" if is_strict else "Warning"
    rules = unknown, worst, request.tolerations
    needs = itertools.chain.from_iterable(one.needs for one in request.alternatives)
    if all((need.unknown, need.worst, need.tolerations) == rules for need in needs):
        return request

    more = {"unknown": unknown, "worst": worst, "tolerations": request.tolerations}
    return request.with_needs(lambda needs: (replace(need, **more) for need in needs))


class BoundPolicies:
    """Binds each policy once, when a request first names it, and seals requests.

    ``mix`` is as for a ``Decider``; ``stated`` are the capabilities of the zone itself.
    """

    def __init__(
        self,
        policies: Iterable[Policy],
        mix: Callable[[], Mix] = Mix,
        stated: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._stated = stated or {}
        self._policies = {policy.name: policy for policy in policies}
        self._bound: dict[str, BoundPolicy] = {}
        self._without_idle_readers: dict[tuple[str, frozenset[RequestReader]], BoundPolicy] = {}
        self._mix = functools.cache(mix)

    def policies(self) -> Sequence[Policy]:
        """Return the policies a request may name."""
        return list(self._policies.values())

    def policy(self, name: str) -> BoundPolicy:
        """Return a policy with its plug-ins; UnknownName, or an error of :func:`bind`."""
        if name not in self._policies:
            raise UnknownName("policy", name, self._policies)
        if name not in self._bound:
            self._bound[name] = bind(self._policies[name])
        return self._bound[name]

    def prepare(
        self, request: Request, view: View, *, other_zones: bool = False
    ) -> tuple[Request, BoundPolicy]:
        """Return a request sealed for a view, and its policy; podms may be of ``other_zones``.

        RequestError: the policy ignores a field, or units differ. UnknownName: no such policy or
        pod manager.
        """
        bound = self.policy(request.policy)
        for reader in missing_readers(request, bound):
            lack = f"policy {request.policy!r} has no {reader.kind} {reader.name!r}"
            hint = f"add the {reader.kind} or choose another policy"
            raise RequestError(f"{lack}, which the request needs: {hint}")
        if not other_zones and (request.podms or request.exclude_podms):
            known = {name for podm in view.podms for name in (podm.id, podm.name)}
            for name in (*request.podms, *request.exclude_podms):
                if name not in known:
                    raise UnknownName("pod manager", name, view.podm_ids)
        request = with_inherited(request, self._stated)
        if "mix" in bound.fields_read and not request.mix.shares:
            request = replace(request, mix=self._mix())
        request = sealed(request)  # its id does not depend on the policy
        request = sealed(resolve_needs(request, bound.policy))
        if request.where_expression is not None:
            check_amounts(view, request.where_expression)
        return request, bound

    def active(self, request: Request, bound: BoundPolicy) -> BoundPolicy:
        """Return the policy without the plug-ins that are inactive for a request."""
        readers = idle_readers(request, bound)
        key = (bound.policy.name, readers)
        if key not in self._without_idle_readers:
            self._without_idle_readers[key] = without_readers(bound, readers)
        return self._without_idle_readers[key]


@functools.lru_cache(maxsize=4)
def _readers(filters: Plugins, weighers: Plugins) -> tuple[RequestReader, ...]:
    groups: tuple[tuple[Kind, Plugins], ...] = (("filter", filters), ("weigher", weighers))
    readers = []
    for kind, some in groups:
        for name in some.ours_first():
            if declared := declarations(some.by_name[name]):
                fields = [(field, one) for one in declared for field in one.fields]
                required = tuple((field, one.when) for field, one in fields if not one.optional)
                optional = tuple((field, one.when) for field, one in fields if one.optional)
                readers.append(RequestReader(kind, name, required, optional))

    def order(reader: RequestReader) -> tuple[str, int]:
        fields = {field for field, _ in reader.required}
        positions = [at for at, field in enumerate(REPORTED_FIRST) if field in fields]
        return reader.kind, min(positions, default=len(REPORTED_FIRST))

    return tuple(sorted(readers, key=order))


def _fields_of(kind: type[Request]) -> set[str]:
    """Return the fields of a class of requests and of its subclasses, which may have more."""
    return set(kind.__struct_fields__).union(*map(_fields_of, kind.__subclasses__()))


def fields_read(
    policy: Policy, request: Request | None = None, resources: Iterable[CustomResource] = ()
) -> tuple[str, ...]:
    """Return the fields of pod managers that a policy reads for a request; None: for any request.

    The amounts of ``resources`` may be in facts. Same errors as :func:`bind`.
    """
    bound = bind(policy)
    if request is not None:
        bound = without_readers(bound, idle_readers(request, bound))
    found = {*podm_fields(bound.scheduler, {}, request)}
    for resource in resources:
        found.update(f"facts.{fact}" for fact in (resource.fact, resource.used_fact) if fact)
        found.update(["name"] if resource.podms else [])
    if request is None or request.podms or request.exclude_podms:
        found.add("name")  # it names pod managers, even if no filter reads it
    for use in bound.plugins:
        bound_plugin: Any = use.evaluate  # a function and its options that are not defaults
        parameters = plugins.options(bound_plugin.func)
        defaults = {name: parameter.default for name, parameter in parameters.items()}
        options = defaults | bound_plugin.keywords
        found.update(podm_fields(bound_plugin.func, options, request))
    for weigher in bound.weighers:
        found.update(["zone"] if weigher.overrides.zone else [])
        found.update(["aggregates"] if weigher.overrides.aggregate else [])
    whole = found & {*MAPS}
    return tuple(sorted(one for one in found if one in MAPS or one.partition(".")[0] not in whole))
