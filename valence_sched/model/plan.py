# SPDX-License-Identifier: Apache-2.0
"""The plan document ``valence-sched/plan``: a decision with the pod managers it was based on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from valence_sched.errors import InputError
from valence_sched.model import redact
from valence_sched.model.base import Noun
from valence_sched.model.codec import check_schema, decode
from valence_sched.model.decision import Placement, Report
from valence_sched.model.diff import REMOVED, Difference, podm_differences
from valence_sched.model.inventory import Count, FullPodm, LeanPodm, Name, to_json
from valence_sched.model.reports import decode_known_fields

SCHEMA = "valence-sched/plan"
VERSION = "1.0"


class PodmBasis(Noun, frozen=True, kw_only=True):
    """A pod manager as it was decided on, without credentials; ``digest`` is of what it has."""

    podm: FullPodm
    generation: Count
    digest: Name


class Plan(Noun, frozen=True, kw_only=True):
    """What is to be done, on what.

    The ``decision`` names the very blocks, and has the digests of the whole inventory and of the
    policy. ``podms`` are those that take a node. ``digest`` is of all else in the document.
    """

    schema: str
    version: str
    decided_at: str | None = None
    decision: Report
    podms: tuple[PodmBasis, ...]
    digest: str = ""


class _PlanHead(msgspec.Struct):
    """What tells which document it is, whatever else stands in it."""

    schema: str
    version: str
    digest: str = ""


def make_plan(decision: Report, podms: Iterable[FullPodm], decided_at: str | None = None) -> Plan:
    """Return the plan of a decision on pod managers, of which those that take a node are kept."""
    chosen = {placement.chosen.podm for placement in decision.placements}
    kept = sorted((podm for podm in podms if podm.id in chosen), key=lambda podm: podm.id)
    bases = tuple(
        PodmBasis(
            podm=without_credentials(podm), generation=podm.generation, digest=podm_digest(podm)
        )
        for podm in kept
    )
    plan = Plan(schema=SCHEMA, version=VERSION, decided_at=decided_at, decision=decision,
                podms=bases)  # fmt: skip
    return msgspec.structs.replace(plan, digest=_plan_digest(to_json(plan)))


def parse_plan(data: bytes, file: str) -> tuple[Plan, list[str]]:
    """Parse a plan; return it with warnings about fields that are unknown and left out.

    Raises:
        InputError: it is no plan, or somebody changed it since it was made.
        NewerSchema: its major version is newer than ours.
    """
    head = decode(data, _PlanHead, file)
    check_schema(head.schema, head.version, SCHEMA, VERSION, file)
    if head.digest != _plan_digest(data):
        raise InputError(file, "$.digest", "that of another document", "the plan as it was made",
                         "somebody changed it: make the plan again")  # fmt: skip
    dropped: list[str] = []
    plan = decode_known_fields(data, Plan, file, dropped)
    return plan, [f"{file}: version {head.version}, ours is {VERSION}: unknown and left out: "
                  f"{', '.join(dropped)}"] if dropped else []  # fmt: skip


def plan_drift(plan: Plan, podms: Mapping[str, FullPodm]) -> Iterator[Difference]:
    """Yield what is another by now on the pod managers of a plan; one may be gone."""
    for basis in plan.podms:
        now = podms.get(basis.podm.id)
        if now is None:
            yield Difference(basis.podm.id, "podm", basis.podm.id, REMOVED)
        elif podm_digest(now) != basis.digest:
            yield from podm_differences(_lean(basis.podm), _lean(without_credentials(now)))


def same_placement(one: Placement | None, other: Placement | None) -> bool:
    """Return whether two nodes are made of the same, in the same place."""
    return (
        one is not None
        and other is not None
        and _placement_content(one) == _placement_content(other)
    )


def without_credentials(podm: FullPodm) -> FullPodm:
    """Return a pod manager as plans hold it: without credentials, and without where it is."""
    return redact.redact_podm(msgspec.structs.replace(podm, url=None))


def podm_digest(podm: FullPodm) -> str:
    """Return a digest of what a pod manager has, whenever that was read."""
    content = msgspec.structs.replace(without_credentials(podm), generation=0, read_at=None)
    return hashlib.blake2b(to_json(content), digest_size=16).hexdigest()


def _placement_content(placement: Placement) -> tuple[Any, ...]:
    chosen = placement.chosen
    blocks = sorted(block.uri for block in chosen.blocks)
    grants = sorted((grant.uri, grant.amount) for grant in chosen.grants)
    return chosen.podm, chosen.pool, blocks, grants


def _lean(podm: FullPodm) -> LeanPodm:
    return decode(to_json(podm), LeanPodm, f"pod manager {podm.id}")


def _plan_digest(data: bytes) -> str:
    """Return a digest of a plan's text that does not depend on spaces, nor on its own digest."""
    document = msgspec.json.decode(data)
    document.pop("digest", None)
    return hashlib.blake2b(to_json(document), digest_size=16).hexdigest()
