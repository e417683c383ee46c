# SPDX-License-Identifier: Apache-2.0
"""State metrics: gauges of the pod managers and of the change log, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from valence_sched.model.dispatch import WaitingDispatches

POSITION = "valence_scheduler_change_log_position"


class StateFacts(NamedTuple):
    """What all processes of a service have in common: their pod managers, and who reads them.

    ``podms`` counts them by state, ``changes`` those of the change log so far, 0 where no process
    follows it, ``undecodable`` the rows that cannot be decoded, by table. ``waiting`` are the
    decisions that are not posted to the controller yet.
    """

    podms: Mapping[str, int]
    oldest_reading_s: float | None
    reader: str | None
    changes: int
    undecodable: Mapping[str, int]
    waiting: WaitingDispatches


class StateMetrics(Collector):
    """The metrics of other collectors, and those of the state.

    Any process reads the state when it is asked: nothing of it is added up over processes. Only
    the position in the change log is each process's own, and the least of them counts.
    """

    def __init__(
        self,
        collect: Callable[[], Iterable[Metric]],
        facts: Callable[[], StateFacts | None],
    ) -> None:
        self._collect, self._facts = collect, facts

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; without a state that can be used only that it cannot."""
        position = 0.0
        for metric in self._collect():
            if metric.name == POSITION:
                position = min((sample.value for sample in metric.samples), default=0.0)
            yield metric
        facts = self._facts()
        yield GaugeMetricFamily(
            "valence_scheduler_state_up", "Whether the state can be used.", int(facts is not None)
        )
        if facts is None:
            return
        podms = GaugeMetricFamily(
            "valence_scheduler_podms",
            "Registered pod managers: read, failing since their last reading, or never read.",
            labels=("state",),
        )
        for state, count in facts.podms.items():
            podms.add_metric((state,), count)
        yield podms
        if facts.oldest_reading_s is not None:
            yield GaugeMetricFamily(
                "valence_scheduler_oldest_reading_seconds",
                "Age of the oldest last reading of the pod managers that do not fail.",
                facts.oldest_reading_s,
            )
        rows = GaugeMetricFamily(
            "valence_scheduler_undecodable_rows",
            "Stored rows that cannot be decoded and are left out, by table.",
            labels=("table",),
        )
        for table, count in facts.undecodable.items():
            rows.add_metric((table,), count)
        yield rows
        yield GaugeMetricFamily(
            "valence_scheduler_dispatches_waiting",
            "Decisions that are not posted to the controller yet.",
            facts.waiting.total,
        )
        yield GaugeMetricFamily(
            "valence_scheduler_dispatches_oldest_seconds",
            "Age of the oldest of these decisions.",
            facts.waiting.oldest_s,
        )
        reader = GaugeMetricFamily(
            "valence_scheduler_reader",
            "The process that reads the pod managers, 1; none where nobody does.",
            labels=("holder",),
        )
        if facts.reader is not None:
            reader.add_metric((facts.reader,), 1)
        yield reader
        yield GaugeMetricFamily(
            "valence_scheduler_change_log_lag",
            "Changes of the state that the next decision takes in, of the process furthest behind.",
            max(0.0, facts.changes - position),
        )
