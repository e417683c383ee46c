# SPDX-License-Identifier: Apache-2.0
"""Metrics: counters and times of the service, summed over all of its processes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import prometheus_client
from prometheus_client import multiprocess

from valence_sched.service.state_metrics import POSITION, StateFacts, StateMetrics

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before this module is imported
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one application; ``facts`` returns those of its state."""

    def __init__(self, facts: Callable[[], StateFacts | None]) -> None:
        self._facts = facts
        self._registry = prometheus_client.CollectorRegistry()
        self._children = functools.lru_cache(maxsize=None)(self._labelled)  # as many as routes
        self._requests = prometheus_client.Counter(
            "valence_scheduler_requests",
            "Requests answered, by method, path of the route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = prometheus_client.Histogram(
            "valence_scheduler_request_seconds",
            "Time from the head of a request to its answer, in seconds.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )

        self._position = prometheus_client.Gauge(
            POSITION,
            "Changes of the state that were taken in, by the process furthest behind.",
            multiprocess_mode="livemin",
            registry=self._registry,
        )

    def note_changes(self, changes: int) -> None:
        """Note how many changes of the state this process has taken in."""
        self._position.set(changes)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        requests, times = self._children(method, route, status)
        requests.inc()
        times.observe(seconds)

    def _labelled(
        self, method: str, route: str, status: int
    ) -> tuple[prometheus_client.Counter, prometheus_client.Histogram]:
        """Return what counts requests of these labels, and their times."""
        counter = self._requests.labels(method, route, str(status))
        return counter, self._seconds.labels(method, route)

    def text(self) -> tuple[str, bytes]:
        """Return the media type and the text of all metrics, of every process."""
        source = self._registry
        if MULTIPROCESS_FOLDER in os.environ:
            source = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(source)  # type: ignore[no-untyped-call]
        registry = prometheus_client.CollectorRegistry()
        registry.register(StateMetrics(source.collect, self._facts))
        return prometheus_client.CONTENT_TYPE_LATEST, prometheus_client.generate_latest(registry)
