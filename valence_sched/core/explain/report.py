# SPDX-License-Identifier: Apache-2.0
"""Reports: converts decisions to documents, with their verdicts and explanation."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.core.batch import Attempt, goes_by_cost
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import funnel
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import closest, name_some, one_line, suggest, unknown_lines
from valence_sched.model import decision as nouns
from valence_sched.model.base import as_text
from valence_sched.model.decision import PoolRef
from valence_sched.model.extra_specs import PLAIN_ATTRIBUTES, split_attribute
from valence_sched.model.inventory import uri_tail
from valence_sched.model.need import MEASURES, Alternative, NameRequirements
from valence_sched.model.policy import Policy
from valence_sched.model.quantity import format_count
from valence_sched.model.request import FACT_PREFIX, Request
from valence_sched.view.block_kinds import passes
from valence_sched.view.view import View, inventory_digest
from valence_sched.words.phrases import devices_by_condition, phrases

MOST_CANDIDATES = 6  # the chosen candidate, and the best on other pod managers
BUDGET_SHARE = 4  # an explanation may spend 1/4 of the states of a decision


def decision_report(
    decision: Decision,
    source: nouns.InventorySummary | None = None,
    *,
    detail: nouns.Detail = "report",
    explain: bool = True,
) -> nouns.Report:
    """Return a decision as a document; ``source`` is the inventory, if known.

    The slow parts are only in a ``report``: the funnel, all verdicts, the digest of the inventory
    and, with ``explain``, the explanation.
    """
    is_whole = detail == "report"
    if source is None and is_whole:
        source = inventory_source(decision.view, decision.skipped)
    is_explainable = is_whole and decision.explainable
    return nouns.Report(
        outcome=decision.outcome,
        requested=decision.request.count,
        placed=len(decision.placed_nodes),
        fitting=decision.fit_count,
        seed=decision.request.seed,
        request=decision.request,
        policy=decision.context.bound.policy,
        policy_digest=decision.context.bound.digest,
        inventory=source or inventory_summary(decision.view),
        placements=decision.placements,
        podms=tuple(_verdicts(decision, detail)),
        funnel=funnel_steps(decision) if is_whole else (),
        warnings=tuple(decision_warnings(decision)),
        explanation=explain_decision(decision) if is_explainable and explain else None,
        undecided=decision.undecided,
    )


def _verdicts(decision: Decision, detail: nouns.Detail) -> Iterable[nouns.PodmVerdict]:
    """Return the verdicts of a report; a summary has all if no node fits or the site is small.

    Otherwise a summary has those on the chosen podms if only some nodes are placed, else none.
    """
    if detail == "placements" or (detail == "report" and not decision.explainable):
        return ()
    from valence_sched.core.explain.verdicts import Verdicts  # only on request

    most = nouns.MAX_LISTED_PODMS
    if detail == "report" or not decision.placed_nodes or len(decision.view.podms) <= most:
        return Verdicts(decision).podm_verdicts()
    podms = decision.chosen_podms()[:most] if decision.outcome == "placed_in_part" else ()
    return map(Verdicts(decision).podm_verdict, podms)


def funnel_steps(
    decision: Decision, attempt: Attempt | None = None
) -> tuple[nouns.FunnelStep, ...]:
    """Return the funnel of an attempt's first node: pools before and after each filter."""
    if not decision.explainable:
        return ()
    attempt = attempt or decision.main_attempt
    context, undecided = attempt.context, len(attempt.batch.undecided_rows)
    counts = funnel(context.bound, context.evaluation.verdicts, len(context.view))
    steps = [nouns.FunnelStep(filter=name, came_in=i, went_on=out) for name, i, out in counts]
    if undecided:
        passed = steps[-1].went_on if steps else len(context.view)
        left = max(0, passed - undecided)
        steps.append(
            nouns.FunnelStep(filter="fit", came_in=passed, went_on=left, undecided=undecided)
        )
    return tuple(steps)


def inventory_source(view: View, skipped: Sequence[str]) -> nouns.InventorySummary:
    """Return the inventory summary of a View for a report."""
    digest, size = inventory_digest(view), inventory_summary(view)
    return replace(size, digest=digest, skipped=tuple(skipped))


