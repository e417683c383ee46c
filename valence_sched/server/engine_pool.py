# SPDX-License-Identifier: Apache-2.0
"""Engine pool: the engines of one process over the shared state, and the compiler of requests."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from valence_sched.app import App
from valence_sched.errors import InputError, InventoryIncomplete, SchedulerError, ServiceBusy
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.flavor import Flavor
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.service.call import FairLock
from valence_sched.service.settings import ServiceSettings

if TYPE_CHECKING:
    from valence_sched.engine import Engine

USER_FILES = ("policies.yaml", "flavors.yaml", "resources.yaml", "podms.yaml")
OWN_FILE = "a file of the service is invalid, an operator must correct it: "

FileMarks = Mapping[str, tuple[int, int]]


def selection_of(settings: ServiceSettings) -> Selection:
    return Selection(
        sources=settings.inventories,
        resource_files=settings.resource_files,
        flavor_files=settings.flavor_files,
        policy_files=settings.policy_files,
        near_maps=settings.near_maps,
        zones=settings.zones,
        dispatches=settings.dispatch is not None,
        drain=settings.drain,
        live=ReadOptions(
            state=settings.state,
            podm_files=settings.podm_files,
            max_age_s=settings.max_age_s,
            stored=True,
        ),
    )


class EnginePool:
    """The engines of one process: one that threads share in turn, and a new one for each change.

    With registered pod managers, the shared engine reads only the change log of the state. A
    changed file or an internal error causes a new shared engine, as does a changed ``state_mark``
    with recorded inventories; an invalid request or an unavailable state does not.
    """

    def __init__(
        self,
        make_app: Callable[[], App],
        settings: ServiceSettings,
        state_mark: Callable[[], object],
        note_changes: Callable[[int], object] = lambda _changes: None,
    ) -> None:
        self._looked_at = -float("inf")
        self._make_app, self._state_mark, self._note_changes = make_app, state_mark, note_changes
        self._queue_s = settings.limits.queue_s
        self._selection = selection_of(settings)
        app, chosen = make_app(), self._selection
        named = (
            *app.sources.named_sources(chosen),
            *chosen.flavor_files,
            *chosen.policy_files,
            *chosen.resource_files,
            *chosen.live.podm_files,
        )
        self._files = [*named, *(str(app.config.user_file(name)) for name in USER_FILES)]
        self._file_marks: FileMarks = {}
        self._lock = FairLock()
        self._effects = EffectLog()
        self._app: App | None = None
        self._engine: Engine | None = None
        self._mark: object = None

    @contextlib.contextmanager
    def reading(self, tenant: str = "") -> Iterator["Engine"]:
        """Yield the shared engine when it is the tenant's turn; ServiceBusy after ``queue_s``."""
        arrived_at = time.monotonic()
        if not self._lock.acquire(tenant, self._queue_s):
            raise ServiceBusy("other requests are being decided: try again in a moment")
        try:
            with self._own_files():
                engine = self._current(arrived_at)
                yield engine
            self._note_changes(engine.changes)
        except SchedulerError:
            raise
        except BaseException:
            self._drop()  # the engine may be in an inconsistent state
            raise
        finally:
            self._effects.clear()
            if self._app is not None:
                self._app.config.remarks.clear()
            self._lock.release()

    @contextlib.contextmanager
    def changing(self) -> Iterator["Engine"]:
        with self._own_files(), contextlib.closing(self._make_app().engine(self._selection)) as one:
            yield one

    @contextlib.contextmanager
    def _own_files(self) -> Iterator[None]:
        """Raise InventoryIncomplete for an invalid file of the service, which no client can fix."""
        try:
            yield
        except InputError as error:
            if not error.file.startswith(tuple(self._files)):
                raise
            raise InventoryIncomplete(f"{OWN_FILE}{error}") from None

    def close(self, timeout_s: float) -> bool:
        """End the shared engine if it is free within ``timeout_s``; return whether it ended."""
        if not self._lock.acquire("", timeout_s):
            return False
        try:
            self._drop()
        finally:
            self._lock.release()
        return True

    def _current(self, arrived_at: float) -> "Engine":
        """Return the shared engine; the first of several waiting requests refreshes it."""
        if self._engine is not None and self._looked_at > arrived_at:
            return self._engine
        looked_at = time.monotonic()
        marks = _marks(self._files, self._file_marks)
        if marks != self._file_marks:
            self._drop()
        if self._engine is None or not self._engine.follows:
            mark = self._state_mark()
            if mark != self._mark:
                self._drop()
            self._mark = mark
        if self._engine is None:
            self._app = self._make_app()
            self._engine = self._app.engine(self._selection, effects=self._effects)
            self._file_marks = marks
        self._looked_at = looked_at
        return self._engine

    def _drop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def _marks(files: list[str], earlier: FileMarks) -> FileMarks:
    """Return the time and the size of each file that exists; ``earlier`` marks save a check."""
    marks = {}
    for name in files:
        if name not in earlier and not os.access(name, os.F_OK):
            continue
        try:
            status = os.stat(name)
        except OSError:
            continue
        marks[name] = (status.st_mtime_ns, status.st_size)
    return marks


MOST_REQUESTS, MOST_BYTES = 256, 4096  # cached requests, and bytes of each


class RequestCompiler:
    """Compiles requests like an app and caches them; ``near_maps`` locate external resources.

    A request without external resources is compiled once, so that decision caches find the object.
    """

    def __init__(self, app: App, near_maps: Sequence[str]) -> None:
        self._config, self._near_maps = app.config, near_maps
        self._compiled: dict[bytes, tuple[Flavor | None, Request]] = {}
        self.count = 0

    def compile(self, spec: RequestSpec, flavor: Flavor | None) -> Request:
        if self._near_maps or spec.near or spec.prefer_near or self._config.default_owner:
            return self._compile(spec, flavor)
        key = msgspec.json.encode(spec)
        known = self._compiled.get(key)
        if known is not None and known[0] is flavor:
            return known[1]
        request = self._compile(spec, flavor)
        if len(key) <= MOST_BYTES:
            if len(self._compiled) >= MOST_REQUESTS:
                # clear all entries: an LRU order would cost an update for each hit
                self._compiled.clear()
            self._compiled[key] = flavor, request
        return request

    def _compile(self, spec: RequestSpec, flavor: Flavor | None) -> Request:
        self.count += 1
        self._config.check_request(spec)
        try:
            return self._config.compile_request(spec, flavor, self._near_maps)
        finally:
            self._config.remarks.clear()
