# SPDX-License-Identifier: Apache-2.0
"""The results of planning in words: capacities, purchases, moves, expectations, and replays."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.errors import escape, name_some
from valence_sched.model.capacity import NOT_REQUESTED, Capacity, PurchaseResult, StrandedAmount
from valence_sched.model.check import CheckResult
from valence_sched.model.decision import Candidate, Reason, Report
from valence_sched.model.need import ACCELERATORS
from valence_sched.model.quantity import (
    MIB_PER_UNIT,
    format_age,
    format_count,
    format_mib,
    resource_title,
)
from valence_sched.model.relocation import NEVER, Rebalance, Relocation, Survival
from valence_sched.model.replay import FirstRefusal, MeasureChange, Replay, ReplayResult, is_share
from valence_sched.model.request import Mix
from valence_sched.model.scenario import EditEffect
from valence_sched.words.phrases import ReasonPhrases, short_model

MOST_SHORTAGES = 3  # reasons why no purchase is enough
MOST_PODMS = 3  # pod managers named for one resource; the rest is counted
MOST_NAMED = 4  # pod managers or differences in one line
PLAIN = ("cores", "memory", "drive", "NIC", "stock")  # kinds other than accelerators
Resource = tuple[str, str | None, str]  # kind, model and unit
_named = functools.partial(name_some, most=MOST_PODMS, last=",")
NO_HARDWARE = "its hardware is unknown"
#: The verb for every node, and the verb for some of the nodes.
_VERBS = {
    "failed": ("can be re-placed", "can be re-placed"),
    "drained": ("moves away", "move away"),
}


def proven_text(one: Capacity) -> str:
    """Return the proven maximum; ``at most`` precedes a bound that no known placement reaches."""
    if one.proven is None:
        return ""
    return f"{one.proven.bound:,}" if one.is_optimal else f"at most {one.proven.bound:,}"


def capacity_lines(
    counts: Sequence[tuple[str, Capacity]], shares: Mapping[str, float] | None, limit: int
) -> Iterator[str]:
    """Yield the result of the mix, each proven bound above the known placements, and the limit."""
    if any(podm.nodes >= limit for _, one in counts for podm in one.podms):
        yield f"stopped counting at {limit:,} per pod manager: see --limit"
    for name, one in counts:
        if one.proven is not None and not one.is_optimal:
            most = max(one.nodes, one.proven.found)
            yield f"{name}: {most:,} are known to fit, at most {one.proven.bound:,} can fit"
    if shares:
        mix = counts[-1][1]
        parts = ", ".join(f"{number:,} {name}" for name, number in mix.by_flavor.items())
        end = f"; then {mix.refused} does not fit" if mix.refused else ""
        yield f"mix: {format_count(mix.nodes, 'node')} ({parts}){end}"


def shortage_lines(
    found: Mapping[str, int], required: Mapping[str, int], mix: str | None
) -> Iterator[str]:
    """Yield the required numbers of nodes that do not fit; ``mix`` is the name of the mix."""
    for name, least in required.items():
        fits = f"{name} fits {format_count(found[name], 'time')}"
        if name == mix:
            fits = f"the mix has {format_count(found[name], 'node')}"
        yield f"{fits}, but {least:,} are required"


def exhaustion_text(one: Capacity) -> str:
    """Return the resources that run out first, by pod manager; else the reason against more."""
    if one.exhausted:
        return "; ".join(
            f"{it.resource.removeprefix('GPU ')} ({_named(it.podms)})" for it in one.exhausted
        )
    reasons = (podm.reasons[0] for podm in one.podms if podm.reasons)
    texts = [ReasonPhrases().of_reason(reason) for reason in reasons if reason.filter != "target"]
    most = Counter(texts).most_common(1)
    return f"no resource: {most[0][0]}" if most else "no resource: the count stopped at its limit"


def unusable_lines(unusable: Mapping[str, str]) -> Iterator[str]:
    """Yield the pod managers with free hardware that take no node, by reason."""
    podms: dict[str, list[str]] = {}
    for name, why in unusable.items():
        if why:
            podms.setdefault(why, []).append(name)
    if podms:
        groups = "; ".join(f"{_named(names)} ({why})" for why, names in sorted(podms.items()))
        yield f"free, but not usable: {groups}"


def stranded_lines(found: Iterable[StrandedAmount]) -> Iterator[str]:
    """Yield a line if no amount is stranded."""
    if not any(one.stranded for one in found):
        yield "no amount is stranded: all free hardware can be used"


def stranded_groups(found: Iterable[StrandedAmount]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each reason of stranded amounts, the most cards first: its pod managers and amounts."""
    free: dict[Resource, float] = defaultdict(float)
    groups: dict[str, dict[Resource, float]] = defaultdict(lambda: defaultdict(float))
    podms: dict[str, dict[str, None]] = defaultdict(dict)
    for one in found:
        resource = (one.kind, one.model, one.unit)
        free[resource] += one.free
        for text, amount in one.why:
            groups[text][resource] += amount
            podms[text][one.podm] = None

    def place(text: str) -> tuple[bool, float, int, str]:
        cards = sum(n for (kind, *_), n in groups[text].items() if kind not in PLAIN)
        return text == NOT_REQUESTED, -cards, -len(groups[text]), text

    for text in sorted(groups, key=place):
        stranded = sorted(groups[text].items(), key=lambda one: one[0][0] in PLAIN)
        lines = [_part_of_free(amount, free[it], *it) for it, amount in stranded]
        yield text, _named(list(podms[text])), lines


