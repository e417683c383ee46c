# SPDX-License-Identifier: Apache-2.0
"""Deciders with the policies that ship, and blocks in one line."""

import importlib.resources
from typing import Any

from valence_sched.config import parsers
from valence_sched.core.decider import Decider
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.policy import Policy
from valence_sched.testing import view
from valence_sched.view.view import View


def built_in() -> list[Policy]:
    data = (importlib.resources.files("valence_sched") / "data" / "policies.json").read_bytes()
    return parsers.parse_policies(data, "built-in")


def engine(site: View, *policies: Policy, **words: Any) -> Decider:
    return Decider(site, [*built_in(), *policies], **words)


def engine_of(*podms: dict[str, Any]) -> Decider:
    return engine(view(*podms))


def cpu(uri: str, cores: int | None, mib: int = 0, **words: Any) -> dict[str, Any]:
    """Return a compute block."""
    processor = {} if cores is None else {"cores": cores}
    devices: dict[str, Any] = {"processors": [processor]}
    if mib:
        devices["memory"] = [{"capacity_mib": mib}]
    return {"uri": uri, "type": ["Compute"], "devices": devices, **words}


def cpus(count: int, cores: int = 8) -> list[dict[str, Any]]:
    return [cpu(f"c{number}", cores) for number in range(count)]


def gpu(uri: str, count: int = 1, model: str = "NVIDIA A100", **words: Any) -> dict[str, Any]:
    """Return an expansion block of accelerators."""
    cards = [{"kind": "GPU", "model": model, "count": count}]
    return {"uri": uri, "type": ["Expansion"], "devices": {"accelerators": cards}, **words}


def lean(podm: dict[str, Any]) -> LeanPodm:
    return decode(to_json(podm), LeanPodm, "test")
