# SPDX-License-Identifier: Apache-2.0
"""Cost weigher: scores pod managers by cost rules that the operator writes."""

from typing import Annotated

from msgspec import Meta

from valence_sched.model.request import Request
from valence_sched.view.terms import CostRule, reads_podm, rule_fields, sum_matches
from valence_sched.view.view import Floats, View


@reads_podm(of=rule_fields)
def cost(
    view: View,
    request: Request,
    *,
    rules: tuple[CostRule, ...] = (),
    scale: Annotated[float, Meta(gt=0, le=10**15)] = 100.0,
) -> Floats:
    """Prefers pod managers of least cost, by rules on their reported attributes.

    The score is ``1 / (1 + total / scale)``: ``total`` is the sum of the ``cost`` of the rules that
    match, each an integer of at least 0. A total of 0 scores 1, a total of ``scale`` scores 0.5. A
    rule on an unreported fact does not match. Source: the cost functions of Nova's zone-aware
    scheduler (least_cost, 2011), here absolute.

    Raises:
        ValueError: ``scale`` is not above 0.
    """
    if not scale > 0.0:
        raise ValueError(f"scale must be above 0, not {scale}")
    total = sum_matches(view, "cost", [(rule, rule.cost) for rule in rules])
    return 1.0 / (1.0 + total / scale)
