# SPDX-License-Identifier: Apache-2.0
"""Golden decisions: what differs between a recorded decision and the one that is made now."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from valence_sched.model.decision import Candidate, Report
from valence_sched.model.request import Mix, Request


def differences(recorded: Report, now: Report, *, placements_only: bool = False) -> Iterator[str]:
    """Yield what differs, each in a few words: what it is, as recorded, and as it is now.

    With ``placements_only`` neither the request nor the policy nor the inventory is compared.
    """
    if recorded.outcome != now.outcome:
        yield f"outcome: {_words(recorded.outcome)} is now {_words(now.outcome)}"
    if len(recorded.placements) != len(now.placements):
        yield f"nodes: {len(recorded.placements):,} are now {len(now.placements):,}"
    pairs = zip(recorded.placements, now.placements, strict=False)
    for before, after in pairs:
        yield from _node_differences(before.node, before.chosen, after.chosen)
    if placements_only:
        return
    if _without_mix(recorded.request) != _without_mix(now.request):
        yield "request: another one is recorded"
    elif recorded.request != now.request:
        yield "request: the mix of flavors to leave room for is another one"
    for what, before_digest, after_digest in (
        ("policy", recorded.policy_digest, now.policy_digest),
        ("inventory", recorded.inventory.digest, now.inventory.digest),
    ):
        if before_digest != after_digest:
            yield f"{what}: digest {_short(before_digest)} is now {_short(after_digest)}"


def _without_mix(request: Request) -> Request:
    return msgspec.structs.replace(request, mix=Mix())


def _node_differences(node: int, before: Candidate, after: Candidate) -> Iterator[str]:
    """Yield the first difference of one node: where it is, else what it is made of."""
    if (before.podm, before.pool) != (after.podm, after.pool):
        yield f"node {node}: {_place(before)} is now {_place(after)}"
        return
    blocks, new_blocks = ({one.uri for one in each.blocks} for each in (before, after))
    if blocks != new_blocks:
        lost = ", ".join(sorted(blocks - new_blocks)) or "no block"
        found = ", ".join(sorted(new_blocks - blocks)) or "no other"
        yield f"node {node} on {_place(before)}: blocks: {lost} is now {found}"
    elif before.grants != after.grants:
        yield f"node {node} on {_place(before)}: other amounts of stocks"


def _place(candidate: Candidate) -> str:
    return f"{candidate.podm}/{candidate.pool}"


def _words(outcome: str) -> str:
    return outcome.replace("_", " ")


def _short(digest: str) -> str:
    return digest[:12]  # enough to see which is which
