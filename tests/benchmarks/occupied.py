# SPDX-License-Identifier: Apache-2.0
"""A site with nodes that were placed one after another, as an inventory file."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from valence_sched.config.settings import Configuration
from valence_sched.model.inventory import LeanBlock, LeanPodm, Node, Status, to_json
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.planning.edits import StatusChanges
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.testing import generate

MIX = {"small": 3, "medium": 2, "gpu-large": 1}  # flavors by weight


def write_occupied_site(path: Path, podms: int, blocks: int, nodes: int, seed: int = 1) -> int:
    """Write an inventory of random pod managers and nodes; return the number of nodes.

    The default policy places nodes of ``MIX`` until the site is full.
    """
    config = Configuration({})
    lean = map(msgspec.json.Decoder(LeanPodm).decode, generate.podms(podms, blocks, seed))
    site = Site("base", tuple(lean), config.policies(), config.flavors())
    succession, rng = Succession(site.decider()), random.Random(seed)
    requests = [compile_request(RequestSpec(flavor=name), site.flavors[name]) for name in MIX]
    placed: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
    for request in rng.choices(requests, list(MIX.values()), k=nodes):
        for _, node in succession.decide(request).placed_nodes:
            fit, podm = node.chosen, int(succession.view.podm_of[node.chosen.row])
            succession.take(request, fit)
            uris = succession.view.block_tables[podm].uris
            placed[podm].append(tuple(uris[block] for block in fit.blocks))
    lines = [_with_nodes(podm, placed[number]) for number, podm in enumerate(site.podms)]
    path.write_bytes(b"\n".join([generate.header(), *map(to_json, lines), b""]))
    return sum(map(len, placed.values()))


def _with_nodes(podm: LeanPodm, nodes: list[tuple[str, ...]]) -> LeanPodm:
    uses = Counter(uri for blocks in nodes for uri in blocks)
    statuses = StatusChanges()

    def with_status(block: LeanBlock) -> LeanBlock:
        number = uses[block.uri]
        return statuses.apply(block, partial(_used, nodes=number), number) if number else block

    return replace(
        podm,
        blocks=tuple(map(with_status, podm.blocks)),
        nodes=tuple(
            Node(uri=f"/redfish/v1/Systems/{number}", name=f"{podm.id}-n{number}", blocks=blocks)
            for number, blocks in enumerate(nodes, 1)
        ),
    )


def _used(status: Status, *, nodes: int) -> Status:
    state = "ComposedAndAvailable" if status.shareable else "Composed"
    return replace(status, state=state, compositions=status.compositions + nodes)
