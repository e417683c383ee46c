# SPDX-License-Identifier: Apache-2.0
"""Affinity weigher: scores pod managers by the soft rules of a group."""

from collections.abc import Iterator

import numpy as np

from valence_sched.model.request import Group, Request
from valence_sched.view.terms import group_fields, reads, reads_podm
from valence_sched.view.view import Floats, View, domain_index


@reads("group", when=lambda group: group.soft, counts_by="domain")
@reads_podm(of=group_fields)
def affinity(view: View, request: Request) -> Floats:
    """Prefers pod managers that best satisfy the soft rules of the request's group.

    The score is the mean over the rules. ``n`` is the number of nodes of the group that share the
    pod manager's value of the rule's domain. If it has several values, the largest ``n`` counts:

    * soft affinity ``n / (1 + n)``,
    * soft anti-affinity ``1 / (1 + n)``,
    * soft spread ``1 / (1 + excess)``, where ``excess`` is ``max(0, n + 1 - fewest - max_skew)``
      and ``fewest`` is the number of nodes at the open value with the fewest nodes.

    A rule on an unreported value counts as 0. Without soft rules, the weigher is inactive.
    Sources: ServerGroupSoftAffinityWeigher and ServerGroupSoftAntiAffinityWeigher of Nova, here
    absolute.
    """
    group = request.group
    scores = list(_scores(view, request, group)) if group else []
    if not scores:
        return np.ones(len(view))
    total: Floats = np.add.reduce([np.nan_to_num(score, nan=0.0) for score in scores])
    return np.minimum(total / len(scores), 1.0)


def _scores(view: View, request: Request, group: Group) -> Iterator[Floats]:
    state = request.group_state

    def count(domain: str) -> Floats:
        return domain_index(view, domain).largest_count(state.members.get(domain, {}))

    for domain in group.soft_affinity:
        yield (here := count(domain)) / (1.0 + here)
    for domain in group.soft_anti_affinity:
        yield 1.0 / (1.0 + count(domain))
    for rule in (one for one in group.spread if one.soft):
        excess = count(rule.over) + 1.0 - state.fewest_members(rule.over) - rule.max_skew
        yield 1.0 / (1.0 + np.maximum(excess, 0.0))
