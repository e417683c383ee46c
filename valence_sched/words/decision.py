# SPDX-License-Identifier: Apache-2.0
"""A decision in words: outcome, rejected pod managers, nearest misses, and sensitivity."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from valence_sched.model import decision
from valence_sched.model.base import format_value, is_number
from valence_sched.model.decision import Report
from valence_sched.model.inventory import OTHERS
from valence_sched.model.quantity import agree, format_bytes, format_count
from valence_sched.model.request import Request
from valence_sched.words import phrases

NEAREST_MISS = "Nearest miss"


def not_chosen(report: Report) -> list[decision.PodmVerdict]:
    """Return the verdicts on the pod managers that take no node."""
    return [one for one in report.podms if one.outcome in ("rejected", "undecided")]


def pool_texts(
    verdict: decision.PodmVerdict, words: phrases.ReasonPhrases
) -> tuple[str, dict[str, str]]:
    """Return the number of nodes that the pod manager takes, and the reasons of its pools."""
    after = f"after {format_count(verdict.fitting, 'node')}: " if verdict.fitting else ""
    texts = {one.pool: words.of_pool(one.reasons) for one in verdict.pool_reasons}
    return after, texts or {verdict.pool: words.of_pool([verdict.reason] if verdict.reason else [])}


def rejection_lines(report: Report, words: phrases.ReasonPhrases) -> Iterator[tuple[str, str]]:
    """Yield each rejected pod manager and its reasons; each pool if these differ."""
    explained = report.explanation.nearest_misses if report.explanation else ()
    but_for_one = {one.podm for one in explained if one.kind == "word"}
    for one in not_chosen(report):
        after, texts = pool_texts(one, words)
        if len(set(texts.values())) == 1:
            otherwise = "; would fit otherwise" if one.podm in but_for_one else ""
            yield one.podm, after + next(iter(texts.values())) + otherwise
            continue
        for number, (pool, text) in enumerate(texts.items()):
            yield "" if number else one.podm, f"{after}{pool}: {text}"


def reason_groups(
    rejected: Sequence[decision.PodmVerdict], words: phrases.ReasonPhrases
) -> list[tuple[int, str, str]]:
    """Return ``(number of pod managers, reason, nearest of them)``, the most frequent first."""
    groups: dict[tuple[str, bool, str], list[decision.PodmVerdict]] = defaultdict(list)
    for one in rejected:
        if (reason := one.reason) is None:
            key = "no reason is known", False, ""
        elif reason.podm_have is not None:
            key = "enough in total, but not for one node", True, ""
        else:
            is_amount = phrases.is_amount(reason)
            text = phrases.too_small(reason) if is_amount else words.of_reason(reason)
            key = text, False, reason.label
        groups[key].append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(len(some), text, _nearest_text(some)) for (text, *_), some in ordered]


def _nearest_text(members: Sequence[decision.PodmVerdict]) -> str:
    """Return the pod manager of a group with the largest amount; empty if none has any."""
    amounts = [(one, one.reason) for one in members if one.reason and phrases.is_amount(one.reason)]
    best = max(amounts, key=lambda pair: pair[1].have, default=None)  # type: ignore[arg-type,return-value]
    if best is None or not best[1].have:
        return ""
    verdict, reason = best
    if reason.podm_have is None:
        return f"best: {verdict.podm} with {phrases.share(reason)}"
    total = phrases.amount_text(reason.podm_have, reason.unit)
    return f"e.g. {verdict.podm}: {total} {phrases.thing(reason)} in {verdict.pools} pools"


def _would_fit(report: Report) -> str:
    request = report.request
    least = "all" if request.min_count is None else f"at least {request.required_count:,}"
    nodes = format_count(request.count, "node")
    return f"{report.fitting:,} of {nodes} would fit, but {least} must"


def lead(report: Report) -> str:
    """Return the outcome in one sentence: the placed nodes, and their pod managers."""
    podms = Counter(placement.chosen.podm for placement in report.placements)
    if not podms:
        if report.outcome == "undecided":
            return "Undecided: the search reached the budget of the policy"
        if report.fitting:
            return f"Nothing is placed: {_would_fit(report)}"
        return f"Nothing fits: no node on any of {report.inventory.podms:,} pod managers"
    word = "Placed" if report.outcome == "placed" else "Placed in part"
    where = ", ".join(podm if n == 1 else f"{podm} ({n})" for podm, n in podms.most_common(5))
    more = f" and {len(podms) - 5:,} more pod managers" if len(podms) > 5 else ""
    return f"{word}: {report.placed:,} of {format_count(report.requested, 'node')} on {where}{more}"


def decided_by(request: Request, *, names_id: bool) -> str:
    """Return the inputs of the decision on a request: its policy, and the seed that breaks ties."""
    ties = f", request ID {request.id}" if names_id else ""
    return f"(policy {request.policy}, seed {request.seed}{ties})"


def outcome_lines(
    result: decision.DecisionResult, fewer: str = "--min-count {}", *, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about the outcome; ``fewer`` is the option that allows fewer nodes."""
    report, request = result.report, result.report.request
    choices = len(request.alternatives)
    for failed in result.details.failed_choices if result.details else ():
        funnel = funnel_text(report, failed.funnel)
        yield f"alternative {failed.choice} of {choices} does not fit (filters: {funnel})"
    if report.placements and choices > 1:
        counts = sorted(Counter(placement.choice for placement in report.placements).items())
        texts = (
            f"{format_count(count, 'node')} with alternative {choice}" for choice, count in counts
        )
        yield ", ".join(texts)
    if report.fitting and not report.placements:
        yield f"{_would_fit(report)}: accept fewer with {fewer.format(report.fitting)}"
    chosen_by = decided_by(request, names_id=names_id)
    nothing = "nothing fits: " if report.outcome == "nothing_fits" else ""
    yield f"{nothing}placed {report.placed} of {request.count} {chosen_by}"


