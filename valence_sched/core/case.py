# SPDX-License-Identifier: Apache-2.0
"""Everything one decision is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from valence_sched.core.fit import Plan
from valence_sched.core.judgement import Judgement
from valence_sched.core.policies import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.model.view import View


@dataclass(frozen=True, slots=True)
class Case:
    """A snapshot, a request under a policy, what was judged of it, and how its needs are fitted.

    With ``strict`` a plugin that breaks its contract raises. ``beside`` is how many nodes other
    requests ask for at the same time, which may take what an alternate would be made of.
    """

    view: View
    request: Request
    bound: BoundPolicy
    judgement: Judgement
    plan: Plan
    strict: bool = False
    beside: int = 0

    def window(self, first: int, last: int, count: int) -> Case:
        """Return the case of ``count`` nodes on rows ``[first, last)`` alone, whole podms only."""
        return replace(
            self,
            view=self.view.window(first, last),
            judgement=self.judgement.window(first, last),
            request=msgspec.structs.replace(self.request, count=count, alternates=0),
        )
