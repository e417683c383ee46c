# SPDX-License-Identifier: Apache-2.0
"""Fairness: tenants take turns, and each has limits on its rate and its concurrent requests."""

import contextlib
import ipaddress
import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from valence_sched.errors import InputError, RateLimited, SchedulerError, ServiceBusy, one_line
from valence_sched.model.quantity import format_count
from valence_sched.service.settings import Network, RateSettings

if TYPE_CHECKING:
    from limits import RateLimitItem


class FairLock:
    """A lock for which tenants wait in turn, and the threads of one tenant in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    def acquire(self, tenant: str, timeout_s: float) -> bool:
        """Wait for the turn of a tenant; return False if the time limit passes first."""
        with self._lock:
            if not self._held:  # not held means that no tenant waits: a release hands the lock over
                self._held = True
                return True
            turn = threading.Event()
            self._waiting.setdefault(tenant, deque()).append(turn)
        if turn.wait(timeout_s):
            return True
        with self._lock:
            if turn.is_set():  # the lock was handed over just as the time limit ended
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
        """Count a request of a tenant while it is answered; RateLimited if it has too many."""
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
        """Count a request of a tenant; RateLimited for too many, ServiceBusy if Redis fails."""
        self._hit("requests", tenant)
        if change:
            self._hit("changes", tenant)

    def address_of(self, peer: str, forwarded: str) -> str:
        """Return the address of a client: the last address that is not of a proxy."""
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
        whose = _site_of(address)
        for rate in self._rates.get("failures", ()):
            if not self._asked(self._window.test, rate, "failures", whose):
                raise self._limited("failures", rate, whose)

    def count_failure(self, address: str) -> None:
        for rate in self._rates.get("failures", ()):
            self._asked(self._window.hit, rate, "failures", _site_of(address))

    def _hit(self, name: str, tenant: str) -> None:
        for rate in self._rates.get(name, ()):
            if not self._asked(self._window.hit, rate, name, tenant):
                raise self._limited(name, rate, tenant)

    def _limited(self, name: str, rate: "RateLimitItem", whose: str) -> RateLimited:
        stats = self._asked(self._window.get_window_stats, rate, name, whose)
        error = RateLimited(f"{name} of {whose!r} exceed {rate}: wait and try again")
        error.retry_after_s = max(1.0, math.ceil(stats.reset_time - time.time()))
        return error

    def _asked(self, verb: Any, rate: "RateLimitItem", name: str, whose: str) -> Any:
        try:
            return verb(rate, name, whose)
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
    # a /64 of IPv6 is one client
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
