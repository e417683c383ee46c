# SPDX-License-Identifier: Apache-2.0
"""The reading of one live pod manager: log in, fetch, understand, log out."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from valence_sched.drivers.crawl.crawler import Crawl, Start
from valence_sched.drivers.crawl.document_cache import Kept
from valence_sched.drivers.crawl.expand import Documents
from valence_sched.drivers.crawl.passes import understood
from valence_sched.drivers.dialect import Dialect, told
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.entrance import entered
from valence_sched.drivers.http.errors import Deadline, Trust, Unreachable
from valence_sched.drivers.links import ROOT
from valence_sched.errors import (
    InputError,
    Remark,
    SchedulerError,
    UnknownName,
    one_line,
)
from valence_sched.model.inventory import FullPodm, PodmStatus
from valence_sched.model.registration import Registered

LOG = logging.getLogger(__name__)


class Pace(Protocol):
    """How to read."""

    @property
    def timeout_s(self) -> float: ...
    @property
    def parallel(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def cache(self) -> Path | None: ...


class Found(NamedTuple):
    """What came of it, in the order of ``live.Reading``."""

    podm: FullPodm
    failure: str | None
    problems: list[str]
    documents: dict[str, Json]
    requests: int
    seconds: float


class Visit:
    """One reading of one pod manager."""

    def __init__(
        self,
        registered: Registered,
        password: str | None,
        pace: Pace,
        at: datetime,
        start: Start,
        trust: Trust,
    ) -> None:
        self._trust = trust
        self._registered, self._pace, self._start = registered, pace, start
        self._at = at.astimezone(UTC).replace(microsecond=0)
        self._began = time.monotonic()
        self._deadline = Deadline(pace.timeout_s)
        self._connection: Connection | None = None
        self._password = password

    @property
    def left_s(self) -> float:
        """The seconds until the deadline."""
        return self._deadline.left_s

    def read(self, dialects: Mapping[str, Callable[[], Dialect]]) -> Found:
        """Return the pod manager, or why it could not be read; never raises."""
        try:
            return self._read(dialects)
        except Unreachable as error:
            return self._failed("Offline", str(error))
        except SchedulerError as error:
            return self._failed("Unknown", str(error))
        except Exception as error:
            what = f"could not be understood: {type(error).__name__}: {error}"
            return self._failed("Unknown", f"{what} (please report this)")

    def given_up(self) -> Found:
        """Return that the deadline has passed."""
        return self._failed("Offline", str(self._deadline.passed()))

    def cut(self) -> None:
        """End all that is under way."""
        if self._connection:
            self._connection.cut()

    def end(self) -> None:
        """Log out; never raises."""
        try:
            if self._connection:
                self._connection.close()
        except Exception as error:
            LOG.warning("%s: could not log out: %s", self._registered.name, error)

    def _read(self, dialects: Mapping[str, Callable[[], Dialect]]) -> Found:
        known, pace = self._registered, self._pace
        connection = Connection(known, self._password, self._deadline, pace.parallel, self._trust)
        self._connection = connection
        root = entered(connection)
        name = told(root) if known.driver == "auto" else known.driver
        if name not in dialects:
            raise UnknownName("driver", name, dialects, known.name)
        dialect = dialects[name]()
        kept = Kept(pace.cache, connection.url, known.username, self._at.timestamp())
        if not pace.full:
            kept.load()
        documents = Documents(connection)
        documents.offer(root or {})
        crawl = Crawl(documents, kept, connection.host, pace.parallel, self._start)
        found = understood(crawl, dialect, root, known.name, connection.host)
        notes, podm, read, _ = found
        if root is None and not read:
            hint = "is it a Redfish service?"
            raise InputError(ROOT, "", "no such document", "a service root", hint)
        kept.save(crawl.lasting())
        for remark in (*connection.remarks, *([kept.problem] if kept.problem else [])):
            notes.add(Remark(remark))
        lines = notes.lines(known.name)
        return Found(self._registered_as(podm), None, lines, read, *self._spent())

    def _registered_as(self, podm: FullPodm) -> FullPodm:
        """Return a pod manager with what the operator says of it, which wins."""
        known = self._registered
        return msgspec.structs.replace(
            podm,
            id=known.name,
            url=self._url(),
            enabled=known.enabled,
            zone=known.zone or podm.zone,
            aggregates=tuple(dict.fromkeys(known.aggregates + podm.aggregates)),
            capabilities=podm.capabilities | known.capabilities,
            traits=tuple(dict.fromkeys(known.traits + podm.traits)),
            facts=podm.facts | known.facts,
            read_at=self._at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    def _failed(self, status: PodmStatus, why: str) -> Found:
        known = self._registered
        driver = None if known.driver == "auto" else known.driver
        podm = FullPodm(id=known.name, driver=driver, status=status)
        failure = one_line(f"{known.name}: {self._url()}: {why.removeprefix(known.name + ': ')}")
        return Found(self._registered_as(podm), failure, [], {}, *self._spent())

    def _url(self) -> str:
        """Return where it is, without what may be secret."""
        if self._connection:
            return self._connection.url
        return re.sub(r"//[^/]*@", "//", self._registered.url)

    def _spent(self) -> tuple[int, float]:
        count = self._connection.requests if self._connection else 0
        return count, time.monotonic() - self._began
