# SPDX-License-Identifier: Apache-2.0
"""A site of served pod managers, registered in a state of any engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.proofs.load import CORES
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm, served


def inventory(podms: int, blocks: int) -> dict[str, object]:
    """Return pod managers of one pool, of which each block is enough for a node."""
    return {
        "schema": "valence-sched/inventory",
        "version": "1.0",
        "podms": [
            {
                "id": f"podm-{number}",
                "pools": [{"id": "pool"}],
                "blocks": [_block(index) for index in range(blocks)],
            }
            for number in range(podms)
        ],
    }


def _block(index: int) -> dict[str, object]:
    return {
        "uri": f"/redfish/v1/CompositionService/ResourceBlocks/b{index:03}",
        "type": ["Compute"],
        "pools": ["pool"],
        "devices": {"processors": [{"cores": CORES}]},
    }


@contextlib.contextmanager
def served_site(
    folder: Path, state: str, podms: int, blocks: int
) -> Iterator[Mapping[str, ServedPodm]]:
    """Yield served pod managers by id, which are registered in a state."""
    path = folder / "site.json"
    path.write_text(json.dumps(inventory(podms, blocks)))
    with served(str(path)) as there:
        with Store(state) as store:
            for name, podm in there.items():
                store.register(Registration(name=name, url=podm.url))
        yield there
