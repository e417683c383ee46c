# SPDX-License-Identifier: Apache-2.0
"""The pools that a decision leaves undecided, in one line: what happened and what to do."""

from collections.abc import Sequence

from valence_sched.model.decision import PoolRef
from valence_sched.model.policy import Policy
from valence_sched.model.quantity import format_count

MOST_NAMES = 5  # pools that are named; the report has them all


def undecided_text(pools: Sequence[PoolRef], policy: Policy) -> str:
    """Return which pools may fit although that was not settled within the budget of a policy."""
    names = ", ".join(f"{one.podm} ({one.pool})" for one in pools[:MOST_NAMES])
    more = f" and {len(pools) - MOST_NAMES:,} more" if len(pools) > MOST_NAMES else ""
    what = format_count(len(pools), "pool")
    budget = policy.budget
    states = format_count(budget.pool_states, "state")
    return (
        f"undecided: {what} may fit: {names}{more}: not settled within {states} for a pool and "
        f"{budget.decision_states:,} for a decision: raise the budget of policy "
        f"{policy.name!r}"
    )
