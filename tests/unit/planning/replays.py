# SPDX-License-Identifier: Apache-2.0
"""Replays in one line, without replaying anything."""

from valence_sched.model.decision import InventorySummary
from valence_sched.model.replay import NodeSpread, Replay, ReplayResult, ReplaySeries, Utilisation


def run_of(
    placed: int = 1,
    refused: int = 0,
    *,
    site: str = "base",
    policy: str | None = None,
    cores: float = 0.25,
    cost: float | None = None,
) -> ReplayResult:
    return ReplayResult(
        site=site,
        policy=policy,
        inventory=InventorySummary(digest="", podms=1, pools=1, blocks=1, skipped=()),
        requests=placed + refused,
        requested=placed + refused,
        placed=placed,
        refused=refused,
        undecided=0,
        departed=0,
        duration_s=60.0,
        peak_nodes=1,
        podms_needed=1,
        spread=NodeSpread(mean=1.0, most=1, placed={"p": placed}),
        utilisation={"cores": Utilisation(total=16.0, mean=cores, peak=0.5)},
        fragmentation=None,
        cost=cost,
        by_flavor=(),
        refusals=(),
        first_refusals=(),
        series=ReplaySeries(bucket_s=1.0, used={"cores": (cores,)}, nodes=(1.0,), podms=(1.0,),
                      fragmentation=None, requested=(placed + refused,), placed=(placed,),
                      refused=(refused,), undecided=(0,)),
        warnings=(),
    )  # fmt: skip


def replay_of(*numbers: int, **fields) -> Replay:
    return Replay(workload="w.csv", runs=(run_of(*numbers, **fields),))
