# SPDX-License-Identifier: Apache-2.0
"""Failure: where the nodes of what fails land again, and whether any k pod managers may fail."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from valence_sched.model.relocation import Relocation, Survival
from valence_sched.model.scenario import Fail
from valence_sched.model.target import Target
from valence_sched.planning.edits import edited
from valence_sched.planning.relocation import Placing, moves, place_again, stuck_nodes, withdraw
from valence_sched.planning.residents import Resident, Residents, hardware_notes
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession

MOST_SETS = 20_000  # of pod managers that are tried

Progress = Callable[[int, int], None]  # sets tried, and of how many


def fail(site: Site, targets: Sequence[Target]) -> Relocation:
    """Return where the nodes of pod managers, pools or blocks land again once these fail.

    The dearest nodes are placed first. Nothing that failed takes any; the blocks of lost nodes that
    did not fail are free.

    Raises:
        NothingMatches: a target is nothing that is there.
        UnknownName, RequestError: the policy of the site cannot place nodes.
    """
    after = edited(site, [Fail(target) for target in targets])
    residents = Residents(site.view(), site.policy, site.flavors)
    lost = lost_nodes(residents, after)
    succession = Succession(after.decider())
    placing = place_again(succession, lost)
    return Relocation(
        why="failed",
        target=", ".join(map(str, targets)),
        nodes=len(lost),
        moves=moves(succession, placing.placed),
        stuck=stuck_nodes(succession, placing.stuck),
        notes=(*residents.notes, *hardware_notes(lost)),
    )


def lost_nodes(residents: Residents, after: Site) -> list[Resident]:
    """Return the nodes that another site does not have any more; its podms are the same ones."""
    left = [{node.uri for node in podm.nodes} for podm in after.podms]
    return [
        one
        for podm, nodes in enumerate(left)
        for one in residents.of(podm)
        if one.node.uri not in nodes
    ]


def survive(site: Site, failures: int, progress: Progress = lambda tried, sets: None) -> Survival:
    """Return whether any ``failures`` pod managers may fail at once, and the worst set of them.

    Every set is tried up to ``MOST_SETS``; of more, those first whose nodes are the dearest.
    Disabled and offline pod managers without nodes are left out: their failure changes nothing.
    """
    view = site.view()
    residents = Residents(view, site.policy, site.flavors)
    nodes = [residents.of(podm) for podm in range(len(view.podms))]
    succession = Succession(site.decider())
    losses = {podm: sum(one.price for one in nodes[podm])
              for podm, one in enumerate(view.podms)
              if nodes[podm] or (one.enabled and one.status != "Offline")}  # fmt: skip
    failures = min(failures, len(losses))
    total = math.comb(len(losses), failures)
    tried = bad = worst_count = 0
    worst: tuple[int, ...] = ()
    for podms in itertools.islice(_dearest_first(losses, failures), MOST_SETS):
        with _failed(succession, podms, nodes) as placing:
            stuck = len(placing.stuck)
        tried += 1
        bad += bool(stuck)
        if stuck > worst_count or not worst:
            worst, worst_count = podms, stuck
        progress(tried, min(total, MOST_SETS))
    with _failed(succession, worst, nodes) as placing:
        explained = stuck_nodes(succession, placing.stuck)
    return Survival(
        failures=failures,
        sets=total,
        tried=tried,
        bad_sets=bad,
        worst=tuple(view.podms[podm].id for podm in worst),
        worst_nodes=sum(len(nodes[podm]) for podm in worst),
        stuck=explained,
        notes=(*residents.notes, *hardware_notes(itertools.chain(*nodes))),
    )


def _dearest_first(losses: dict[int, int], size: int) -> Iterator[tuple[int, ...]]:
    order = sorted(losses, key=lambda podm: (-losses[podm], podm))
    return itertools.combinations(order, size)


@contextlib.contextmanager
def _failed(
    succession: Succession, podms: Sequence[int], nodes: Sequence[Sequence[Resident]]
) -> Iterator[Placing]:
    """Yield how the nodes of podms that fail were placed; afterwards all is as before."""
    reopen = [succession.close(podm) for podm in podms]
    placing = place_again(succession, [one for podm in podms for one in nodes[podm]])
    yield placing
    withdraw(succession, placing)
    for undo in reversed(reopen):
        undo()
