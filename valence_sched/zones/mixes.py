# SPDX-License-Identifier: Apache-2.0
"""Mixes of requests, completed by what the pools of all zones supply to them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.mix_supply import added_supplies, is_supply
from valence_sched.model.request import MAX_NODES, SCARCITY_PART, MixSupplies, Request
from valence_sched.model.zone import GroupAnswer, OwnPodms, SealedRequest, ZoneSupplies

OLDER = "it does not tell its supplies: its version is older"
NO_SUPPLIES = "what it tells of its supplies is none: its version or its policy is another one"


class ZoneMixes:
    """Completes the mixes of the requests of one decision, of which ``podms`` seals each.

    Like one zone it asks again for the supplies of all pools once the decision has taken nodes of
    a twentieth of them.
    """

    def __init__(self, podms: OwnPodms) -> None:
        self._podms = podms
        self._known: dict[tuple[str, str], tuple[GroupAnswer, int]] = {}

    def complete(
        self, sealed: SealedRequest, ask: Callable[[], GroupAnswer], taken: int, *, anew: bool
    ) -> tuple[Request, Sequence[SilentZone]]:
        """Return a sealed request with its mix completed, and the zones that do not count in it.

        ``ask`` returns what all zones supply. The decision has ``taken`` so many nodes before; with
        ``anew`` zones are asked in any case.
        """
        request = sealed.request
        key = request.policy, request.mix.digest
        answer, at = self._known.get(key, (None, 0))
        pools = 0 if answer is None or answer.supplies is UNSET else answer.supplies.pools
        if answer is None or anew or (taken > at and taken - at >= pools // SCARCITY_PART):
            answer = ask()
            self._known[key] = answer, taken
        supplies = {} if answer.supplies is UNSET else answer.supplies.by_weigher
        return self._podms.complete_mix(request, supplies), answer.uncounted


def as_asked_below(request: Request) -> Request:
    """Return a request whose mix is complete also where nothing is scarce: all count alike."""
    mix = request.mix
    if mix.scarcity:
        return request
    return replace(request, mix=replace(mix, scarcity=(1.0,) * len(mix.shares)))


def zone_supplies(
    own: ZoneSupplies | None, below: Mapping[str, GroupAnswer], shares: int
) -> tuple[ZoneSupplies, tuple[SilentZone, ...]]:
    """Return what a zone and those below it supply, and which of these do not count in it.

    Supplies of a child that are no amounts of so many shares are left out.
    """
    found, uncounted = ([own] if own else []), list[SilentZone]()
    for zone, answer in below.items():
        told = answer.supplies
        if told is UNSET:
            uncounted.append(SilentZone(zone=zone, reason=OLDER))
        elif not all(is_supply(each, shares) for each in told.by_weigher.values()):
            uncounted.append(SilentZone(zone=zone, reason=NO_SUPPLIES))
        else:
            found.append(told)
    weighers = dict.fromkeys(name for one in found for name in one.by_weigher)
    by_weigher = {name: added_supplies(_of_weigher(found, name)) for name in weighers}
    pools = sum(max(0, one.pools) for one in found)
    most = MAX_NODES if uncounted else sum(max(0, one.most_nodes) for one in found)
    supplies = ZoneSupplies(pools=pools, by_weigher=by_weigher, most_nodes=min(most, MAX_NODES))
    return supplies, tuple(uncounted)


def _of_weigher(found: Sequence[ZoneSupplies], name: str) -> Iterator[MixSupplies]:
    return (one.by_weigher[name] for one in found if name in one.by_weigher)
