# SPDX-License-Identifier: Apache-2.0
"""Policies of plain functions, for tests that need a plug-in that is not installed."""

from collections.abc import Callable
from typing import Any

from valence_sched.core.policy import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.model.policy import Pick, Policy
from valence_sched.view.reads import declarations

PluginFunction = Callable[..., Any]


def bound(
    *weighers: PluginFunction, filters: tuple[PluginFunction, ...] = (), best_of: int = 1
) -> BoundPolicy:
    """Return a policy of these functions, each weigher of weight 1."""
    return BoundPolicy(
        policy=Policy(name="test", pick=Pick(best_of)),
        filters=tuple(
            BoundFilter(f.__name__, f, getattr(f, "terms", None), declarations(f)) for f in filters
        ),
        weighers=tuple(BoundWeigher(w.__name__, 1000, w, reads=declarations(w)) for w in weighers),
    )