def _part_of_free(amount: float, free: float, kind: str, model: str | None, unit: str) -> str:
    name = resource_title(model or "") if kind == "stock" else short_model(model) if model else ""
    what = name if name and kind not in PLAIN[:-1] else f"{kind} {name}".strip()
    if mib := MIB_PER_UNIT.get(unit):
        return f"{format_mib(amount * mib)} of {format_mib(free * mib)} {what}"
    return f"{number_of(amount):,} of {number_of(free):,} {f'{unit} ' if unit else ''}{what}"


def number_of(amount: float) -> int | float:
    """Return an amount, without decimals if it is whole."""
    return int(amount) if amount == int(amount) else amount


def purchase_line(result: PurchaseResult) -> str:
    """Return the purchase that makes nodes fit, and the proof that none is smaller."""
    nodes = f"{result.wanted:,} {result.flavor}"
    if result.lines is None:
        if not result.shortages:
            return f"no purchase of these blocks is known to be enough for {nodes}"
        phrases = ReasonPhrases()
        reasons = (
            f"{phrases.of_reason(one.reason)} ({format_count(one.podms, 'pod manager')})"
            for one in result.shortages[:MOST_SHORTAGES]
            if one.reason
        )
        bought = f"{result.placed:,} fit with {result.tried:,} of each block"
        return f"not enough for {nodes}: {bought}, then {'; '.join(reasons)}"
    if not result.lines:
        return f"{nodes} fit without a purchase"
    bought = format_count(sum(line.number for line in result.lines), "additional block")
    if result.priced:
        bought += f" for {result.total:,.2f}".removesuffix(".00")
    if result.is_smallest:
        proof = "no purchase is cheaper" if result.priced else "fewer are not enough"
    else:
        least = f"{result.bound:,.2f}".removesuffix(".00")
        proof = f"the proven minimum is {least}"
    return f"{nodes} fit with {bought}: {proof}"


def relocation_phrase(result: Relocation) -> str:
    """Return the result of failing or draining in one sentence."""
    if not result.nodes:
        return f"no node is on {result.target}: nothing has to move"
    one, many = _VERBS[result.why]
    nodes = format_count(result.nodes, "node")
    if not result.stuck:
        return f"every node {one}: {nodes} of {result.target}"
    moved, stuck = len(result.moves), len(result.stuck)
    return f"{moved:,} of {nodes} of {result.target} {many}, {stuck:,} cannot"


