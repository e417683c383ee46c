# SPDX-License-Identifier: Apache-2.0
"""What is said of a document that is refused."""

from collections.abc import Callable
from typing import Any

from valence_sched.errors import InputError, SchedulerError


def refusal(function: Callable[..., Any], *arguments: Any, kind: type[SchedulerError] = InputError,
            **more: Any) -> str:  # fmt: skip
    """Return the words of the error of this kind that a call ends with."""
    try:
        function(*arguments, **more)
    except kind as error:
        return str(error)
    raise AssertionError("not refused")
