# SPDX-License-Identifier: Apache-2.0
"""Failures weigher: avoids pod managers where composing failed."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import Floats, View


@reads_podm("facts.{fact}")
def failures(view: View, request: Request, *, fact: str = "failures") -> Floats:
    """Prefers pod managers where few compositions failed.

    The score is ``1 / (1 + failures)``: ``failures`` is the ``fact`` of a pod manager, 0 if it is
    unknown, negative or not a number. Source: BuildFailureWeigher of Nova, here absolute.
    """
    failed = np.nan_to_num(view.number(fact), nan=0.0)
    return 1.0 / (1.0 + np.maximum(failed, 0.0))
