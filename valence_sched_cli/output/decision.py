# SPDX-License-Identifier: Apache-2.0
"""A decision as rows and lines: its nodes, the outcome, and with --explain why."""

from __future__ import annotations

import argparse
import io
import textwrap
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import InventoryIncomplete, escape, one_line
from valence_sched_cli.output.cells import (
    Amount,
    GrantsCell,
    HeatCell,
    PairLines,
    UriTails,
    format_count,
    hang,
    heat_table,
    supports_colour,
)
from valence_sched_cli.output.table import prepare_formatter, without_redundant

if TYPE_CHECKING:
    from valence_sched.model.decision import (
        DecisionResult,
        Explanation,
        FunnelStep,
        PodmVerdict,
        Reason,
        Report,
        Reports,
    )
    from valence_sched.model.request import Request
    from valence_sched.words.phrases import ReasonPhrases

MOST_LINES = 16  # of reasons, before they are grouped: with a decision around it still a screen
WIDTH = 79


def not_chosen(
    report: Report, given: Iterable[str] = (), *, every_reason: bool = False
) -> Iterator[str]:
    """Yield why pod managers take no node: a line a pod manager or pool, or grouped by reason.

    ``given`` are the options on the command line, which are named where one rejects.
    """
    from valence_sched.words import decision
    from valence_sched.words.phrases import ReasonPhrases

    rejected = decision.not_chosen(report)
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
        yield from hang(f"{escape(podm):{width}}  {escape(text)}", width + 6, "  ")


def reason_text(reason: Reason) -> str:
    """Return a reason in words."""
    from valence_sched.words.phrases import ReasonPhrases

    return ReasonPhrases().of_reason(reason)


def _podm_lines(
    verdict: PodmVerdict, words: ReasonPhrases, but_for_one: Container[str]
) -> Iterator[tuple[str, str]]:
    from valence_sched.words.decision import pool_texts

    after, texts = pool_texts(verdict, words)
    if len(set(texts.values())) == 1:
        otherwise = "; would fit otherwise" if verdict.podm in but_for_one else ""
        yield verdict.podm, after + next(iter(texts.values())) + otherwise
        return
    for number, (pool, text) in enumerate(texts.items()):
        yield "" if number else verdict.podm, f"{after}{pool}: {text}"


def _groups(rejected: Sequence[PodmVerdict], words: ReasonPhrases) -> Iterator[str]:
    groups: dict[tuple[str, bool, str], list[PodmVerdict]] = defaultdict(list)
    for one in rejected:
        groups[_group_key(one, words)].append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = [(len(members), text, _nearest(members))
             for (text, *_), members in ordered[:MOST_LINES]]  # fmt: skip
    # Only texts with somebody beside them need the room, and some fit no screen.
    width = min(max((len(text) for _, text, nearest in lines if nearest), default=0), WIDTH // 2)
    for number, text, nearest in lines:
        yield from hang(escape(f"  {number:>5,}  {text:{width}}  {nearest}".rstrip()), 9)
    if len(ordered) > MOST_LINES:
        others = sum(len(members) for _, members in ordered[MOST_LINES:])
        yield f"  {others:>5,}  for other reasons"


def _group_key(verdict: PodmVerdict, words: ReasonPhrases) -> tuple[str, bool, str]:
    from valence_sched.words.phrases import too_small

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
    from valence_sched.words.phrases import share, thing

    amounts = [(one, one.reason) for one in members if one.reason and one.reason.is_amount]
    best = max(amounts, key=lambda pair: pair[1].have, default=None)  # type: ignore[arg-type,return-value]
    if best is None or not best[1].have:
        return ""
    verdict, reason = best
    if reason.podm_have is not None:
        total = share(reason, reason.podm_have).partition(" of ")[0]
        return f"e.g. {verdict.podm}: {total} {thing(reason)} in {verdict.pools} pools"
    return f"best: {verdict.podm} with {share(reason)}"


COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Blocks", "Amounts")
ZONE = "Zone"  # the column beside the pod manager, of decisions over zones
LONG_COLUMNS = (*COLUMNS, "Choice", "Scores", "Cost", "Waste")
#: What columns say where they say nothing, None where a line beside the rows says it.
REDUNDANT = {"Rank": "1", "Amounts": "", "Seed": None, "Request ID": None}
BLOCKS_WIDTH = 36  # of a cell with the blocks of a node
EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4, "undecided": 5}


