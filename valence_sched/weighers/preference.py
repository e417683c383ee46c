# SPDX-License-Identifier: Apache-2.0
"""Preference weigher: scores pools by weighted rules that the operator writes."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.terms import PreferenceRule, reads_podm, rule_fields, sum_matches
from valence_sched.view.view import Floats, View


@reads_podm(of=rule_fields)
def preference(view: View, request: Request, *, rules: tuple[PreferenceRule, ...] = ()) -> Floats:
    """Prefers pools that match rules of positive weight and no rules of negative weight.

    The score is ``(matched - least) / (most - least)``: ``matched`` is the sum of the weights of
    the rules that match, ``most`` the sum of all weights above 0, ``least`` of all weights below 0.
    A pool scores 1 if it matches all rules above 0 and no rule below 0, and 0 in the opposite case.
    If all weights are 0, every pool scores 0.5. A rule on an unreported fact does not match.
    Source: the affinity of Nomad (matched weight divided by the sum of all weights, -1..1), here
    scaled to 0..1.
    """
    most = sum(max(0.0, rule.weight) for rule in rules)
    least = sum(min(0.0, rule.weight) for rule in rules)
    if most == least:
        return np.full(len(view), 0.5)
    matched = sum_matches(view, "preference", [(rule, rule.weight) for rule in rules])
    return (matched - least) / (most - least)
