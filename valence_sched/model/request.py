# SPDX-License-Identifier: Apache-2.0
"""The compiled request that filters, weighers and schedulers read."""

import functools
import itertools
import operator
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.errors import InputError, RequestError, must_be
from valence_sched.model import expression, extra_specs, need as nouns
from valence_sched.model.base import Noun, digest_of
from valence_sched.model.expression import Expression
from valence_sched.model.need import Alternative, NameRequirements, Need, NodeRequest, Proximity
from valence_sched.model.quantity import format_count

#: Topology domains of pod managers, beside facts (``facts.rack``).
DOMAINS = ("podm", "zone", "location", "aggregate")
FACT_PREFIX = "facts."

Domain = Annotated[str, Meta(pattern=r"^(podm|zone|location|aggregate|facts\..+)$", max_length=255)]
NodeCount = Annotated[int, Meta(ge=1, le=1_000_000)]
SCHEMA = "valence-sched/request"
VERSION = "1.0"
MAX_DEVICE_GROUPS = 8  # groups of one kind; the exact fit tries every subset of them
MAX_NODES = 1_000_000  # nodes and alternates of one request
MAX_ALTERNATIVES = 17  # alternatives for the node
MAX_NEEDS = 64  # needs of one alternative
MAX_GRANTS = 4_000  # separate amounts of all needs together
MAX_OWNER = 255  # characters of an owner's name
MAX_ID = 255  # characters
MAX_DOMAINS = 32  # topology domains in the rules of one group
ID_BYTES = 8  # length of a generated id
Owner = Annotated[str, Meta(min_length=1, max_length=MAX_OWNER)]
#: For each share of a mix, the number of its nodes that pools can make.
MixSupplies = tuple[int, ...]
SCARCITY_PART = 10  # the scarcity of a mix is renewed after changes to 1/10 of the pools
#: Fields that change neither verdicts nor scores.
_NOT_EVALUATED = frozenset({"id", "schema", "version", "flavor", "seed", "policy"})
_NOT_EVALUATED |= {"count", "min_count", "alternates"}
_ALWAYS_IN_IDENTITY = frozenset({"needs", "podms", "exclude_podms", "zone", "aggregates"})
_ALWAYS_IN_IDENTITY |= {"capabilities", "traits"}
MAX_SUPPLY = 2**60  # nodes of one share


class Spread(Noun, frozen=True):
    """Counts of the group's nodes per value of a domain differ by at most ``max_skew``."""

    over: Domain
    max_skew: NodeCount = 1
    soft: bool = False


