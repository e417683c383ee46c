# SPDX-License-Identifier: Apache-2.0
"""Call: one request to the service, and the parts of the service that answer it."""

import dataclasses
import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from valence_sched import errors
from valence_sched.model import claim, codec, diagnostic, verbs, zone as nouns
from valence_sched.model.flavor import Flavor
from valence_sched.model.request import SCHEMA, VERSION, Request, with_own_id
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import Scheduler
from valence_sched.service import fairness, settings, users
from valence_sched.service.operations import Operations, RecordStore
from valence_sched.service.visibility import own_nodes, visible

T = TypeVar("T")

AUDIT_LOG = logging.getLogger("valence_sched.audit")
UNSTORED = ("number", "at")  # fields of an audit line that the state sets

NAME_IN_QUERY = "-"  # in the path if the name is in the query instead


class Schedulers(Protocol):
    """The schedulers of one process."""

    def reading(self, tenant: str = "") -> AbstractContextManager[Scheduler]:
        """Yield the shared scheduler to one thread at a time; tenants take turns. ServiceBusy."""

    def changing(self) -> AbstractContextManager[Scheduler]:
        """Yield a scheduler for the caller alone, for compositions and other changes."""


class ServedZone(Protocol):
    """The zone of one process; ``deadline_s`` and ``most_hops`` bound queries to it."""

    @property
    def deadline_s(self) -> float: ...

    @property
    def most_hops(self) -> int: ...

    def tree(self, tenant: str) -> nouns.OfferingZone:
        """Return the present tree of the zone, for a tenant."""

    def hold_offers(self, tenant: str, body: nouns.ZoneClaimBody, key: str | None) -> claim.Claim:
        """Hold all offers or nothing; raises ClaimLost, StaleOffer or NameTaken."""


class EventSink(Protocol):
    """Receives the events that pod managers send."""

    def podm_of(self, token: str) -> str | None:
        """Return the pod manager of a token, None for an unknown token."""

    def take(self, podm: str, records: Iterable[Any]) -> None:
        """Store a hint that a pod manager may have changed, if its event indicates this."""


@dataclasses.dataclass(frozen=True)
class ServiceParts:
    """The parts that handlers use; ``compile_spec`` compiles a request with its flavor.

    ``events`` takes events of pod managers, if they send any; ``zone`` is None without routing.
    """

    schedulers: Schedulers
    compile_spec: Callable[[RequestSpec, Flavor | None], Request]
    records: RecordStore
    operations: Operations
    limits: settings.Limits
    gate: fairness.TenantGate
    rates: fairness.RateLimiter
    openapi: Callable[[], bytes]
    metrics: Callable[[], tuple[str, bytes]]
    health: Callable[[], verbs.Health]
    events: EventSink | None = None
    zone: ServedZone | None = None


