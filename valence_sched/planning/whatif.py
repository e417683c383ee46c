# SPDX-License-Identifier: Apache-2.0
"""What-if: the questions that commands ask about a site, by the words of a person."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from valence_sched.config.settings import Configuration
from valence_sched.errors import UnknownName
from valence_sched.model.capacity import PurchaseResult
from valence_sched.model.relocation import Rebalance, Relocation, Survival
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import AddBlocks, Target, parse_target
from valence_sched.planning import relocate
from valence_sched.planning.site import Site

if TYPE_CHECKING:
    from valence_sched.planning.capacity import SiteCapacity as SiteCapacity


class WhatIf:
    """Answers questions about sites; targets are text, as for edits."""

    def __init__(self, config: Configuration) -> None:
        self._config = config

    def request(
        self,
        site: Site,
        flavor: str,
        count: int = 1,
        *,
        policy: str | None = None,
        flavor_files: Sequence[str] = (),
    ) -> Request:
        """Return the request for nodes of a flavor: one of the site, or as for a configuration.

        Without a ``policy`` it is that of the flavor, else of the site.
        """
        known = site.flavors.get(flavor) or self._config.flavor(flavor, flavor_files)
        spec = RequestSpec(
            flavor=known.name, count=count, policy=policy or (None if known.policy else site.policy)
        )
        return self._config.compile_request(spec, known)

    def fail(
        self, site: Site, targets: Sequence[str], zones: Mapping[str, Sequence[str]] | None = None
    ) -> Relocation:
        """Return where nodes land again once targets fail; errors as for :func:`relocate.fail`.

        ``zones`` have the ids of the pod managers that fail as well, by what people call them.
        """
        podms = [one for ids in (zones or {}).values() for one in ids]
        parsed = _parsed(targets)
        fails = [*parsed, *(Target(podm=glob.escape(one)) for one in podms)]
        relocation = relocate.fail(site, fails)
        if not zones:
            return relocation
        return replace(relocation, target=", ".join((*map(str, parsed), *zones)))

    def survive(self, site: Site, failures: int, progress: Callable[[int, int], None]) -> Survival:
        """Return whether any so many pod managers may fail; ``progress`` gets tried sets of all."""
        return relocate.survive(site, failures, progress)

    def drain(self, site: Site, targets: Sequence[str]) -> Relocation:
        """Return the moves off targets; errors as for :func:`relocate.drain`."""
        return relocate.drain(site, _parsed(targets))

    def capacity(self, site: Site, *, strict: bool = False) -> SiteCapacity:
        """Return what counts nodes on a site."""
        from valence_sched.planning.capacity import SiteCapacity  # only to count

        return SiteCapacity(site.decider(strict=strict))

    def smallest_purchase(
        self,
        site: Site,
        request: Request,
        choices: Sequence[AddBlocks],
        prices: Mapping[str, float],
    ) -> PurchaseResult:
        """Return what to buy for a request; errors as for :func:`purchase.smallest_purchase`."""
        from valence_sched.planning import purchase  # the optimiser: only to buy

        return purchase.smallest_purchase(site, request, choices, prices)

    def rebalance(
        self,
        site: Site,
        most: int,
        request: Request | None = None,
        below: float | None = None,
        mix: Mapping[str, float] | None = None,
    ) -> Rebalance:
        """Return the fewest moves for a goal; ``mix`` is flavors by share, by default the site's.

        Raises:
            UnknownName: the mix names a flavor that is not known.
            UnknownName, RequestError: as for :func:`rebalance.rebalance`.
        """
        from valence_sched.planning.rebalance import rebalance  # the optimiser: only to move

        return rebalance(site, most, request, below, _mix(site, mix))


def _mix(site: Site, shares: Mapping[str, float] | None) -> Mix | None:
    """Return the mix of flavors of a site by their shares; UnknownName for another flavor."""
    if shares is None:
        return None
    for name in shares:
        if name not in site.flavors:
            raise UnknownName("flavor", name, site.flavors)
    flavors = ((site.flavors[name], share) for name, share in shares.items())
    return Mix(tuple(FlavorShare(flavor.needs, flavor.traits, share) for flavor, share in flavors))


def _parsed(targets: Sequence[str]) -> list[Target]:
    return [parse_target(text) for text in dict.fromkeys(targets)]