class Group(Noun, frozen=True, kw_only=True):
    """A group of nodes, and the rules for the placement of its members.

    ``affinity``: in each of these domains all members have the same value. ``anti_affinity``: no
    two members have the same value. The ``soft`` forms are preferences. ``at_most`` is the largest
    number of members with the same value of a domain. A group without a name has the name of the
    flavor.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)] = ""
    affinity: tuple[Domain, ...] = ()
    anti_affinity: tuple[Domain, ...] = ()
    soft_affinity: tuple[Domain, ...] = ()
    soft_anti_affinity: tuple[Domain, ...] = ()
    at_most: dict[Domain, NodeCount] = {}
    spread: tuple[Spread, ...] = ()

    @property
    def hard(self) -> bool:
        hard_spread = any(not rule.soft for rule in self.spread)
        return bool(self.affinity or self.anti_affinity or self.at_most or hard_spread)

    @property
    def soft(self) -> bool:
        soft_spread = any(rule.soft for rule in self.spread)
        return bool(self.soft_affinity or self.soft_anti_affinity or soft_spread)

    @property
    def domains(self) -> tuple[str, ...]:
        spread = tuple(rule.over for rule in self.spread)
        together = (*self.affinity, *self.soft_affinity)
        apart = (*self.anti_affinity, *self.soft_anti_affinity, *self.at_most)
        return tuple(dict.fromkeys((*together, *apart, *spread)))


class GroupState(Noun, frozen=True, kw_only=True):
    """The counts of nodes placed before a decision.

    ``members`` counts the nodes of the request's group by domain and value. ``owned`` counts the
    nodes of its owner by pod manager. ``open`` lists the values of each spread domain that have an
    eligible pod manager: it passes every filter, except filters on free hardware.
    """

    members: dict[str, dict[str, int]] = {}
    owned: dict[str, int] = {}
    open: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.members or self.owned or self.open)

    def decides(self, domain: str) -> bool:
        """Return whether exactly one value has the most members, as ``affinity`` requires it."""
        counts = [*self.members.get(domain, {}).values()]
        return counts.count(max(counts, default=0)) == 1

    def fewest_members(self, domain: str) -> int:
        counts = self.members.get(domain, {})
        return min((counts.get(value, 0) for value in self.open.get(domain, ())), default=0)


def check_domain(domain: str) -> str:
    """Return a domain; RequestError if it is unknown."""
    if domain not in DOMAINS and not (domain.startswith(FACT_PREFIX) and domain != FACT_PREFIX):
        domains = f"{', '.join(DOMAINS)}, or facts.NAME for a fact"
        raise RequestError(f"unknown domain {domain!r}: use {domains}")
    return domain


def check_group_name(text: str) -> str:
    """Return the name of a group or an owner; ValueError if it is empty or too long."""
    if not text.strip() or len(text) > MAX_OWNER:
        raise must_be(f"a name of 1 to {MAX_OWNER} characters", text)
    return text


class FlavorShare(Noun, frozen=True):
    """The share of one flavor in a mix: the frequency of its nodes relative to other flavors."""

    needs: tuple[Need, ...]
    traits: NameRequirements = NameRequirements()
    weight: Annotated[float, Meta(gt=0)] = 1.0


class Mix(Noun, frozen=True, dict=True):
    """The workload over time, as shares of flavors: a decision should keep room for it.

    ``scarcity`` has a factor for each share: the fewer of its nodes the pools can supply, the
    larger the factor. It is computed from all pools, because a plug-in scores each row by itself.
    If it is empty, all shares have factor 1.
    """

    shares: tuple[FlavorShare, ...] = ()
    scarcity: tuple[Annotated[float, Meta(ge=1, le=10**6)], ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """Return a digest of the shares without the scarcity, which changes with every node."""
        return digest_of(msgspec.json.encode(self.shares), 8)


class Request(Noun, frozen=True, kw_only=True, dict=True):
    """A request compiled to needs: the only input of plug-ins beside the View.

    ``needs`` and ``topology`` are the first alternative for the node; ``other_alternatives``
    follow. ``alternates`` is the number of alternates per node. ``inherited`` are the capabilities
    that zones state for their pod managers.
    """

    schema: str = SCHEMA
    version: str = VERSION
    id: str = ""
    flavor: str | None = None
    needs: tuple[Need, ...] = ()
    topology: tuple[nouns.TopologyConstraint, ...] = ()
    other_alternatives: tuple[Alternative, ...] = ()
    count: Annotated[int, Meta(ge=1)] = 1
    min_count: Annotated[int, Meta(ge=0)] | None = None
    alternates: Annotated[int, Meta(ge=0)] = 0
    podms: tuple[str, ...] = ()
    exclude_podms: tuple[str, ...] = ()
    zone: str | None = None
    aggregates: NameRequirements = NameRequirements()
    locations: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    inherited: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    near: tuple[Proximity, ...] = ()
    tolerations: tuple[nouns.Toleration, ...] = ()
    owner: Owner | None = None
    group: Group | None = None
    group_state: GroupState = GroupState()
    mix: Mix = Mix()
    policy: str = "default"
    seed: int = 0

    @functools.cached_property
    def evaluation_key(self) -> bytes:
        """Return the inputs of filters and weighers as bytes: equal bytes give equal verdicts."""
        mix = b""
        if self.mix.shares:
            scarcity = msgspec.json.encode(self.mix.scarcity) if self.mix.scarcity else b""
            mix = self.mix.digest.encode() + scarcity
        values = _evaluated_values(type(self))(self)
        return msgspec.json.encode(values, order="deterministic") + mix

    @functools.cached_property
    def identity(self) -> bytes:
        """Return the requirements, without the mix: equal bytes break ties in the same way."""
        places = (self.podms, self.exclude_podms, self.zone, self.aggregates.required)
        always = (self.needs, *places, self.capabilities, self.traits)
        # last, and only if set, so that requests without a newer field keep their identity
        names = _optional_names(type(self))
        optional = {name: value for name in names if (value := getattr(self, name))}
        if self.aggregates.forbidden or self.aggregates.any_of:
            optional["aggregates"] = self.aggregates
        fields = (*always, optional) if optional else always
        return msgspec.json.encode(fields, order="deterministic")

    @functools.cached_property
    def where_expression(self) -> Expression | None:
        return None if self.where is None else expression.parse_expression(self.where)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative(self.needs, self.topology), *self.other_alternatives)

    def with_needs(self, change: Callable[[tuple[Need, ...]], Iterable[Need]]) -> "Request":
        """Return a request with the needs of each alternative changed."""
        every = self.alternatives
        ways = (msgspec.structs.replace(one, needs=tuple(change(one.needs))) for one in every)
        first, *others = ways
        return msgspec.structs.replace(self, needs=first.needs, other_alternatives=tuple(others))

    @property
    def stock_resources(self) -> frozenset[str]:
        every = [alternative.needs for alternative in self.alternatives]
        sets = [{need.resource for need in needs if need.kind == "stock"} for needs in every]
        return frozenset(set.intersection(*sets))

    @property
    def constrained_places(self) -> tuple[str, ...]:
        constraints = itertools.chain(*(one.topology for one in self.alternatives))
        return tuple(sorted({constraint.place for constraint in constraints}))

    @property
    def required_count(self) -> int:
        """Return the smallest number of nodes to place: if fewer fit, no node is placed."""
        return self.count if self.min_count is None else self.min_count


@functools.cache
def _evaluated_values(kind: type[Request]) -> Callable[[Request], tuple[Any, ...]]:
    excluded = _NOT_EVALUATED | {"mix"}  # a mix is added by its digest
    return operator.attrgetter(*[n for n in kind.__struct_fields__ if n not in excluded])


@functools.cache
def _optional_names(kind: type[Request]) -> tuple[str, ...]:
    excluded = _NOT_EVALUATED | _ALWAYS_IN_IDENTITY | {"other_alternatives", "inherited", "mix"}
    return tuple(name for name in kind.__struct_fields__ if name not in excluded)


def sealed(request: Request) -> Request:
    """Return a valid request with an id, by default a digest of its identity; else RequestError."""
    known = request.__dict__
    if "sealed" not in known:
        _check_sizes(request)
        for alternative in request.alternatives:
            _check_alternative(alternative)
        _check_requirements(request)
        found = with_content_id(request)
        known["sealed"] = None if found is request else found  # None: no cycle of references
        found.__dict__["sealed"] = None
    return known["sealed"] or request


def with_content_id(request: Request) -> Request:
    """Return a request with its id, else with an id that equal requests share."""
    if request.id:
        return request
    _ = request.evaluation_key  # computed once for a request that is decided on again
    return _with_id(request, digest_of(request.identity, ID_BYTES))


def with_own_id(request: Request, key: str | None = None) -> Request:
    """Return a request with its id, else an id made from owner and ``key``, else a random id."""
    if request.id:
        return request
    if key is None:
        return _with_id(request, secrets.token_hex(ID_BYTES))
    return _with_id(request, digest_of("\0".join((request.owner or "", key)).encode(), ID_BYTES))


def asked_content(request: Request) -> bytes:
    """Return the content that an idempotency key is bound to: the request without its id."""
    return msgspec.json.encode(msgspec.structs.replace(request, id=""), order="deterministic")


def _with_id(request: Request, id_: str) -> Request:
    identified = msgspec.structs.replace(request, id=id_)
    known = {name: value for name, value in request.__dict__.items() if name != "sealed"}
    identified.__dict__.update(known)  # no other computed value depends on the id
    return identified


def _check_sizes(request: Request) -> None:
    if len(request.id) > MAX_ID:
        length = format_count(len(request.id), "character")
        text = f"its ID has {length}, at most {MAX_ID}"
        raise RequestError(f"request {request.id[:20]}...: {text}: choose a shorter one")
    _check_size(request.count, "nodes", MAX_NODES)
    _check_size(request.alternates, "alternates", MAX_NODES)
    _check_size(1 + len(request.other_alternatives), "alternatives", MAX_ALTERNATIVES)
    if request.group is not None:
        _check_size(len(request.group.domains), "domains of a group", MAX_DOMAINS)


def _check_size(size: int, what: str, most: int) -> None:
    if size > most:
        raise RequestError(f"{size:,} {what}, at most {most:,}: request fewer")


def _check_requirements(request: Request) -> None:
    if request.required_count > request.count:
        raise RequestError(f"min_count {request.required_count} exceeds count {request.count}")
    if contrary := sorted(set(request.podms) & set(request.exclude_podms)):
        raise RequestError(f"pod manager {contrary[0]!r} is both requested and excluded")
    for kind, names in (("aggregate", request.aggregates), ("trait", request.traits)):
        if problem := names.contradiction:
            raise RequestError(f"{kind} {problem}")
    shares, scarcity = len(request.mix.shares), len(request.mix.scarcity)
    if scarcity not in (0, shares):
        values = format_count(scarcity, "value")
        text = f"a mix of {format_count(shares, 'share')} with {values} of scarcity"
        raise RequestError(f"{text}: expected one for each share, or an empty list")
    if request.group is not None and not request.group.name:
        raise RequestError("a group without a name and without a flavor: give it a name")
    for path, text in request.attributes.items():
        if wrong := extra_specs.condition_problem(path, text):
            raise RequestError(f"attribute {path!r}: {wrong}")
    if not all(location.strip("/") for location in request.locations):
        raise RequestError("a location without a name: expected one such as dc1/row-3")
    if request.where is not None:
        try:
            _ = request.where_expression
        except InputError as error:
            raise RequestError(str(error)) from None


def _check_alternative(alternative: Alternative) -> None:
    if not alternative.needs:
        raise RequestError("the request has no needs: add processors, memory or devices")
    _check_size(len(alternative.needs), "needs", MAX_NEEDS)
    _check_size(sum([need.count for need in alternative.needs]), "separate amounts", MAX_GRANTS)
    if wrong := nouns.constraints_problem(alternative):
        raise RequestError(wrong)
    for test in (test for need in alternative.needs for test in need.tests):
        if test.operator == "words" and not nouns.split_words(str(test.value)):
            problem = "has neither a letter nor a digit: give a model, or omit it"
            raise RequestError(f"{test.attribute} {test.value!r} {problem}")
    counts = Counter([need.kind for need in alternative.needs if need.measure == "devices"])
    for kind, number in counts.items():
        if number > MAX_DEVICE_GROUPS:
            most = f"at most {MAX_DEVICE_GROUPS}"
            raise RequestError(f"{number} groups of {kind}s, {most}: merge some")


def with_inherited(request: Request, stated: Mapping[str, tuple[str, ...]]) -> Request:
    """Return a request with the capabilities of a zone, as far as the request refers to them."""
    if not stated:
        return request
    names = {*request.capabilities}
    paths = [extra_specs.split_attribute(path) for path in request.attributes]
    if request.where_expression is not None:
        paths += [(path.root, path.name) for path in request.where_expression.paths]
    names.update(name for root, name in paths if root == "capabilities")
    inherited = {key: values for key, values in stated.items() if key in names}
    if not inherited:
        return request
    return msgspec.structs.replace(request, inherited={**request.inherited, **inherited})


def request_for(node: NodeRequest, flavor: str | None, owner: str | None, policy: str) -> Request:
    """Return a request with the requirements of a node."""
    return Request(flavor=flavor, owner=owner, policy=policy, **msgspec.structs.asdict(node))


def added_supplies(supplies: Iterable[MixSupplies]) -> MixSupplies:
    """Return the sum of the supplies that several groups of pools have for the same shares."""
    return tuple(map(sum, zip(*supplies, strict=True)))


def is_supply(supplies: MixSupplies, shares: int) -> bool:
    """Return whether supplies are valid numbers of nodes, one for each of these shares."""
    return len(supplies) == shares and all(0 <= nodes <= MAX_SUPPLY for nodes in supplies)
