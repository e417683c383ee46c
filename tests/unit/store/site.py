# SPDX-License-Identifier: Apache-2.0
"""Small pod managers to store and to claim from."""

import functools
from typing import Any

import msgspec
import sqlalchemy as sa

from tests.unit.core.deciders import built_in, cpu
from valence_sched.core.decider import Decider
from valence_sched.lifecycle.claim import Claimer
from valence_sched.lifecycle.follower import FixedMembers, Follower
from valence_sched.model.claim import Claim, ClaimPart, Grant, NodeAllocation
from valence_sched.model.decision import InventorySummary, Report
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.store import tables
from valence_sched.store.store import Store

CORES = {"processor": {"total_cores": 8}}


def podm(name: str = "p", blocks: Any = 3, **words: Any) -> FullPodm:
    """Return a podm of this number of compute blocks ``c0``, ``c1``, …, or of these blocks."""
    if isinstance(blocks, int):
        blocks = [cpu(f"c{number}", 8) for number in range(blocks)]
    return msgspec.convert({"id": name, "blocks": blocks, **words}, FullPodm)


def part(name: str, generation: int, *blocks: str, **amounts: float) -> ClaimPart:
    """Return a part of one node."""
    grants = tuple(Grant(uri, amount) for uri, amount in amounts.items())
    share = NodeAllocation(node=1, pool="all", blocks=blocks, grants=grants)
    return ClaimPart(podm=name, generation=generation, shares=(share,))


def decision(seed: int = 0) -> Report:
    """Return a decision without an inventory."""
    nothing = InventorySummary(digest="", podms=0, pools=0, blocks=0, skipped=())
    return Report(outcome="nothing_fits", requested=1, placed=0, fitting=0, seed=seed,
                  request=Request(), policy=Policy(name="default"), policy_digest="",
                  inventory=nothing, placements=(), podms=(), funnel=(), warnings=())  # fmt: skip


DECISION = to_json(decision())


def claimer(
    store: Store, policies: Any = None, among: Any = None, statuses: Any = None,
    declared: Any = None, known: Any = None, **words: Any,
) -> Claimer:  # fmt: skip
    """Return a claimer by policies, by default the built-in ones, on all or some pod managers."""
    make = functools.partial(Decider, policies=list(policies or built_in()))
    members = FixedMembers(among, declared=declared, statuses=statuses)
    return Claimer(store, Follower(store, make, members, known=known), **words)


def expire(case: Any, claim: Claim) -> None:
    """Let a claim expire."""
    past = {"sweep_at": 1.0, "expires_at": 1.0}
    case.execute(sa.update(tables.claims).where(tables.claims.c.id == claim.id).values(past))


def backdate(case: Any, claim: Claim, seconds: float = 1.0) -> None:
    """Backdate a claim, so that it is older at any resolution of time."""
    of = tables.claims.c
    update = sa.update(tables.claims).where(of.id == claim.id)
    case.execute(update.values(created_at=of.created_at - seconds))
