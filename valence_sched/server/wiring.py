# SPDX-License-Identifier: Apache-2.0
"""Wiring: makes the parts of one process of the service from the settings, and reads its health."""

import datetime
import functools
import logging
import os
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from valence_sched.app import App, import_late_modules
from valence_sched.errors import InputError, SchedulerError, StoreError, UsageError
from valence_sched.inventory.background_reader import LEASE, BackgroundReader, background_reader
from valence_sched.inventory.events import EventReceiver
from valence_sched.model import baremetal, base, hardware, inventory, reading
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.quantity import age_s, format_age, format_count
from valence_sched.model.redact import redact_text
from valence_sched.model.verbs import Health
from valence_sched.server import background
from valence_sched.server.engine_pool import EnginePool, RequestCompiler, selection_of
from valence_sched.service import call, routes, users
from valence_sched.service.app import create_application
from valence_sched.service.metrics import Metrics, StateFacts
from valence_sched.service.operations import Operations
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.document import Quarantine
from valence_sched.store.store import Store

if TYPE_CHECKING:
    from valence_sched.server.zone import ProcessZone


def prepare_process() -> int:
    """Make the decoders of all nouns in requests before the first request; return their number."""
    import_late_modules()
    return base.prepare_nouns()


LOG = logging.getLogger(__name__)

#: How long a stopping process waits for each thread, and for the last decision.
READER_END_S, ENGINE_END_S = 5.0, 1.0


class SharedState:
    """The state that all processes share; opened when first used."""

    def __init__(
        self, environ: Mapping[str, str], state: str | None, quarantine: Quarantine | None = None
    ) -> None:
        self._registry = App(environ=environ, quarantine=quarantine).registry(state)
        self._lock = threading.Lock()
        self._store: Store | None = None

    def store(self) -> Store:
        """Return the open store; StoreError if it cannot be opened."""
        with self._lock:
            if self._store is None:
                self._store = self._registry.store()
            return self._store

    def close(self) -> None:
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()


