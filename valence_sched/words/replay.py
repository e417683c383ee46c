# SPDX-License-Identifier: Apache-2.0
"""A replay in words: its outcome, refusals with reasons, and differences from a baseline."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from valence_sched.model import replay as model
from valence_sched.model.need import ACCELERATORS
from valence_sched.model.quantity import format_age, format_count, resource_title
from valence_sched.model.scenario import EditEffect
from valence_sched.words.phrases import ReasonPhrases

MOST_GROUPS = 4  # of reasons in the lines about a first refusal
_REFUSALS = {  # by step
    "capacity": "for lack of capacity",
    "devices": "for lack of devices",
    "fit": "without fitting blocks",
}
MOST_CHANGES = 20  # that are printed; the rest is only counted


def share_text(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}%"


def value_text(number: float, *, is_share: bool = False, of: str = "") -> str:
    """Return a share in percent, a number below 0.1 with 2 digits, others with 0 or 2 decimals."""
    if is_share:
        return share_text(number) + (f" of {resource_title(of)}" if of else "")
    if 0 < abs(number) < 0.1:
        return f"{number:.2g}"
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def fragmentation_text(resource: str | None) -> str:
    """Return the measure and its resource: ``fragmentation of memory``; accelerators are usual."""
    if not resource or resource == ACCELERATORS:
        return "fragmentation"
    return f"fragmentation of {resource_title(resource)}"


def outcome_lines(replay: model.Replay) -> Iterator[str]:
    """Yield the lines about the outcome: warnings, refusals by reason, the outcome itself last."""
    warnings = dict.fromkeys(line for run in replay.runs for line in run.warnings)
    yield from map("warning: {}".format, warnings)
    alone = len(replay.runs) == 1
    for run in replay.runs:
        name = "" if alone else f"{run.name}: "
        if run.refused:
            steps: Counter[str] = Counter()
            for refusal in run.refusals:
                steps[refusal.step] += refusal.nodes
            reasons = ((n, _REFUSALS.get(it, f"by filter {it}")) for it, n in steps.most_common())
            text = ", ".join(f"{nodes:,} {reason}" for nodes, reason in reasons)
            yield f"{name}refused {format_count(run.refused, 'node')}: {text}"
        for first in run.first_refusals if alone else ():
            yield from _first_lines(first)
        undecided = f", {run.undecided:,} undecided" if run.undecided else ""
        nodes, of = format_count(run.requested, "node"), format_count(run.requests, "request")
        yield f"{name}placed {run.placed:,} of {nodes} of {of}{undecided}"


def lost_lines(effects: Mapping[str, Sequence[EditEffect]]) -> Iterator[str]:
    """Yield a line for each site that lost nodes to its edits, by its name."""
    for name, some in effects.items():
        if lost := sum(one.nodes for one in some):
            yield f"{name}: {format_count(lost, 'node is', 'nodes are')} lost, and not re-placed"


def change_lines(changes: Sequence[model.MeasureChange], file: str) -> Iterator[str]:
    """Yield a line for each measure that differs from the baseline, then their number."""
    for change in changes[:MOST_CHANGES]:
        if change.measure == "run":
            yield f"{change.run}: only in the {'baseline' if change.after is None else 'result'}"
            continue
        share = change.measure.startswith(("utilisation", "peak_utilisation", "fragmentation"))
        values = (change.before, change.after)
        was, now = ("none" if it is None else value_text(it, is_share=share) for it in values)
        yield f"{change.run}: {change.measure} was {was}, is {now}"
    count = len(changes)
    differing = format_count(count, "measure differs", "measures differ") if count else ""
    yield f"{differing or 'no measure differs'} from {file}"


def _first_lines(first: model.FirstRefusal) -> Iterator[str]:
    flavor = first.flavor or "a request without flavor"
    yield f"first refusal of {flavor}, after {format_age(first.time_s)}:"
    groups = [(one, one.reason) for one in first.reasons if one.reason]
    texts = [ReasonPhrases().of_reason(reason) for _, reason in groups[:MOST_GROUPS]]
    width = max(map(len, texts), default=0)
    for (one, reason), text in zip(groups, texts, strict=False):
        has_best = one.podms > 1 and reason.is_amount and reason.have
        best = f"best: {one.nearest}" if has_best else ""
        yield f"  {one.podms:>5,}  {text:{width}}  {best}".rstrip()
    if others := sum(one.podms for one, _ in groups[MOST_GROUPS:]):
        yield f"  {others:>5,}  for other reasons"


def progress_text(done: int, made: int, total: int, elapsed_s: float) -> str:
    """Return the number of finished runs, and the estimated time of the others."""
    text = f"{done:,} of {total:,} runs"
    if not made or done == total:
        return text
    return f"{text}, about {format_age((total - done) * elapsed_s / made)} left"


def weights_text(weights: Mapping[str, float]) -> str:
    """Return the weights of weighers: ``room=1 pack=0.5``."""
    return " ".join(f"{name}={weight:g}" for name, weight in weights.items())
