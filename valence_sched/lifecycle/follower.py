# SPDX-License-Identifier: Apache-2.0
"""Follower: keeps a decider up to date with the pod managers of a store.

Before each decision it reads only the changes in the change log of the store.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from msgspec.structs import replace

from valence_sched.core.decider import Decider
from valence_sched.errors import InputError
from valence_sched.model.claim import NO_USAGE, PodmRemainder, Usage, all_nodes
from valence_sched.model.custom_resource import DeclaredResources, with_declared
from valence_sched.model.inventory import LeanPodm, PodmStatus
from valence_sched.model.reading import ReadFailure
from valence_sched.model.stats import ReportedSwitch
from valence_sched.store.snapshot import LogPosition, PodmChange, StoreSnapshot
from valence_sched.store.store import Store
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

#: An update costs more than a new view after this many changes, and of one pod manager in four.
MANY_CHANGES, MANY_PART = 64, 4


@dataclass(slots=True)
class FollowedPodm:
    """A pod manager of the store with its usage by claims, its read failure and its last report."""

    podm: LeanPodm
    usage: Usage = NO_USAGE
    failure: ReadFailure | None = None
    report: ReportedSwitch | None = None


Followed = Mapping[str, FollowedPodm]


class Members(Protocol):
    """Selects the pod managers of a store for decisions, and prepares them."""

    @property
    def skipped(self) -> Sequence[str]:
        """Return a line for each pod manager that is left out, or whose reading is outdated."""

    def update(self, followed: Followed, snapshot: StoreSnapshot, changed: set[str]) -> set[str]:
        """Process a snapshot; return the ids of pod managers that may have changed.

        ``changed`` are the ids of pod managers with changes other than new claims. The result may
        include ids that the store does not have.
        """
        return changed

    def podm(self, podm_id: str, followed: FollowedPodm | None) -> LeanPodm | None:
        """Return a pod manager as decisions use it, before claims; None if it is left out."""

    def order(self, ids: Collection[str]) -> list[str]:
        """Return ids in the order of the view."""
        return sorted(ids)

    def refuse(self, podm_id: str, error: InputError) -> None:
        """Record that a pod manager is invalid and left out, or raise the error."""
        raise error

    def check(self, count: int) -> None:
        """Raise an error if decisions on the ``count`` pod managers are not allowed."""
        return


class Follower:
    """Follows a store: its decider has the pod managers of ``members``, less claimed hardware.

    ``make_decider`` makes a decider of a view. Pod managers in ``known`` were just stored, and are
    not read back.
    """

    def __init__(
        self,
        store: Store,
        make_decider: Callable[[View], Decider],
        members: Members,
        *,
        known: Mapping[str, LeanPodm] | None = None,
    ) -> None:
        self._store, self._make_decider, self._members = store, make_decider, members
        self._known = known or {}
        self._position = LogPosition()
        self._followed: dict[str, FollowedPodm] = {}
        self._bases: dict[str, LeanPodm] = {}
        self._remainders: dict[str, PodmRemainder] = {}
        self._orders: dict[str, Callable[[str], bytes]] = {}
        self._due: set[str] = set()
        self._viewed: dict[str, None] = {}  # the pod managers in the order of the view
        self._decider: Decider | None = None

    def decider(self) -> Decider:
        """Return the decider on the present state; errors of the store and of ``members``."""
        since = self._position
        snapshot = self._store.snapshot(since, self._known)
        if not since.is_before(snapshot.position):  # the state was restored from an old backup
            since = LogPosition()
            snapshot = self._store.snapshot(since)
        # if this call is interrupted, the next call reads everything again
        self._position, self._known = LogPosition(), {}
        if not since.shards:
            for known in (self._followed, self._bases, self._remainders):
                known.clear()
            self._decider = None
        added = {one.id for one in snapshot.changes if self._take_in(one)}
        changed = {one.id for one in snapshot.changes} - added
        again = self._members.update(self._followed, snapshot, changed) | self._due
        self._due = set()
        for podm_id in again:
            self._make(podm_id)
        decider = self._updated_decider(again | added, is_ordered=not again)
        decider.skipped = self._members.skipped
        if again or added:
            decider.other_podms = self._without_rows()
        self._position = snapshot.position
        self._members.check(len(self._viewed))
        return decider

    def decider_without(self, ids: Collection[str]) -> Decider:
        """Return a new decider without the pod managers ``ids``; it is not updated later.

        The nodes of these pod managers still count for groups.
        """
        builder = ViewBuilder()
        for podm_id in self._viewed:
            if podm_id not in ids:
                self._add(builder, podm_id)
        decider = self._make_decider(builder.view())
        decider.skipped, decider.other_podms = self._members.skipped, self._without_rows(ids)
        return decider

    def _without_rows(self, left_out: Collection[str] = ()) -> list[LeanPodm]:
        return [
            replace(one.podm, nodes=all_nodes(one.podm.nodes, one.usage))
            for podm_id, one in self._followed.items()
            if (one.podm.nodes or one.usage.nodes)
            and (podm_id in left_out or podm_id not in self._viewed)
        ]

    @property
    def position(self) -> LogPosition:
        return self._position

    def base(self, podm_id: str) -> LeanPodm:
        """Return a pod manager of the decider as it is before claims."""
        return self._bases[podm_id]

    def generation(self, podm_id: str) -> int:
        return self._followed[podm_id].podm.generation

    def sort_blocks(self, podm_id: str, key: Callable[[str], bytes]) -> None:
        """Sort the blocks of a pod manager by ``key`` of their URI for the next decisions."""
        self._orders[podm_id] = key
        self._due.add(podm_id)

    def restore_blocks(self) -> None:
        """Restore the usual order of all blocks for the next decisions."""
        self._due |= self._orders.keys()
        self._orders.clear()

    def _take_in(self, change: PodmChange) -> bool:
        """Record a change; return whether it was only a new claim on a selected pod manager."""
        known = self._followed.get(change.id)
        if change.gone:
            self._followed.pop(change.id, None)
        elif known is None and change.podm is None:
            pass  # the stored row cannot be decoded, and its content did not change
        elif change.incremental:
            assert known is not None
            known.usage = known.usage.plus(change.usage)
            if change.id in self._remainders:
                self._remainders[change.id].subtract(change.usage)
                return True
        else:
            podm = change.podm
            if podm is None:
                assert known is not None
                podm = known.podm
                if podm.read_at != change.read_at and isinstance(change.read_at, str | None):
                    podm = replace(podm, read_at=change.read_at)
            self._followed[change.id] = FollowedPodm(
                podm, change.usage, change.failure, change.report
            )
        return False

    def _make(self, podm_id: str) -> None:
        followed = self._followed.get(podm_id)
        base = self._members.podm(podm_id, followed)
        if base is None:
            self._bases.pop(podm_id, None)
            self._remainders.pop(podm_id, None)
            return
        self._bases[podm_id] = base
        usage = followed.usage if followed is not None else NO_USAGE
        self._remainders[podm_id] = PodmRemainder(base, usage)

    def _updated_decider(self, changed: set[str], *, is_ordered: bool) -> Decider:
        """Update the decider by the changes, or make a new decider if that costs less.

        Unless ``is_ordered``, the order of pod managers may have changed, for example by a new
        registration.
        """
        viewed = self._viewed
        # an invalid pod manager is not in the view, but may be valid after the change
        left = any((one in viewed) != (one in self._remainders) for one in changed)
        many = len(changed) > max(MANY_CHANGES, len(viewed) // MANY_PART)
        if self._decider is None or left or many:
            return self._new_decider()
        order = () if is_ordered else self._members.order(self._remainders)
        if order and [one for one in order if one in viewed] != [*viewed]:
            return self._new_decider()
        for podm_id in sorted(changed & viewed.keys()):
            try:
                key = self._orders.get(podm_id, str)
                self._decider.replace(self._remainders[podm_id].podm, key=key)
            except InputError:  # ``members`` get the error when a new decider is made
                return self._new_decider()
        return self._decider

    def _new_decider(self) -> Decider:
        builder = ViewBuilder()
        self._decider, self._viewed = None, {}
        for podm_id in self._members.order(self._remainders):
            try:
                self._add(builder, podm_id)
            except InputError as error:
                self._members.refuse(podm_id, error)
            else:
                self._viewed[podm_id] = None
        self._decider = self._make_decider(builder.view())
        return self._decider

    def _add(self, builder: ViewBuilder, podm_id: str) -> None:
        podm, order = self._remainders[podm_id].podm, self._orders.get(podm_id, str)
        builder.add(podm, f"pod manager {podm_id}", key=order)


class FixedMembers(Members):
    """Members whose readings are in the store: those ``among`` ids, or all for None.

    ``declared`` adds resources, ``statuses`` are the statuses of pod managers not read now.
    """

    skipped: Sequence[str] = ()

    def __init__(
        self,
        among: Iterable[str] | None = None,
        *,
        declared: DeclaredResources | None = None,
        statuses: Mapping[str, PodmStatus] | None = None,
        skipped: Sequence[str] = (),
    ) -> None:
        self._among = None if among is None else frozenset(among)
        self._declared, self._statuses, self.skipped = declared, statuses or {}, skipped

    def podm(self, podm_id: str, followed: FollowedPodm | None) -> LeanPodm | None:
        if followed is None or not (self._among is None or podm_id in self._among):
            return None
        podm, status = followed.podm, self._statuses.get(podm_id, followed.podm.status)
        podm = podm if status == podm.status else replace(podm, status=status)
        return cast(LeanPodm, with_declared(podm, self._declared))
