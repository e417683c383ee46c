# SPDX-License-Identifier: Apache-2.0
"""Spread filter: keeps pod managers that the hard rules of a group allow."""

from collections.abc import Iterator

from valence_sched.model.request import Request
from valence_sched.view.terms import Term, group_fields, reads, reads_podm, terms
from valence_sched.view.view import View, domain_index


@reads("group", when=lambda group: group.hard, counts_by="domain")
@reads_podm(of=group_fields)
@terms
def spread(view: View, request: Request) -> Iterator[Term]:
    """Keeps pod managers where one more node breaks no hard rule of the request's group.

    A rule counts the nodes of the group at each value of its domain. Affinity keeps the value with
    the most nodes, if the group has nodes. Anti-affinity keeps values without nodes. A limit of
    ``k`` nodes keeps values with fewer than ``k`` nodes. Spread allows one more node at a value if
    the value then has at most ``max_skew`` nodes more than the open value with the fewest. A value
    is open even if no hardware is free there. If a pod manager has several values (aggregates, a
    list of locations), the value with the most nodes counts. A pod manager without a value fails
    every rule.
    """
    group = request.group
    if group is None or not group.hard:
        return
    members = request.group_state.members
    name = f"group {group.name}"
    for domain in group.affinity:
        counts = members.get(domain, {})
        have = domain_index(view, domain).largest_count(counts)
        yield Term(f"{name}: all at one {domain}", max(counts.values(), default=0), have)
    limits = dict.fromkeys(group.anti_affinity, 1)
    for domain, most in (*limits.items(), *group.at_most.items()):
        yield _fewer_than(view, request, domain, most, f"{name}: at most {most} per {domain}")
    for rule in group.spread:
        if not rule.soft:
            most = request.group_state.fewest_members(rule.over) + rule.max_skew
            label = f"{name}: spread over {rule.over}, skew {rule.max_skew}"
            yield _fewer_than(view, request, rule.over, most, label)


def _fewer_than(view: View, request: Request, domain: str, most: int, label: str) -> Term:
    have = domain_index(view, domain).largest_count(request.group_state.members.get(domain, {}))
    return Term(label, f"fewer than {most}", have, holds=have < most)
