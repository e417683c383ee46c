# SPDX-License-Identifier: Apache-2.0
"""The error text of a refused document."""

from collections.abc import Callable
from typing import Any

from valence_sched.errors import InputError, SchedulerError


def refusal(function: Callable[..., Any], *arguments: Any, kind: type[SchedulerError] = InputError,
            **more: Any) -> str:  # fmt: skip
    """Return the text of the error of this kind that a call raises."""
    try:
        function(*arguments, **more)
    except kind as error:
        return str(error)
    raise AssertionError("not refused")
