# SPDX-License-Identifier: Apache-2.0
"""Capacity of a site: counts nodes on it as a scheduler does on what it reads."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.request import Request
from valence_sched.planning.capacity import flavor_capacity, mix_capacity
from valence_sched.planning.site import Site
from valence_sched.planning.stranded import stranded_amounts


class SiteCapacity:
    """Answers the questions about capacity of a scheduler, on a site that edits made."""

    def __init__(self, site: Site, *, strict: bool = False) -> None:
        self._decider = site.decider(strict=strict)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        """Count the nodes of a request; errors as of a scheduler."""
        return flavor_capacity(self._decider, request, most, explain=explain, proven=proven)

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        """Count the nodes of a mix; errors as of a scheduler."""
        return mix_capacity(self._decider, requests, shares, most, explain=explain, proven=proven)

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        """Return what is free, and how much of it no node of these requests can use, and why."""
        return stranded_amounts([self._decider.context(request) for request in requests])
