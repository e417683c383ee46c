# SPDX-License-Identifier: Apache-2.0
"""Draining: moves nodes away from hardware one by one, each to its new place before it leaves."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.model.relocation import Relocation
from valence_sched.model.scenario import Drain
from valence_sched.model.target import Target
from valence_sched.planning.disruptions import Scope
from valence_sched.planning.edits import edited
from valence_sched.planning.relocation import Placed, hardest_first, moves, stuck_nodes
from valence_sched.planning.residents import Resident, Residents, hardware_notes
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.targets import find_targets


def drain(site: Site, targets: Sequence[Target]) -> Relocation:
    """Return the moves that take every node off pod managers, pools or blocks.

    A node takes its new place before the old one is free, so that no step needs more than there
    is. What a move frees on other hardware, later moves may use: nodes that find no place are tried
    again after every move that does.

    Raises:
        NothingMatches: a target is nothing that is there.
        UnknownName, RequestError: the policy of the site cannot place nodes.
    """
    after = edited(site, [Drain(target) for target in targets])
    residents = Residents(after.view(), site.policy, site.flavors)
    affected = _affected(site, targets, residents)
    succession = Succession(after.decider())
    placed, stuck = _move_all(succession, affected)
    return Relocation(
        why="drained",
        target=", ".join(map(str, targets)),
        nodes=len(affected),
        moves=moves(succession, placed),
        stuck=stuck_nodes(succession, stuck),
        notes=(*residents.notes, *hardware_notes(affected)),
    )


def _affected(site: Site, targets: Sequence[Target], residents: Residents) -> list[Resident]:
    """Return the nodes of drained pod managers, and those that have any drained block."""
    drained: dict[int, set[str]] = {}
    whole: set[int] = set()
    for target in targets:
        for match in find_targets(site.podms, target, site.kinds):
            podm, scope = site.podms[match.podm], Scope.of(site.podms[match.podm], match)
            blocks = {podm.blocks[number].uri for number in scope.blocks}
            drained.setdefault(match.podm, set()).update(blocks)
            whole.update([match.podm] if scope.whole else ())
    return [
        one
        for podm_number in sorted(drained)
        for one in residents.of(podm_number)
        if podm_number in whole or not drained[podm_number].isdisjoint(one.node.blocks)
    ]


def _move_all(
    succession: Succession, residents: Sequence[Resident]
) -> tuple[list[Placed], list[Resident]]:
    placed: list[Placed] = []
    waiting, moved = hardest_first(residents), True
    while waiting and moved:
        moved, still = False, []
        for one in waiting:
            nodes = succession.decide(one.request).placed_nodes if one.request else []
            if one.request is None or not nodes:
                still.append(one)
                continue
            fit = nodes[0][1].chosen
            succession.take(one.request, fit)
            succession.remove(one.podm, one.node)
            placed.append((one, one.request, fit))
            moved = True
        waiting = still
    return placed, waiting
