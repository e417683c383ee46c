# SPDX-License-Identifier: Apache-2.0
"""Claims and nodes in words: held resources, composed nodes, and previews."""

from collections.abc import Iterator, Sequence

from valence_sched.model.claim import Claim
from valence_sched.model.lifecycle import Preview, ProvisionResult
from valence_sched.model.quantity import format_count
from valence_sched.words.phrases import format_instant

DAY_S = 86400.0
MOST_PODMS = 3  # in the line about a claim
MOST_SKIPPED = 3  # claims that are named


def expiry_text(claim: Claim) -> str:
    """Return the end of a claim in UTC, only the time of day if it is soon; else nothing."""
    if claim.expires_at is None:
        return ""
    text = format_instant(claim.expires_at)
    return text.partition("T")[2] if claim.expires_at - claim.created_at < DAY_S else text


def held_line(claim: Claim) -> str:
    """Return the resources that a claim holds, their pod managers, and the end of the claim."""
    blocks = sum(part.blocks.total() for part in claim.parts)
    amounts = sum(len(part.amounts) for part in claim.parts)
    held = ((blocks, "block"), (amounts, "amount"))
    what = " and ".join(format_count(number, noun) for number, noun in held if number)
    some = len(claim.podms) > MOST_PODMS
    podms = f"{len(claim.podms):,} pod managers" if some else ", ".join(claim.podms)
    until = "" if claim.expires_at is None else f" until {expiry_text(claim)}"
    return f"claim {claim.id} holds {what or 'nothing'} on {podms}{until}"


def composed_lines(result: ProvisionResult, count: int, by: str = "") -> Iterator[str]:
    """Yield the deviations of composed nodes, and their number; ``by`` ends the last line."""
    yield from map("warning: {}".format, result.notes)
    yield from map("not composed: {}".format, result.failures)
    for lost in result.unverified:
        yield f"{'still composing' if lost.still_composing else 'not verified'}: {lost.message}"
    composing = len(result.still_composing)
    goes_on = f", {composing} still composing" if composing else ""
    yield f"{len(result.nodes)} of {format_count(count, 'node')} composed{goes_on}{by}"


def skipped_lines(composing: Sequence[Claim]) -> Iterator[str]:
    """Yield the claims that may still be composed, and so were not reconciled."""
    for claim in composing[:MOST_SKIPPED]:
        left = f"skipped: claim {claim.id} is being composed until {expiry_text(claim)}"
        hint = f"run podm claim renew {claim.id} --ttl 1s, and reap again"
        yield f"{left}: if its command no longer runs, {hint}"
    if (more := len(composing) - MOST_SKIPPED) > 0:
        yield f"skipped: {more:,} more: see podm claim list"


def preview_line(answer: Preview) -> str:
    """Return whether a pod manager would compose a node."""
    text = "would compose it"
    if answer.problem is not None:
        text = f"cannot tell: {answer.problem}"
    elif answer.refusal is not None:
        text = f"would refuse: {answer.refusal}"
    return f"node {answer.node}: {answer.podm} {text}"
