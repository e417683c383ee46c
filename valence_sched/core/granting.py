# SPDX-License-Identifier: Apache-2.0
"""The stocks of one pool that hand out the amounts which a node asks for, if any do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from valence_sched.core.pour import Grant, pour
from valence_sched.model.inventory import Stock
from valence_sched.model.need import Need
from valence_sched.model.stocks import grant
from valence_sched.model.view import View

Asked = Mapping[str, list[float]]  # amounts by resource


def asked_of(needs: Iterable[Need]) -> Asked:
    """Return each amount of a stock that the needs ask for, by resource."""
    asked: dict[str, list[float]] = {}
    for need in needs:
        if need.kind == "stock":
            asked.setdefault(need.resource, []).extend([need.amount] * need.count)
    return asked


def granted(view: View, row: int, asked: Asked) -> list[Grant] | None:
    """Return how much of which stock of the podm pool ``row`` gives; None when it cannot."""
    shelf, position = view.shelves[view.podm_of[row]], int(view.position_of[row])
    grants: list[Grant] = []
    stocks, stocks_of = shelf.stocks, shelf.stocks_of
    for resource, amounts in asked.items():
        numbers = stocks_of(position, resource)
        if len(numbers) == len(amounts) == 1:  # nothing to choose, and by far the usual case
            amount = grant(stocks[numbers[0]], amounts[0])
            if amount is None:
                return None
            grants.append((numbers[0], amount))
            continue
        found = pour([stocks[number] for number in numbers], amounts)
        if found is None:
            return None
        grants += [(numbers[place], amount) for place, amount in found]
    return grants


def shortfall(view: View, row: int, asked: Asked) -> tuple[str, float, float] | None:
    """Return what the stocks of a pool cannot hand out, how often it is asked, how often had."""
    shelf, position = view.shelves[view.podm_of[row]], int(view.position_of[row])
    for resource, amounts in asked.items():
        stocks = [shelf.stocks[number] for number in shelf.stocks_of(position, resource)]
        if pour(stocks, amounts) is None:
            return f"grants of {resource}", len(amounts), _placeable(stocks, amounts)
    return None


def _placeable(stocks: list[Stock], amounts: list[float]) -> int:
    """Return how many of the amounts can be granted at most: the smallest ones go first."""
    smallest = sorted(amounts)
    return max(n for n in range(len(amounts)) if pour(stocks, smallest[:n]) is not None)
