# SPDX-License-Identifier: Apache-2.0
"""Settings of the service, as an operator writes them in a file."""

import ipaddress
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from valence_sched import files
from valence_sched.errors import UsageError
from valence_sched.model import baremetal, base, claim, codec, diagnostic, registration, zone
from valence_sched.model.dispatch import DispatchSettings, MessagingSettings, check_messaging
from valence_sched.model.node_change import DrainSettings, check_drain

CONFIG_VARIABLE = "VALENCE_SCHEDULER_CONFIG"  # environment variable that names the settings file
#: The library of metrics reads this environment variable when it is imported.
MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
Pause = Annotated[float, Meta(gt=0, le=86400)]


class Limits(base.Noun, frozen=True, kw_only=True):
    """The limits of one request.

    The request must arrive within ``read_s``. It is refused if it waits longer than ``queue_s`` for
    other decisions. ``tenant_requests`` is the largest number of concurrent requests of a tenant in
    a process. The default is one less than the threads of the process, and no limit without
    authentication. ``ttl_s`` is the longest time that a claim is held.
    """

    body_bytes: Positive = 4 << 20
    nodes: Positive = 1000
    alternates: Annotated[int, Meta(ge=0)] = 100
    requests: Positive = 100
    queue_s: Seconds = 10.0
    read_s: Seconds = 10.0
    operations: Positive = 32
    tenant_requests: Positive | None = None
    ttl_s: claim.TtlSeconds = claim.LONGEST_TTL_S


class RateSettings(base.Noun, frozen=True, kw_only=True):
    """The request rates of a tenant: a rate such as ``100/second``, or a ``;``-separated list.

    ``requests`` counts all requests, ``changes`` the requests that hold, compose or change
    something. ``failures`` counts the failed logins and malformed requests from one address. Each
    process has its own counts, unless all processes share the counts in the Redis at ``redis_url``.
    """

    requests: str | None = None
    changes: str | None = None
    failures: str | None = "20/minute"
    redis_url: str | None = None
    redis_password: registration.PasswordReference | None = None


class KeystoneSettings(base.Noun, frozen=True, kw_only=True):
    """The connection of the service to Keystone, and how long its answers are used.

    The service logs in at ``auth_url`` as ``username`` of ``project_name``, or with an application
    credential, whose id is ``application_credential_id``; ``password`` refers to the password or
    the secret. Clients log in at ``public_url``. A verified token is accepted for another
    ``token_cache_s``, even if it is revoked. The users and projects of browser logins are in the
    domain ``ui_domain_name``.
    """

    auth_url: str
    password: registration.PasswordReference
    username: str | None = None
    user_domain_name: str = "Default"
    project_name: str = "service"
    project_domain_name: str = "Default"
    application_credential_id: str | None = None
    public_url: str | None = None
    ui_domain_name: str = "Default"
    region_name: str | None = None
    interface: Literal["internal", "public", "admin"] = "internal"
    cafile: str | None = None
    timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    token_cache_s: Seconds = 60.0


class EventReceiverSettings(base.Noun, frozen=True, kw_only=True):
    """The receiver of events.

    ``url`` is the base URL at which pod managers reach this service. ``secret`` refers to the text
    from which the tokens of pod managers are made; it must be the same for all processes of the
    service.
    """

    url: str
    secret: registration.PasswordReference


class ReaderSettings(base.Noun, frozen=True, kw_only=True):
    """How one process reads the registered pod managers.

    Each is read every ``interval_s``, varied by up to the fraction ``jitter``. A failure doubles
    the interval, up to ``max_interval_s``. Pod managers with ``open_after`` consecutive failures
    are tried one at a time. At most ``readers`` are read at the same time, and each may take
    ``request_timeout_s`` to answer. If the reading process dies, another process takes over after
    ``lease_s``.

    With ``events: sse``, a pod manager with an event stream is read when it sends an event, no
    sooner than ``event_pause_s`` after its last reading. With ``push``, a pod manager without a
    stream sends its events to the ``receiver``.
    """

    interval_s: Pause = 60.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    max_interval_s: Pause = 900.0
    open_after: Positive = 5
    readers: Positive = 32
    request_timeout_s: Pause = 30.0
    lease_s: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    events: Literal["off", "sse", "push"] = "sse"
    event_pause_s: Pause = 5.0
    receiver: EventReceiverSettings | None = None


