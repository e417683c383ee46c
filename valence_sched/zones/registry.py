# SPDX-License-Identifier: Apache-2.0
"""Registry of zones: what an operator says of the zones below, and what this one tells above."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from valence_sched.errors import AccessDenied, RequestError, UnknownName, one_line
from valence_sched.model.zone_registry import (
    ZoneChange,
    ZoneNode,
    ZoneOverview,
    ZoneRegistration,
    check_zone,
)
from valence_sched.model.zone_settings import ZoneSettings
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.store.store import Store
from valence_sched.zones.calls import DEADLINE_SHARE, call_all
from valence_sched.zones.children import is_current
from valence_sched.zones.logins import ChildLogins

Password = Callable[[ZoneRegistration], str | None]


class StateOpener(Protocol):
    """The state of a zone, which may not be there yet."""

    @property
    def empty(self) -> bool:
        """Return whether there is none yet."""

    @property
    def where(self) -> str:
        """Return its location, without a password."""

    def store(self) -> Store:
        """Return it open; it is made if it is not there."""


class ZoneRegistry:
    """The zones directly below, in a state; of what is below those it knows nothing.

    ``settings_file`` is where an operator sets what ``settings`` say. ``password`` resolves the
    reference of a child, errors as of a reference.
    """

    def __init__(
        self, settings: ZoneSettings, settings_file: str, state: StateOpener, password: Password
    ) -> None:
        self._settings, self._settings_file = settings, settings_file
        self._state, self._password, self._logins = state, password, ChildLogins()

    def list(self) -> Sequence[ZoneOverview]:
        """Return the child zones by name; what they told has expired after three intervals."""
        if self._state.empty:
            return ()
        with self._state.store() as store:
            return [self._current(one) for one in store.zones.list()]

    def show(self, name: str) -> ZoneOverview:
        """Return a child zone by its name or ID; UnknownName where there is none."""
        if self._state.empty:
            raise UnknownName("child zone", name, (), self._state.where)
        with self._state.store() as store:
            return self._current(store.zones.show(name))

    def add(self, registration: ZoneRegistration) -> ZoneOverview:
        """Store a child zone; no connection to it is made.

        Raises:
            AccessDenied: this zone does not route.
            InputError, NameTaken: the registration is invalid; another one has the name.
        """
        self._check_routing()
        check_zone(registration)
        with self._state.store() as store:
            return store.zones.add(registration)

    def change(self, name: str, change: ZoneChange) -> ZoneOverview:
        """Change a child zone, and return it; errors as to add one, and UnknownName."""
        self._check_routing()
        known = self.show(name)
        changed = change.applied_to(known.registration)
        check_zone(changed)
        with self._state.store() as store:
            store.zones.change(known, changed)
            return self._current(store.zones.show(changed.name))

    def delete(self, name: str) -> None:
        """Forget a child zone; the zone itself is not asked and not told.

        Raises:
            AccessDenied, UnknownName: this zone does not route; there is none of this name.
            InUse: claims of this zone have a part in it.
        """
        self._check_routing()
        known = self.show(name)
        with self._state.store() as store:
            store.zones.delete(known)

    def own_id(self) -> str:
        """Return the id of this zone, empty where it has no state yet."""
        if self._state.empty:
            return ""
        with self._state.store() as store:
            return store.zones.own_id()

    def branches(
        self, hops: int, deadline_s: float, route: Sequence[str] = ()
    ) -> tuple[ZoneNode, ...]:
        """Return the trees of the enabled child zones, asked at once; a silent one says why.

        ``hops`` is how many levels below this zone are asked, ``route`` are the ids of the zones
        that were asked before this one.

        Raises:
            RequestError: the zones are a circle.
        """
        zones = [one for one in self.list() if one.registration.enabled]
        if not self._settings.enable_zone_routing or not zones or hops < 1:
            return ()
        own = self.own_id()
        if own in route:
            raise RequestError("the zones are a circle: one of them is below itself")
        lower_s = deadline_s * DEADLINE_SHARE
        calls = {
            one.registration.name: functools.partial(
                self._tree_of, one.registration, hops - 1, lower_s, (*route, own)
            )
            for one in zones
        }
        return tuple(
            replace(outcome, known_as=name)
            if isinstance(outcome, ZoneNode)
            else ZoneNode(known_as=name, silent=one_line(str(outcome)))
            for name, outcome in call_all(calls, deadline_s).items()
        )

    def _tree_of(
        self, child: ZoneRegistration, hops: int, deadline_s: float, route: Sequence[str]
    ) -> ZoneNode:
        connection = self._logins.connection(child, self._password(child), deadline_s)
        scheduler = RemoteScheduler(connection)
        return scheduler.zone_tree(hops=hops, deadline_s=deadline_s, route=route)

    def _current(self, zone: ZoneOverview) -> ZoneOverview:
        """Return a child zone without the capabilities that have expired."""
        info = zone.report.info
        if info is None or is_current(zone, self._settings.poll_interval_s):
            return zone
        expired = replace(info, capabilities={}, services={})
        return replace(zone, report=replace(zone.report, info=expired))

    def _check_routing(self) -> None:
        if not self._settings.enable_zone_routing:
            raise AccessDenied(one_line(
                "child zones are not enabled: set enable_zone_routing: true in "
                f"{self._settings_file}"
            ))  # fmt: skip