def explain_decision(decision: Decision) -> nouns.Explanation:
    """Explain the first node of a decision; the notes name the limits that were reached."""
    from valence_sched.core.explain import sensitivity  # only for explanations

    notes = [*_health_notes(decision)]
    spending, budget = decision.context.spending, decision.context.bound.policy.budget
    spending.left = min(spending.left, budget.decision_states // BUDGET_SHARE)
    chosen = decision.placed_nodes[0][1].chosen.row if decision.placed_nodes else None
    rows = [] if chosen is None else [chosen]
    rows += itertools.islice(_others(decision, chosen), MOST_CANDIDATES - len(rows))
    search = sensitivity.NearMissSearch(decision, notes)
    choices = sensitivity.FlatChoices(decision, chosen)
    changes = sorted(sensitivity.choice_changes(choices, notes), key=sensitivity.relative_size)
    misses = search.run()
    if undecided := spending.undecided:
        searches = f"{format_count(undecided, 'search', 'searches')} for the explanation"
        notes.append(f"{searches} reached the budget of the policy: dependent results are omitted")
    candidates = tuple(
        nouns.Contender(
            podm=decision.view.podm(row).id,
            pool=decision.view.pools[row].id,
            outcome="chosen" if row == chosen else "fits",
            score=decision.score(int(decision.context.evaluation.cost[row])),
            parts=_score_parts(decision, row),
            excess=_excess(decision, row),
        )
        for row in rows
    )
    return nouns.Explanation(
        candidates=candidates,
        runner_up=runner_up(choices.policy, candidates),
        nearest_misses=misses,
        flips=tuple(changes),
        notes=tuple(notes),
    )


def _health_notes(decision: Decision) -> Iterator[str]:
    """Yield a note for each chosen block whose health is Warning."""
    kinds = decision.view.kinds
    for _, node in decision.placed_nodes:
        podm = decision.view.podm(node.chosen.row)
        table = decision.view.block_tables[decision.view.podm_of[node.chosen.row]]
        for block in node.chosen.blocks:
            if (number := table.kinds[block]) in kinds.impaired:
                kind, name = kinds.kinds[number], uri_tail(table.uris[block])
                unwell = devices_by_condition(kind.devices).get("Warning")
                what = "the block" if kind.condition == "Warning" else ""
                what = what or ", ".join(phrases(unwell) if unwell else ())
                if what:
                    yield f"health Warning: {what} (in {name} of {podm.id})"


def _others(decision: Decision, chosen: int | None) -> Iterator[int]:
    """Yield the best row of every other podm that the first node fits, best first."""
    context = decision.context
    seen_podms = set() if chosen is None else {int(context.view.podm_of[chosen])}
    for row in rank_rows(context.view, context.evaluation.cost, context.request, 0):
        podm = int(context.view.podm_of[row])
        if podm not in seen_podms and isinstance(context.fit(context.view, row), Fit):
            seen_podms.add(podm)
            yield row


def _excess(decision: Decision, row: int) -> dict[str, float]:
    context = decision.context
    fit = context.fit(context.view, row)
    if not isinstance(fit, Fit):
        return {}
    table = context.view.block_tables[context.view.podm_of[row]]
    kinds = [table.kinds[block] for block in fit.blocks]
    excess = {}
    for name, every in MEASURES.items():
        if name == "gpus":  # GPUs are accelerators
            continue
        has = float(context.view.kinds.amounts(every)[kinds].sum())
        measure = every.kind, every.measure
        alike = (one for one in context.request.needs if (one.kind, one.measure) == measure)
        excess[name] = has - sum(need.amount for need in alike)
    return {name: amount for name, amount in excess.items() if amount > 0}


def _score_parts(decision: Decision, row: int) -> tuple[nouns.ScorePart, ...]:
    context = decision.context
    scores, one_row = context.evaluation.scores_of(row), context.view.take([row])
    weights = [int(weigher.weights(one_row)[0]) for weigher in context.bound.weighers]
    total = sum(weights)
    parts = [
        nouns.ScorePart(
            weigher=weigher.name,
            weight=weight / WEIGHT_UNITS,
            score=round(score, 6),
            part=round(weight * score / total, 6) if total else 0.0,
        )
        for weigher, weight, score in zip(context.bound.weighers, weights, scores, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.part))


def runner_up(policy: Policy, candidates: Sequence[nouns.Contender]) -> nouns.RunnerUp | None:
    """Return the best candidate after the chosen one; None if no cost decides between them."""
    is_by_cost = policy.pick.best_of == 1 and goes_by_cost(policy)
    if len(candidates) < 2 or candidates[0].outcome != "chosen" or not is_by_cost:
        return None
    first, second = candidates[:2]
    behind = {one.weigher: one.part for one in second.parts}
    differences = (
        nouns.ScoreDifference(
            weigher=one.weigher, difference=round(one.part - behind.get(one.weigher, 0.0), 6)
        )
        for one in first.parts
    )
    return nouns.RunnerUp(
        podm=second.podm,
        pool=second.pool,
        score=second.score,
        margin=round(first.score - second.score, 6),
        differences=tuple(sorted(differences, key=lambda one: -abs(one.difference))),
    )


# the noun for a device, if it is not the name of its kind
DEVICE_NOUNS = {"memory": "memory module"}
BOOLEAN_ATTRIBUTE = "remote"  # a boolean of a device: its value cannot be misspelt
MOST_NAMES = 5  # undecided pools in the message; the report has all
SIMILARITY = 0.6  # from 0 to 1; models are short: H200 and A100 share half of their characters


def _unknown_in_alternative(view: View, alternative: Alternative) -> Iterator[str]:
    for need in alternative.needs:
        lines = view.memoise(("distinct devices",), _distinct_devices, view)
        devices = [device for kind, device in lines if kind == need.kind]
        for test in need.tests if devices else ():
            if test.operator == "at_least" or test.attribute == BOOLEAN_ATTRIBUTE:
                continue
            if not any(passes(test, device, need.unknown) for device in devices):
                reported = {getattr(device, test.attribute) for device in devices} - {None}
                hint = _hint(str(test.value), reported)
                noun = DEVICE_NOUNS.get(need.kind, need.kind)
                yield one_line(f"no {noun} has the {test.attribute} {test.value!r} ({hint})")
    for place in (one.place for one in alternative.topology if one.place != "zone"):
        names = view.memoise(("topology names",), _topology_names, view)
        if place not in names:
            yield one_line(f"no block reports a {place!r} ({suggest(place, names)})")


def _distinct_devices(view: View) -> list[tuple[str, Any]]:
    """Return each device of the blocks with its kind of need; the kinds outlive their blocks."""
    numbers = set().union(*(table.kinds for table in view.block_tables))
    lines = (line for number in sorted(numbers) for line in view.kinds.devices_of(number))
    return list(dict.fromkeys(lines))


def _hint(value: str, known: Collection[str]) -> str:
    """Return a hint with the nearest reported value, else the nearest word of these values."""
    words = {word for text in known for word in text.split()}
    close = closest(value, known, SIMILARITY) or closest(value, words, SIMILARITY)
    return suggest(value, known if close is None else [close], SIMILARITY)


def _topology_names(view: View) -> frozenset[str]:
    tables = (filter(None, table.topologies or ()) for table in view.block_tables)
    return frozenset(name for topologies in tables for one in topologies for name in one)


def unknown_terms(view: View, request: Request) -> list[str]:
    """Return a line with the nearest name for each unreported name or value in a request."""

    def make() -> list[str]:
        terms = dict.fromkeys(_request_terms(request))
        needs = itertools.chain.from_iterable(one.needs for one in request.alternatives)
        devices = [list(_unknown_in_alternative(view, one)) for one in request.alternatives]
        names = (need.resource for need in needs if need.kind == "stock")
        return [
            *unknown_lines("has a resource named", names, view.resources),
            *(line for term in terms for line in _unknown_lines(view, *term)),
            *_unknown_values(view, request),
            # no line if another alternative names only known values
            *dict.fromkeys(itertools.chain.from_iterable(devices if all(devices) else ())),
        ]

    return view.memoise_free("unknown terms", request.evaluation_key, make)  # type: ignore[no-any-return]


def _request_terms(request: Request) -> Iterator[tuple[str, str]]:
    named = [split_attribute(path) for path in request.attributes]
    if request.where_expression is not None:
        named += [(path.root, path.name) for path in request.where_expression.paths]
    named += [("capabilities", key) for key in request.capabilities]
    inherited = {("capabilities", key) for key in request.inherited}
    yield from (term for term in named if term not in inherited)
    if request.group is not None:
        facts = (domain for domain in request.group.domains if domain.startswith(FACT_PREFIX))
        yield from (("facts", domain.removeprefix(FACT_PREFIX)) for domain in facts)


def _unknown_lines(view: View, root: str, name: str) -> Iterator[str]:
    if root == "facts":
        reported = view.has_fact(name)
    else:
        reported = root != "capabilities" or any(name in podm.capabilities for podm in view.podms)
    if reported:
        return
    known = {name for podm in view.podms for name in getattr(podm, root)}
    if root == "facts":  # a plain name is an attribute or a fact
        known.update(PLAIN_ATTRIBUTES)
    yield one_line(f"no pod manager reports '{root}.{name}' ({suggest(name, known)})")


def _unknown_values(view: View, request: Request) -> Iterator[str]:
    if request.zone is not None:
        zones = {zone for zone in view.zone.values if zone is not None}
        yield from unknown_lines("is in the zone", [request.zone], zones)
    if request.locations:
        locations = [location.rstrip("/") for location in request.locations]
        reported = view.text("location").values
        several = (one if isinstance(one, (tuple, list)) else (one,) for one in reported)
        paths = {as_text(one).rstrip("/") for some in several for one in some if one is not None}
        parts = (path.split("/") for path in paths)  # a part of a location is a location, too
        known = {"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1)}
        yield from unknown_lines("is at the location", locations, known)
    yield from _unknown_names("is in the aggregate", request.aggregates, view.aggregates.values)
    yield from _unknown_names("has the trait", request.traits, view.traits.values)
    for key, names in request.capabilities.items():
        inherited = request.inherited.get(key, ())
        known = set(inherited).union(*(has.get(key, ()) for has in view.capabilities.values))
        if known:  # else the key itself is unknown
            yield from unknown_lines(f"has the capability {key}", names, known)


def _unknown_names(
    what: str, names: NameRequirements, has: Iterable[Iterable[str]]
) -> Iterator[str]:
    """Yield a line for each name that no pod manager has; for a forbidden name only if misspelt."""
    if not names:
        return
    known = {name for one in has for name in one}
    wishes = [*names.required, *(name for one in names.any_of for name in one)]
    wishes += [name for name in names.forbidden if closest(name, known) is not None]
    yield from unknown_lines(what, wishes, known)


def decision_warnings(decision: Decision) -> list[str]:
    """Return lines about plug-ins that broke their contract, unknown terms, and undecided pools."""
    notes = [*decision.batch.evaluation.notes, *unknown_terms(decision.view, decision.request)]
    if decision.undecided_rows:
        notes.append(undecided_text(decision.undecided, decision.context.bound.policy))
    bounds = [one.batch.bound for one in decision.attempts if one.batch.bound is not None]
    if bounds and len(decision.attempts) == 1:
        notes += bound_notes(bounds[0], decision.fit_count, decision.request.count)
    return notes


def bound_notes(bound: int, fitting: int, requested: int) -> list[str]:
    """Return the proven bound of nodes and the found number, if not all nodes fit."""
    if fitting >= requested or bound >= requested:
        return []
    most = f"no placement has more than {bound:,} of the {format_count(requested, 'node')}"
    return [most if fitting == bound else f"{most}; {fitting:,} were found"]


def limit_note(batch_fits: int | None = None) -> str:
    """Return the line on the limit of the optimiser: at its end, or too many pools to begin."""
    limit = "the optimiser ended at its limit"
    if batch_fits is not None:
        limit = f"the site is too large for the optimiser (batch_fits {batch_fits:,})"
    return f"more nodes may fit: {limit}"


def undecided_text(pools: Sequence[PoolRef], policy: Policy) -> str:
    """Return the line about pools that may fit, but whose search exceeded the budget."""
    names = name_some([f"{one.podm} ({one.pool})" for one in pools], MOST_NAMES)
    what = format_count(len(pools), "pool")
    budget, states = policy.budget, format_count(policy.budget.pool_states, "state")
    spent = f"no answer within {states} for a pool and {budget.decision_states:,} for a decision"
    hint = f"raise the budget of policy {policy.name!r}"
    return f"undecided: {what} may fit: {names}: {spent}: {hint}"


def decision_result(
    decision: Decision, detail: nouns.Detail = "placements"
) -> nouns.DecisionResult:
    """Return a decision with its details and the report at the level ``detail``."""
    report = decision_report(decision, detail=detail)
    return nouns.DecisionResult(report=report, details=decision_details(decision))


def inventory_summary(view: View) -> nouns.InventorySummary:
    """Return the size of the inventory without its slow digest."""
    sizes = {"podms": len(view.podms), "pools": len(view), "blocks": view.block_count}
    return nouns.InventorySummary(digest="", skipped=(), **sizes)


def decision_details(decision: Decision) -> nouns.DecisionDetails | None:
    if not decision.explainable:
        return None
    choices = [
        nouns.FailedChoice(choice=number, funnel=funnel_steps(decision, one))
        for number, one in decision.failed_attempts
    ]
    return nouns.DecisionDetails(failed_choices=tuple(choices))