def survival_phrases(result: Survival) -> Iterator[str]:
    """Yield whether the site survives the tested failures, and the worst set of pod managers."""
    podms = format_count(result.failures, "pod manager")
    tried = f"{result.tried:,} of {result.sets:,} sets tried"
    if result.answer:
        failures = format_count(result.failures, "pod manager failure")
        yield f"the site survives {failures}: every node can be re-placed ({tried})"
        return
    if result.answer is None:
        found = f"the site survives all tested failures of {podms}"
        yield f"undecided: {found} ({tried}, the most expensive first)"
        return
    worst = ", ".join(result.worst)
    failures = format_count(result.failures, "failure")
    bad = f"{result.bad_sets:,} of {result.tried:,} combinations"
    yield f"the site does not survive {failures}: {bad} leave nodes unplaced"
    nodes = format_count(result.worst_nodes, "node")
    yield f"worst: {worst}: {len(result.stuck):,} of {nodes} cannot be re-placed"


def rebalance_lines(result: Rebalance, most: int) -> Iterator[str]:
    """Yield the result of the moves in one sentence, and their total effect."""
    yield _goal_text(result, most)
    if result.waiting:
        names = " and ".join(result.waiting)
        alone = len(result.waiting) == 1
        need = "needs some of its own blocks" if alone else "need each other's blocks"
        yield f"{names} {need}, and no spare blocks were found"
    if not result.moves:
        return
    before, after = result.before, result.after
    parts = []
    if before.room is not None and after.room is not None:
        parts.append(f"room for {before.room:,} more {result.flavor} becomes {after.room:,}")
    if (old := before.fragmentation) is not None and (new := after.fragmentation) is not None:
        parts.append(f"{fragmentation_text(result.resource)} {old:.1%} becomes {new:.1%}")
    if result.imbalance_below is not None:
        parts.append(f"imbalance {before.imbalance:.1%} becomes {after.imbalance:.1%}")
    if parts:
        yield f"total: {', '.join(parts)}"
    steps = Counter((move.node, move.uri) for move in result.moves)
    if waiting := sorted(node for (node, _), count in steps.items() if count > 1):
        yield f"moved through spare blocks: {', '.join(waiting)}"


def _goal_text(result: Rebalance, most: int) -> str:
    goal = _goal(result)
    moves, least = format_count(len(result.moves), "move"), result.least
    if not result.reached:
        if not result.complete:
            bound = f"; at least {least:,} would be needed" if least else ""
            if result.moves:
                return f"undecided: the best {moves} found do not {goal}{bound}"
            return f"undecided: no moves were found that {goal}{bound}"
        number = "number of moves" if least >= NEVER else format_count(most, "move")
        return f"no {number} can {goal}"
    if not result.moves:
        if result.room is not None:
            where = f"{result.flavor} already fits on {result.room.podm}/{result.room.pool}"
            return f"{where}: nothing has to move"
        if result.imbalance_below is not None:
            return f"imbalance is already {result.before.imbalance:.1%}: nothing has to move"
        share = result.before.fragmentation or 0.0
        return f"{fragmentation_text(result.resource)} is already {share:.1%}: nothing has to move"
    if len(result.moves) == 1:
        goal = goal.replace("make", "makes", 1).replace("bring", "brings", 1)
    if len(result.moves) == least:
        return f"{moves} {goal}, and fewer do not"
    return f"{moves} {goal}; at least {least:,} are needed"


def _goal(result: Rebalance) -> str:
    if result.below is not None:
        return f"bring {fragmentation_text(result.resource)} below {result.below:.1%}"
    if result.imbalance_below is not None:
        return f"bring imbalance below {result.imbalance_below:.1%}"
    where = f" on {result.room.podm}/{result.room.pool}" if result.room else ""
    return f"make room for {result.flavor}{where}"


def _listed(names: Iterable[str], before: str = ": ") -> str:
    """Return ``before``, the first names and the number of others; empty without names."""
    every = list(names)
    return f"{before}{name_some(every, MOST_NAMED)}" if every else ""


def fit_counts_text(counts: Sequence[tuple[str, int]], undecided: Sequence[str]) -> str:
    """Return the number of nodes that fit, by pod manager, and the undecided pod managers."""
    times = format_count(sum(number for _, number in counts), "time")
    text = f"fits {times}{_listed(f'{podm} {number:,}' for podm, number in counts)}"
    return f"{text}; {undecided_phrase(undecided)}" if undecided else text


