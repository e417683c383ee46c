# SPDX-License-Identifier: Apache-2.0
"""Generated sites with devices in blocks, and the node types that are requested of them."""

from __future__ import annotations

from random import Random
from typing import Any

from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.testing import request, view
from valence_sched.view.view import View

SLEDS = ((16, 64), (32, 128), (32, 256), (64, 256), (64, 512))  # cores, GiB
TRAYS = (("A100", 1), ("A100", 2), ("A100", 4), ("H100", 2), ("H100", 4), ("H100", 8))
SHELVES = (1, 2, 4)  # drives
MODULES = (128, 256)  # GiB
FLAVORS: dict[str, dict[str, Any]] = {
    "small": {"processor": {"total_cores": 16}, "memory": {"capacity_mib": 64 << 10}},
    "large": {"processor": {"total_cores": 64}, "memory": {"capacity_mib": 384 << 10}},
    "gpu": {
        "processor": {"total_cores": 16},
        "memory": {"capacity_mib": 128 << 10},
        "accelerators": [{"count": 1}],
    },
    "gpu-large": {
        "processor": {"total_cores": 48},
        "memory": {"capacity_mib": 256 << 10},
        "accelerators": [{"model": "H100", "count": 4}],
    },
    "data": {
        "processor": {"total_cores": 32},
        "memory": {"capacity_mib": 128 << 10},
        "drives": [{"count": 4}],
    },
}


def podm(number: int, blocks: int, random: Random) -> dict[str, Any]:
    """Return a podm of one pool with this number of random blocks."""
    made = []
    for block in range(blocks):
        draw = random.random()
        if draw < 0.5:
            cores, gib = random.choice(SLEDS)
            kind = "Compute"
            devices: dict[str, Any] = {
                "processors": [{"cores": cores}],
                "memory": [{"capacity_mib": gib << 10}],
            }
        elif draw < 0.75:
            model, count = random.choice(TRAYS)
            kind = "Expansion"
            devices = {"accelerators": [{"kind": "GPU", "model": model, "count": count}]}
        elif draw < 0.9:
            kind, devices = "Storage", {"drives": [{"count": random.choice(SHELVES)}]}
        else:
            kind, devices = "Memory", {"memory": [{"capacity_mib": random.choice(MODULES) << 10}]}
        made.append({"uri": f"b{block}", "type": [kind], "devices": devices})
    return {"id": f"podm-{number:04}", "blocks": made}


def generated_view(podms: int, blocks: int, seed: int = 0) -> View:
    """Return a View of this number of podms, with this number of blocks each."""
    random = Random(seed)
    return view(*(podm(number, blocks, random) for number in range(podms)))


def node_types(**most: int) -> list[NodeType]:
    """Return the node type of each flavor, with its requested number."""
    return [
        NodeType.of(request(FLAVORS[name], flavor=name), most=most.get(name.replace("-", "_")))
        for name in FLAVORS
    ]
