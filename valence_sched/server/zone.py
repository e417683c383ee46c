# SPDX-License-Identifier: Apache-2.0
"""The zone of one process: answers the parent zone, and decides over the zones below."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from valence_sched import calls
from valence_sched.app import App
from valence_sched.errors import CredentialError, SchedulerError, UsageError, one_line
from valence_sched.model import claim, decision, http, redact, verbs, zone_registry
from valence_sched.model.scheduler import OwnPodms, OwnScheduler, Scheduler
from valence_sched.model.zone import ZoneClaimBody
from valence_sched.server.engine_pool import EnginePool
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.service_state import process_name
from valence_sched.store.store import Store
from valence_sched.zones import claims, mixes
from valence_sched.zones.below import Child, ZonesBelow
from valence_sched.zones.children import DEADLINE_S, Children, ZonePoller
from valence_sched.zones.decider import ZoneDecider
from valence_sched.zones.logins import ChildLogins
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.scheduler import ZoneScheduler
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, Weighting, ZoneTree

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

QUERIES = 4  # concurrent queries of a process to each child zone; further queries wait


class EngineForEach(OwnScheduler):
    """The engines of a process as one scheduler: each verb borrows an engine while it runs.

    A returned iterator is read at once, so that the engine is free during queries to other zones.
    """

    def __init__(self, engines: EnginePool, tenant: str) -> None:
        self._engines, self._tenant = engines, tenant

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        route = verbs.VERBS.get(verb.__name__)
        reads = route.reading if route is not None else hasattr(OwnPodms, verb.__name__)
        with self._engines.reading(self._tenant) if reads else self._engines.changing() as engine:
            answer: Any = getattr(engine, verb.__name__)(*words, **named)
            found: Any = iter(list(answer)) if isinstance(answer, Iterator) else answer
        result: R = found
        return result


class ProcessZone:
    """The zone of one process, with schedulers that decide over this zone and all zones below."""

    def __init__(
        self,
        settings: ServiceSettings,
        environ: Mapping[str, str],
        engines: EnginePool,
        store: Callable[[], Store],
    ) -> None:
        self._settings, self._engines, self._store = settings.zones, engines, store
        self._children = Children(lambda: store().zones, settings.zones.poll_interval_s)
        self._app, self._state = App(environ=environ), settings.state
        self._password = self._app.config.zone_password
        self._dispatches = settings.dispatch is not None
        self._lock = threading.Lock()
        self._known: tuple[str, Tokens] | None = None
        self._links: dict[str, _Link] = {}
        self._sums, self._logins = mixes.SupplySums(), ChildLogins()
        self.deadline_s, self.most_hops = settings.zones.offer_deadline_s, settings.zones.most_hops

    def reading(self, tenant: str = "") -> AbstractContextManager[Scheduler]:
        zoned = self.scheduler(tenant)
        return self._engines.reading(tenant) if zoned is None else contextlib.nullcontext(zoned)

    def changing(self) -> AbstractContextManager[Scheduler]:
        zoned = self.scheduler("")
        return self._engines.changing() if zoned is None else contextlib.nullcontext(zoned)

    def tree(self, tenant: str) -> ZoneTree:
        return self._tree(EngineForEach(self._engines, tenant), self._child_zones())

    def hold_offers(self, tenant: str, body: ZoneClaimBody, key: str | None) -> claim.Claim:
        self._child_zones()
        return self._nodes(tenant).claims.hold_offers(body, key=key)

    def scheduler(self, tenant: str) -> ZoneScheduler | None:
        """Return the scheduler over all zones, None without zones; SchedulerError for a cycle."""
        children = self._child_zones()
        if not children:
            return None
        self._route()
        nodes = self._nodes(tenant)
        below = nodes.claims.below
        decider = ZoneDecider(
            below.own,
            self._tree(below.own, children),
            reports_below=below.reports,
            requests=below.requests,
            deadline_s=calls.time_left(self.deadline_s),
            most_hops=self.most_hops,
            sums=self._sums,
        )
        return ZoneScheduler(decider, nodes, dispatches=self._dispatches)

    def _nodes(self, tenant: str) -> ZoneNodes:
        id_, tokens = self._identity()
        with self._lock:
            links = dict(self._links)
        below = ZonesBelow(
            EngineForEach(self._engines, tenant),
            {name: link.zone for name, link in links.items()},
            self.deadline_s,
            _log_silence,
            [name for name, link in links.items() if not link.child.enabled],
            self._settings.capability_map,
        )
        return ZoneNodes(claims.ZoneClaims(id_, tokens, below, self._store().zone_claims))

    def _route(self) -> tuple[str, ...]:
        """Return the zones that a query has passed, this zone last; SchedulerError for a cycle."""
        route, (id_, _) = http.ROUTE.get(), self._identity()
        if id_ in route:
            raise SchedulerError("the zones form a cycle: a zone is below itself")
        return (*route, id_)

    def poller(
        self,
        clock: Callable[[], float],
        log: Callable[[str], object],
        sleep: Callable[[float], object],
    ) -> ZonePoller:
        def ask(child: zone_registry.ZoneRegistration) -> zone_registry.ZoneInfo:
            return self._logins.scheduler(child, self._password(child), DEADLINE_S).zone_info()

        store = self._store()
        return ZonePoller(
            store.zones,
            store.leases,
            ask,
            holder=process_name(),
            interval_s=self._settings.poll_interval_s,
            log=log,
            clock=clock,
            sleep=sleep,
        )

    def close(self) -> None:
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link.close(cancel=True)

    def _tree(self, own: OwnPodms, children: Sequence[ChildZone]) -> ZoneTree:
        id_, tokens = self._identity()
        stated, members = self._settings.capability_map, self._store().zone_claims
        return ZoneTree(id_, tokens, own, children, members=members, capabilities=stated)

    def _identity(self) -> tuple[str, Tokens]:
        with self._lock:
            if self._known is None:
                id_ = self._store().zones.own_id()
                keys = self._app.registry(self._state).zone_keys(self._settings)
                self._known = id_, Tokens(keys, id_)
            return self._known

    def _child_zones(self) -> list[ChildZone]:
        """Return the present children; a child with the same registration keeps its link."""
        zones = self._children.list()
        with self._lock:
            known, self._links = self._links, {}
            for child in (zone.registration for zone in zones):
                link = known.get(child.name)
                if link is None or link.child != child:
                    link = _Link(child, self._password, self._logins, self.deadline_s, self._route)
                self._links[child.name] = link
            for name, link in known.items():
                if self._links.get(name) is not link:
                    link.close()
            return [self._links[zone.registration.name].offering(zone) for zone in zones]


class _Link:
    def __init__(
        self,
        child: zone_registry.ZoneRegistration,
        password: Callable[[zone_registry.ZoneRegistration], str | None],
        logins: ChildLogins,
        timeout_s: float,
        route: Callable[[], Sequence[str]],
    ) -> None:
        self.child = child
        self._threads = ThreadPoolExecutor(QUERIES, thread_name_prefix=f"zone {child.name}")
        self.zone: Child = f"it is disabled: scheduler zone set {child.name} --enable"
        if child.enabled:
            try:
                self.zone = logins.scheduler(child, password(child), timeout_s, route)
            except (CredentialError, UsageError) as error:
                self.zone = one_line(str(error))

    def offering(self, zone: zone_registry.ZoneOverview) -> ChildZone:
        child, report = zone.registration, zone.report
        inactive = None if report.is_active else report.reason
        offering = None if isinstance(self.zone, str) else self.zone
        return ChildZone(
            child.name,
            offering,
            Weighting(child.weight_scale, child.weight_offset),
            report.info.capabilities if report.info else {},
            self.zone if isinstance(self.zone, str) else inactive,
            self._threads,
            enabled=child.enabled,
        )

    def close(self, *, cancel: bool = False) -> None:
        """End after the waiting queries; ``cancel`` drops them, as if the child were silent."""
        self._threads.shutdown(wait=False, cancel_futures=cancel)


def _log_silence(zone: decision.SilentZone) -> None:
    LOG.warning("zone %s is left out of a list: %s", zone.zone, redact.redact_text(zone.reason))
