# SPDX-License-Identifier: Apache-2.0
"""The company of a request: where the nodes of its group and of its owner are.

Worked out once per decision, so that plugins stay row-local, and moved on by every node that a
batch places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from valence_sched.core.evaluate import reevaluate_group_state
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.policy import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.model.group import Group, GroupState, check_domain
from valence_sched.model.inventory import LeanPodm, Node
from valence_sched.model.request import Request
from valence_sched.view.domains import domain_values
from valence_sched.view.view import Mask, View

GROUP_STATE_FIELDS = frozenset(("group", "owner", "company"))

CountByPodm = dict[int, int]  # nodes by number of the podm
EarlierNodes = Sequence[tuple[Request, int]]  # nodes just placed: for which request, on which podm


@dataclass(frozen=True, slots=True)
class _NodeCounts:
    """The nodes of a View, counted by group and podm, and by owner and podm."""

    by_group: dict[str, CountByPodm]
    by_owner: dict[str, CountByPodm]


def with_group_state(
    view: View, request: Request, eligible: Callable[[], Mask], earlier: EarlierNodes = ()
) -> Request:
    """Return the request with its company; only one of a group or an owner has any.

    ``passing`` returns the rows that pass every filter which depends neither on what is free nor
    on the group; it is called only for a group that is spread. A full value of a domain is open:
    it counts when the skew is taken, though no node can be placed there. One whose pod managers
    are offline, excluded or of another zone is not. Kubernetes' topology spread does so with
    ``nodeAffinityPolicy: Honor``. Nodes placed ``earlier`` count like those that are there.

    Raises:
        RequestError: the group mentions a domain that does not exist.
    """
    group = request.group
    if group is None and request.owner is None:
        return (
            msgspec.structs.replace(request, company=GroupState()) if request.company else request
        )
    nodes = view.memoise(("nodes",), lambda: _count_nodes(view))
    grouped = Counter(nodes.by_group.get(group.name, {}) if group else {})
    owned = Counter(nodes.by_owner.get(request.owner, {}) if request.owner else {})
    for other, podm in earlier:
        grouped[podm] += _same_name(other.group, group)
        owned[podm] += request.owner is not None and other.owner == request.owner
    company = GroupState(
        members=_members(view, group, +grouped) if group else {},
        owned=_by_podm_id(view, +owned),
        open=_open_values(view, group, eligible) if group and group.spread else {},
    )
    return msgspec.structs.replace(request, company=company)


def with_members(view: View, request: Request, rows: Sequence[int]) -> Request:
    """Return the request as it is once a node of it stands on the podm of each of ``rows``."""
    podms, before = [view.podm(row) for row in rows], request.company
    members, owned = before.members, before.owned
    if request.group is not None:
        members = members.copy()
        for domain in request.group.domains:
            there = (value for podm in podms for value in domain_values(podm, domain))
            members[domain] = _add_counts(members.get(domain, {}), there)
    if request.owner is not None:
        owned = _add_counts(owned, (podm.id for podm in podms))
    company = GroupState(members=members, owned=owned, open=before.open)
    return msgspec.structs.replace(request, company=company)


def _add_counts(counts: dict[str, int], more: Iterable[str]) -> dict[str, int]:
    """Return a copy of the counts with ``more`` counted."""
    counts = counts.copy()
    for value in more:
        counts[value] = counts.get(value, 0) + 1
    return counts


def affects_own_podm_only(request: Request, bound: BoundPolicy, names: Collection[str]) -> bool:
    """Return whether a node changes nothing for the rows of other podms, as plug-ins see it.

    So it is where the plug-ins of these ``names`` declare that they only count nodes, and count
    by podm: by themselves, or because no rule of the group has another domain or compares values.
    """
    counts_by = {way for use in bound.plugins if use.name in names for way in _counts_by(use)}
    if None in counts_by:
        return False
    group = request.group
    if group is None or "domain" not in counts_by:
        return True
    return not (group.affinity or group.spread) and set(group.domains) <= {"podm"}


def _counts_by(use: BoundFilter | BoundWeigher) -> set[str | None]:
    """Return how a plug-in counts nodes; None stands for another way to look at them."""
    return {
        declared.counts_by
        for declared in use.reads
        if not GROUP_STATE_FIELDS.isdisjoint(declared.fields)
    } or {None}


def _members(view: View, group: Group, nodes: CountByPodm) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for domain in group.domains:
        check_domain(domain)
        counts: Counter[str] = Counter()
        for podm, number in nodes.items():
            for value in domain_values(view.podms[podm], domain):
                counts[value] += number
        if counts:
            found[domain] = dict(counts)
    return found


def _same_name(one: Group | None, other: Group | None) -> bool:
    return one is not None and other is not None and one.name == other.name


def _by_podm_id(view: View, counts: CountByPodm) -> dict[str, int]:
    return {view.podms[podm].id: number for podm, number in counts.items()}


def _open_values(
    view: View, group: Group, eligible: Callable[[], Mask]
) -> dict[str, tuple[str, ...]]:
    podms = [view.podms[podm] for podm in sorted(set(view.podm_of[eligible()].tolist()))]
    return {
        rule.over: tuple(
            sorted({value for podm in podms for value in domain_values(podm, rule.over)})
        )
        for rule in group.spread
    }


def _count_nodes(view: View) -> _NodeCounts:
    found = _NodeCounts({}, {})
    for podm, node in _nodes_by_podm(view):
        for name, told in ((node.group, found.by_group), (node.owner, found.by_owner)):
            if name is not None:
                counts = told.setdefault(name, {})
                counts[podm] = counts.get(podm, 0) + 1
    return found


def _nodes_by_podm(view: View) -> Iterator[tuple[int, Node]]:
    for number, podm in enumerate(view.podms):
        for node in podm.nodes:
            yield number, node


def substitute_rows(
    context: EvaluationContext, with_all_members: Request, replaced_row: int, rows: Sequence[int]
) -> set[int]:
    """Return those of ``rows`` that would keep the rules if they took the place of row ``node``.

    ``company`` is the request in the company of all its nodes, that one included.
    """
    request = msgspec.structs.replace(
        context.request, company=_without_member(with_all_members, context.view.podm(replaced_row))
    )
    index = np.unique(rows)
    part = context.evaluation.select(index)
    reevaluate_group_state(
        context.view.take(index), request, context.bound, part, strict=context.strict
    )
    fixed = (
        part.group_state_readers - part.availability_readers
    )  # what is free is another matter, and was seen to
    asked = [filter_.name in fixed for filter_ in context.bound.filters]
    return set(index[part.verdicts[asked].all(axis=0)].tolist())


def _without_member(request: Request, podm: LeanPodm) -> GroupState:
    """Return the company without one node on a podm."""
    company = request.company
    members = company.members.copy()
    for domain in request.group.domains if request.group else ():
        counts = Counter(members.get(domain, {}))
        counts.subtract(domain_values(podm, domain))
        members[domain] = dict(+counts)
    return GroupState(members=members, owned=company.owned, open=company.open)
