# SPDX-License-Identifier: Apache-2.0
"""The section "Not chosen" of a decision: why pools were rejected, in words, grouped if many."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import escape

if TYPE_CHECKING:
    from valence_sched.model.decision import PodmVerdict, Reason, Report
    from valence_sched.model.phrases import ReasonPhrases

MOST_LINES = 16  # of reasons, before they are grouped: with a decision around it still a screen
WIDTH = 79


def not_chosen(
    report: Report, given: Iterable[str] = (), *, every_reason: bool = False
) -> Iterator[str]:
    """Yield why pod managers take no node: a line a pod manager or pool, or grouped by reason.

    ``given`` are the options on the command line, which are named where one rejects.
    """
    from valence_sched.model.phrases import ReasonPhrases
    from valence_sched.model.quantity import format_count

    rejected = [one for one in report.podms if one.outcome in ("rejected", "undecided")]
    if not rejected:
        return
    words = ReasonPhrases(frozenset(given))
    explained = report.explanation.nearest_misses if report.explanation else ()
    but_for_one = {one.podm for one in explained if one.kind == "word"}
    lines = [line for one in rejected for line in _podm_lines(one, words, but_for_one)]
    yield ""
    yield f"Not chosen: {len(rejected):,} of {format_count(report.inventory.podms, 'pod manager')}"
    if len(lines) > MOST_LINES and not every_reason:
        yield from _groups(rejected, words)
        yield "  --all-reasons names each pod manager"
        return
    width = max(len(escape(one.podm)) for one in rejected)
    for podm, text in lines:
        yield from textwrap.wrap(
            f"{escape(podm):{width}}  {escape(text)}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent=" " * (width + 6),
            break_on_hyphens=False,
        )


def reason_text(reason: Reason) -> str:
    """Return a reason in words."""
    from valence_sched.model.phrases import ReasonPhrases

    return ReasonPhrases().of_reason(reason)


def _podm_lines(
    verdict: PodmVerdict, words: ReasonPhrases, but_for_one: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield a line for a pod manager, or one for each of its pools where reasons differ."""
    texts = {one.pool: words.of_pool(one.reasons) for one in verdict.pool_reasons}
    if not texts:
        texts = {verdict.pool: words.of_pool([verdict.reason] if verdict.reason else [])}
    from valence_sched.model.quantity import format_count

    after = f"after {format_count(verdict.fitting, 'node')}: " if verdict.fitting else ""
    if len(set(texts.values())) == 1:
        otherwise = "; would fit otherwise" if verdict.podm in but_for_one else ""
        yield verdict.podm, after + next(iter(texts.values())) + otherwise
        return
    for number, (pool, text) in enumerate(texts.items()):
        yield "" if number else verdict.podm, f"{after}{pool}: {text}"


def _groups(rejected: Sequence[PodmVerdict], words: ReasonPhrases) -> Iterator[str]:
    """Yield a line for each reason, the most frequent first, with who comes nearest."""
    groups: dict[tuple[str, bool, str], list[PodmVerdict]] = defaultdict(list)
    for one in rejected:
        groups[_group_key(one, words)].append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = [(len(members), text, _nearest(members))
             for (text, *_), members in ordered[:MOST_LINES]]  # fmt: skip
    # Only texts with somebody beside them need the room, and some fit no screen.
    width = min(max((len(text) for _, text, nearest in lines if nearest), default=0), WIDTH // 2)
    for number, text, nearest in lines:
        yield from textwrap.wrap(
            escape(f"  {number:>5,}  {text:{width}}  {nearest}".rstrip()),
            WIDTH,
            subsequent_indent=" " * 9,
            break_on_hyphens=False,
        )
    if len(ordered) > MOST_LINES:
        others = sum(len(members) for _, members in ordered[MOST_LINES:])
        yield f"  {others:>5,}  for other reasons"


def _group_key(verdict: PodmVerdict, words: ReasonPhrases) -> tuple[str, bool, str]:
    """Return the text of the group of a verdict, whether sums would do, and the label."""
    from valence_sched.model.phrases import too_small

    reason = verdict.reason
    if reason is None:
        return "no reason is known", False, ""
    if reason.podm_have is not None:
        return "fit in sums, not as one node", True, ""
    if reason.is_amount:
        return too_small(reason), False, reason.label
    return words.of_reason(reason), False, reason.label


def _nearest(members: Sequence[PodmVerdict]) -> str:
    """Return who comes nearest in a group of amounts; who is an example of another group."""
    from valence_sched.model.phrases import share, short_of, thing

    amounts = [(one, one.reason) for one in members if one.reason and one.reason.is_amount]
    best = max(amounts, key=lambda pair: pair[1].have, default=None)  # type: ignore[arg-type,return-value]
    if best is None or not best[1].have:
        return ""
    verdict, reason = best
    if reason.podm_have is not None:
        total = short_of(reason, reason.podm_have).partition(" of ")[0]
        return f"e.g. {verdict.podm}: {total} {thing(reason)} in {verdict.pools} pools"
    return f"best: {verdict.podm} with {share(reason)}"
