# SPDX-License-Identifier: Apache-2.0
"""Workloads from text in one line, and flavors for them."""

import contextlib
import io
from typing import Any

from valence_sched.config.parsers import parse_flavors
from valence_sched.model.decision import InventorySummary
from valence_sched.model.flavor import Flavor
from valence_sched.model.replay import NodeSpread, Replay, ReplayResult, ReplaySeries, Utilisation
from valence_sched.model.workload import WorkloadEntry, parse_trace_column
from valence_sched.planning.workload import FileWorkload

FLAVORS = {
    flavor.name: flavor
    for flavor in parse_flavors(
        b"""flavors:
- {name: cores, properties: {processor: {total_cores: 8}}}
- {name: card, properties: {processor: {total_cores: 8}, accelerators: [{}]}}
- {name: disk, properties: {resources: {gib: 3}}, policy: pack}
""",
        "test",
    )
}


def file_workload(
    text: str | bytes, name: str = "w.csv", *, sort: bool = False, **columns: str
) -> FileWorkload:
    """Return the workload of a text; ``columns`` are of a trace, with ``__`` for each dot."""
    data = text.encode() if isinstance(text, str) else text

    @contextlib.contextmanager
    def opened():
        yield io.BytesIO(data)

    sources = {field.replace("__", "."): parse_trace_column(source)
               for field, source in columns.items()}  # fmt: skip
    return FileWorkload(name, opened, tuple, sources, sort=sort)


def entries_of(
    text: str | bytes, name: str = "w.csv", flavors: dict[str, Flavor] = FLAVORS, **words: Any
) -> list[WorkloadEntry]:
    return list(file_workload(text, name, **words).entries(flavors))


def times(entries: list[WorkloadEntry]) -> list[tuple[float, float | None]]:
    return [(one.arrival, one.departure) for one in entries]


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
