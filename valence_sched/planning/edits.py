# SPDX-License-Identifier: Apache-2.0
"""Applies edits to a site: each makes another site, and the one before it stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.errors import SchedulerError
from valence_sched.model.inventory import LeanPodm, Status
from valence_sched.model.scenario import (
    AddBlocks,
    Clone,
    Drain,
    Edit,
    EditEffect,
    Fail,
    Remove,
    SetAttributes,
    edit_text,
)
from valence_sched.planning import disruptions
from valence_sched.planning.additions import NewBlocks, check_size, clones
from valence_sched.planning.disruptions import DisruptionRule
from valence_sched.planning.site import Site
from valence_sched.planning.statuses import StatusChanges
from valence_sched.planning.targets import TargetMatch, find_targets, pools_of

_DISRUPTIONS: dict[type[Edit], DisruptionRule] = {
    Fail: disruptions.fail,
    Drain: disruptions.drain,
    Remove: disruptions.remove,
}


def edited(site: Site, edits: Iterable[Edit]) -> Site:
    """Return a site after edits, each applied to what those before it made.

    Raises:
        NothingMatches: the target of an edit is nothing that is there; the message begins with the
            edit and has the nearest name.
        UsageError: blocks of several kinds have the name that new ones are to be like.
    """
    for edit in edits:
        site = apply_edit(site, edit)
    return site


def apply_edit(site: Site, edit: Edit, place: str = "") -> Site:
    """Return a site after one edit, whose effect it has last; errors as of :func:`edited`.

    Errors begin with ``place``, else with the edit.
    """
    text = edit_text(edit)
    try:
        matches = find_targets(site.podms, edit.target, site.kinds)
        podms, effect = _apply(site, edit, matches)
    except SchedulerError as error:
        raise error.at(place or text) from None
    return site.with_podms(podms, replace(effect, edit=text))


def _apply(
    site: Site, edit: Edit, matches: Sequence[TargetMatch]
) -> tuple[list[LeanPodm], EditEffect]:
    statuses = StatusChanges()
    if isinstance(edit, Clone):
        return _clone(site, edit, matches, statuses)
    if isinstance(edit, AddBlocks):
        return _add(site, edit, matches, statuses)
    if isinstance(edit, SetAttributes):
        return _set(site, edit, matches, statuses)
    return _disrupt(site, _DISRUPTIONS[type(edit)], matches, statuses)


def _disrupt(
    site: Site, rule: DisruptionRule, matches: Sequence[TargetMatch], statuses: StatusChanges
) -> tuple[list[LeanPodm], EditEffect]:
    found = {match.podm: rule(site.podms[match.podm], match, statuses) for match in matches}
    podms = [
        after
        for number, podm in enumerate(site.podms)
        if (after := found[number].podm if number in found else podm) is not None
    ]
    return podms, EditEffect(
        edit="",
        podms=len(found),
        pools=sum(one.pools for one in found.values()),
        blocks=sum(one.blocks for one in found.values()),
        stocks=sum(one.stocks for one in found.values()),
        nodes=sum(one.nodes for one in found.values()),
    )


def _clone(
    site: Site, edit: Clone, matches: Sequence[TargetMatch], statuses: StatusChanges
) -> tuple[list[LeanPodm], EditEffect]:
    taken = {podm.id for podm in site.podms}
    numbers = {match.podm for match in matches}
    podms: list[LeanPodm] = []
    new: list[LeanPodm] = []
    check_size(edit.times * sum(len(site.podms[number].blocks) for number in numbers))
    for number, podm in enumerate(site.podms):
        podms.append(podm)
        if number in numbers:
            copies = list(clones(podm, edit.times, taken, statuses))
            taken.update(copy.id for copy in copies)
            podms += copies
            new += copies
    return podms, EditEffect(
        edit="",
        podms=len(new),
        pools=sum(len(pools_of(podm)) for podm in new),
        blocks=sum(len(podm.blocks) for podm in new),
        stocks=sum(len(podm.stocks) for podm in new),
    )


def _add(
    site: Site, edit: AddBlocks, matches: Sequence[TargetMatch], statuses: StatusChanges
) -> tuple[list[LeanPodm], EditEffect]:
    new = NewBlocks(edit, site.podms, site.templates, site.kinds, statuses)
    podms = list(site.podms)
    pools = sum(len(match.pools) for match in matches)
    check_size(edit.count * max(pools, len(matches)))
    blocks = 0
    for match in matches:
        podms[match.podm] = new.added(match)
        blocks += len(podms[match.podm].blocks) - len(site.podms[match.podm].blocks)
    return podms, EditEffect(edit="", podms=len(matches), pools=pools, blocks=blocks)


def _set(
    site: Site, edit: SetAttributes, matches: Sequence[TargetMatch], statuses: StatusChanges
) -> tuple[list[LeanPodm], EditEffect]:
    podms, changes = list(site.podms), edit.changes

    def change(status: Status) -> Status:
        return replace(status, **changes)

    for match in matches:
        podm = podms[match.podm]
        if match.blocks:
            blocks = list(podm.blocks)
            for number in match.blocks:
                blocks[number] = statuses.apply(blocks[number], change)
            podms[match.podm] = replace(podm, blocks=tuple(blocks))
        elif match.pools and podm.pools:
            pools = (replace(pool, **changes) if pool.id in match.pools else pool
                     for pool in podm.pools)  # fmt: skip
            podms[match.podm] = replace(podm, pools=tuple(pools))
        else:  # also the traits of the pool of a pod manager that lists none
            podms[match.podm] = replace(podm, **_podm_changes(podm, changes))
    return podms, EditEffect(
        edit="",
        podms=len(matches),
        pools=sum(len(match.pools) for match in matches),
        blocks=sum(len(match.blocks) for match in matches),
    )


def _podm_changes(podm: LeanPodm, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the new values of a pod manager's attributes; null removes a fact or capability."""
    new = dict(changes)
    if "facts" in new:
        facts = podm.facts | new["facts"]
        new["facts"] = {key: value for key, value in facts.items() if value is not None}
    if "capabilities" in new:
        given = {key: (value,) if isinstance(value, str) else value
                 for key, value in new["capabilities"].items()}  # fmt: skip
        capabilities = podm.capabilities | given
        new["capabilities"] = {key: values for key, values in capabilities.items() if values}
    return new
