# SPDX-License-Identifier: Apache-2.0
"""Children: the registered child zones of this zone, and their polls."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.calls import DEADLINE_SHARE, call_all
from valence_sched.model import zone_registry as nouns
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.hardware import PodmOverview, StatsReport
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.scheduler import TREE_S
from valence_sched.model.zone import ZoneSettings
from valence_sched.store.service_state import Leases
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone, Zones
from valence_sched.zones.logins import ChildLogins
from valence_sched.zones.report import INTERVALS, zone_info, zone_node


class StateOpener(Protocol):
    """The state of a zone, which may not exist yet."""

    @property
    def empty(self) -> bool:
        """Return whether the state does not exist yet."""

    @property
    def where(self) -> str:
        """Return the location of the state, without a password."""

    def store(self) -> Store:
        """Return the open state; create it if needed."""

    def reports(self) -> Mapping[str, StatsReport]:
        """Return the last reports of the zone's own pod managers by name."""


class ZoneRegistry:
    """The verbs about zones, over the child zones in a state and the zone's own ``podms``.

    ``settings_file`` is the source of ``settings``, named in messages.
    """

    def __init__(
        self,
        settings: ZoneSettings,
        settings_file: str,
        state: StateOpener,
        password: Callable[[nouns.ZoneRegistration], str | None],
        effects: EffectLog,
        podms: Callable[[], Sequence[PodmOverview]],
        now: Callable[[], datetime],
    ) -> None:
        self._settings, self._settings_file, self._effects = settings, settings_file, effects
        self._podms, self._now = podms, now
        self._state, self._password, self._logins = state, password, ChildLogins()
        self._interval_s = settings.poll_interval_s

    def zone_info(self) -> nouns.ZoneInfo:
        enabled = (one.report for one in self.zones() if one.registration.enabled)
        below = [one.info for one in enabled if one.is_active and one.info is not None]
        reports = self._state.reports()
        return zone_info(self.own_id(), self._settings, self._podms(), reports, below)

    def zone_tree(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> nouns.ZoneNode:
        children = self.zone_branches(hops=hops, deadline_s=deadline_s, route=route)
        return zone_node(self._settings.name, self._podms(), self._now(), children)

    def zones(self) -> Sequence[nouns.ZoneOverview]:
        if self._state.empty:
            return ()
        with self._state.store() as store:
            return [current(one, self._interval_s) for one in store.zones.list()]

    def zone(self, name: str) -> nouns.ZoneOverview:
        if self._state.empty:
            raise errors.UnknownName("child zone", name, (), self._state.where)
        with self._state.store() as store:
            return current(store.zones.show(name), self._interval_s)

    def add_zone(self, registration: nouns.ZoneRegistration) -> nouns.ZoneOverview:
        with self._change(registration.name, "added"):
            nouns.check_zone(registration)
            with self._state.store() as store:
                return store.zones.add(registration)

    def change_zone(self, name: str, change: nouns.ZoneChange) -> nouns.ZoneOverview:
        with self._change(name, "changed"):
            known = self.zone(name)
            changed = change.applied_to(known.registration)
            nouns.check_zone(changed)
            with self._state.store() as store:
                store.zones.change(known, changed)
                return current(store.zones.show(changed.name), self._interval_s)

    def delete_zones(self, names: Sequence[str]) -> Iterator[errors.SchedulerError]:

        def delete(name: str) -> None:
            with self._change(name, "deleted"):
                known = self.zone(name)
                with self._state.store() as store:
                    store.zones.delete(known)

        yield from errors.each_error(delete, names)

    @contextlib.contextmanager
    def _change(self, name: str, done: str) -> Iterator[None]:
        """Log the change of a child zone; AccessDenied if this zone does not route."""
        with self._effects.change("zone", name, f"may be {done}", f"is {done}"):
            if not self._settings.enable_zone_routing:
                hint = f"set enable_zone_routing: true in {self._settings_file}"
                raise errors.AccessDenied(f"child zones are not enabled: {hint}")
            yield

    def own_id(self) -> str:
        if self._state.empty:
            return ""
        with self._state.store() as store:
            return store.zones.own_id()

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> tuple[nouns.ZoneNode, ...]:
        zones = [one for one in self.zones() if one.registration.enabled]
        if not self._settings.enable_zone_routing or not zones or hops < 1:
            return ()
        own = self.own_id()
        if own in route:
            raise errors.RequestError("the zones form a cycle: a zone is below itself")

        def tree_of(child: nouns.ZoneRegistration) -> nouns.ZoneNode:
            lower_s = deadline_s * DEADLINE_SHARE
            scheduler = self._logins.scheduler(child, self._password(child), lower_s)
            tree = scheduler.zone_tree(hops=hops - 1, deadline_s=lower_s, route=(*route, own))
            level: Sequence[nouns.ZoneNode] = (tree,)
            for _ in range(hops):
                level = [one for zone in level for one in zone.children]
            if level:
                raise errors.ServiceError(f"its tree has more levels than the {hops} allowed")
            return tree

        children = {one.registration.name: one.registration for one in zones}
        return tuple(
            replace(outcome, known_as=name)
            if isinstance(outcome, nouns.ZoneNode)
            else nouns.ZoneNode(known_as=name, silent=errors.one_line(str(outcome)))
            for name, outcome in call_all(tree_of, children, deadline_s).items()
        )


FAILURES = 3  # consecutive failures until a child is inactive
LEASE, LEASE_S = "zone poller", 30.0
RENEWALS = 3  # renewals of the lease before it would expire
LIST_S = 1.0  # a process reads its children again after this time
LOOK_S = 1.0  # interval at which the polling process looks for due children
DEADLINE_S = 10.0  # time limit of a poll


class Children:
    """The child zones of a state, read again after a change, and otherwise every ``LIST_S``."""

    def __init__(
        self,
        zones: Callable[[], Zones],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._zones, self._interval_s, self._clock = zones, interval_s, clock
        self._list: tuple[int, float, Sequence[nouns.ZoneOverview]] | None = None

    def list(self) -> Sequence[nouns.ZoneOverview]:
        zones, known, at = self._zones(), self._list, self._clock()
        changes = zones.changes()  # counted before the read, so the list is at least as new
        if known is not None and known[0] == changes and at - known[1] < LIST_S:
            return known[2]
        found = [current(one, self._interval_s) for one in zones.list()]
        self._list = (changes, at, found)
        return found


def current(zone: nouns.ZoneOverview, interval_s: float) -> nouns.ZoneOverview:
    info, age_s = zone.report.info, zone.heard_age_s
    if info is None or (age_s is not None and age_s <= INTERVALS * interval_s):
        return zone
    expired = replace(info, capabilities={}, services={})
    return replace(zone, report=replace(zone.report, info=expired))


class ZonePoller:
    """Polls each enabled child every ``interval_s``, in the one process that has the lease.

    ``ask`` returns the info of a child; ``log`` takes a line for each child that becomes active or
    stops answering; ``holder`` names this process.
    """

    def __init__(
        self,
        zones: Zones,
        leases: Leases,
        ask: Callable[[nouns.ZoneRegistration], nouns.ZoneInfo],
        *,
        holder: str,
        interval_s: float,
        log: Callable[[str], object],
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._zones, self._leases, self._ask, self._holder = zones, leases, ask, holder
        self._interval_s, self._deadline_s = interval_s, deadline_s
        self._log, self._clock, self._sleep = log, clock, sleep
        self._leads, self._renew_at = False, -float("inf")
        self._problem = ""

    def run(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Poll until ``ended`` returns true; wait while the state cannot be used."""
        try:
            while not ended():
                self._sleep(self.step())
        finally:
            self.close()

    def close(self) -> None:
        if self._leads:
            self._leads = False
            self._leases.release(LEASE, self._holder)

    def step(self) -> float:
        """Poll the due children if this process has the lease; return the seconds to wait."""
        try:
            if self._clock() >= self._renew_at:
                self._leads = self._leases.acquire(LEASE, self._holder, LEASE_S)
                self._renew_at = self._clock() + LEASE_S / RENEWALS
            if self._leads:
                self.poll(
                    [
                        one
                        for one in self._zones.list()
                        if one.registration.enabled
                        and (one.polled_age_s is None or one.polled_age_s >= self._interval_s)
                    ]
                )
            self._problem = ""
        except errors.StoreError as error:
            self._leads, self._renew_at = False, -float("inf")
            if str(error) != self._problem:
                self._log(f"waiting: {error}")
            self._problem = str(error)
        return LOOK_S

    def poll(self, zones: Sequence[nouns.ZoneOverview]) -> None:
        by_name = {one.registration.name: one for one in zones}
        if not by_name:
            return
        polled = []
        for name, outcome in call_all(self._info, by_name, self._deadline_s).items():
            before = by_name[name].report
            if isinstance(outcome, nouns.ZoneInfo):
                after = nouns.ZoneReport(is_active=True, info=outcome, reason="")
            else:
                after = _failed(before, outcome)
            polled.append(PolledZone(by_name[name], after))
            if after.is_active and not before.is_active:
                self._log(f"zone {name}: active")
            elif after.reason and (
                (after.reason, after.is_active) != (before.reason, before.is_active)
            ):
                state = "still active" if after.is_active else "not active"
                self._log(f"zone {name}: {state}: {after.reason}")
        self._zones.record(polled)

    def _info(self, zone: nouns.ZoneOverview) -> nouns.ZoneInfo:
        info = self._ask(zone.registration)
        if info.id and info.id == self._zones.own_id():
            raise errors.AccessDenied("its URL is of this zone itself: set the URL of a child zone")
        return info


def _failed(report: nouns.ZoneReport, error: errors.SchedulerError) -> nouns.ZoneReport:
    """Return the report of a silent child; it is inactive at once if it refuses the login."""
    failures = report.failures + 1
    refusals = errors.CredentialError | errors.Unauthenticated | errors.AccessDenied
    active = report.is_active and failures < FAILURES and not isinstance(error, refusals)
    return replace(report, is_active=active, failures=failures, reason=errors.one_line(str(error)))