class ServiceProcess:
    """The application of one process, with its threads and its state."""

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Callable[[], float],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        prepare_process()
        environ = os.environ if environ is None else environ
        self._settings, self._environ, self._clock = settings, environ, clock
        quarantine = Quarantine()  # shared by all stores of this process: logs each row once
        self._state = state = SharedState(environ, settings.state, quarantine)
        self._address = event_address(settings, environ)
        self._make_app = make_app = app_maker(settings, environ, quarantine, state.store)
        self.hints: background.ServiceHints | None = None
        self.operations = Operations(
            lambda: state.store().records, settings.limits.operations, ended=self._hint_others
        )
        chosen = selection_of(settings)
        state_reader = StateReader(make_app, chosen, state.store)
        metrics = Metrics(state_reader.facts)
        self.engines = EnginePool(
            make_app, settings, lambda: state.store().log_totals(), metrics.note_changes
        )
        recorded = App(environ=environ).sources.named_sources(chosen)  # then it may only decide
        reads = settings.reader_settings and (not recorded or chosen.live.selects_live)
        self.reader = background.ReaderThread(self._background_reader) if reads else None
        self.zone: ProcessZone | None = None
        self.sender: background.ReaderThread | None = None
        self.poller: background.ReaderThread | None = None
        schedulers: call.Schedulers = self.engines
        if settings.dispatch is not None:
            self.sender = background.ReaderThread(self._dispatch_sender, "dispatch sender")
        if settings.zones.enable_zone_routing:
            from valence_sched.server import zone  # only with zones

            prepare_process()  # also prepares the nouns of zones
            self.zone = zone.ProcessZone(settings, environ, self.engines, state.store)
            poller = functools.partial(self.zone.poller, clock)
            self.poller = background.ReaderThread(poller, "zone poller")
            schedulers = self.zone
        most = None if settings.auth == "none" else max(1, settings.threads - 1)
        self.parts = call.ServiceParts(
            schedulers=schedulers,
            compile_spec=RequestCompiler(App(environ=environ), settings.near_maps).compile,
            store=state.store,
            audit_lines=settings.audit_lines,
            dispatches=settings.dispatch is not None,
            operations=self.operations,
            limits=settings.limits,
            gate=call.TenantGate(settings.limits.tenant_requests or most),
            rates=rate_limiter(settings, environ),
            openapi=routes.document,
            metrics=metrics.text,
            count_decision=metrics.count_decision,
            health=state_reader.health,
            # a process receives events even if another process reads the pod managers
            events=EventReceiver(self._address, state.store) if self._address else None,
            zone=self.zone,
        )
        access = access_of(settings, environ)
        application: background.Application = create_application(self.parts, metrics, access)
        self._reader_hint: Callable[[Iterable[str], str], object] | None = None
        if (messaging := settings.messaging) is not None:
            reported = self._take_report if messaging.reports else None
            connect = functools.partial(make_app().hint_fanout, messaging, reported=reported)
            self.hints = background.ServiceHints(connect, self._refresh, self._hint_reader)
            application = self.hints.wrap(application)
        self.application = application

    def _hint_reader(self, names: tuple[str, ...]) -> None:
        if self._reader_hint is not None:
            self._reader_hint(names, "a hint of another process")

    def _hint_others(self) -> None:
        if self.hints is not None:
            self.hints.start().send()

    def _take_report(self, podm: str, stats: dict[str, Any]) -> None:
        try:
            size, most = len(inventory.to_json(stats)), self._settings.limits.body_bytes
            if size > most:
                raise InputError(podm, "", f"a report of {size:,} bytes", f"at most {most:,}")
            self._state.store().update_stats(podm, stats)
        except SchedulerError as error:
            LOG.warning("a report over the broker is not stored: %s", redact_text(str(error)))
        else:
            assert self.hints is not None, "reports arrive with hints"
            self.hints.refresh()

    def _refresh(self) -> None:
        with self.engines.reading() as scheduler:
            next(iter(scheduler.blocks(hardware.BlockFilter())), None)

    def start(self) -> None:
        for one in (self.reader, self.poller, self.sender):
            if one is not None:
                one.start()
        if self.hints is not None and self._settings.messaging and self._settings.messaging.reports:
            self.hints.start()  # without reports, hints start at the first request

    def stop(self, timeout_s: float) -> None:
        """End the threads, wait up to ``timeout_s`` for operations, and close the state."""
        late = "did not end in time: another process takes over when its lease ends"
        for thread, text in (
            (self.reader, f"the reader {late}"),
            (self.poller, f"the poller of zones {late}"),
            (self.sender, "a decision was being posted: it is posted again later"),
        ):
            if thread is not None and not thread.stop(READER_END_S):
                LOG.warning("%s", text)
        self.operations.wait(timeout_s)
        if self.hints is not None:
            self.hints.close()
        if self.zone is not None:
            self.zone.close()
        self.engines.close(ENGINE_END_S)
        self._state.close()

    def _background_reader(
        self, log: background.LogLine, sleep: background.Sleep
    ) -> BackgroundReader:
        chosen, settings = self._settings.reader_settings, self._settings
        assert chosen is not None, "the reader thread requires a section reader"
        live = replace(selection_of(settings).live, timeout_s=chosen.request_timeout_s)
        hints = self.hints
        changed = {} if hints is None else {"changed": lambda names: hints.start().send(names)}
        reader = background_reader(
            self._make_app().sources,
            live,
            self._state.store(),
            reading.ReadPace(
                interval_s=chosen.interval_s,
                jitter=chosen.jitter,
                backoff_s=chosen.max_interval_s,
                open_after=chosen.open_after,
                events=chosen.events != "off",
                event_pause_s=chosen.event_pause_s,
            ),
            log,
            chosen.readers,
            lease_s=chosen.lease_s,
            clock=self._clock,
            sleep=sleep,
            address=self._address,
            **changed,
        )
        self._reader_hint = reader.hint
        return reader

    def _dispatch_sender(
        self, log: background.LogLine, sleep: background.Sleep
    ) -> background.LeasedJob:
        settings = self._settings.dispatch
        assert settings is not None, "the sender thread requires a section dispatch"
        return self._make_app().dispatch_sender(self._state.store(), settings, log, sleep=sleep)


