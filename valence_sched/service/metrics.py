# SPDX-License-Identifier: Apache-2.0
"""Metrics: counters and times of all processes of the service, and gauges of its state."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

import prometheus_client
from prometheus_client import multiprocess
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from valence_sched.model.decision import Outcome
from valence_sched.model.dispatch import WaitingDispatches
from valence_sched.service.settings import MULTIPROCESS_FOLDER

POSITION = "valence_scheduler_change_log_position"


class StateFacts(NamedTuple):
    """Counts and ages from the state that all processes of a service share.

    ``podms`` counts pod managers by state, ``undecodable`` counts rows by table. ``changes`` is 0
    if no process follows the change log. ``waiting`` are the decisions to post to the controller.
    """

    podms: Mapping[str, int]
    oldest_reading_s: float | None
    reader: str | None
    changes: int
    undecodable: Mapping[str, int]
    waiting: WaitingDispatches


class StateMetrics(Collector):
    """The metrics of other collectors, and of the state, which is the same for all processes."""

    def __init__(
        self, collect: Callable[[], Iterable[Metric]], facts: Callable[[], StateFacts | None]
    ) -> None:
        self._collect, self._facts = collect, facts

    def collect(self) -> Iterator[Metric]:
        position = 0.0
        for metric in self._collect():
            if metric.name == POSITION:
                position = min((sample.value for sample in metric.samples), default=0.0)
            yield metric
        facts = self._facts()
        up = facts is not None
        yield _gauge("valence_scheduler_state_up", "1 if the state can be used, else 0.", int(up))
        if facts is None:
            return
        text = "Registered pod managers: read, failing since their last reading, or never read."
        yield _gauge("valence_scheduler_podms", text, facts.podms, "state")
        if facts.oldest_reading_s is not None:
            text = "Age of the oldest reading among pod managers that do not fail."
            yield _gauge("valence_scheduler_oldest_reading_seconds", text, facts.oldest_reading_s)
        text = "Stored rows that cannot be decoded and are left out, by table."
        yield _gauge("valence_scheduler_undecodable_rows", text, facts.undecodable, "table")
        waiting = facts.waiting
        text = "Decisions that are not posted to the controller yet."
        yield _gauge("valence_scheduler_dispatches_waiting", text, waiting.total)
        text = "Age of the oldest decision that is not posted to the controller yet."
        yield _gauge("valence_scheduler_dispatches_oldest_seconds", text, waiting.oldest_s)
        text = "1 for the process that reads the pod managers; no sample without a reader."
        holders = {} if facts.reader is None else {facts.reader: 1}
        yield _gauge("valence_scheduler_reader", text, holders, "holder")
        text = "Changes of the state not loaded yet, in the process that is furthest behind."
        lag = max(0.0, facts.changes - position)
        yield _gauge("valence_scheduler_change_log_lag", text, lag)


def _gauge(name: str, text: str, value: float | Mapping[str, int], label: str = "") -> Metric:
    if not isinstance(value, Mapping):
        return GaugeMetricFamily(name, text, value)
    gauge = GaugeMetricFamily(name, text, labels=(label,))
    for word, number in value.items():
        gauge.add_metric((word,), number)
    return gauge


BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one application; ``facts`` returns the facts of its state."""

    def __init__(self, facts: Callable[[], StateFacts | None]) -> None:
        self._facts = facts
        self._registry = prometheus_client.CollectorRegistry()
        self._children = functools.lru_cache(maxsize=None)(self._labelled)  # one entry per route
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
        self._decisions = prometheus_client.Counter(
            "valence_scheduler_decisions",
            "Decisions, by outcome.",
            ("outcome",),
            registry=self._registry,
        )
        for outcome in get_args(Outcome):
            self._decisions.labels(outcome)  # 0 before the first decision
        self._position = prometheus_client.Gauge(
            POSITION,
            "Changes of the state loaded by the process that is furthest behind.",
            multiprocess_mode="livemin",
            registry=self._registry,
        )

    def note_changes(self, changes: int) -> None:
        self._position.set(changes)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        requests, times = self._children(method, route, status)
        requests.inc()
        times.observe(seconds)

    def count_decision(self, answer: Any) -> None:
        """Count the decision that an answer is or has, if any, by the outcome of its report."""
        report = getattr(getattr(answer, "decision", answer), "report", None)
        if outcome := getattr(report, "outcome", None):  # the report of a zone has none
            self._decisions.labels(outcome).inc()

    def _labelled(
        self, method: str, route: str, status: int
    ) -> tuple[prometheus_client.Counter, prometheus_client.Histogram]:
        counter = self._requests.labels(method, route, str(status))
        return counter, self._seconds.labels(method, route)

    def text(self) -> tuple[str, bytes]:
        source = self._registry
        if MULTIPROCESS_FOLDER in os.environ:
            source = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(source)  # type: ignore[no-untyped-call]
        registry = prometheus_client.CollectorRegistry()
        registry.register(StateMetrics(source.collect, self._facts))
        return prometheus_client.CONTENT_TYPE_LATEST, prometheus_client.generate_latest(registry)
