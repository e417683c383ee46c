# SPDX-License-Identifier: Apache-2.0
"""The zone of one process: it answers the zone above, and decides over those below."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import cast

from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.errors import (
    CredentialError,
    SchedulerError,
    ServiceError,
    UsageError,
    one_line,
)
from valence_sched.model.claim import Claim
from valence_sched.model.decision import Candidate, Report
from valence_sched.model.decision_result import Detail
from valence_sched.model.group import GroupState
from valence_sched.model.request import MixSupplies, Request
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.zone import (
    OfferQuery,
    OtherCandidate,
    SealedRequest,
    ZoneAnswer,
    ZoneSupplies,
)
from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.model.zone_route import ROUTE
from valence_sched.model.zone_settings import ZoneSettings
from valence_sched.server.zone_claims import zone_nodes
from valence_sched.service.call import Schedulers
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.store import Store
from valence_sched.zones.calls import call_below, time_left
from valence_sched.zones.children import Children, ChildRow
from valence_sched.zones.claiming_scheduler import ClaimingScheduler
from valence_sched.zones.claims import ZoneClaimStore
from valence_sched.zones.logins import ChildLogins
from valence_sched.zones.mixes import SupplySums
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.plans import ZonePlans
from valence_sched.zones.podms import PodmVerbs, ZonePodms
from valence_sched.zones.remote_zone import RemoteZone
from valence_sched.zones.reports import ZoneReports
from valence_sched.zones.scheduler import RequestFor, ZonedScheduler
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree

QUERIES = 4  # that each child answers for one process at a time; the others wait for their turn

#: Returns the password of a child, None where it has none; errors as of a reference.
PasswordOf = Callable[[ChildRow], str | None]


def process_zone(
    settings: ServiceSettings,
    environ: Mapping[str, str],
    engines: Schedulers,
    store: Callable[[], Store],
) -> ProcessZone:
    """Return the zone of a process; ``store`` returns the open state."""
    app = App(environ=environ)

    def own_id() -> str:
        return store().zones.own_id()

    children = Children(lambda: store().zones, settings.zones.poll_interval_s)
    return ProcessZone(
        settings.zones,
        engines,
        children.rows,
        own_id,
        lambda: app.registry(settings.state).zone_keys(settings.zones),
        lambda row: app.secret(row.password, f"zone {row.name}") if row.password else None,
        lambda: store().zone_claims,
        dispatches=settings.dispatch is not None,
    )


class LockedPodms:
    """The pod managers of an engine, which is taken for each verb and no longer."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Scheduler]]) -> None:
        self._reading = reading

    def seal(self, request: Request) -> SealedRequest:
        """Return a request as it is asked of every zone; errors as for a decision."""
        with self._engine() as engine:
            return engine.seal(request)

    def offers(
        self,
        query: OfferQuery,
        earlier: Sequence[Candidate],
        others: Sequence[OtherCandidate] = (),
    ) -> ZoneAnswer:
        """Return what they offer, without tokens; errors as for a decision."""
        with self._engine() as engine:
            return engine.offers(query, earlier, others)

    def group_state(
        self,
        query: OfferQuery,
        earlier: Sequence[Candidate],
        others: Sequence[OtherCandidate] = (),
    ) -> GroupState:
        """Return the group state of the request on them, which counts those candidates, too."""
        with self._engine() as engine:
            return engine.group_state(query, earlier, others)

    def mix_supplies(
        self, query: OfferQuery, others: Sequence[OtherCandidate] = ()
    ) -> ZoneSupplies:
        """Return what they supply to the mix of the request; errors as for a decision."""
        with self._engine() as engine:
            return engine.mix_supplies(query, others)

    def complete_mix(self, request: Request, supplies: Mapping[str, MixSupplies]) -> Request:
        """Return a sealed request with its mix completed by what all pools supply to it."""
        with self._engine() as engine:
            return engine.complete_mix(request, supplies)

    @contextlib.contextmanager
    def _engine(self) -> Iterator[Engine]:
        with self._reading() as engine:
            yield cast(Engine, engine)


