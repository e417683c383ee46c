# SPDX-License-Identifier: Apache-2.0
"""The page of a decision: the places of the nodes, the reasons, and the map of the hardware."""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from valence_sched.model import page as pages
from valence_sched.model.decision import Explanation, PodmVerdict, Report, Reports, with_podm_paths
from valence_sched.pages.hardware import HardwareListing, decision_map, tail
from valence_sched.pages.tables import MOST_ROWS, Facts, bar, table
from valence_sched.words import decision as sentences
from valence_sched.words.phrases import ReasonPhrases, excess_phrases, request_phrase

MANY = 16  # with more pod managers, a summary of their reasons comes first
TONES: dict[str, pages.Tone] = {"placed": "good", "placed_in_part": "part", "undecided": "part"}
TONES["nothing_fits"] = "bad"


def decision_page(
    document: Report | Reports, hardware: HardwareListing, facts: Facts = ()
) -> pages.Page:
    """Return the page of decisions on ``hardware``; ``facts`` describe their outcome."""
    if isinstance(document, Reports):
        reports = tuple(_as_in(hardware, one) for one in document.decisions)
        document = msgspec.structs.replace(document, decisions=reports)
        return _decisions_page(document, hardware, facts)
    document = _as_in(hardware, document)
    request = document.request
    explanation = document.explanation
    flips = tuple(map(sentences.sensitivity_line, explanation.flips)) if explanation else ()
    candidates = [_candidates(explanation)] if explanation and explanation.candidates else []
    reasons = list(_reasons(document))
    if document.placements:
        sections = [_nodes(document), *candidates, *reasons]
    else:
        sections = [*reasons, *candidates]
    return pages.Page(
        title=f"Decision: {request.flavor or request.id or 'request'}",
        lead=sentences.lead(document),
        tone=TONES[document.outcome],
        facts=(
            ("Request", request_phrase(request)),
            *facts,
            ("Policy", document.policy.name),
            ("Seed", f"{document.seed}"),
            ("Request ID", request.id),
            *_zone_facts(document),
            *_inventory_facts(document),
        ),
        sections=(
            *sections,
            decision_map(hardware, [document]),
            *([pages.Lines(title="Sensitivity", lines=flips)] if flips else []),
            *_warnings(document),
        ),
    )


def _as_in(hardware: HardwareListing, report: Report) -> Report:
    """Return a decision that names its pod managers with zone paths if the hardware does."""
    named, known = with_podm_paths(report), {one.podm.id for one in hardware.podms}
    return named if any(one.chosen.podm in known for one in named.placements) else report


def _decisions_page(document: Reports, hardware: HardwareListing, facts: Facts) -> pages.Page:
    reports = document.decisions
    rows: list[pages.Row] = []
    for one in reports:
        podms = ", ".join(dict.fromkeys(node.chosen.podm for node in one.placements))
        outcome, nodes = one.outcome.replace("_", " "), f"{one.placed:,} of {one.requested:,}"
        rows.append((request_phrase(one.request), outcome, nodes, podms))
    requests = table("Requests", ("Request", "Outcome", "Nodes", "Podms"), rows, ("Nodes",))
    short = [one for one in reports if one.placed < one.requested and one.funnel]
    details = [section for one in short for section in _reasons(one, request_phrase(one.request))]
    outcome = document.outcome.replace("_", " ").capitalize()
    return pages.Page(
        title="Decisions",
        lead=f"{outcome}: {document.placed:,} of {document.requested:,} nodes",
        tone=TONES[document.outcome],
        facts=(*facts, *_inventory_facts(document)),
        sections=(requests, *details, decision_map(hardware, reports), *_warnings(document)),
    )


def _zone_facts(report: Report) -> Facts:
    if not report.zones:
        return ()
    zones = report.zones
    return (
        *((f"Zone of node {one.node}", one.zone or "queried zone") for one in zones.placements),
        *((f"Zone {one.zone}", f"no answer: {one.reason}") for one in zones.silent),
        *((f"Zone {one.zone}", f"not queried: {one.reason}") for one in zones.excluded),
    )


def _inventory_facts(document: Report | Reports) -> Facts:
    source = document.inventory
    numbers = {"Pod managers": source.podms, "Pools": source.pools, "Blocks": source.blocks}
    sizes = tuple((name, f"{number:,}") for name, number in numbers.items())
    return (*sizes, ("Inventory", source.digest)) if source.digest else sizes


