# SPDX-License-Identifier: Apache-2.0
"""Reporter: repeatedly reports registered pod managers to other schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from valence_sched.errors import SchedulerError, one_line
from valence_sched.model.inventory import FullPodm
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.stats import FIELDS, Stats, select_stats

if TYPE_CHECKING:
    from valence_sched.store.store import Store

#: Fields that a report omits: the operator of the receiving scheduler sets them.
_LOCAL = ("name", "url", "driver", "enabled")


def stats_of(podm: FullPodm) -> Stats:
    names = {*FIELDS.values(), "facts"}.difference(_LOCAL)
    return {name: msgspec.to_builtins(getattr(podm, name)) for name in sorted(names)}


def needed(
    scheduler: Scheduler, policies: Sequence[str]
) -> Callable[[str, Mapping[str, Any]], None]:
    """Return a report function that sends only the fields that the policies read."""

    def report(name: str, stats: Mapping[str, Any]) -> None:
        fields = {field for one in policies for field in scheduler.podm_reads(one).fields}
        scheduler.update_resource_stats(name, select_stats(stats, fields))

    return report


class Reporter:
    """Reports the pod managers of a store every ``interval_s``, even if they have not changed.

    ``targets`` maps names to functions that send a pod manager and its stats. A pod manager that
    cannot be read is reported as Offline. ``log`` receives a line when a target fails or recovers.
    """

    def __init__(
        self,
        store: "Store",
        names: Callable[[], list[str]],
        targets: Mapping[str, Callable[[str, Stats], object]],
        interval_s: float,
        log: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store, self._names, self._targets = store, names, targets
        self._interval_s, self._log = interval_s, log
        self._clock, self._sleep = clock, sleep
        self._problems: dict[str, str] = {}

    def run(self, ended: Callable[[], bool]) -> None:
        while not ended():
            began = self._clock()
            self.report()
            self._sleep(max(0.0, self._interval_s - (self._clock() - began)))

    def report(self) -> None:
        try:
            podms, failures = self._store.load_podms(self._names()), self._store.failures()
        except SchedulerError as error:
            return self._note("the state", str(error))
        self._note("the state", "")
        for target, report in self._targets.items():
            problem = ""
            for name, podm in podms.items():
                stats = {"status": "Offline"} if name in failures else stats_of(podm)
                try:
                    report(name, stats)
                except SchedulerError as error:
                    problem = one_line(f"{name}: {error}")
            self._note(target, problem)
        return None

    def _note(self, target: str, problem: str) -> None:
        if problem != self._problems.get(target, ""):
            words = f"not reported: {problem}" if problem else "reports are accepted again"
            self._log(f"{target}: {words}")
        self._problems[target] = problem