def app_maker(
    settings: ServiceSettings,
    environ: Mapping[str, str],
    quarantine: Quarantine | None = None,
    store: Callable[[], Store] | None = None,
) -> Callable[[], App]:
    """Return a function that makes the parts of one engine, over the store of this process."""
    ironic, keystone = settings.ironic_settings, settings.keystone

    @functools.cache
    def login() -> baremetal.CloudLogin | None:
        if keystone is None:
            return None
        from valence_sched.server.keystone import cloud_login  # only with Keystone

        secret = App(environ=environ).secret(keystone.password, "keystone: password")
        return cloud_login(keystone, secret)

    def make_app() -> App:
        app = App(environ=environ, quarantine=quarantine)
        app.shared_store = store
        if ironic is None:
            app.config.baremetals = tuple
        else:
            app.ask_ironic(login, lambda: ironic)
        return app

    return make_app


def rate_limiter(settings: ServiceSettings, environ: Mapping[str, str]) -> call.RateLimiter:
    reference = settings.rate_limits.redis_password
    what = "rate_limits: redis_password"
    password = App(environ=environ).secret(reference, what) if reference is not None else None
    rates = settings.rate_limits
    if settings.auth == "none":  # all clients are on this machine, and no login can fail
        rates = replace(rates, failures=None)
    return call.RateLimiter(rates, password, settings.proxy_networks)


def event_address(settings: ServiceSettings, environ: Mapping[str, str]) -> EventAddress | None:
    """Return the address of the event receiver, None without one; an error if it is invalid."""
    reader = settings.reader_settings
    if reader is None or reader.receiver is None:
        return None
    what = "reader: receiver: secret"
    secret = App(environ=environ).secret(reader.receiver.secret, what)
    return EventAddress(reader.receiver.url, secret)


def access_of(settings: ServiceSettings, environ: Mapping[str, str]) -> users.Access:
    """Return the access of the service; an error if its files or references are invalid."""
    if settings.auth == "basic":
        assert settings.users_file is not None, "the settings were checked"
        return users.BasicAccess(settings.users_file)
    if settings.auth == "none":
        return users.OpenAccess()
    from valence_sched.server import access_rules, keystone  # only with Keystone

    assert settings.keystone is not None, "the settings were checked"
    rules = access_rules.AccessRules(settings.policy_file)
    password = App(environ=environ).secret(settings.keystone.password, "keystone: password")
    return keystone.KeystoneAccess(settings.keystone, password, rules)


def configuration_problems(
    settings: ServiceSettings, environ: Mapping[str, str]
) -> Iterator[Exception]:
    app = App(environ=environ)
    config, ironic, zones = app.config, settings.ironic_settings, settings.zones

    def open_state() -> None:
        try:
            with app.registry(settings.state).store() as store:  # workers inherit no connection
                store.log_totals()
        except StoreError as error:
            raise error.at("state") from None

    checks: list[Callable[[], object]] = [
        lambda: access_of(settings, environ),
        lambda: rate_limiter(settings, environ),
        lambda: event_address(settings, environ),
    ]
    if ironic is not None and ironic.password is not None:
        checks.append(functools.partial(app.secret, ironic.password, "ironic: password"))
    checks.append(open_state)
    if settings.messaging is not None:
        checks.append(functools.partial(app.hint_fanout, settings.messaging, lambda _names: None))
    if settings.dispatch is not None:
        checks.append(functools.partial(app.controller, settings.dispatch))
    checks.append(lambda: app.site_drain(selection_of(settings)))
    paths = (*settings.inventories, *settings.podm_files, *_tls_files(settings))
    checks += [
        lambda: app.registry(settings.state).zone_keys(zones, make=zones.enable_zone_routing),
        lambda: config.policies(settings.policy_files),
        lambda: config.flavors(settings.flavor_files),
        lambda: config.resources(settings.resource_files),
        lambda: config.resolve_near((), settings.near_maps),
        *(functools.partial(config.read, path) for path in paths),
        lambda: _check_tls(settings),
        lambda: _check_authorities(settings),
    ]
    for check in checks:
        try:
            check()
        except SchedulerError as error:
            yield error