class ScoreCell(Amount[float]):
    """A score: three decimals for people, six for machines."""

    def human_readable(self) -> str:
        return f"{self._value:.3f}"


class BlocksCell(UriTails):
    """The blocks of a node: the last parts of their URIs side by side for people."""

    def human_readable(self) -> str:
        tails = super().human_readable().split("\n")
        return textwrap.fill(", ".join(tails), BLOCKS_WIDTH, break_on_hyphens=False)


def placement_rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node and each of its alternates; cells as in LONG_COLUMNS."""
    for placement in report.placements:
        for rank, one in enumerate((placement.chosen, *placement.alternates), 1):
            yield (
                placement.node, rank, one.podm, one.pool, ScoreCell(one.score),
                BlocksCell([block.uri for block in one.blocks]), GrantsCell(one.grants),
                placement.choice, PairLines(one.scores), one.cost, one.waste,
            )  # fmt: skip


def zone_cells(report: Report) -> list[str] | None:
    """Return the zone of each row of placements, empty for that asked; None without zones."""
    if not report.zones:
        return None
    return [zone for one in report.zones.placements for zone in (one.zone, *one.alternates)]


def zone_notes(report: Report) -> Iterator[str]:
    """Yield a line each for the zones that gave no answer and for those that were not asked."""
    if report.zones:
        from valence_sched.words.phrases import zone_lines

        yield from zone_lines(report.zones)


def check_zones(report: Report) -> None:
    """Raise InventoryIncomplete where a zone gave no answer, which --strict does not allow."""
    if report.zones and report.zones.silent:
        raise InventoryIncomplete(one_line(next(zone_notes(report))))


def with_zones(
    columns: Sequence[str], rows: list[tuple[Any, ...]], zones: Sequence[str] | None
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return columns and rows with the zone of each row before its pod manager, if it has any."""
    if zones is None:
        return columns, rows
    at = columns.index("Podm")
    rows = [(*row[:at], zone, *row[at:]) for row, zone in zip(rows, zones, strict=True)]
    return (*columns[:at], ZONE, *columns[at:]), rows


