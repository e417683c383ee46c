# SPDX-License-Identifier: Apache-2.0
"""Visibility: answers without names of other owners, and without texts of other services."""

from collections.abc import Callable, Container
from typing import Any

import msgspec
from msgspec.structs import replace

from valence_sched.errors import SchedulerError, Undecodable, UnknownName
from valence_sched.model.decision import NodeRemoval
from valence_sched.model.hardware import BlockOverview
from valence_sched.model.http import Problem, without_foreign_texts
from valence_sched.model.inventory import OTHERS, Podm, hidden_uri, visible_podm
from valence_sched.model.lifecycle import ClaimRecord
from valence_sched.model.scheduler import Scheduler

#: Kinds of objects that have owners: an error about an unknown name must not suggest other names.
OWNED = ("claim", "node", "decision", "operation")
#: Types inside an answer that may contain names. Lists and dicts contain none, and are skipped
#: because a client may nest them deeply.
WALKED = (msgspec.Struct, str, tuple)


def visible_claim(scheduler: Scheduler, claim_id: str, owner: str | None) -> ClaimRecord:
    """Return a claim; UnknownName without a hint unless ``owner`` (None: any) may see it."""
    if owner is None:
        return scheduler.claim_record(claim_id)
    try:
        record = scheduler.claim_record(claim_id)
    except UnknownName:
        record = None
    if record is None or record.claim.owner != owner:
        raise UnknownName("claim", claim_id, ())
    return record


def visible(value: Any, owner: str, own_nodes: Callable[[], Container[str]]) -> Any:
    """Return an answer as an owner may see it; ``own_nodes`` is called only if it has nodes."""
    if isinstance(value, str):
        return without_foreign_texts(value)
    if isinstance(value, Podm):
        return visible_podm(value, owner)
    if isinstance(value, NodeRemoval):
        if value.uri in own_nodes():
            return value
        return replace(value, node=f"a node of {OTHERS}", uri=hidden_uri(value.uri))
    if isinstance(value, BlockOverview):  # its nodes may belong to another user
        value = replace(value, nodes=())
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = visible(before, owner, own_nodes)
            if after is not before:
                changed[name] = after
        return replace(value, **changed) if changed else value
    if isinstance(value, (list, tuple)):
        found = [
            visible(one, owner, own_nodes) if isinstance(one, WALKED) else one for one in value
        ]
        same = all(one is before for one, before in zip(found, value, strict=True))
        return value if same else type(value)(found)
    return value


def visible_problem(problem: Problem, *, is_tenant: bool) -> Problem:
    if not is_tenant:
        return problem
    texts = {name: one for name, one in problem.members.items() if isinstance(one, str)}
    members = problem.members | {name: without_foreign_texts(one) for name, one in texts.items()}
    return replace(problem, detail=without_foreign_texts(problem.detail), members=members)


def visible_error(error: SchedulerError, owner: str | None) -> SchedulerError:
    if owner is None or not isinstance(error, UnknownName | Undecodable) or error.kind not in OWNED:
        return error
    if isinstance(error, Undecodable):
        return error if error.owner == owner else UnknownName(error.kind, error.id, ())
    return UnknownName(error.kind, error.name, ())


def own_nodes(scheduler: Scheduler, owner: str) -> frozenset[str]:
    """Return the URIs of the nodes of an owner, and the placeholders of its claims."""
    parts = ((one.id, part) for one in scheduler.claims(owner=owner) for part in one.parts)
    held = {f"claim:{id_}#{share.node}" for id_, part in parts for share in part.shares}
    return frozenset(held | {one.node.uri for one in scheduler.nodes(owner=owner)})