class CallResult(NamedTuple):
    """The answer of a handler: a noun or bytes, with a status and headers."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


@dataclasses.dataclass
class Call:
    """One request: its user, the words of its path and query, its body and idempotency key.

    It never changes, but the class is not frozen: making a frozen object takes three times as long.
    """

    parts: ServiceParts
    user: users.User
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None
    key: str | None = None
    request_id: str = ""
    rule: str = ""

    def record_change(self, name: str, outcome: str) -> None:
        """Log a change or a refused change; store it if the state is available."""
        line = diagnostic.AuditLine(
            user=self.user.name,
            owner=self.user.project,
            request_id=self.request_id,
            verb=self.rule,
            object=name,
            outcome=outcome,
        )
        fields = {name: value for name, value in asdict(line).items() if name not in UNSTORED}
        AUDIT_LOG.info("%s", fields, extra={"fields": fields})
        if outcome == errors.StoreError.code:
            return
        try:
            self.parts.records.record_change(line)
        except errors.SchedulerError as error:
            what = f"audit line {line.verb} {line.object}"
            text = f"{what} is in this log only, not in the store: {error}"
            AUDIT_LOG.error("%s: %s", line.request_id, text)

    def name(self, word: str = "name") -> str:
        """Return the name in the path, or the name in the query if the path has ``-``.

        Servers decode a path before they split it, so a name with a slash must be in the query.
        """
        name = self.path[word]
        return self.text("name") or "" if name == NAME_IN_QUERY else name

    def text(self, word: str) -> str | None:
        value = self.query.get(word)
        return value if value is None or isinstance(value, str) else str(value)

    def flag(self, word: str) -> bool:
        """Return whether a parameter is ``true``; InputError unless it is ``true`` or ``false``."""
        text = self.text(word) or "false"
        if text not in ("true", "false"):
            raise errors.InputError("the query", word, repr(text), "true or false")
        return text == "true"

    def query_noun(self, kind: type[T]) -> T:
        words = {name: self.text(name) for name in self.query}
        try:
            return msgspec.convert(words, kind, strict=False)
        except msgspec.ValidationError as error:
            raise errors.InputError("the query", "", errors.one_line(str(error))) from None

    def compiled(self, scheduler: Scheduler, body: Any) -> Request:
        """Return the compiled request of a body, after checks of its limits and its owner.

        Raises UnknownName for an unknown flavor, NewerSchema for a newer major version,
        RequestError for too many nodes, and AccessDenied for another owner.
        """
        if body.request is not None:
            return self.compiled_spec(scheduler, body.request)
        return self.checked(body.compiled)

    def deciding(self, scheduler: Scheduler, body: Any) -> Request:
        """Return the request to decide on; a random ID spreads equal requests over equal pools."""
        request = self.compiled(scheduler, body)
        return _own(request, body.request or body.compiled, self.key)

    def deciding_all(self, scheduler: Scheduler, body: Any) -> list[Request]:
        asked = (*body.requests, *body.compiled)
        requests = zip(self.compiled_all(scheduler, body), asked, strict=True)
        keys = (self.key and f"{self.key}#{number}" for number in range(1, len(asked) + 1))
        return [_own(*one, key) for one, key in zip(requests, keys, strict=True)]

    def compiled_spec(self, scheduler: Scheduler, spec: RequestSpec) -> Request:
        return self.checked(self._compiled_spec(scheduler, spec))

    def compiled_all(self, scheduler: Scheduler, body: Any) -> list[Request]:
        most, count = self.parts.limits.requests, len(body.requests) + len(body.compiled)
        if count > most:
            text = f"{count:,} requests exceed the limit of {most:,}: send fewer"
            raise errors.RequestError(text)
        specs = (self._compiled_spec(scheduler, spec) for spec in body.requests)
        return [self.checked(request) for request in (*specs, *body.compiled)]

    def checked(self, request: Request) -> Request:
        """Return a request with its owner, within the limits; same errors as ``compiled``."""
        self.check_limits(request)
        owner = self.user.owner
        if owner is None:
            consumer = request.owner or self.user.consumer
            return request if consumer is None else replace(request, owner=consumer)
        if request.owner not in (None, owner):
            text = f"user {owner!r} may only have nodes of its own: omit the owner"
            raise errors.AccessDenied(f"owner {request.owner!r}: {text}")
        return replace(request, owner=owner)

    def check_limits(self, request: Request) -> None:
        """Raise RequestError for a request beyond the limits; NewerSchema as for a document."""
        codec.check_schema(request.schema, request.version, SCHEMA, VERSION, "the request")
        limits = self.parts.limits
        for count, what, most in (
            (request.count, "nodes", limits.nodes),
            (request.alternates, "alternates", limits.alternates),
        ):
            if count > most:
                text = f"{count:,} {what} exceed the limit of {most:,}: request fewer"
                raise errors.RequestError(text)

    def reading(self) -> AbstractContextManager[Scheduler]:
        return self.parts.schedulers.reading(self.user.tenant)

    def visible(self, answer: Any) -> Any:
        owner = self.user.owner
        return answer if owner is None else visible(answer, owner, lambda: self._own_nodes)

    @functools.cached_property
    def _own_nodes(self) -> frozenset[str]:
        owner = self.user.owner
        assert owner is not None, "without an owner all nodes are visible"
        with self.parts.schedulers.changing() as scheduler:
            return own_nodes(scheduler, owner)

    def _compiled_spec(self, scheduler: Scheduler, spec: RequestSpec) -> Request:
        if spec.flavor is None:
            return self.parts.compile_spec(spec, None)
        flavors = scheduler.flavors()
        for flavor in flavors:
            if spec.flavor in (flavor.name, flavor.uuid):
                return self.parts.compile_spec(spec, flavor)
        raise errors.UnknownName("flavor", spec.flavor, [flavor.name for flavor in flavors])


def _own(request: Request, asked: Request | RequestSpec, key: str | None) -> Request:
    """Return a request with a random ID, unless it has a seed."""
    seeded = asked.seed is not None if isinstance(asked, RequestSpec) else asked.seed != 0
    return request if seeded else with_own_id(request, key)


KEY_HEADER, VERSION_HEADER = "Idempotency-Key", "OpenStack-API-Version"
SERVICE_TYPE = "podm-scheduler"


class Microversion(NamedTuple):
    """A version of the API; a caller gets the version that it names, by default the oldest."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


LEAST_VERSION = Microversion(1, 0)
GREATEST_VERSION = Microversion(1, 0)


def negotiated(header: str | None) -> Microversion:
    """Return the API version in a header, by default the oldest; ValueError if it is invalid."""
    for part in header.split(",") if header else ():
        service, _, text = part.strip().partition(" ")
        if service != SERVICE_TYPE:
            continue
        text = text.strip()
        if text == "latest":
            return GREATEST_VERSION
        found = re.fullmatch(r"([1-9]\d{0,5})\.(\d{1,6})", text)
        version = Microversion(int(found[1]), int(found[2])) if found else None
        if version is None or not LEAST_VERSION <= version <= GREATEST_VERSION:
            named = f"{VERSION_HEADER}: {SERVICE_TYPE} {text!r}"
            raise ValueError(f"{named}: this service has {LEAST_VERSION} to {GREATEST_VERSION}")
        return version
    return LEAST_VERSION
