# SPDX-License-Identifier: Apache-2.0
"""The filter that keeps noisy pod managers out of office hours."""

from valence_sched import Mask, Request, View


def quiet_hours(
    view: View, request: Request, *, fact: str = "noise_db", limit: float = 60.0
) -> Mask:
    """Keeps pod managers whose noise is known and at most ``limit``."""
    # An unknown fact is NaN, and no comparison with NaN holds.
    quiet: Mask = view.number(fact) <= limit
    return quiet