def _check_tls(settings: ServiceSettings) -> None:
    if settings.certificate is None or settings.private_key is None:
        return
    if not all(map(os.path.exists, _tls_files(settings))):
        return  # another check reports this error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # an encrypted key would ask for its password on a terminal
        context.load_cert_chain(settings.certificate, settings.private_key, lambda: "")
    except (ssl.SSLError, OSError):
        found = f"no certificate for the key {settings.private_key}"
        expected = "a PEM certificate and its unencrypted key"
        raise InputError(settings.certificate, "", found, expected) from None


def _check_authorities(settings: ServiceSettings) -> None:
    file = settings.keystone and settings.keystone.cafile
    if file and not os.path.exists(file):
        hint = "set it to the file of the trusted authorities, or omit it"
        raise UsageError(f"keystone: cafile: {file!r}: no such file: {hint}")


def _tls_files(settings: ServiceSettings) -> list[str]:
    return [path for path in (settings.certificate, settings.private_key) if path is not None]


LATE_S = 60.0  # age at which an unposted decision becomes a health problem


class StateReader:
    """Reads health and metrics from the state for one process; ``store`` returns the open state."""

    def __init__(
        self, make_app: Callable[[], App], selection: reading.Selection, store: Callable[[], Store]
    ) -> None:
        self._make_app, self._selection, self._store = make_app, selection, store
        self._has_started = False
        self._problem = ""

    def health(self) -> Health:
        """Return the health of the service: ``starting`` until each pod manager was tried once."""
        problems: list[str] = []
        try:
            self._store().registry_count()
            undecodable = self._store().scrub.step()
            waiting = self._store().dispatches.waiting()
            if not self._has_started:
                names = self._names()
                if unread := names - self._store().read_times(names).keys():
                    of = format_count(len(names), "pod manager")
                    problems.append(f"{len(unread):,} of {of} not read yet")
                self._has_started = not problems
        except SchedulerError as error:
            self._log(error)
            return Health(status="failing", problems=(_public_text("state", error),))
        if problems:
            return Health(status="starting", problems=tuple(problems))
        try:
            self._make_app().config.policies(self._selection.policy_files)
        except SchedulerError as error:
            self._log(error)
            return Health(status="failing", problems=(_public_text("policies", error),))
        self._problem = ""
        lines = []
        if undecodable:  # an anonymous client must not see IDs
            counts = ", ".join(f"{table} {count:,}" for table, count in undecodable.items())
            hint = "valence-scheduler store check --deep"
            lines.append(f"stored rows that cannot be decoded: {counts} ({hint})")
        if waiting.failed or waiting.oldest_s > LATE_S:
            age, count = format_age(waiting.oldest_s), format_count(waiting.total, "decision")
            text = f"not posted to the controller: {count}, the oldest decided {age} ago"
            lines.append(f"{text} (valence-scheduler store dispatches)")  # the log has the reasons
        return Health(status="degraded" if lines else "ok", problems=tuple(lines))

    def facts(self) -> StateFacts | None:
        try:
            store, names = self._store(), self._names()
            times, failing = store.read_times(names), store.failures().keys() & names
            tried = times.keys()
            now = datetime.datetime.now(datetime.UTC)
            ages = [age_s(times[name], now) for name in tried - failing]
            return StateFacts(
                podms={
                    "read": len(tried - failing),
                    "failing": len(failing),
                    "unread": len(names - tried),
                },
                oldest_reading_s=max((age for age in ages if age is not None), default=None),
                reader=store.leases.holder(LEASE),
                changes=0 if self._recorded(self._make_app()) else store.log_totals().sum,
                undecodable=store.scrub.step(),
                waiting=store.dispatches.waiting(),
            )
        except SchedulerError as error:
            self._log(error)
            return None

    def _names(self) -> set[str]:
        app, live = self._make_app(), self._selection.live
        if self._recorded(app) and not live.selects_live:
            return set()
        return {one.registration.name for one in app.registry(live.state).members(live)}

    def _recorded(self, app: App) -> bool:
        return bool(app.sources.named_sources(self._selection))

    def _log(self, error: SchedulerError) -> None:
        if error.code != self._problem:
            LOG.warning("not ready: %s", redact_text(str(error)))
        self._problem = error.code


def _public_text(what: str, error: SchedulerError) -> str:
    """Describe a problem without hosts and file names, which anonymous clients must not see."""
    return f"the {what} cannot be used ({error.code}): see the log of the service"
