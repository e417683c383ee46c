# SPDX-License-Identifier: Apache-2.0
"""Claims of the zone of one process: its own pod managers, and the children that it has now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from valence_sched.engine import Engine
from valence_sched.model.claim import Claim
from valence_sched.model.decision import Candidate
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.redact import redact_text
from valence_sched.model.request import Request
from valence_sched.model.scheduler import TTL_S, Scheduler
from valence_sched.service.call import Schedulers
from valence_sched.zones.below import ChildClaims, ClaimingPodms, ZonesBelow
from valence_sched.zones.claims import ZoneClaims, ZoneClaimStore
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.remote_zone import RemoteZone
from valence_sched.zones.tokens import Tokens

LOG = logging.getLogger(__name__)


class OwnClaims:
    """The claims and nodes of a zone's own pod managers.

    What claims takes the engine that decides, for no longer than that takes; every other verb is
    that of an engine of the caller's own.
    """

    def __init__(self, engines: Schedulers, tenant: str) -> None:
        self._engines, self._tenant = engines, tenant

    def claim_candidates(
        self,
        request: Request,
        candidates: Sequence[Candidate],
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        content: str | None = None,
        generation: int | None = None,
    ) -> Claim:
        """Hold these very candidates; errors as of a claimer."""
        with self._engines.reading(self._tenant) as engine:
            return cast(Engine, engine).claim_candidates(
                request, candidates, key=key, ttl_s=ttl_s, content=content, generation=generation
            )

    def __getattr__(self, name: str) -> Any:
        """Return a verb of an engine; what it would yield later, it yields now."""
        if name.startswith("_") or not hasattr(Scheduler, name):
            raise AttributeError(name)
        changing: Callable[[], AbstractContextManager[Scheduler]] = self._engines.changing

        def verb(*words: Any, **named: Any) -> Any:
            with changing() as engine:
                result = getattr(engine, name)(*words, **named)
                return iter(list(result)) if isinstance(result, Iterator) else result

        return verb


def zone_nodes(
    identity: tuple[str, Tokens],
    engines: Schedulers,
    tenant: str,
    children: Mapping[str, RemoteZone | str],
    rows: ZoneClaimStore,
    deadline_s: float,
) -> ZoneNodes:
    """Return the claims and nodes of a zone; the reason why a child cannot be asked is its own."""
    id_, tokens = identity
    own = cast(ClaimingPodms, OwnClaims(engines, tenant))
    below = {name: zone if isinstance(zone, str) else ChildClaims(zone, zone.verbs())
             for name, zone in children.items()}  # fmt: skip
    parts = ZonesBelow(own, below, deadline_s, _log_silence)
    return ZoneNodes(ZoneClaims(id_, tokens, parts, rows))


def _log_silence(zone: SilentZone) -> None:
    LOG.warning("zone %s is left out of a list: %s", zone.zone, redact_text(zone.reason))