def summary_lines(
    result: decision.DecisionResult, *, explain: bool, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about a decision beside its rows, the outcome last."""
    report = result.report
    yield from map("warning: {}".format, (*report.warnings, *phrases.zone_lines(report.zones)))
    reasons = {verdict.podm: verdict.reason for verdict in report.podms}
    chosen = dict.fromkeys(placement.chosen.podm for placement in report.placements)
    for podm in list(chosen)[: decision.MAX_LISTED_PODMS]:
        if reason := reasons.get(podm):
            yield f"no more nodes on {podm}: {phrases.ReasonPhrases().of_reason(reason)}"
    *others, outcome = outcome_lines(result, names_id=names_id)
    yield from others
    yield outcome if explain or not report.placements else outcome + _others(report)


def _others(report: Report) -> str:
    if report.zones and not report.podms:
        return f"; {format_count(report.zones.answered, 'zone')} answered"
    outcomes = Counter(verdict.outcome for verdict in report.podms)
    fit = outcomes["fits"] + outcomes["alternate"]
    not_fit = outcomes["rejected"] + outcomes["undecided"]
    if not report.placements or outcomes["chosen"] + fit + not_fit < report.inventory.podms:
        return "; other pod managers: --explain" if report.inventory.podms > 1 else ""
    if not fit + not_fit:
        return ""
    others = format_count(fit, "other fits", "others fit")
    return f"; {others}, {not_fit:,} {'does' if not_fit == 1 else 'do'} not: --explain"


def request_names(requests: Iterable[Request]) -> list[str]:
    """Return the name of each request: its number, and its id or its flavor."""
    numbered = enumerate(requests, 1)
    return [f"{number}: {one.id or one.flavor or 'request'}" for number, one in numbered]


def reports_by_name(document: decision.Report | decision.Reports) -> dict[str, decision.Report]:
    """Return the reports on several requests by request name; empty for a single request."""
    reports: Sequence[decision.Report] = getattr(document, "decisions", ())
    return dict(zip(request_names(one.request for one in reports), reports, strict=True))


def funnel_text(report: Report, funnel: Sequence[decision.FunnelStep]) -> str:
    """Return a funnel in one line: the pools left after each filter that rejected any."""
    left = [format_count(report.inventory.pools, "pool")]
    cuts = (step for step in funnel if step.went_on < step.came_in and not step.undecided)
    left += [f"{step.went_on:,} after {step.filter}" for step in cuts]
    undecided = sum(step.undecided for step in funnel)
    return ", ".join(left) + (f"; undecided: {undecided:,}" if undecided else "")


def score_parts(
    explanation: decision.Explanation,
) -> Iterator[tuple[decision.Contender, list[decision.ScorePart]]]:
    """Yield the candidates with their score parts, by decreasing weight in the first candidate."""
    first = explanation.candidates[0].parts
    weighers = [one.weigher for one in sorted(first, key=lambda one: (-one.weight, one.weigher))]
    for one in explanation.candidates:
        # a zone of another version may have other weighers
        none = {it: decision.ScorePart(weigher=it, weight=0, score=0, part=0) for it in weighers}
        parts = none | {part.weigher: part for part in one.parts}
        yield one, [parts[name] for name in weighers]


def weights_text(explanation: decision.Explanation, weighers: Sequence[str]) -> str:
    """Return the weights of weighers; a range for a weight that depends on the pod manager."""
    texts = []
    parts = [part for one in explanation.candidates for part in one.parts]
    for name in weighers:
        every = [part.weight for part in parts if part.weigher == name]
        least, most = min(every), max(every)
        texts.append(f"{name} {least:g}" + (f" to {most:g}" if most != least else ""))
    return ", ".join(texts)


def runner_up_line(one: decision.RunnerUp) -> str:
    """Return the next best pool and the difference of its score."""
    if not one.margin and not any(it.difference for it in one.differences):
        return f"{one.podm} ({one.pool}), tie, broken by the seed"
    by = ", ".join(f"{it.weigher} {it.difference:+.6f}" for it in one.differences)
    return f"{one.podm} ({one.pool}), {one.margin:.6f} behind" + (f": {by}" if by else "")


def shortfall_phrase(one: decision.Shortfall) -> str:
    """Return the lack of a pool: ``8 cores``, ``1 GPU A100``."""
    unit = f" {one.unit}" if one.unit else ""
    if is_number(one.need) and is_number(one.have):
        missing = float(one.need) - float(one.have)  # type: ignore[arg-type]
        if one.unit == "MiB":
            return f"{format_bytes(missing * phrases.MIB)} {one.label}"
        return f"{format_value(missing)}{unit} {agree(missing, one.label)}"
    return f"{one.label} {format_value(one.need)}{unit} (has {format_value(one.have)})"


def near_miss_line(miss: decision.NearMiss) -> str:
    """Return the missing resources of a pod manager, and the node whose removal frees them."""
    if miss.kind == "word":
        reasons = [decision.Reason(**structs.asdict(one)) for one in miss.lacks]
        texts = " and ".join(map(phrases.ReasonPhrases().of_reason, reasons))
        return f"{miss.podm} is blocked only by policy: {texts}"
    if miss.freeing:
        where = f" (in {miss.freeing.pool})" if miss.freeing.pool != miss.pool else ""
        kind = "" if miss.freeing.node.endswith(OTHERS) else "node "
        remedy = f"removing {kind}{miss.freeing.node}{where} frees it"
    elif not miss.nodes:
        remedy = "it has no node to remove"
    elif miss.tried < miss.nodes:
        remedy = f"removing one of {miss.tried} of its {miss.nodes} nodes is not enough"
    else:
        remedy = "removing any one of its nodes is not enough"
    return f"{miss.podm} lacks {' and '.join(map(shortfall_phrase, miss.lacks))}; {remedy}"


def sensitivity_line(one: decision.Sensitivity) -> str:
    """Return the choice at another weight or amount."""
    if one.podm is None:
        effect = "nothing fits"
    elif one.instead_of is None:
        effect = f"{one.podm} fits"
    elif one.podm == one.instead_of:
        effect = f"pool {one.pool} of {one.podm} instead of {one.instead_of_pool}"
    else:
        effect = f"{one.podm} instead"
    was, becomes = phrases.amount_pair(one.was, one.becomes, one.unit)
    change = f"with {becomes} {agree(one.becomes, one.name)} instead of {was}"
    if one.of == "weight":
        change = f"if the weight of {one.name} is {one.becomes:g} instead of {one.was:g}"
    elif not one.becomes:
        change = f"without the {was} {agree(one.was, one.name)}"
    return f"{effect}, {change}" + (" (tie, broken by the seed)" * one.by_lot)
