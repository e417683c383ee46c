# SPDX-License-Identifier: Apache-2.0
"""Group state: counts the nodes of a request's group and of its owner per domain value."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from valence_sched.core.policy import BoundPolicy
from valence_sched.model.inventory import LeanPodm, Node
from valence_sched.model.request import Group, GroupState, Request, check_domain
from valence_sched.view.view import Mask, View, domain_values

GROUP_STATE_FIELDS = frozenset(("group", "owner", "group_state"))

CountByPodm = dict[int, int]  # nodes by podm number
Owner = TypeVar("Owner", str, str | None)


class NodeCounts(msgspec.Struct):
    """Two counts of nodes: by group, owner and podm; and by owner and podm."""

    by_group: dict[str, dict[str | None, CountByPodm]] = msgspec.field(default_factory=dict)
    by_owner: dict[str, CountByPodm] = msgspec.field(default_factory=dict)

    def add(self, group: str | None, owner: str | None, podm: int, number: int = 1) -> None:
        """Add ``number`` to the counts of a node: 1 for a new node, -1 for a removed one."""
        if group is not None:
            of_group = self.by_group.setdefault(group, {})
            _add_count(of_group, owner, podm, number)
            if not of_group:
                del self.by_group[group]
        if owner is not None:
            _add_count(self.by_owner, owner, podm, number)

    def members(self, group: str, owner: str | None) -> Iterator[CountByPodm]:
        """Yield the node counts of a group: of an owner (None: of all), and of no owner."""
        for of, counts in self.by_group.get(group, {}).items():
            if owner is None or of is None or of == owner:
                yield counts


def _add_count(table: dict[Owner, CountByPodm], owner: Owner, podm: int, number: int) -> None:
    counts = table.setdefault(owner, {})
    total = counts.pop(podm, 0) + number
    if total:
        counts[podm] = total
    elif not counts:
        del table[owner]


NONE_EARLIER = NodeCounts()


def with_group_state(
    view: View,
    request: Request,
    eligible: Callable[[], Mask],
    earlier: NodeCounts = NONE_EARLIER,
    other_podms: Sequence[LeanPodm] = (),
) -> Request:
    """Return the request with its group state; RequestError for a domain that does not exist.

    ``eligible`` returns the rows that pass every filter which reads neither free capacity nor the
    group; it is called only for a group with spread rules. The skew ignores domain values without
    such rows, but not values whose podms are full (Kubernetes: ``nodeAffinityPolicy: Honor``).
    Nodes placed ``earlier`` and nodes on ``other_podms``, which are not in the View, also count.
    """
    group = request.group
    if group is None and request.owner is None:
        if not request.group_state:
            return request
        return msgspec.structs.replace(request, group_state=GroupState())
    nodes = view.memoise(("nodes",), lambda: _count_nodes(view.podms))
    group_counts, owner_counts = Counter[int](), Counter[int]()
    for counted in (nodes, earlier):
        for counts in counted.members(group.name, request.owner) if group else ():
            group_counts.update(counts)
        owner_counts.update(counted.by_owner.get(request.owner, {}) if request.owner else {})
    counts = [(view.podms[podm], number) for podm, number in (+group_counts).items()]
    if group is not None and other_podms:
        others = Counter[int]()
        for members in _count_nodes(other_podms).members(group.name, request.owner):
            others.update(members)
        counts += [(podm, others[number]) for number, podm in enumerate(other_podms)]
    spread = group.spread if group else ()
    eligible_podms: list[LeanPodm] = []
    if spread:
        eligible_podms = [view.podms[n] for n in sorted(set(view.podm_of[eligible()].tolist()))]
    state = GroupState(
        members=_members(group, counts) if group else {},
        owned={view.podms[podm].id: number for podm, number in (+owner_counts).items()},
        open={rule.over: _values(eligible_podms, rule.over) for rule in spread},
    )
    return msgspec.structs.replace(request, group_state=state)


def counts_member(request: Request, node: Node) -> bool:
    """Return whether a node counts in the group of a request."""
    group, owner = request.group, request.owner
    return (
        group is not None
        and node.group == group.name
        and (owner is None or node.owner is None or node.owner == owner)
    )


def with_members(view: View, request: Request, rows: Sequence[int], number: int = 1) -> Request:
    """Return the request with ``number`` added to the count of the podm of each row: 1 or -1."""
    podms, state = [view.podm(row) for row in rows], request.group_state
    members, owned = state.members.copy(), state.owned
    for domain in request.group.domains if request.group else ():
        values = (value for podm in podms for value in domain_values(podm, domain))
        members[domain] = _counted(members.get(domain, {}), values, number)
    if request.owner is not None:
        owned = _counted(owned, (podm.id for podm in podms), number)
    after = GroupState(members=members, owned=owned, open=state.open)
    return msgspec.structs.replace(request, group_state=after)


def _counted(counts: dict[str, int], values: Iterable[str], number: int) -> dict[str, int]:
    counts = counts.copy()
    for value in values:
        counts[value] = counts.get(value, 0) + number
    return counts if number > 0 else {value: count for value, count in counts.items() if count > 0}


def affects_own_podm_only(request: Request, bound: BoundPolicy, names: Collection[str]) -> bool:
    """Return whether a placed node changes answers of these plug-ins only for its own podm.

    All must count nodes by podm, or by domain if the podm is the only one and nothing is compared.
    """
    counts_by: set[str | None] = set()
    for use in (one for one in bound.plugins if one.name in names):
        reads = (one for one in use.reads if not GROUP_STATE_FIELDS.isdisjoint(one.fields))
        counts_by |= {one.counts_by for one in reads} or {None}  # None: reads more than counts
    if None in counts_by:
        return False
    group = request.group
    if group is None or "domain" not in counts_by:
        return True
    return not (group.affinity or group.spread) and set(group.domains) <= {"podm"}


def _members(group: Group, nodes: Iterable[tuple[LeanPodm, int]]) -> dict[str, dict[str, int]]:
    members: dict[str, dict[str, int]] = {}
    for domain in group.domains:
        check_domain(domain)
        counts: Counter[str] = Counter()
        for podm, number in nodes:
            counts.update(dict.fromkeys(domain_values(podm, domain), number))
        if +counts:
            members[domain] = dict(+counts)
    return members


def _values(podms: Iterable[LeanPodm], domain: str) -> tuple[str, ...]:
    return tuple(sorted({value for podm in podms for value in domain_values(podm, domain)}))


def _count_nodes(podms: Iterable[LeanPodm]) -> NodeCounts:
    counts = NodeCounts()
    for number, podm in enumerate(podms):
        for node in podm.nodes:
            counts.add(node.group, node.owner, number)
    return counts
