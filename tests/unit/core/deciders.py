# SPDX-License-Identifier: Apache-2.0
"""Deciders with the shipped policies or policies of plain functions, and short ways to build
blocks.
"""

import functools
import importlib.resources
from collections.abc import Callable
from typing import Any

from valence_sched.config import parsers
from valence_sched.core.decider import Decider
from valence_sched.core.policy import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.policy import Pick, Policy
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import view
from valence_sched.view.terms import declarations
from valence_sched.view.view import View


@functools.cache
def _built_in() -> tuple[Policy, ...]:
    data = (importlib.resources.files("valence_sched") / "data" / "policies.json").read_bytes()
    return tuple(parsers.parse_policies(data, "built-in"))


def built_in() -> list[Policy]:
    """Return the shipped policies."""
    return [*_built_in()]


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


PluginFunction = Callable[..., Any]


def bound(
    *weighers: PluginFunction, filters: tuple[PluginFunction, ...] = (), best_of: int = 1
) -> BoundPolicy:
    """Return a policy of these functions; each weigher has weight 1."""
    return BoundPolicy(
        policy=Policy(name="test", pick=Pick(best_of)),
        scheduler=FilterScheduler,
        filters=tuple(
            BoundFilter(f.__name__, f, getattr(f, "terms", None), declarations(f)) for f in filters
        ),
        weighers=tuple(BoundWeigher(w.__name__, 1000, w, reads=declarations(w)) for w in weighers),
    )
