# SPDX-License-Identifier: Apache-2.0
"""The compiled request that filters, weighers and schedulers read."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.errors import InputError, RequestError, one_line
from valence_sched.model import expression, extra_specs
from valence_sched.model import need as bonds
from valence_sched.model.base import Noun
from valence_sched.model.expression import Expression
from valence_sched.model.group import Group, GroupState
from valence_sched.model.inventory import Fact
from valence_sched.model.need import Alternative, Need, TopologyConstraint
from valence_sched.model.words import split_words

SCHEMA = "valence-sched/request"
VERSION = "1.0"
MAX_DEVICE_GROUPS = 8  # groups of one kind; the exact fit looks at every subset of them


class NameRequirements(Noun, frozen=True):
    """Names that must be there, that must not, and lists of which one each must be."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.any_of)

    def plus(self, other: NameRequirements) -> NameRequirements:
        """Return what both ask for, each name once."""
        return NameRequirements(
            tuple(dict.fromkeys(self.required + other.required)),
            tuple(dict.fromkeys(self.forbidden + other.forbidden)),
            tuple(dict.fromkeys(self.any_of + other.any_of)),
        )

    @property
    def contradiction(self) -> str | None:
        """Return what of the names cannot hold, None when they do not contradict each other."""
        forbidden = set(self.forbidden)
        if contrary := sorted(forbidden.intersection(self.required)):
            return f"{contrary[0]!r} is both required and forbidden"
        for names in self.any_of:
            if names and forbidden.issuperset(names):
                return f"in:{','.join(names)}: each of them is forbidden"
        return None


class Proximity(Noun, frozen=True, kw_only=True):
    """A thing outside, such as a volume, and where it is: what a resolver found out of it.

    With ``soft`` its neighbourhood is wished for, else required.
    """

    thing: str
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    soft: bool = False


class FlavorShare(Noun, frozen=True):
    """How often nodes of one kind are asked for, beside the others of a mix."""

    needs: tuple[Need, ...]
    traits: NameRequirements = NameRequirements()
    weight: Annotated[float, Meta(gt=0)] = 1.0


class Mix(Noun, frozen=True, dict=True):
    """What is asked for over time: the workload that a decision should leave room for."""

    shares: tuple[FlavorShare, ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """Return a digest that stands for the mix."""
        return hashlib.blake2b(msgspec.json.encode(self.shares), digest_size=8).hexdigest()


class Request(Noun, frozen=True, kw_only=True, dict=True):
    """What is asked of the scheduler, compiled to needs; plugins read it and nothing else."""

    schema: str = SCHEMA
    version: str = VERSION
    id: str = ""
    flavor: str | None = None
    needs: tuple[Need, ...] = ()
    bonds: tuple[TopologyConstraint, ...] = ()
    fallbacks: tuple[Alternative, ...] = ()
    count: Annotated[int, Meta(ge=1)] = 1
    min_count: Annotated[int, Meta(ge=0)] | None = None
    alternates: Annotated[int, Meta(ge=0)] = 0
    podms: tuple[str, ...] = ()
    exclude_podms: tuple[str, ...] = ()
    zone: str | None = None
    aggregates: NameRequirements = NameRequirements()
    locations: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    near: tuple[Proximity, ...] = ()
    owner: str | None = None
    group: Group | None = None
    company: GroupState = GroupState()
    mix: Mix = Mix()
    policy: str = "default"
    seed: int = 0

    @functools.cached_property
    def evaluation_key(self) -> bytes:
        """Return what filters and weighers may look at, as bytes: equal bytes, equal verdicts."""
        always = (
            self.needs,
            self.podms,
            self.exclude_podms,
            self.zone,
            self.aggregates.required,
            self.capabilities,
            self.traits,
        )
        # last and only where asked: a request without keeps its identity and its lots
        asked = {name: value for name in _OPTIONAL_FIELDS if (value := getattr(self, name))}
        if self.aggregates.forbidden or self.aggregates.any_of:
            asked["aggregates"] = self.aggregates
        if self.mix.shares:
            asked["mix"] = self.mix.digest
        words = (*always, asked) if asked else always
        return msgspec.json.encode(words, order="deterministic")

    @functools.cached_property
    def where_expression(self) -> Expression | None:
        """Return what must hold of a pool, None when nothing is asked; InputError when wrong."""
        return None if self.where is None else expression.parse_expression(self.where)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Return the ways to make the node, the one that is tried first at the front."""
        return (Alternative(self.needs, self.bonds), *self.fallbacks)

    @property
    def required_count(self) -> int:
        """Return how many nodes must be placed for any to be."""
        return self.count if self.min_count is None else self.min_count


#: Fields of a request that plugins may look at and that most requests leave empty.
_OPTIONAL_FIELDS = (
    "bonds", "locations", "attributes", "where", "near", "owner", "group", "company",
)  # fmt: skip


def sealed(request: Request) -> Request:
    """Check a request and give it an identity: its own, or else a digest of what it asks for.

    How many and how many alternates do not count: asking for more gets the same first answer.

    Raises:
        RequestError: it asks for nothing, for too many groups, for fewer nodes than at least,
            for and against one podm, for a location or a group without a name, for an attribute
            or operator that does not exist, where something holds that is no expression, for
            bonds that cannot hold, or for a model without a word in it.
    """
    for ask in request.alternatives:
        _check_alternative(ask)
    if request.required_count > request.count:
        raise RequestError(
            f"at least {request.required_count} of {request.count} nodes: ask for more nodes, or "
            "for fewer at least"
        )
    both = sorted(set(request.podms) & set(request.exclude_podms))
    if both:
        raise RequestError(f"pod manager {both[0]!r} is both asked for and excluded")
    for kind, names in (("aggregate", request.aggregates), ("trait", request.traits)):
        if contrary := names.contradiction:
            raise RequestError(one_line(f"{kind} {contrary}"))
    if request.group is not None and not request.group.name:
        raise RequestError("a group without a name, and no flavor to name it after: name it")
    for path, text in request.attributes.items():
        if wrong := extra_specs.condition_problem(path, text):
            raise RequestError(one_line(f"attribute {path!r}: {wrong}"))
    if not all(location.strip("/") for location in request.locations):
        raise RequestError("a location without a name: say where, as in dc1/row-3")
    if request.where is not None:
        try:
            _ = request.where_expression
        except InputError as error:
            raise RequestError(str(error)) from None
    if request.id:
        return request
    digest = hashlib.blake2b(request.evaluation_key, digest_size=8)
    named = msgspec.structs.replace(request, id=digest.hexdigest())
    named.__dict__.update(request.__dict__)  # the question does not depend on the id
    return named


def _check_alternative(ask: Alternative) -> None:
    if not ask.needs:
        raise RequestError("the request asks for nothing: name processors, memory or devices")
    if wrong := bonds.constraints_problem(ask):
        raise RequestError(one_line(wrong))
    tests = [test for need in ask.needs for test in need.tests if test.operator == "words"]
    for test in tests:
        if not split_words(str(test.value)):
            raise RequestError(
                one_line(
                    f"{test.attribute} {test.value!r}: without a letter or a "
                    "number any would do: name one, or leave it out"
                )
            )
    if len(ask.needs) <= MAX_DEVICE_GROUPS:
        return
    counts = Counter([need.kind for need in ask.needs if need.measure == "devices"])
    for kind, groups in counts.items():
        if groups > MAX_DEVICE_GROUPS:
            raise RequestError(
                f"{groups} groups of {kind}s, at most {MAX_DEVICE_GROUPS}: merge some"
            )
