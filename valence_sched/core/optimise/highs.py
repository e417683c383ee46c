# SPDX-License-Identifier: Apache-2.0
"""HiGHS: the exact optimiser, which is optional (``valence-sched[solver]``) and imported late."""

import functools
from types import ModuleType

from valence_sched.errors import SchedulerError

INSTALL = "pip install 'valence-sched[solver]'"


@functools.cache
def optional_highs() -> ModuleType | None:
    """Return the solver's module, None where it is not installed."""
    try:
        import highspy
    except ImportError:
        return None
    return highspy


def required_highs(purpose: str) -> ModuleType:
    """Return the solver's module.

    Raises:
        SchedulerError: it is not installed, so that the purpose cannot be served.
    """
    highs = optional_highs()
    if highs is None:
        raise SchedulerError(f"{purpose} needs highspy: {INSTALL}")
    return highs
