# SPDX-License-Identifier: Apache-2.0
"""Metrics: counters and times of the service, summed over all of its processes."""

from __future__ import annotations

import os

import prometheus_client
from prometheus_client import multiprocess

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before this module is imported
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()
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

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> tuple[str, bytes]:
        """Return the media type and the text of all metrics, of every process."""
        registry = self._registry
        if MULTIPROCESS_FOLDER in os.environ:
            registry = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return prometheus_client.CONTENT_TYPE_LATEST, prometheus_client.generate_latest(registry)
