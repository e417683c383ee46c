# SPDX-License-Identifier: Apache-2.0
"""Mixes of requests: completed from the supplies of the pools of all zones together.

The sum of supplies is kept: if it has not changed, the next decision needs no further query.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from valence_sched.model import request as nouns
from valence_sched.model.decision import SilentZone
from valence_sched.model.policy import Policy
from valence_sched.model.scheduler import OwnPodms
from valence_sched.model.zone import GroupAnswer, SealedRequest, ZoneSupplies

OLDER = "it does not report its supplies: its version is older"
NO_SUPPLIES = "its supplies are invalid: it has another version or policy"
MOST_SUMS = 64  # sums that a process remembers

SumKey = tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]]


@dataclass(frozen=True)
class SupplySum:
    """The supplies of all zones for a mix under a policy, and the completed mix."""

    policy: Policy
    supplies: ZoneSupplies
    mix: nouns.Mix


class SupplySums:
    """The latest sums of supplies; a sum may be outdated, so zones must confirm it. Thread-safe."""

    def __init__(self, most: int = MOST_SUMS) -> None:
        self._most, self._lock = most, threading.Lock()
        self._sums = OrderedDict[SumKey, SupplySum]()

    def find(self, sealed: SealedRequest) -> SupplySum | None:
        with self._lock:
            found = self._sums.get(_key(sealed.request))
        return found if found is not None and found.policy == sealed.policy else None

    def store(self, sealed: SealedRequest, supplies: ZoneSupplies, mix: nouns.Mix) -> None:
        key = _key(sealed.request)
        with self._lock:
            self._sums[key] = SupplySum(sealed.policy, supplies, mix)
            self._sums.move_to_end(key)
            if len(self._sums) > self._most:
                self._sums.popitem(last=False)


def _key(request: nouns.Request) -> SumKey:
    return request.policy, request.mix.digest, tuple(sorted(request.capabilities.items()))


@dataclass(frozen=True)
class CompletedRequest:
    """A request with its mix completed; zones must confirm the ``unconfirmed`` sum, if any."""

    request: nouns.Request
    uncounted: Sequence[SilentZone] = ()
    unconfirmed: ZoneSupplies | None = None


class ZoneMixes:
    """Completes the mixes of the requests of one decision; ``podms`` seals each request.

    As in a single zone, all supplies are requested again when 10 % of the pools have new nodes.
    """

    def __init__(self, podms: OwnPodms, sums: SupplySums) -> None:
        self._podms, self._sums = podms, sums
        self._known: dict[tuple[str, str], tuple[CompletedRequest, ZoneSupplies, int]] = {}

    def complete(
        self, sealed: SealedRequest, ask: Callable[[], GroupAnswer], taken: int, *, anew: bool
    ) -> CompletedRequest:
        key = sealed.request.policy, sealed.request.mix.digest
        known = self._known.get(key)
        if known is None and not anew and not taken and (found := self._sums.find(sealed)):
            request = replace(sealed.request, mix=found.mix)
            completed = CompletedRequest(request, unconfirmed=found.supplies)
            self._known[key] = completed, found.supplies, 0
            return completed
        if known is not None and not anew:
            completed, supplies, at = known
            if taken <= at or taken - at < supplies.pools // nouns.SCARCITY_PART:
                request = replace(sealed.request, mix=completed.request.mix)
                return CompletedRequest(request, completed.uncounted)
        answer = ask()
        supplies = ZoneSupplies() if answer.supplies is UNSET else answer.supplies
        request = self._podms.complete_mix(sealed.request, supplies.by_weigher)
        if not taken and not answer.uncounted:
            self._sums.store(sealed, replace(supplies, most_nodes=nouns.MAX_NODES), request.mix)
        completed = CompletedRequest(request, answer.uncounted)
        self._known[key] = completed, supplies, taken
        return completed


def as_asked_below(request: nouns.Request) -> nouns.Request:
    """Return a request with a complete mix; without scarcity, all shares have equal weight."""
    mix = request.mix
    if mix.scarcity:
        return request
    return replace(request, mix=replace(mix, scarcity=(1.0,) * len(mix.shares)))


def zone_supplies(
    own: ZoneSupplies | None, below: Mapping[str, GroupAnswer], shares: int
) -> tuple[ZoneSupplies, tuple[SilentZone, ...]]:
    found, uncounted = ([own] if own else []), list[SilentZone]()
    for zone, answer in below.items():
        if answer.supplies is UNSET:
            uncounted.append(SilentZone(zone=zone, reason=OLDER))
        elif not _are_supplies(answer.supplies, shares):
            uncounted.append(SilentZone(zone=zone, reason=NO_SUPPLIES))
        else:
            found.append(answer.supplies)
    supplies = _added(found)
    if uncounted:
        supplies = replace(supplies, most_nodes=nouns.MAX_NODES)
    return supplies, tuple(uncounted)


def supplies_with_offers(
    supplies: Sequence[ZoneSupplies | UnsetType], shares: int
) -> ZoneSupplies | UnsetType:
    found = [one for one in supplies if one is not UNSET and _are_supplies(one, shares)]
    return _added(found) if len(found) == len(supplies) else UNSET


def _are_supplies(supplies: ZoneSupplies, shares: int) -> bool:
    return all(nouns.is_supply(each, shares) for each in supplies.by_weigher.values())


def _added(found: Sequence[ZoneSupplies]) -> ZoneSupplies:
    if len(found) == 1:
        return found[0]
    by_weigher = {
        name: nouns.added_supplies(one.by_weigher[name] for one in found if name in one.by_weigher)
        for name in dict.fromkeys(name for one in found for name in one.by_weigher)
    }
    pools = sum(max(0, one.pools) for one in found)
    most = sum(max(0, one.most_nodes) for one in found)
    return ZoneSupplies(pools=pools, by_weigher=by_weigher, most_nodes=min(most, nouns.MAX_NODES))
