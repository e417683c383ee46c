# SPDX-License-Identifier: Apache-2.0
"""Which alternates of a node could stand in for it beside all other nodes of its request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from valence_sched.core.case import Case
from valence_sched.core.judge import judge_company
from valence_sched.model.domain import values
from valence_sched.model.group import Company
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import Request


def stand_ins(case: Case, company: Request, node: int, rows: Sequence[int]) -> set[int]:
    """Return those of ``rows`` that would keep the rules if they took the place of row ``node``.

    ``company`` is the request in the company of all its nodes, that one included.
    """
    request = msgspec.structs.replace(case.request, company=_without(company, case.view.podm(node)))
    index = np.unique(rows)
    part = case.judgement.part(index)
    judge_company(case.view.take(index), request, case.bound, part, strict=case.strict)
    fixed = part.social - part.moving  # what is free is another matter, and was seen to
    asked = [filter_.name in fixed for filter_ in case.bound.filters]
    return set(index[part.verdicts[asked].all(axis=0)].tolist())


def _without(request: Request, podm: LeanPodm) -> Company:
    """Return the company without one node on a podm."""
    company = request.company
    members = company.members.copy()
    for domain in request.group.domains if request.group else ():
        counts = Counter(members.get(domain, {}))
        counts.subtract(values(podm, domain))
        members[domain] = dict(+counts)
    return Company(members=members, owned=company.owned, open=company.open)
