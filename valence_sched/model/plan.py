# SPDX-License-Identifier: Apache-2.0
"""The plan document ``valence-sched/plan``: a decision with the pod managers it was based on."""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.model import codec, redact
from valence_sched.model.base import Noun, digest_of
from valence_sched.model.claim import NodeShrink
from valence_sched.model.decision import DecisionResult, Placement, Report
from valence_sched.model.diff import REMOVED, Difference, podm_differences
from valence_sched.model.inventory import Count, FullPodm, LeanPodm, Name, to_json, visible_podm

SCHEMA = "valence-sched/plan"
VERSION = "1.2"


class PodmBasis(Noun, frozen=True, kw_only=True):
    """A pod manager as the decision read it, without credentials, with a digest of its content.

    A ``recorded`` pod manager was read from an inventory, not live.
    """

    podm: FullPodm
    generation: Count
    digest: Name
    recorded: bool = False


class Plan(Noun, frozen=True, kw_only=True):
    """A decision to apply later, and the pod managers that it was based on.

    ``podms`` are the pod managers that take a node, ``zone`` is the path of their zone. The blocks
    of ``shrinks`` are detached first. ``digest`` covers all fields before it. ``signature`` covers
    all other fields, as written by the zone that made the plan. A scheduler without a key does not
    sign.
    """

    schema: str
    version: str
    decided_at: str | None = None
    decision: Report
    podms: tuple[PodmBasis, ...]
    zone: str = ""
    shrinks: tuple[NodeShrink, ...] = ()
    digest: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        known = {basis.podm.id: {one.uri for one in basis.podm.blocks} for basis in self.podms}
        if len(known) != len(self.podms):
            raise ValueError("Expected each pod manager once in `podms`")
        for placement in self.decision.placements:
            chosen = placement.chosen
            podm = f"pod manager {chosen.podm!r}"
            if chosen.podm not in known:
                raise ValueError(f"Expected {podm} in `podms`: a node is on it")
            if gone := sorted({one.uri for one in chosen.blocks} - known[chosen.podm]):
                raise ValueError(f"Expected {gone[0]!r} on {podm}: a node takes it")


class PlanResult(Struct, frozen=True, kw_only=True):
    """A decision and its plan, None if nothing fits."""

    decision: DecisionResult
    plan: Plan | None = None


class PlanRefresh(Struct, frozen=True, kw_only=True):
    """The present decision for the request of a plan, and a line for each change since the plan."""

    report: Report
    changes: tuple[str, ...] = ()


def make_plan(
    decision: Report,
    podms: Iterable[FullPodm],
    decided_at: str | None = None,
    recorded: Container[str] = (),
    shrinks: tuple[NodeShrink, ...] = (),
) -> Plan:
    """Return the plan of a decision, in which nodes of other owners are reduced to their blocks."""
    podm_ids = {placement.chosen.podm for placement in decision.placements}
    chosen = sorted((podm for podm in podms if podm.id in podm_ids), key=lambda podm: podm.id)
    owner = decision.request.owner
    bases = []
    for one in map(without_credentials, chosen):
        visible, digest = one if owner is None else visible_podm(one, owner), podm_digest(one)
        generation, is_recorded = one.generation, one.id in recorded
        basis = PodmBasis(podm=visible, generation=generation, digest=digest, recorded=is_recorded)
        bases.append(basis)
    plan = Plan(
        schema=SCHEMA,
        version=VERSION,
        decided_at=decided_at,
        decision=replace(decision, explanation=None),
        podms=tuple(bases),
        shrinks=shrinks,
    )
    return replace(plan, digest=codec.document_digest(to_json(plan)))


def plan_in(plan: Plan, zone: str) -> Plan:
    """Return a plan with another ``zone``, which is empty in the zone that made the plan."""
    if zone == plan.zone:
        return plan
    placed = replace(plan, zone=zone, digest="", signature="")
    digest = codec.document_digest(to_json(placed))
    return replace(placed, digest=digest, signature=plan.signature)


def signed_content(plan: Plan) -> bytes:
    """Return the canonical bytes that the signature of a plan covers."""

    def number(text: str) -> float:
        return int(value) if (value := float(text)).is_integer() else value

    unsigned = to_json(replace(plan, signature=""))
    content = json.loads(unsigned, parse_float=number)
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def parse_plan(data: bytes, file: str) -> tuple[Plan, list[str]]:
    """Parse a plan, with warnings; InputError if it is invalid or was changed, or NewerSchema."""
    return codec.decode_document(data, Plan, SCHEMA, VERSION, file, has_digest=True)


def plan_drift(
    plan: Plan,
    podms: Mapping[str, FullPodm],
    seen: Callable[[FullPodm], FullPodm] = lambda podm: podm,
) -> Iterator[Difference]:
    """Yield the changes of pod managers since the plan; ``seen`` selects the compared parts."""
    for basis in plan.podms:
        current = podms.get(basis.podm.id)
        if current is None:
            yield Difference(basis.podm.id, "podm", basis.podm.id, REMOVED)
        elif podm_digest(current) != basis.digest:
            now = seen(without_credentials(current))
            yield from podm_differences(_lean(seen(basis.podm)), _lean(now))


def same_placement(placement: Placement | None, other: Placement | None) -> bool:
    """Return whether two placements have the same pod manager, pool, blocks and grants."""

    def content(one: Placement) -> tuple[Any, ...]:
        blocks = sorted(block.uri for block in one.chosen.blocks)
        grants = sorted((grant.uri, grant.amount) for grant in one.chosen.grants)
        return one.chosen.podm, one.chosen.pool, blocks, grants

    return placement is not None and other is not None and content(placement) == content(other)


def without_credentials(podm: FullPodm) -> FullPodm:
    """Return a pod manager as plans contain it: without credentials and URL."""
    return redact.redact_podm(replace(podm, url=None))


def podm_digest(podm: FullPodm) -> str:
    """Return a digest of a pod manager without its credentials and the time of the reading."""
    content = replace(without_credentials(podm), generation=0, read_at=None)
    return digest_of(to_json(content))


def _lean(podm: FullPodm) -> LeanPodm:
    return codec.decode(to_json(podm), LeanPodm, f"pod manager {podm.id}")
