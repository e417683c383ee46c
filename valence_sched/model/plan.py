# SPDX-License-Identifier: Apache-2.0
"""The plan document ``valence-sched/plan``: a decision with the pod managers it was based on."""

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from valence_sched.errors import InputError
from valence_sched.model import codec, redact
from valence_sched.model.base import Noun
from valence_sched.model.decision import DecisionResult, Placement, Report
from valence_sched.model.diff import REMOVED, Difference, podm_differences
from valence_sched.model.inventory import Count, FullPodm, LeanPodm, Name, to_json, visible_podm

SCHEMA = "valence-sched/plan"
VERSION = "1.2"


class PodmBasis(Noun, frozen=True, kw_only=True):
    """A pod manager as the decision read it, without credentials, with a digest of its content.

    One that is ``recorded`` was not read live, but from an inventory.
    """

    podm: FullPodm
    generation: Count
    digest: Name
    recorded: bool = False


class Plan(Noun, frozen=True, kw_only=True):
    """A decision to carry out later, and the pod managers that it was based on.

    The ``decision`` names the blocks, and has the digests of the whole inventory and of the policy.
    ``podms`` are those that take a node, and ``zone`` is the way down to the zone that has them.
    ``digest`` covers all fields of the document before it, and ``signature`` all others, as of the
    zone that made it; a scheduler without a key makes plans without one.
    """

    schema: str
    version: str
    decided_at: str | None = None
    decision: Report
    podms: tuple[PodmBasis, ...]
    zone: str = ""
    digest: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        """Refuse a plan that takes what none of its pod managers has."""
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
    """A decision and its plan, None where nothing fits."""

    decision: DecisionResult
    plan: Plan | None = None


class PlanRefresh(Struct, frozen=True, kw_only=True):
    """The decision that is made now in place of a plan's, and a line for each change since."""

    report: Report
    changes: tuple[str, ...] = ()


def make_plan(
    decision: Report,
    podms: Iterable[FullPodm],
    decided_at: str | None = None,
    recorded: Container[str] = (),
) -> Plan:
    """Return the plan of a decision, with those of the pod managers that take a node.

    Those whose ids are in ``recorded`` were read from an inventory. The explanation of a decision,
    which may name nodes of others, stays with its report; of such nodes the owner of the request
    sees only which blocks they have. The digests are those of what was read.
    """
    podm_ids = {placement.chosen.podm for placement in decision.placements}
    chosen = sorted((podm for podm in podms if podm.id in podm_ids), key=lambda podm: podm.id)
    owner = decision.request.owner
    bases = []
    for one in map(without_credentials, chosen):
        seen, digest = one if owner is None else visible_podm(one, owner), podm_digest(one)
        generation, is_recorded = one.generation, one.id in recorded
        basis = PodmBasis(podm=seen, generation=generation, digest=digest, recorded=is_recorded)
        bases.append(basis)
    plan = Plan(
        schema=SCHEMA,
        version=VERSION,
        decided_at=decided_at,
        decision=msgspec.structs.replace(decision, explanation=None),
        podms=tuple(bases),
    )
    return msgspec.structs.replace(plan, digest=_plan_digest(to_json(plan)))


def plan_in(plan: Plan, zone: str) -> Plan:
    """Return a plan with the way down to its zone; without (``""``) it is as it was made."""
    if zone == plan.zone:
        return plan
    placed = msgspec.structs.replace(plan, zone=zone, digest="", signature="")
    digest = _plan_digest(to_json(placed))
    return msgspec.structs.replace(placed, digest=digest, signature=plan.signature)


def signed_content(plan: Plan) -> bytes:
    """Return what the signature of a plan covers, however another program wrote the plan."""

    def number(text: str) -> float:
        return int(value) if (value := float(text)).is_integer() else value

    unsigned = to_json(msgspec.structs.replace(plan, signature=""))
    content = json.loads(unsigned, parse_float=number)
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def parse_plan(data: bytes, file: str) -> tuple[Plan, list[str]]:
    """Parse a plan, with warnings about fields left out as unknown.

    Raises:
        InputError: the document is not a plan, or was changed after it was made.
        NewerSchema: its major version is newer than ours.
    """
    head = codec.decode(data, codec.DocumentHead, file)
    codec.check_schema(head.schema, head.version, SCHEMA, VERSION, file)
    if head.digest != _plan_digest(data):
        found, hint = "that of another document", "somebody changed it: make the plan again"
        raise InputError(file, "$.digest", found, "the plan as it was made", hint)
    unknown: list[str] = []
    plan = codec.decode_known_fields(data, Plan, file, unknown)
    return plan, codec.unknown_fields_warnings(file, head.version, VERSION, ", ".join(unknown))


def plan_drift(
    plan: Plan,
    podms: Mapping[str, FullPodm],
    seen: Callable[[FullPodm], FullPodm] = lambda podm: podm,
) -> Iterator[Difference]:
    """Yield how the pod managers of a plan differ now, as its owner has ``seen`` them."""
    for basis in plan.podms:
        current = podms.get(basis.podm.id)
        if current is None:
            yield Difference(basis.podm.id, "podm", basis.podm.id, REMOVED)
        elif podm_digest(current) != basis.digest:
            now = seen(without_credentials(current))
            yield from podm_differences(_lean(seen(basis.podm)), _lean(now))


def same_placement(placement: Placement | None, other: Placement | None) -> bool:
    """Return whether two placements have the same pod manager, pool, blocks and grants."""
    if placement is None or other is None:
        return False
    return _placement_content(placement) == _placement_content(other)


def without_credentials(podm: FullPodm) -> FullPodm:
    """Return a pod manager as plans contain it: without credentials and without its URL."""
    return redact.redact_podm(msgspec.structs.replace(podm, url=None))


def podm_digest(podm: FullPodm) -> str:
    """Return a digest of the content of a pod manager, whatever the time of the reading."""
    content = msgspec.structs.replace(without_credentials(podm), generation=0, read_at=None)
    return hashlib.blake2b(to_json(content), digest_size=16).hexdigest()


def _placement_content(placement: Placement) -> tuple[Any, ...]:
    chosen = placement.chosen
    blocks = sorted(block.uri for block in chosen.blocks)
    grants = sorted((grant.uri, grant.amount) for grant in chosen.grants)
    return chosen.podm, chosen.pool, blocks, grants


def _lean(podm: FullPodm) -> LeanPodm:
    return codec.decode(to_json(podm), LeanPodm, f"pod manager {podm.id}")


def _plan_digest(data: bytes) -> str:
    """Return a digest of a plan but for its digest and its signature, whatever its white space."""
    document = msgspec.json.decode(data)
    document.pop("digest", None)
    document.pop("signature", None)
    return hashlib.blake2b(to_json(document), digest_size=16).hexdigest()
