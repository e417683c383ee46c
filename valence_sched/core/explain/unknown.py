# SPDX-License-Identifier: Apache-2.0
"""Unknown terms: warnings about unreported names and values, and about undecided pools."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from valence_sched.core.decision import Decision
from valence_sched.errors import closest, one_line, suggest, unknown_lines
from valence_sched.model.base import as_text
from valence_sched.model.decision import PoolRef
from valence_sched.model.extra_specs import PLAIN_ATTRIBUTES, split_attribute
from valence_sched.model.need import Alternative, NameRequirements
from valence_sched.model.policy import Policy
from valence_sched.model.quantity import format_count
from valence_sched.model.request import FACT_PREFIX, Request
from valence_sched.view.block_kinds import passes
from valence_sched.view.view import View

# the noun for a device, if it is not the name of its kind
DEVICE_NOUNS = {"memory": "memory module"}
BOOLEAN_ATTRIBUTE = "remote"  # a boolean of a device, which cannot be misspelt
MOST_NAMES = 5  # undecided pools in the message; the report has all
SIMILARITY = 0.6  # from 0 to 1; models are short: H200 and A100 share half of their characters


def _unknown_in_alternative(view: View, alternative: Alternative) -> Iterator[str]:
    for need in alternative.needs:
        devices = view.kinds.distinct_devices(need.kind)
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


def undecided_text(pools: Sequence[PoolRef], policy: Policy) -> str:
    """Return the line about pools that may fit, but whose search exceeded the budget."""
    names = ", ".join(f"{one.podm} ({one.pool})" for one in pools[:MOST_NAMES])
    more = f" and {len(pools) - MOST_NAMES:,} more" if len(pools) > MOST_NAMES else ""
    what = format_count(len(pools), "pool")
    budget, states = policy.budget, format_count(policy.budget.pool_states, "state")
    spent = f"no answer within {states} for a pool and {budget.decision_states:,} for a decision"
    hint = f"raise the budget of policy {policy.name!r}"
    return f"undecided: {what} may fit: {names}{more}: {spent}: {hint}"
