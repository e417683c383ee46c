# SPDX-License-Identifier: Apache-2.0
"""Mix: places nodes of several flavors one after another, so that each keeps its share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.model.request import Request
from valence_sched.planning.succession import Succession


@dataclass(slots=True)
class MixPlacement:
    """The nodes of a mix in order, as ``(flavor number, row)``; the decision that found no place.

    ``last`` is the number of the flavor that was refused; None where the count stopped at a limit.
    """

    nodes: list[tuple[int, int]] = field(default_factory=list)
    last: int | None = None
    decision: Decision | None = None
    notes: dict[str, None] = field(default_factory=dict)


def mix_order(shares: Sequence[int]) -> Iterator[int]:
    """Yield without end the number of the flavor of the next node.

    Of the first ``n`` nodes each flavor has ``n × share / sum of shares``, rounded down or up: node
    ``j`` of a flavor may come once ``n > (j - 1) × sum / share``, and comes before
    ``j × sum / share``. The earliest of these deadlines first is an order that meets all of them
    (Baruah et al., Proportionate progress, 1996).
    """
    whole, counts, step = sum(shares), [0] * len(shares), 0
    while True:
        released = [
            number for number, (count, share) in enumerate(zip(counts, shares, strict=True))
            if count * whole // share <= step
        ]  # fmt: skip
        number = min(released, key=lambda one: (-(-(counts[one] + 1) * whole // shares[one]), one))
        counts[number] += 1
        step += 1
        yield number


def place_mix(
    decider: Decider, requests: Sequence[Request], shares: Sequence[int], most: int
) -> MixPlacement:
    """Place the nodes of a mix as decisions one after another do, up to the first refusal.

    It stops, too, when a podm has ``most`` of them. Errors as for a decision.
    """
    succession, placement = Succession(decider), MixPlacement()
    podm_of = succession.view.podm_of.tolist()
    counts = [0] * len(succession.view.podms)
    for number in mix_order(shares):
        decision = succession.decide(requests[number])
        placement.notes.update(dict.fromkeys(decision.batch.evaluation.notes))
        if not decision.placed_nodes:
            placement.last, placement.decision = number, decision
            break
        (_, node), *_ = decision.placed_nodes
        succession.take(requests[number], node.chosen)
        placement.nodes.append((number, node.chosen.row))
        podm = podm_of[node.chosen.row]
        counts[podm] += 1
        if counts[podm] >= most:
            break
    return placement