def summary_lines(
    result: DecisionResult, *, explain: bool, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about a decision beside its rows, the outcome last.

    With ``names_id`` the outcome has the id of the request, which is no digest of it.
    """
    from valence_sched.model.decision import MAX_LISTED_PODMS

    report = result.report
    yield from warning_lines((*report.warnings, *zone_notes(report)))
    reasons = {verdict.podm: verdict.reason for verdict in report.podms}
    chosen = dict.fromkeys(placement.chosen.podm for placement in report.placements)
    for podm in list(chosen)[:MAX_LISTED_PODMS]:
        if reason := reasons.get(podm):
            yield f"no more on {podm}: {reason_text(reason)}"
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
        return "; the others: --explain" if report.inventory.podms > 1 else ""
    if not fit + not_fit:
        return ""
    others = format_count(fit, "other fits", "others fit")
    return f"; {others}, {not_fit:,} {'does' if not_fit == 1 else 'do'} not: --explain"


def warning_lines(warnings: Iterable[str]) -> Iterator[str]:
    """Yield each warning as a line."""
    for warning in warnings:
        yield f"warning: {warning}"


def decided_by(request: Request, *, names_id: bool) -> str:
    """Return what decided on a request: its policy, and what breaks ties."""
    ties = f", request ID {request.id}" if names_id else ""
    return f"(policy {request.policy}, seed {request.seed}{ties})"


def outcome_lines(
    result: DecisionResult, fewer: str = "--min-count {}", *, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about the outcome, the outcome itself last.

    ``fewer`` is how the caller says that fewer nodes are enough; ``names_id`` as of the summary.
    """
    report, request = result.report, result.report.request
    choices = len(request.alternatives)
    for failed in result.details.failed_choices if result.details else ():
        funnel = funnel_text(report, failed.funnel)
        yield f"choice {failed.choice} of {choices} fits nowhere: {funnel}"
    if report.placements and choices > 1:
        counts = sorted(Counter(placement.choice for placement in report.placements).items())
        yield ", ".join(
            f"{format_count(count, 'node')} by choice {choice}" for choice, count in counts
        )
    if report.fitting and not report.placements:
        least = "all" if request.min_count is None else f"at least {request.required_count:,}"
        nodes = format_count(request.count, "node")
        would = f"{report.fitting:,} of {nodes} would fit, but {least} must"
        yield f"{would}: take what fits with {fewer.format(report.fitting)}"
    chosen_by = decided_by(request, names_id=names_id)
    nothing = "nothing fits: " if report.outcome == "nothing_fits" else ""
    yield f"{nothing}placed {report.placed} of {request.count} {chosen_by}"


def funnel_text(report: Report, funnel: Sequence[FunnelStep]) -> str:
    """Return a funnel in one line: how many pools each filter left that rejected some."""
    left = [format_count(report.inventory.pools, "pool")]
    cuts = (step for step in funnel if step.went_on < step.came_in and not step.undecided)
    left += [f"{step.went_on:,} after {step.filter}" for step in cuts]
    undecided = sum(step.undecided for step in funnel)
    return ", ".join(left) + (f"; undecided: {undecided:,}" if undecided else "")


def request_names(requests: Sequence[Request]) -> list[str]:
    """Return the name of each request: its number, and its id or its flavor."""
    return [
        f"{number}: {request.id or request.flavor or 'request'}"
        for number, request in enumerate(requests, 1)
    ]


MOST_SHOWN = 3  # near misses and changes of each sort; the report has all


class ReportRenderer:
    """Draws a report as text for one stream of one command.

    ``given`` are the options on the command line, which are named where one rejects pools.
    """

    def __init__(
        self,
        formatter: Any,
        stream: Any,
        parsed_args: argparse.Namespace,
        given: Iterable[str] = (),
    ) -> None:
        self._formatter = prepare_formatter(formatter, "table", stream=stream)
        self._parsed_args = parsed_args
        self._every_reason = getattr(parsed_args, "all_reasons", False)
        self._colour = parsed_args.formatter == "table" and supports_colour(stream)
        self._given = given

    def reasons(self, report: Report) -> Iterator[str]:
        yield from not_chosen(report, self._given, every_reason=self._every_reason)

    def explanation(self, report: Report) -> Iterator[str]:
        if report.explanation is not None:
            yield from self._candidates(report.explanation)
        yield from self.reasons(report)
        if any(step.went_on < step.came_in for step in report.funnel):
            yield ""
            yield from _hang("Filters", funnel_text(report, report.funnel))
        if report.explanation is not None:
            yield from _what_would_change(report.explanation)

    def document(self, document: Report | Reports) -> Iterator[str]:
        from valence_sched.model.decision import Report

        if isinstance(document, Report):
            yield from self.report(document)
            return
        for name, report in reports_by_name(document).items():
            yield escape(f"request {name}")
            yield from self.report(report)
            yield ""
        yield f"placed {document.placed:,} of {document.requested:,} in all"

    def report(self, report: Report) -> Iterator[str]:
        yield from _header(report)
        rows = [row[: len(COLUMNS)] for row in placement_rows(report)]
        if rows:
            columns, rows = with_zones(COLUMNS, rows, zone_cells(report))
            page = io.StringIO()
            self._formatter.emit_list(
                *without_redundant(columns, rows, self._parsed_args, REDUNDANT),
                page,
                self._parsed_args,
            )
            yield from page.getvalue().rstrip("\n").split("\n")
        yield from self.explanation(report)

    def _candidates(self, explanation: Explanation) -> Iterator[str]:
        from valence_sched.words.decision import score_parts
        from valence_sched.words.phrases import excess_phrases

        if not explanation.candidates:
            return
        candidates = list(score_parts(explanation))
        weighers = candidates[0][1]
        names = ["Podm", "Pool", "Score", *(part.weigher for part in weighers), "", "Excess"]
        if weighers:
            names[3] = f"= {names[3]}"
        rows = []
        for one, parts in candidates:
            cells = [HeatCell(f"{one.score:.3f}", one.score)]
            cells += [HeatCell(f"{part.part:.3f}", part.score) for part in parts]
            chosen = "chosen" if one.outcome == "chosen" else ""
            rows.append([one.podm, one.pool, *cells, chosen, ", ".join(excess_phrases(one.excess))])
        yield ""
        yield "Candidates"
        table = heat_table(names, list(_folded(names, rows)), colour=self._colour)
        yield from (f"  {line.rstrip()}" for line in table.splitlines())
        weights = [f"{part.weigher} {_weight(explanation, part.weigher)}" for part in weighers]
        if len(weights) > 1:
            yield f"  weights: {', '.join(weights)}"


def _folded(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield rows whose last cell is folded into as many rows as a screen needs for it."""
    cells = list(zip(*rows, strict=True))[:-1]
    widths = [max(len(name), *(len(str(cell)) for cell in column))
              for name, column in zip(names, cells, strict=False)]  # fmt: skip
    room = max(len(names[-1]), WIDTH - 2 - sum(width + 2 for width in widths))
    for *start, last in rows:
        first, *following = textwrap.wrap(last, room) or [""]
        yield [*start, first]
        yield from ([*[""] * len(start), line] for line in following)


def _what_would_change(explanation: Explanation) -> Iterator[str]:
    from valence_sched.words.decision import NEAREST_MISS, near_miss_line, sensitivity_line

    sections = {NEAREST_MISS: [*map(near_miss_line, explanation.nearest_misses)],
                "Sensitivity": [*map(sensitivity_line, explanation.flips)]}  # fmt: skip
    for title, texts in sections.items():
        if not texts:
            continue
        yield ""
        for number, text in enumerate(texts[:MOST_SHOWN]):
            yield from _hang(title if number == 0 else "", text)
        if len(texts) > MOST_SHOWN:
            yield from _hang("", f"{len(texts) - MOST_SHOWN} more in the report")
    for note in explanation.notes:
        yield from _hang("Note", note)


def _hang(title: str, text: str) -> list[str]:
    width = len("Nearest miss:  ")
    lead = f"{title}:" if title else ""
    return hang(escape(f"{lead:{width}}{text}"), width)


def reports_by_name(document: Report | Reports) -> dict[str, Report]:
    """Return the reports on several requests by the names of these, none for one request alone."""
    reports: Sequence[Report] = getattr(document, "decisions", ())
    names = request_names([report.request for report in reports])
    return dict(zip(names, reports, strict=True))


def _weight(explanation: Explanation, weigher: str) -> str:
    parts = [part for one in explanation.candidates for part in one.parts]
    weights = [part.weight for part in parts if part.weigher == weigher]
    least, most = min(weights), max(weights)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def request_lines(report: Report) -> list[str]:
    """Return what is asked for: ``gpu-large: 32 cores, 256 GiB memory, 2 GPU A100``."""
    from valence_sched.words.phrases import request_phrase

    return hang(escape(request_phrase(report.request)), 2)


def _header(report: Report) -> Iterator[str]:
    request, policy, source = report.request, report.policy, report.inventory
    outcome = report.outcome.replace("_", " ")
    placed = f"{report.placed} of {report.requested}"
    yield escape(f"{outcome}: {placed} (policy {policy.name}, seed {report.seed})")
    yield from request_lines(report)
    counts = ((source.podms, "pod manager"), (source.pools, "pool"), (source.blocks, "block"))
    yield escape(f"request {request.id}, inventory {source.digest}")
    yield ", ".join(format_count(number, noun) for number, noun in counts)
