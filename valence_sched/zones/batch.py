# SPDX-License-Identifier: Apache-2.0
"""Zone batch: several requests that are known at once, in the order by which most nodes fit.

As in one zone (``planning.batches``) they are decided scarcest first, and in other orders where
that leaves nodes out. No optimiser is asked, which one zone asks at last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from valence_sched.model.zone import SealedRequest
from valence_sched.planning.batch_orders import Order, all_orders, worthwhile_orders
from valence_sched.zones.result import taken_by
from valence_sched.zones.selection import OtherOffer, Selected

MOST_REQUESTS = 4  # of which every order is tried
MOST_TRIALS = 24  # orders of one batch: all of four requests

Score = tuple[int, int]

#: Selects the nodes of the request of a number, from 0, after nodes that others of a trial took.
SelectNodes = Callable[[int, Sequence[OtherOffer]], Selected]


@dataclass(frozen=True)
class ZoneTrial:
    """What is selected for requests in one order, by their number, and how far it is from all.

    The score is the number of nodes that are short of what must be placed, and of all.
    """

    selected: Mapping[int, Selected]
    score: Score

    @property
    def is_short(self) -> bool:
        """Return whether some request has fewer nodes than it must have."""
        return bool(self.score[0])


@dataclass(frozen=True)
class ZoneBatch:
    """Requests over zones, of which zones make at most ``most_nodes`` of each, by its number.

    ``new_trial`` returns what selects the nodes of the requests of one order. No other order is
    begun once ``is_late``.
    """

    requests: Sequence[SealedRequest]
    most_nodes: Sequence[int]
    new_trial: Callable[[], SelectNodes]
    is_late: Callable[[], bool]

    def best(self) -> ZoneTrial | None:
        """Return the best trial, the first of equals; None where all requests cannot be met."""
        pairs = zip(self.requests, self.most_nodes, strict=True)
        if any(most < one.request.required_count for one, most in pairs):
            return None
        best: ZoneTrial | None = None
        for order in itertools.islice(self._orders(), MOST_TRIALS):
            if best is not None and (self._is_enough(best) or self.is_late()):
                break
            trial = self._trial(order)
            best = trial if best is None else min(best, trial, key=lambda one: one.score)
        return None if best is None or best.is_short else best

    def in_order(self) -> list[Selected]:
        """Return what is selected in the order asked, up to the first that gets too few nodes."""
        select, others, found = self.new_trial(), list[OtherOffer](), list[Selected]()
        for number, one in enumerate(self.requests):
            selected = select(number, others)
            found.append(selected)
            if len(selected.nodes) < one.request.required_count:
                break
            others += taken_by(one.request, selected)
        return found

    def _orders(self) -> Iterator[Order]:
        requests = [one.request for one in self.requests]
        orders = worthwhile_orders(requests, self.most_nodes)
        every = all_orders(requests) if len(requests) <= MOST_REQUESTS else iter(())
        yield from dict.fromkeys(itertools.chain(orders, every))

    def _is_enough(self, trial: ZoneTrial) -> bool:
        pairs = zip(self.requests, self.most_nodes, strict=True)
        missing = sum(max(0, one.request.count - most) for one, most in pairs)
        return trial.score <= (0, missing)

    def _trial(self, order: Order) -> ZoneTrial:
        """Select for the requests in an order, as many nodes of each as fit."""
        select, others, found = self.new_trial(), list[OtherOffer](), dict[int, Selected]()
        short = missing = 0
        for number in order:
            request = self.requests[number].request
            found[number] = selected = select(number, others)
            others += taken_by(request, selected)
            short += max(0, request.required_count - len(selected.nodes))
            missing += request.count - len(selected.nodes)
        return ZoneTrial(found, (short, missing))
