# SPDX-License-Identifier: Apache-2.0
"""State facts: the health of a service, and the counts and ages of its state for metrics."""

import datetime
import logging
from collections.abc import Callable

from valence_sched.app import App
from valence_sched.errors import SchedulerError
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.quantity import age_s, format_age, format_count
from valence_sched.model.reading import Selection
from valence_sched.model.redact import redact_text
from valence_sched.model.verbs import Health
from valence_sched.service.metrics import StateFacts
from valence_sched.store.store import Store

LOG = logging.getLogger(__name__)

LATE_S = 60.0  # age at which an unposted decision becomes a health problem


class StateReader:
    """Reads health and metrics from the state for one process; ``store`` returns the open state."""

    def __init__(
        self, make_app: Callable[[], App], selection: Selection, store: Callable[[], Store]
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
