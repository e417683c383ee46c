# SPDX-License-Identifier: Apache-2.0
"""Measures: the amounts that people and expressions name, and a summary of them."""

from __future__ import annotations

from msgspec import Struct

from valence_sched.model.need import Need, Test

CORES = Need(kind="processor", measure="cores", amount=0)
MEMORY = Need(kind="memory", measure="capacity_mib", amount=0)
GPUS = Need(kind="accelerator", measure="devices", amount=0, tests=(Test("kind", "equal", "GPU"),))
ACCELERATORS = Need(kind="accelerator", measure="devices", amount=0)
DRIVES = Need(kind="drive", measure="devices", amount=0)
NICS = Need(kind="nic", measure="devices", amount=0)
MEASURES = {
    "cores": CORES,
    "memory_mib": MEMORY,
    "gpus": GPUS,
    "accelerators": ACCELERATORS,
    "drives": DRIVES,
    "nics": NICS,
}


class PodmSummary(Struct, frozen=True, kw_only=True):
    """Free and total amounts of a pod manager or pool, each in the unit of its name."""

    blocks: tuple[int, int]
    cores: tuple[int, int]
    memory_mib: tuple[int, int]
    gpus: tuple[int, int]
    accelerators: tuple[int, int]
    drives: tuple[int, int]
    nics: tuple[int, int]
    stocks: dict[str, tuple[float, float]]


def need_for_measure(name: str) -> Need:
    """Return the need of a measure: one of ``MEASURES``, else the stock of that name."""
    return MEASURES.get(name) or Need(kind="stock", measure="amount", amount=0, resource=name)
