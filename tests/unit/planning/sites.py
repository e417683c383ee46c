# SPDX-License-Identifier: Apache-2.0
"""Small sites for tests of edits, and their content in one line."""

import contextlib
import io
from collections import Counter
from typing import Any

import msgspec

from tests.unit.core.deciders import built_in, cpu, gpu, lean
from valence_sched.config.parsers import parse_flavors
from valence_sched.model.decision import InventorySummary
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.replay import NodeSpread, Replay, ReplayResult, ReplaySeries, Utilisation
from valence_sched.model.request_spec import WorkloadEntry, parse_trace_column
from valence_sched.model.scenario import EDITS, Edit
from valence_sched.planning.site import Site
from valence_sched.planning.workload import FileWorkload
from valence_sched.testing import request
from valence_sched.view.hardware import overviews

WEB = request({"processor": {"total_cores": 8}})
GPU = request({"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]})


def site_of(*podms: dict[str, Any], **fields: Any) -> Site:
    """Return a site of pod managers in the inventory's JSON form, with the built-in policies."""
    policies = {policy.name: policy for policy in built_in()}
    return Site("base", tuple(map(lean, podms)), policies, {}, **fields)


def edit(**words: Any) -> Edit:
    """Return an edit in the form of a file: ``edit(fail="a")``."""
    noun = next(noun for verb, noun in EDITS.items() if verb in words)
    return msgspec.convert(words, noun, strict=False)


def racks() -> Site:
    """Return two pod managers:

    ``east`` with pools a and b that share a card, ``west`` without pools.
    """
    east = {
        "id": "east", "name": "East hall", "zone": "az1", "aggregates": ["gold"],
        "traits": ["IB"], "url": "https://east.invalid", "identity": "uuid:1",
        "capabilities": {"os": ["linux"]}, "facts": {"price": 2.0},
        "pools": [{"id": "a", "traits": ["NVLINK"]}, {"id": "b"}],
        "blocks": [
            cpu("/r/c1", 16, pools=["a"], status={"state": "Composed"}),
            cpu("/r/c2", 8, pools=["b"], name="sled 2"),
            gpu("/r/g1", pools=["a", "b"], status={"state": "Composed"}),
            gpu("/r/g2", model="NVIDIA H100", pools=["b"]),
        ],
        "stocks": [
            {"uri": "/s/1", "resource": "storage_gib", "pools": ["a"], "total": 10, "used": 4},
            {"uri": "/s/2", "resource": "storage_gib", "pools": ["a", "b"], "total": 10, "used": 1},
        ],
        "nodes": [{"uri": "/n/1", "blocks": ["/r/c1", "/r/g1"]}],
    }  # fmt: skip
    # fmt: off
    west = {"id": "west", "zone": "az2", "status": "Unknown", "enabled": False,
            "blocks": [cpu("/r/c1", 8), gpu("/r/g1", status={"reserved": True})],
            "stocks": [{"uri": "/s/1", "resource": "storage_gib", "total": 10, "used": 2}]}
    # fmt: on
    return site_of(east, west)


def states(podm: LeanPodm) -> dict[str, Any]:
    """Return the status of each block by the last part of its URI, as JSON."""
    return {one.uri.rpartition("/")[2]: msgspec.json.decode(one.status or b"{}")
            for one in podm.blocks}  # fmt: skip


def free(site: Site, podm: str) -> Counter[str]:
    """Return the further slots of the blocks of a pod manager, by the last part of a URI."""
    view = site.view()
    number = view.podm_ids.index(podm)
    table = view.block_tables[number]
    pairs = zip(table.uris, table.slots, strict=True)
    return Counter({uri.rpartition("/")[2]: slots for uri, slots in pairs if slots})


def counts(site: Site) -> Any:
    """Return the total and free counts of each pod manager, by id."""
    return {one.podm.id: (one.pool_count, one.amounts) for one in overviews(site.view())}


def chosen(site: Site, wanted: Any = WEB, policy: str = "default") -> list[tuple[str, list[str]]]:
    """Return the pod manager and the blocks of each placed node."""
    decision = site.decider().select_destinations(msgspec.structs.replace(wanted, policy=policy))
    nodes = [placement.chosen for placement in decision.placements]
    return [(node.podm, [block.uri for block in node.blocks]) for node in nodes]


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