def undecided_phrase(pools: Iterable[str]) -> str:
    """Return the pools that the budget of the policy left undecided."""
    return f"undecided within the budget of the policy{_listed(pools)}"


def landing_text(nodes: Sequence[Candidate], count: int) -> str:
    """Return the places of the placed nodes, with their share of ``count``."""
    places = _listed(dict.fromkeys(map(_place, nodes)), " ")
    return f"placed on{places}" if count == 1 else f"{len(nodes):,} of {count:,} placed on{places}"


def _place(candidate: Candidate) -> str:
    return f"{candidate.podm}/{candidate.pool}"


def refusal_text(count: int, fitting: int, podm: str | None, reason: Reason | None) -> str:
    """Return the number of ``count`` nodes that fit, and the reason against one more."""
    text = f"{fitting:,} of {count:,} fit" if fitting else "does not fit"
    if reason is None:
        return text
    bare = replace(reason, uncounted=UNSET)  # pools outside of a place are drained
    return f"{text}: {podm}: {ReasonPhrases().of_reason(bare)}"


def failure_text(result: Relocation) -> str:
    """Return the numbers of re-placed and stuck nodes after a failure, and the stuck nodes."""
    return relocation_phrase(result) + _listed(one.node for one in result.stuck)


def usage_text(run: ReplayResult) -> str:
    """Return the numbers of pod managers that a workload needs and of its placed nodes."""
    podms = format_count(run.podms_needed, "pod manager")
    return f"needs {podms}, places {run.placed:,} of {format_count(run.requested, 'node')}"


def differences(recorded: Report, now: Report, *, placements_only: bool = False) -> Iterator[str]:
    """Yield the differences of a decision, each with the recorded and the present value."""
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


#: Characters to escape in a GitHub workflow command: in its text, and further ones in its
#: properties.
_TEXT_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _TEXT_ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})


def junit_document(file: str, results: Sequence[CheckResult]) -> bytes:
    """Return results as a JUnit document, escaped as in JSON, one test case each."""
    failures = str(sum(one.result == "fail" for one in results))
    counts = {"tests": str(len(results)), "failures": failures, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": escape(file), **counts})
    for one in results:
        words = {"name": escape(one.name), "classname": "scheduler check"}
        place = {"file": escape(one.file), "line": str(one.line)}
        case = ElementTree.SubElement(suite, "testcase", words | place)
        found = escape(one.found)
        if one.result == "fail":
            ElementTree.SubElement(case, "failure", {"message": found}).text = found
        else:
            ElementTree.SubElement(case, "system-out").text = found
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def github_annotations(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield a GitHub workflow command for each expectation that is not met."""
    for one in results:
        if one.result == "fail":
            file = escape(one.file.translate(_PROPERTY_ESCAPES))
            text = escape(f"{one.name}: {one.found}".translate(_TEXT_ESCAPES))
            yield f"::error file={file},line={one.line}::{text}"


def expectations_line(results: Sequence[CheckResult]) -> str:
    """Return the number of expectations that are met, in one sentence."""
    recorded = sum(one.result == "recorded" for one in results)
    failed = sum(one.result == "fail" for one in results)
    total = format_count(len(results), "expectation")
    more = f", {recorded:,} recorded" if recorded else ""
    if failed:
        return f"{failed:,} of {total} not met{more}"
    return f"{total} met{more}" if not recorded else f"{total}: 0 failed{more}"


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


def outcome_lines(replay: Replay) -> Iterator[str]:
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


def change_lines(changes: Sequence[MeasureChange], file: str) -> Iterator[str]:
    """Yield a line for each measure that differs from the baseline, then their number."""
    for change in changes[:MOST_CHANGES]:
        if change.measure == "run":
            yield f"{change.run}: only in the {'baseline' if change.after is None else 'result'}"
            continue
        share = is_share(change.measure)
        values = (change.before, change.after)
        was, now = ("none" if it is None else value_text(it, is_share=share) for it in values)
        yield f"{change.run}: {change.measure} was {was}, is {now}"
    count = len(changes)
    differing = format_count(count, "measure differs", "measures differ") if count else ""
    yield f"{differing or 'no measure differs'} from {file}"


def _first_lines(first: FirstRefusal) -> Iterator[str]:
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
