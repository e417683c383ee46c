# SPDX-License-Identifier: Apache-2.0
"""Preference weigher: scores pools by weighted rules that the operator writes."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.reads import reads_podm, rule_fields
from valence_sched.view.terms import PreferenceRule, sum_matches
from valence_sched.view.view import Floats, View


@reads_podm(of=rule_fields)
def preference(view: View, request: Request, *, rules: tuple[PreferenceRule, ...] = ()) -> Floats:
    """Prefers pools with the most of the wished for and the least of the unwelcome.

    ``(matched - least) / (most - least)``, where ``matched`` is the sum of the weights of the rules
    that match, ``most`` that of all weights above 0 and ``least`` that of all below: 1 where every
    wish holds and nothing unwelcome does, 0 the other way round, and one half for all where no
    rule weighs anything. A rule on an unreported fact does not match. Source: the affinity of
    Nomad (matched weight by the sum of all weights, -1..1), here moved to 0..1.
    """
    most = sum(max(0.0, rule.weight) for rule in rules)
    least = sum(min(0.0, rule.weight) for rule in rules)
    if most == least:
        return np.full(len(view), 0.5)
    matched = sum_matches(view, "preference", [(rule, rule.weight) for rule in rules])
    score: Floats = (matched - least) / (most - least)
    return score
