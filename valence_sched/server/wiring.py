# SPDX-License-Identifier: Apache-2.0
"""Wiring: one process's part of the service, made of its settings."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from valence_sched.app import App
from valence_sched.errors import SchedulerError, ServiceBusy, StoreError
from valence_sched.model.flavor import Flavor
from valence_sched.model.read_options import ReadOptions, Selection
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.service import openapi
from valence_sched.service.app import Authenticate, create_application
from valence_sched.service.call import ServiceParts
from valence_sched.service.metrics import Metrics
from valence_sched.service.operations import Operations
from valence_sched.service.settings import ServiceSettings
from valence_sched.service.users import ANYBODY, PasswordFile

if TYPE_CHECKING:
    from valence_sched.model.scheduler import Scheduler
    from valence_sched.store.store import Store


def selection_of(settings: ServiceSettings) -> Selection:
    """Return what the service decides on."""
    return Selection(
        sources=settings.inventories,
        resource_files=settings.resource_files,
        flavor_files=settings.flavor_files,
        policy_files=settings.policy_files,
        live=ReadOptions(state=settings.state, podm_files=settings.podm_files),
    )


class SharedState:
    """The state of all processes: records, and marks of what changed; opened when first used."""

    def __init__(self, environ: Mapping[str, str], state: str | None) -> None:
        self._registry = App(environ=environ).registry(state)
        self._lock = threading.Lock()
        self._store: Store | None = None

    def store(self) -> Store:
        """Return the open store; StoreError if it cannot be opened."""
        with self._lock:
            if self._store is None:
                self._store = self._registry.store()
            return self._store

    def mark(self) -> tuple[Any, ...]:
        """Return what differs once anything of the state that is decided on has changed."""
        store = self.store()
        # a reading may learn the identity of a pod manager, which decides nothing
        registered = [replace(one, identity=None) for one in store.registrations()]
        return store.log_counts(), registered

    def put_new(self, id_: str, document: bytes) -> bytes:
        return self.store().records.put_new(id_, document)

    def replace(self, id_: str, document: bytes) -> None:
        self.store().records.replace(id_, document)

    def get(self, id_: str) -> tuple[bytes, float] | None:
        return self.store().records.get(id_)

    def save_decision(self, decision_id: str, document: bytes) -> None:
        self.store().save_decision(decision_id, document)


class EnginePool:
    """The engines of one process: one that decides, with one thread at a time, and more to change.

    The one that decides reads everything again once the state or a file has changed, and live pod
    managers after ``refresh_s``.
    """

    def __init__(
        self,
        make_app: Callable[[], App],
        settings: ServiceSettings,
        state: SharedState,
        clock: Callable[[], float],
    ) -> None:
        self._make_app, self._settings, self._state, self._clock = make_app, settings, state, clock
        self._selection = selection_of(settings)
        self._lock = threading.Lock()
        self._app: App | None = None
        self._engine: Scheduler | None = None
        self._mark: object = None
        self._until = 0.0

    @contextlib.contextmanager
    def reading(self) -> Iterator[Scheduler]:
        """Yield the engine that decides; ServiceBusy where others take longer than allowed."""
        if not self._lock.acquire(timeout=self._settings.limits.queue_s):
            raise ServiceBusy("other requests are being decided: try again in a moment")
        try:
            yield self._current()
        except SchedulerError:
            raise  # a request that is wrong does not make it read again
        except BaseException:
            self._engine = None  # it may be in the midst of something
            raise
        finally:
            if self._app is not None:
                self._app.config.remarks.clear()
            self._lock.release()

    @contextlib.contextmanager
    def changing(self) -> Iterator[Scheduler]:
        """Yield an engine of the caller's own."""
        yield self._make_app().engine(self._selection)

    def _current(self) -> Scheduler:
        mark = (self._state.mark(), self._file_marks())
        fresh = mark == self._mark and self._clock() < self._until
        if self._engine is None or not fresh:
            self._app = self._make_app()
            self._engine = self._app.engine(self._selection)
            self._mark, self._until = mark, self._clock() + self._settings.refresh_s
        return self._engine

    def _file_marks(self) -> list[tuple[str, int, int]]:
        chosen = self._selection
        marks = []
        for name in (*chosen.sources, *chosen.flavor_files, *chosen.policy_files):
            with contextlib.suppress(OSError):
                status = os.stat(name)
                marks.append((name, status.st_mtime_ns, status.st_size))
        return marks


class ServiceProcess:
    """The application of one process, with what is to end before it does."""

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Callable[[], float],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        state = SharedState(environ, settings.state)
        self._config = App(environ=environ).config
        self._near_maps = settings.near_maps
        make_app = functools.partial(App, environ=environ)
        self.operations = Operations(state, settings.limits.operations)
        metrics = Metrics()
        self.parts = ServiceParts(
            schedulers=EnginePool(make_app, settings, state, clock),
            compile_spec=self._compile,
            records=state,
            operations=self.operations,
            limits=settings.limits,
            openapi=openapi.document,
            metrics=metrics.text,
        )
        self.application = create_application(self.parts, metrics, authenticator(settings))

    def _compile(self, spec: RequestSpec, flavor: Flavor | None) -> Request:
        self._config.check_request(spec)
        try:
            return self._config.compile_request(spec, flavor, self._near_maps)
        finally:
            self._config.remarks.clear()


def authenticator(settings: ServiceSettings) -> Authenticate:
    """Return what names the user of a request, as the settings say; errors as of a user file."""
    if settings.auth == "basic":
        assert settings.users_file is not None, "the settings were checked"
        return PasswordFile(settings.users_file).authenticate
    return lambda _authorization: ANYBODY


def configuration_problems(
    settings: ServiceSettings, environ: Mapping[str, str]
) -> Iterator[Exception]:
    """Yield each error that the service would meet with these settings."""

    def open_state() -> None:
        try:
            SharedState(environ, settings.state).mark()
        except StoreError as error:
            raise error.at("state") from None

    config = App(environ=environ).config
    checks: tuple[Callable[[], object], ...] = (
        lambda: authenticator(settings),
        open_state,
        lambda: config.policies(settings.policy_files),
        lambda: config.flavors(settings.flavor_files),
        lambda: config.resources(settings.resource_files),
        *(functools.partial(config.read, path) for path in settings.inventories),
        *(functools.partial(config.read, path) for path in settings.podm_files),
        *(functools.partial(config.read, path) for path in _tls_files(settings)),
    )
    for check in checks:
        try:
            check()
        except SchedulerError as error:
            yield error


def _tls_files(settings: ServiceSettings) -> list[str]:
    return [path for path in (settings.certificate, settings.private_key) if path is not None]