class ServiceSettings(base.Noun, frozen=True, kw_only=True):
    """The settings of the service.

    ``auth`` selects the users. ``basic``: the users of a password file. ``keystone``: the users of
    Keystone; ``policy_file`` overrides access rules. ``none``: all users of this machine, on
    loopback only. ``inventories`` replace the registered pod managers. ``reader`` configures the
    reading of pod managers, False if another program reads them; decisions exclude readings that
    are older than ``max_age_s``. ``workers`` is the number of processes, ``threads`` the number in
    each. A process that ends has ``stop_s`` to finish its answers and compositions. ``messaging``
    is the broker for hints at changes. ``zones`` are the settings of this zone and the zones below
    it. ``proxies`` are addresses and networks whose header ``X-Forwarded-For`` names the client.
    The state keeps the newest ``audit_lines`` of the audit. ``ironic`` is the Ironic that is
    queried before hardware changes; without a URL it is looked up in the catalogue of ``keystone``,
    and False disables the query. ``dispatch`` is the controller that decisions are posted to.
    ``drain`` is the hook that drains a node before blocks are detached from it.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8790
    workers: Positive = 1
    threads: Positive = 8
    auth: Literal["none", "basic", "keystone"] = "none"
    users_file: str | None = None
    keystone: KeystoneSettings | None = None
    policy_file: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    state: str | None = None
    inventories: tuple[str, ...] = ()
    podm_files: tuple[str, ...] = ()
    flavor_files: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    resource_files: tuple[str, ...] = ()
    near_maps: tuple[str, ...] = ()
    reader: ReaderSettings | bool = ReaderSettings()
    max_age_s: Pause | None = None
    stop_s: Annotated[int, Meta(ge=1, le=600)] = 30
    limits: Limits = Limits()
    rate_limits: RateSettings = RateSettings()
    messaging: MessagingSettings | None = None
    zones: zone.ZoneSettings = zone.ZoneSettings()
    proxies: tuple[str, ...] = ()
    audit_lines: Positive = diagnostic.AUDIT_LINES
    ironic: baremetal.IronicSettings | bool = baremetal.IronicSettings()
    dispatch: DispatchSettings | None = None
    drain: DrainSettings | None = None

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        return tuple(ipaddress.ip_network(one) for one in self.proxies)

    @property
    def reader_settings(self) -> ReaderSettings | None:
        return (ReaderSettings() if self.reader is True else self.reader) or None

    @property
    def ironic_settings(self) -> baremetal.IronicSettings | None:
        return (baremetal.IronicSettings() if self.ironic is True else self.ironic) or None


DEFAULT_SETTINGS = ServiceSettings()
#: The settings that name files.
FILES = ("users_file", "policy_file", "certificate", "private_key", "state", "inventories",
         "podm_files", "flavor_files", "policy_files", "resource_files", "near_maps")  # fmt: skip


def read_settings(path: str, *, check: bool = True) -> ServiceSettings:
    """Return the settings of a YAML file; ``check`` verifies them. InputError, UsageError."""
    data = files.read(path)
    settings = codec.convert(codec.load_yaml(data, path) or {}, ServiceSettings, path)
    _refuse(path, _empty_names(settings))
    if check:
        check_settings(settings, path)
    return settings


def check_settings(settings: ServiceSettings, path: str) -> None:
    """Raise UsageError or InputError for settings that contradict each other or lack protection."""
    if settings.messaging is not None:
        check_messaging(settings.messaging, path)
    try:
        _ = settings.proxy_networks
    except ValueError as error:
        raise UsageError(f"{path}: proxies: {error}") from None
    _refuse(path, _too_large(settings))
    _refuse(path, _event_problems(settings.reader_settings))
    baremetal.check_ironic(settings.ironic_settings or baremetal.IronicSettings(), path, "$.ironic")
    if settings.drain is not None:
        check_drain(settings.drain, path, "$.drain")
    zone.check_zone_settings(settings.zones, path, "$.zones")
    _refuse(path, (*_dispatch_problems(settings), *_access_problems(settings)))


def _refuse(path: str, problems: Iterable[tuple[bool, str]]) -> None:
    for is_wrong, text in problems:
        if is_wrong:
            raise UsageError(f"{path}: {text}")


def _empty_names(settings: ServiceSettings) -> Iterator[tuple[bool, str]]:
    for name in FILES:
        value = getattr(settings, name)
        is_empty = "" in (value if isinstance(value, tuple) else (value,))
        yield is_empty, f"{name}: an empty name: name a file"
    for name in ("requests", "changes", "failures"):
        is_empty = getattr(settings.rate_limits, name) == ""
        yield is_empty, f"rate_limits: {name}: an empty rate: name a rate, or null for no limit"


#: The largest values; a larger one fails later, or exhausts the machine.
LARGEST: Mapping[str, float] = {
    "workers": 1000,
    "threads": 1000,
    "audit_lines": 10**9,
    "limits.operations": 1000,
    "limits.body_bytes": 1 << 30,
    "limits.queue_s": threading.TIMEOUT_MAX,
    "limits.read_s": threading.TIMEOUT_MAX,
    "keystone.timeout_s": threading.TIMEOUT_MAX,
    "keystone.token_cache_s": threading.TIMEOUT_MAX,
    "reader.readers": 1000,
}


def _too_large(settings: ServiceSettings) -> Iterator[tuple[bool, str]]:
    for name, most in LARGEST.items():
        value: Any = settings
        for part in name.split("."):
            value = getattr(value, part, 0)
        place = name.replace(".", ": ")
        yield value > most, f"{place} must be at most {most:,.0f}, got {value:g}"


TOGETHER = "must be set together"
SOURCE = "must refer to either env: NAME or file: PATH"


def _event_problems(reader: ReaderSettings | None) -> Iterator[tuple[bool, str]]:
    if reader is None:
        return
    receiver = reader.receiver
    pushes = reader.events == "push"
    yield pushes != (receiver is not None), f"reader: events: push and a receiver {TOGETHER}"
    if receiver is not None:
        yield not is_source(receiver.secret), f"reader: receiver: secret {SOURCE}"


def _dispatch_problems(settings: ServiceSettings) -> Iterator[tuple[bool, str]]:
    dispatch = settings.dispatch
    if dispatch is None:
        return
    is_target = re.fullmatch(r"[^=]+=https?://[^@\s/][^@\s]*", dispatch.target)
    target = "NAME=URL, with an http or https URL without a password: webhook=https://host/path"
    yield not is_target, f"dispatch: target must be {target}"
    for name, one in (("key", dispatch.key), ("password", dispatch.password)):
        yield one is not None and not is_source(one), f"dispatch: {name} {SOURCE}"
    alone = (dispatch.username is None) != (dispatch.password is None)
    yield alone, f"dispatch: a username and its password {TOGETHER}"
    text = "dispatch: inventories are recordings, which a controller must not act on: leave"
    yield bool(settings.inventories), f"{text} them out, or use podm schedule --dispatch"


def _access_problems(settings: ServiceSettings) -> Iterator[tuple[bool, str]]:
    auth, keystone, redis_url = settings.auth, settings.keystone, settings.rate_limits.redis_url
    no_file = auth == "basic" and settings.users_file is None
    yield no_file, "auth is basic without a users_file: set users_file"
    alone = (auth == "keystone") != (keystone is not None)
    yield alone, f"auth: keystone and a section keystone {TOGETHER}"
    has_rules = settings.policy_file is not None and keystone is None
    yield has_rules, "policy_file requires auth: keystone; users of a users_file have roles"
    if keystone is not None:
        alone = (keystone.username is None) == (keystone.application_credential_id is None)
        yield alone, "keystone: set one of username and application_credential_id"
        yield not is_source(keystone.password), f"keystone: password {SOURCE}"
        is_url = re.fullmatch(r"https?://[^@]+", keystone.auth_url, re.DOTALL)
        yield not is_url, "keystone: auth_url must be an http or https URL without a password"
    is_redis = redis_url is None or re.fullmatch(r"rediss?://[^@\s]+", redis_url)
    text = "redis_url must be a redis:// or rediss:// URL without a password"
    yield not is_redis, f"rate_limits: {text}: set redis_password"
    text = f"host {settings.host!r} is reachable from other machines without authentication"
    hint = "set auth to basic, with a users_file, or to keystone, or listen on 127.0.0.1"
    yield auth == "none" and not is_loopback(settings.host), f"{text}: {hint}"
    alone = (settings.certificate is None) != (settings.private_key is None)
    yield alone, f"a certificate and its private_key {TOGETHER}"


def is_source(reference: registration.PasswordReference) -> bool:
    return not reference.stored and (reference.env is None) != (reference.file is None)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