class ProcessZone:
    """The zone of one process, with connections to its children and threads that ask them.

    ``children`` are those of the state as it is now, ``id_`` is the id of the zone, and
    ``keys`` are the secrets that sign its offers: those are called when they are first needed.
    ``claims`` are those that the state has over children. ``dispatches`` as of what claims.
    """

    def __init__(
        self,
        settings: ZoneSettings,
        schedulers: Schedulers,
        children: Callable[[], Sequence[ChildRow]],
        id_: Callable[[], str],
        keys: Callable[[], list[str]],
        password: PasswordOf,
        claims: Callable[[], ZoneClaimStore],
        *,
        dispatches: bool = False,
    ) -> None:
        self._settings, self._schedulers, self._children = settings, schedulers, children
        self._make_id, self._make_keys, self._password = id_, keys, password
        self._claims, self._dispatches = claims, dispatches
        self._lock = threading.Lock()
        self._known: tuple[str, Tokens] | None = None
        self._links: dict[str, _Link] = {}
        self._sums, self._logins = SupplySums(), ChildLogins()

    @property
    def deadline_s(self) -> float:
        return self._settings.offer_deadline_s

    @property
    def most_hops(self) -> int:
        return self._settings.most_hops

    def tree(self, tenant: str) -> ZoneTree:
        """Return the zone and those below it, as they are now, asked for a tenant."""
        return self._tree(tenant, self._child_zones())

    def scheduler(self, tenant: str) -> ZonedScheduler | None:
        """Return what decides over the zone and those below it, None where there are none."""
        children = self._child_zones()
        if not children:
            return None
        zoned = ZonedScheduler(
            lambda: self._schedulers.reading(tenant),
            self._podms(tenant),
            self._tree(tenant, children),
            reports_below=self._reports_below,
            requests=lambda request: self._podms_of(zoned).requests(request),
            deadline_s=time_left(self.deadline_s),
            most_hops=self.most_hops,
            sums=self._sums,
        )
        return zoned

    def hold_offers(self, tenant: str, body: ZoneClaimBody, key: str | None) -> Claim:
        """Hold what this zone and those below it offered, all or none, asked for a tenant."""
        return self._nodes(tenant).claims.hold_offers(body, key=key)

    def claiming(
        self, tenant: str, zoned: ZonedScheduler, others: Scheduler | None = None
    ) -> ClaimingScheduler:
        """Return what claims over the zones that another decides over.

        Every other verb is that of ``others``, else of the one that decides.

        Raises:
            SchedulerError: what is asked has passed this zone before.
        """
        self._route()
        verbs = others or cast(Scheduler, zoned)
        children = self._verbs_of_children()
        podms = self._podms_of(verbs)
        reports = ZoneReports(verbs, children, self.deadline_s, podms)
        plans = ZonePlans(verbs, children, zoned, podms)
        return ClaimingScheduler(verbs, zoned, self._nodes(tenant), podms, reports, plans,
                                 dispatches=self._dispatches)  # fmt: skip

    def _nodes(self, tenant: str) -> ZoneNodes:
        self._child_zones()
        with self._lock:
            links = {name: link.zone for name, link in self._links.items()}
        return zone_nodes(self._identity(), self._schedulers, tenant, links, self._claims(),
                          self.deadline_s)  # fmt: skip

    def _verbs_of_children(self) -> dict[str, Callable[[], Scheduler]]:
        with self._lock:
            return {name: link.verbs for name, link in self._links.items() if link.enabled}

    def _podms_of(self, own: PodmVerbs) -> ZonePodms:
        children, stated = self._verbs_of_children(), self._settings.capability_map
        return ZonePodms(own, children, self.deadline_s, stated)

    def _reports_below(
        self, request_for: RequestFor, detail: Detail
    ) -> dict[str, Report | SchedulerError]:
        """Return what each child says of a decision of its own, or why it does not."""

        def decide(name: str, verbs: Callable[[], Scheduler]) -> Report:
            return verbs().select_destinations(request_for(name), detail=detail).report

        calls = {name: functools.partial(decide, name, verbs)
                 for name, verbs in self._verbs_of_children().items()}  # fmt: skip
        return call_below(calls, self.deadline_s)

    def _route(self) -> tuple[str, ...]:
        """Return the zones that what is asked of a child has passed, this one the last.

        Raises:
            SchedulerError: it has passed this zone before.
        """
        route, (id_, _) = ROUTE.get(), self._identity()
        if id_ in route:
            raise SchedulerError("the zones are a circle: one of them is below itself")
        return (*route, id_)

    def close(self) -> None:
        """Let the threads end once what they ask is answered, or its time is over."""
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link.close()

    def _tree(self, tenant: str, children: Sequence[ChildZone]) -> ZoneTree:
        id_, tokens = self._identity()
        stated = self._settings.capability_map
        return ZoneTree(id_, tokens, self._podms(tenant), children, members=self._claims(),
                        capabilities=stated)  # fmt: skip

    def _podms(self, tenant: str) -> LockedPodms:
        return LockedPodms(lambda: self._schedulers.reading(tenant))

    def _identity(self) -> tuple[str, Tokens]:
        with self._lock:
            if self._known is None:
                id_ = self._make_id()
                self._known = id_, Tokens(self._make_keys(), id_)
            return self._known

    def _child_zones(self) -> list[ChildZone]:
        """Return the children as they are now; one that is reached as before keeps its link."""
        rows = self._children()
        with self._lock:
            known, self._links = self._links, {}
            for row in rows:
                link = known.pop(row.name, None)
                if link is not None and link.access != _access_of(row):
                    link.close()
                    link = None
                self._links[row.name] = link or _Link(
                    row, self._password, self._logins, self.deadline_s, self._route
                )
            for gone in known.values():
                gone.close()
            return [self._links[row.name].child(row) for row in rows]


