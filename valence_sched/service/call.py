# SPDX-License-Identifier: Apache-2.0
"""Call: one request to the service, the limits of its tenant, and the parts that answer it."""

import contextlib
import dataclasses
import functools
import ipaddress
import logging
import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from msgspec.structs import asdict, replace

from valence_sched import errors
from valence_sched.errors import InputError, RateLimited, SchedulerError, ServiceBusy, one_line
from valence_sched.model import claim, codec, diagnostic, verbs, zone as nouns
from valence_sched.model.flavor import Flavor
from valence_sched.model.quantity import format_count
from valence_sched.model.request import SCHEMA, VERSION, Request, with_own_id
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import Scheduler
from valence_sched.service import settings, users
from valence_sched.service.operations import Operations
from valence_sched.service.settings import Network, RateSettings
from valence_sched.service.visibility import own_nodes, visible

if TYPE_CHECKING:
    from limits import RateLimitItem

    from valence_sched.store.store import Store


class FairLock:
    """A lock that tenants get in turn, and the threads of one tenant in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    def acquire(self, tenant: str, timeout_s: float) -> bool:
        """Wait for the turn of a tenant; return False if the time limit passes first."""
        with self._lock:
            if not self._held:  # then no tenant waits: ``release`` passes the lock to a waiting one
                self._held = True
                return True
            turn = threading.Event()
            self._waiting.setdefault(tenant, deque()).append(turn)
        if turn.wait(timeout_s):
            return True
        with self._lock:
            if turn.is_set():  # this thread got the lock just after the time limit
                return True
            queue = self._waiting[tenant]
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]
            return False

    def release(self) -> None:
        with self._lock:
            if not self._waiting:
                self._held = False
                return
            tenant, queue = self._waiting.popitem(last=False)
            queue.popleft().set()
            if queue:
                self._waiting[tenant] = queue  # the tenant waits behind all others


class TenantGate:
    """Limits the concurrent requests of each tenant; None means no limit."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()

    @contextlib.contextmanager
    def passing(self, tenant: str) -> Iterator[None]:
        """Count a request of a tenant while it is answered; RateLimited above the limit."""
        with self._lock:
            if self._most is not None and self._inside[tenant] >= self._most:
                of = f"{format_count(self._most, 'request')} of {tenant!r}"
                text = f"{of} are being answered, which is the limit"
                raise RateLimited(f"{text}: try again in a moment")
            self._inside[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside[tenant] -= 1
                if not self._inside[tenant]:
                    del self._inside[tenant]


MEMORY = "memory://"
TIMEOUT_S = 2.0  # time limit of an answer of Redis
LONGEST_WINDOW_S = 366 * 86400  # of a rate
MOST_FORWARDED_CHARS = 1000


class RateLimiter:
    """Counts requests in a sliding window; ``proxies`` are trusted to name their clients."""

    def __init__(
        self, settings: RateSettings, password: str | None = None, proxies: Collection[Network] = ()
    ) -> None:
        self._proxies = proxies
        self._rates: dict[str, list[RateLimitItem]] = {}
        given = {name: getattr(settings, name) for name in ("requests", "changes", "failures")}
        if not any(given.values()):
            return
        import limits  # only if there is a limit

        for name, text in given.items():
            try:
                self._rates[name] = limits.parse_many(text) if text else []
                if any(rate.get_expiry() > LONGEST_WINDOW_S for rate in self._rates[name]):
                    raise ValueError
            except ValueError:
                expected = "such as 100/second or 20/second;500/minute"
                place = f"rate_limits: {name}"
                raise InputError(place, "", repr(text), expected) from None
        options: dict[str, Any] = {}
        if settings.redis_url is not None:
            options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
            options |= {"password": password} if password is not None else {}
        try:
            storage = limits.storage.storage_from_string(settings.redis_url or MEMORY, **options)
        except limits.errors.ConfigurationError as error:
            text = "pip install 'valence-sched[redis]', or omit it"
            raise InputError("rate_limits: redis_url", "", one_line(str(error)), text) from None
        self._storage = storage
        self._window = limits.strategies.MovingWindowRateLimiter(storage)

    def count(self, tenant: str, *, change: bool) -> None:
        """Count a request of a tenant; RateLimited above the rate, ServiceBusy if Redis fails."""
        self._limit("hit", "requests", tenant)
        if change:
            self._limit("hit", "changes", tenant)

    def address_of(self, peer: str, forwarded: str) -> str:
        """Return the address of a client: the last forwarded address that is not a proxy's."""
        for hop in (*forwarded[-MOST_FORWARDED_CHARS:].split(","), peer)[::-1]:
            try:
                address = ipaddress.ip_address(hop.strip())
            except ValueError:
                break
            peer = str(address)
            if not any(address in network for network in self._proxies):
                break
        return peer

    def check_address(self, address: str) -> None:
        """Raise RateLimited for an address with too many failed logins."""
        self._limit("test", "failures", _site_of(address))

    def count_failure(self, address: str) -> None:
        for rate in self._rates.get("failures", ()):
            self._ask("hit", rate, "failures", _site_of(address))

    def _limit(self, verb: str, name: str, whose: str) -> None:
        for rate in self._rates.get(name, ()):
            if not self._ask(verb, rate, name, whose):
                stats = self._ask("get_window_stats", rate, name, whose)
                error = RateLimited(f"{name} of {whose!r} exceed {rate}: wait and try again")
                error.retry_after_s = max(1.0, float(math.ceil(stats.reset_time - time.time())))
                raise error

    def _ask(self, verb: str, rate: "RateLimitItem", name: str, whose: str) -> Any:
        try:
            return getattr(self._window, verb)(rate, name, whose)
        except SchedulerError:
            raise
        except self._storage.base_exceptions as error:
            why = type(error).__name__
            raise ServiceBusy(f"Redis cannot count requests ({why}): try again later") from None


def _site_of(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    # all addresses of an IPv6 /64 network count as one client
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


T = TypeVar("T")
Asked = RequestSpec | Request  # as people write it, or compiled by a client

AUDIT_LOG = logging.getLogger("valence_sched.audit")
UNSTORED = ("number", "at")  # fields of an audit line that the state sets

NAME_IN_QUERY = "-"  # stands in the path for a name that is in the query


class Schedulers(Protocol):
    """The schedulers of one process."""

    def reading(self, tenant: str = "") -> AbstractContextManager[Scheduler]:
        """Yield the shared scheduler to one thread at a time, by tenant in turn; or ServiceBusy."""

    def changing(self) -> AbstractContextManager[Scheduler]:
        """Yield a scheduler for the caller alone, for compositions and other changes."""


class ServedZone(Protocol):
    """The zone of one process; ``deadline_s`` and ``most_hops`` bound queries to it."""

    @property
    def deadline_s(self) -> float: ...

    @property
    def most_hops(self) -> int: ...

    def tree(self, tenant: str) -> nouns.OfferingZone:
        """Return the zone and the zones below it as they are now, for a tenant."""

    def hold_offers(self, tenant: str, body: nouns.ZoneClaimBody, key: str | None) -> claim.Claim:
        """Hold all offers or nothing; raises ClaimLost, StaleOffer or NameTaken."""


class EventSink(Protocol):
    """Receives the events that pod managers send."""

    def podm_of(self, token: str) -> str | None:
        """Return the name of the pod manager that has a token, None for an unknown token."""

    def take(self, podm: str, records: Iterable[Any]) -> None:
        """Store a hint to read a pod manager, if its event reports a possible change."""


@dataclasses.dataclass(frozen=True)
class ServiceParts:
    """The parts that handlers use; ``compile_spec`` compiles a request with its flavor.

    ``store`` returns the open state, or raises StoreError. ``events`` and ``zone`` are None unless
    the settings have a receiver of events, or zone routing.
    """

    schedulers: Schedulers
    compile_spec: Callable[[RequestSpec, Flavor | None], Request]
    store: Callable[[], "Store"]
    audit_lines: int
    dispatches: bool
    operations: Operations
    limits: settings.Limits
    gate: TenantGate
    rates: RateLimiter
    openapi: Callable[[], bytes]
    metrics: Callable[[], tuple[str, bytes]]
    count_decision: Callable[[Any], object]
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
    """One request; its body and its idempotency key are set once when they are read."""

    parts: ServiceParts
    user: users.User
    path: Mapping[str, str]
    query: Mapping[str, Any]
    request_id: str = ""
    rule: str = ""
    body: Any = None
    key: str | None = None

    def record_change(self, name: str, outcome: str) -> None:
        """Log a change, or the refusal of a change; store the line if the state is available."""
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
            self.parts.store().audit.add([line], self.parts.audit_lines)
        except errors.SchedulerError as error:
            what = f"audit line {line.verb} {line.object}"
            text = f"{what} is in this log only, not in the store: {error}"
            AUDIT_LOG.error("%s: %s", line.request_id, text)

    def name(self, word: str = "name") -> str:
        """Return the name in the path; for ``-`` the one in the query, which may have a slash."""
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
        """Return the parameters as a noun; InputError for a value of another type."""
        return codec.convert(dict(self.query), kind, "the query")

    def compiled(
        self, scheduler: Scheduler, asked: Asked, *, decides: bool = False, number: int = 0
    ) -> Request:
        """Compile a request, and check its limits and its owner.

        Without a seed, a request to decide gets a random ID, or one of the key and its ``number``:
        equal requests spread over equal pools.

        Raises UnknownName for an unknown flavor, NewerSchema for a newer major version,
        RequestError for too many nodes, and AccessDenied for another owner.
        """
        if isinstance(asked, Request):
            request, seeded = asked, asked.seed != 0
        else:
            flavor, seeded = None, asked.seed is not None
            if asked.flavor is not None:
                flavors = scheduler.flavors()
                named = (one for one in flavors if asked.flavor in (one.name, one.uuid))
                if (flavor := next(named, None)) is None:
                    known = [one.name for one in flavors]
                    raise errors.UnknownName("flavor", asked.flavor, known)
            request = self.parts.compile_spec(asked, flavor)
        request = self.checked(request)
        if seeded or not decides:
            return request
        return with_own_id(request, f"{self.key}#{number}" if self.key and number else self.key)

    def compiled_all(self, scheduler: Scheduler, *, decides: bool) -> list[Request]:
        """Compile all requests of the body as one; RequestError for too many."""
        asked, most = (*self.body.requests, *self.body.compiled), self.parts.limits.requests
        if (count := len(asked)) > most:
            text = f"{count:,} requests exceed the limit of {most:,}: send fewer"
            raise errors.RequestError(text)
        return [
            self.compiled(scheduler, one, decides=decides, number=number)
            for number, one in enumerate(asked, 1)
        ]

    def checked(self, request: Request) -> Request:
        """Check the limits of a request and set its owner; same errors as ``compiled``."""
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

    def completed(self, answer: Any) -> Any:
        """Count the decision of a new answer, if any; return the answer that the user may see."""
        self.parts.count_decision(answer)
        return self.visible(answer)

    def visible(self, answer: Any) -> Any:
        owner = self.user.owner
        return answer if owner is None else visible(answer, owner, lambda: self._own_nodes)

    @functools.cached_property
    def _own_nodes(self) -> frozenset[str]:
        owner = self.user.owner
        assert owner is not None, "without an owner all nodes are visible"
        with self.parts.schedulers.changing() as scheduler:
            return own_nodes(scheduler, owner)


KEY_HEADER, VERSION_HEADER = "Idempotency-Key", "OpenStack-API-Version"
SERVICE_TYPE = "podm-scheduler"


VERSIONS = ("1.0",)  # of the API, the oldest first


def negotiated(header: str | None) -> str:
    """Return the API version in a header, by default the oldest; ValueError if it is unknown."""
    for part in header.split(",") if header else ():
        service, _, text = part.strip().partition(" ")
        if service == SERVICE_TYPE:
            version = VERSIONS[-1] if (text := text.strip()) == "latest" else text
            if version not in VERSIONS:
                named = f"{VERSION_HEADER}: {SERVICE_TYPE} {text!r}"
                raise ValueError(f"{named}: this service has {VERSIONS[0]} to {VERSIONS[-1]}")
            return version
    return VERSIONS[0]