def _reasons(report: Report, name: str = "") -> Iterator[pages.Section]:
    after = f" ({name})" if name else ""
    if report.funnel:
        text = "Pools that each filter kept, of the pools before it."
        yield pages.FunnelChart(title=f"Filters{after}", steps=report.funnel, text=text)
    yield from _not_chosen(report, after)
    if report.explanation and (misses := report.explanation.nearest_misses):
        lines = tuple(map(sentences.near_miss_line, misses))
        yield pages.Lines(title=f"{sentences.NEAREST_MISS}es{after}", lines=lines)


def _warnings(document: Report | Reports) -> Iterator[pages.Section]:
    explanation = document.explanation if isinstance(document, Report) else None
    notes = explanation.notes if explanation else ()
    skipped = (f"not read: {one}" for one in document.inventory.skipped)
    if lines := (*document.warnings, *skipped, *notes):
        yield pages.Lines(title="Warnings and notes", lines=lines)


def _nodes(report: Report) -> pages.PageTable:
    rows: list[pages.Row] = []
    for placement in report.placements:
        for rank, one in enumerate((placement.chosen, *placement.alternates)):
            choice = f"alternate {rank}" if rank else "chosen"
            parts = [tail(block.uri) for block in one.blocks]
            for it in one.grants:
                parts.append(f"{it.amount:g} {it.unit} {it.resource} of {tail(it.uri)}")
            place = (one.podm, one.pool, _score(one.score), ", ".join(parts))
            rows.append((f"{placement.node}", choice, *place))
    return table("Nodes", ("Node", "Choice", "Podm", "Pool", "Score", "Made of"), rows, ("Score",))


def _candidates(explanation: Explanation) -> pages.PageTable:
    candidates = list(sentences.score_parts(explanation))
    weighers = [part.weigher for part in candidates[0][1]]
    rows: list[pages.Row] = []
    for one, parts in candidates:
        scores = (pages.TableCell(text=f"{part.part:.3f}", share=part.score) for part in parts)
        excess = ", ".join(excess_phrases(one.excess))
        rows.append((one.podm, one.pool, one.outcome, _score(one.score), *scores, excess))
    text = "The part of each weigher in the score. A bar shows the rating of the weigher, 0 to 1."
    columns = ("Podm", "Pool", "Choice", "Score", *weighers, "Excess")
    return table("Candidates", columns, rows, ("Score", *weighers), text)


def _score(score: float) -> pages.TableCell:
    return pages.TableCell(text=f"{score:.3f}", share=score)


def _not_chosen(report: Report, after: str) -> Iterator[pages.PageTable]:
    others = sentences.not_chosen(report)
    if not others:
        return
    words = ReasonPhrases()
    if len(others) > MANY:
        groups: dict[str, list[str]] = defaultdict(list)
        for one in others:
            groups[words.of_pool([one.reason] if one.reason else [])].append(one.podm)
        grouped: list[pages.Row] = []
        for reason, podms in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
            examples = ", ".join(podms[:3]) + (" and others" if len(podms) > 3 else "")
            grouped.append((reason, bar(len(podms), len(others)), examples))
        columns = ("Reason", "Pod managers", "Examples")
        yield table(f"Not chosen, by reason{after}", columns, grouped, columns[1:2], most=MOST_ROWS)
    text = f"{len(others):,} of {report.inventory.podms:,} pod managers."
    if len(others) > MOST_ROWS:
        text += f" The first {MOST_ROWS} are listed; podm schedule --report has all."
    rows = [row for one in others[:MOST_ROWS] for row in _why(one, words)]
    yield table(f"Not chosen{after}", ("Podm", "Pool", "Reason"), rows, text=text)


def _why(verdict: PodmVerdict, words: ReasonPhrases) -> Iterator[tuple[str, str, str]]:
    after, texts = sentences.pool_texts(verdict, words)
    if len(set(texts.values())) == 1:
        pool = verdict.pool if len(texts) == 1 else "all"
        texts = {pool: next(iter(texts.values()))}
    for pool, text in texts.items():
        yield verdict.podm, pool, after + text