class _Link:
    """How one child is reached: its connection, and the threads that ask it."""

    def __init__(
        self,
        row: ChildRow,
        password: PasswordOf,
        logins: ChildLogins,
        timeout_s: float,
        route: Callable[[], Sequence[str]],
    ) -> None:
        self.access, self.enabled = _access_of(row), row.enabled
        self._zone: RemoteZone | None = None
        self._problem: str | None = None
        self._threads = ThreadPoolExecutor(QUERIES, thread_name_prefix=f"zone {row.name}")
        try:
            if row.enabled:
                self._zone = RemoteZone(logins.connection(row, password(row), timeout_s, route))
            else:
                self._problem = f"it is disabled: scheduler zone set {row.name} --enable"
        except (CredentialError, UsageError) as error:
            self._problem = one_line(str(error))

    @property
    def zone(self) -> RemoteZone | str:
        """Return the zone, or why it cannot be asked."""
        return self._zone or self._problem or "it cannot be reached"

    def verbs(self) -> Scheduler:
        """Return the verbs of the zone; ServiceError where it cannot be asked."""
        if isinstance(self.zone, str):
            raise ServiceError(self.zone)
        return self.zone.verbs()

    def child(self, row: ChildRow) -> ChildZone:
        """Return the child as it is now."""
        inactive = None if row.is_active else row.reason
        return ChildZone(row.name, self._zone, row.weighting, row.capabilities,
                         self._problem or inactive, self._threads, enabled=row.enabled)  # fmt: skip

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _access_of(row: ChildRow) -> tuple[object, ...]:
    return (row.enabled, row.url, row.username, row.password, row.keystone, row.cacert,
            row.certificate)  # fmt: skip


class ZonedSchedulers:
    """The schedulers of a process whose zone may have children: they then decide over all zones."""

    def __init__(self, engines: Schedulers, zone: ProcessZone) -> None:
        self._engines, self._zone = engines, zone

    @contextlib.contextmanager
    def reading(self, tenant: str = "") -> Iterator[Scheduler]:
        """Yield what decides and claims; the engine is taken for each verb where there are zones.

        ServiceBusy, then, as of each verb.
        """
        zoned = self._zone.scheduler(tenant)
        if zoned is not None:
            yield cast(Scheduler, self._zone.claiming(tenant, zoned))
            return
        with self._engines.reading(tenant) as engine:
            yield engine

    @contextlib.contextmanager
    def changing(self) -> Iterator[Scheduler]:
        """Yield one of the caller's own, which composes over all zones and changes all else."""
        zoned = self._zone.scheduler("")
        with self._engines.changing() as engine:
            if zoned is None:
                yield engine
            else:
                yield cast(Scheduler, self._zone.claiming("", zoned, engine))
