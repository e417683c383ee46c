# SPDX-License-Identifier: Apache-2.0
"""Results of expectations in words: fits, places of nodes, and differences of a decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.model.decision import Candidate, Reason, Report
from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import Relocation, Survival
from valence_sched.model.replay import ReplayResult
from valence_sched.model.request import Mix
from valence_sched.words.phrases import ReasonPhrases
from valence_sched.words.relocation import relocation_phrase, survival_phrases

MOST_NAMED = 4  # pod managers or differences in one line


def named(names: Iterable[str], before: str = ": ") -> str:
    """Return ``before``, the first names and the number of others; empty without names."""
    every = list(names)
    rest = f" and {len(every) - MOST_NAMED:,} more" if len(every) > MOST_NAMED else ""
    return f"{before}{', '.join(every[:MOST_NAMED])}{rest}" if every else ""


def fit_counts_text(counts: Sequence[tuple[str, int]], undecided: Sequence[str]) -> str:
    """Return the number of nodes that fit, by pod manager, and the undecided pod managers."""
    times = format_count(sum(number for _, number in counts), "time")
    text = f"fits {times}{named(f'{podm} {number:,}' for podm, number in counts)}"
    return f"{text}; {undecided_phrase(undecided)}" if undecided else text


def undecided_phrase(pools: Iterable[str]) -> str:
    """Return the pools that the budget of the policy left undecided."""
    return f"undecided within the budget of the policy{named(pools)}"


def landing_text(nodes: Sequence[Candidate], count: int) -> str:
    """Return the places of the placed nodes, with their share of ``count``."""
    places = named(dict.fromkeys(map(_place, nodes)), " ")
    return f"placed on{places}" if count == 1 else f"{len(nodes):,} of {count:,} placed on{places}"


def _place(candidate: Candidate) -> str:
    return f"{candidate.podm}/{candidate.pool}"


def refusal_text(count: int, fitting: int, podm: str | None, reason: Reason | None) -> str:
    """Return the number of ``count`` nodes that fit, and why no more of them fit."""
    text = f"{fitting:,} of {count:,} fit" if fitting else "does not fit"
    if reason is None:
        return text
    bare = replace(reason, uncounted=UNSET)  # pools outside of a place are drained
    return f"{text}: {podm}: {ReasonPhrases().of_reason(bare)}"


def failure_text(result: Relocation) -> str:
    """Return the numbers of re-placed and stuck nodes after a failure, and the stuck nodes."""
    return relocation_phrase(result) + named(one.node for one in result.stuck)


def survival_text(result: Survival) -> str:
    """Return whether the site survives some failures, and the worst set of them."""
    return "; ".join(survival_phrases(result))


def usage_text(run: ReplayResult) -> str:
    """Return the numbers of pod managers that a workload needs and of its placed nodes."""
    podms, nodes = (
        format_count(run.podms_needed, "pod manager"),
        format_count(run.requested, "node"),
    )
    return f"needs {podms}, places {run.placed:,} of {nodes}"


def differences(recorded: Report, now: Report, *, placements_only: bool = False) -> Iterator[str]:
    """Yield the differences of a decision, each with the recorded and the present value.

    With ``placements_only`` request, policy and inventory are not compared.
    """
    if recorded.outcome != now.outcome:
        before, after = (one.outcome.replace("_", " ") for one in (recorded, now))
        yield f"outcome: {before} is now {after}"
    if len(recorded.placements) != len(now.placements):
        yield f"nodes: {len(recorded.placements):,} are now {len(now.placements):,}"
    for placement, other in zip(recorded.placements, now.placements, strict=False):
        old, new, node = placement.chosen, other.chosen, f"node {placement.node}"
        blocks, new_blocks = ({one.uri for one in each.blocks} for each in (old, new))
        if _place(old) != _place(new):
            yield f"{node}: {_place(old)} is now {_place(new)}"
        elif blocks != new_blocks:
            removed = ", ".join(sorted(blocks - new_blocks)) or "no block"
            added = ", ".join(sorted(new_blocks - blocks)) or "no other"
            yield f"{node} on {_place(old)}: blocks: {removed} is now {added}"
        elif old.grants != new.grants:
            yield f"{node} on {_place(old)}: amounts of stocks differ"
    if placements_only:
        return
    if replace(recorded.request, mix=Mix()) != replace(now.request, mix=Mix()):
        yield "request: differs from the recorded one"
    elif recorded.request != now.request:
        yield "request: its mix of flavors differs"
    for name, old_digest, digest in (
        ("policy", recorded.policy_digest, now.policy_digest),
        ("inventory", recorded.inventory.digest, now.inventory.digest),
    ):
        if old_digest != digest:
            yield f"{name}: digest {old_digest[:12]} is now {digest[:12]}"
