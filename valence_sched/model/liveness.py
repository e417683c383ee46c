# SPDX-License-Identifier: Apache-2.0
"""The liveness protocol: decides from the last contact which pod managers are alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from valence_sched.errors import UsageError, one_line
from valence_sched.model.age import parse_age

DEFAULT_LIMIT_S = 600.0  # of an age, where nobody says another


class Sign(NamedTuple):
    """A pod manager by its id; None is never, or nobody knows.

    ``read_s`` is how many seconds ago it was read or reported, ``beat_s`` how many seconds ago it
    reported by the clock of the state.
    """

    id: str
    read_s: float | None = None
    beat_s: float | None = None


class Liveness(Protocol):
    """A function of ``valence_sched.liveness``."""

    def __call__(self, signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
        """Return by id whether each is alive; who is left out stays as it says itself.

        ``argument`` is what follows the name and a colon, empty for nothing.

        Raises:
            UsageError: the argument is not what it must be.
        """


def parse_limit(argument: str, name: str) -> float:
    """Return the age in seconds up to which something is alive; UsageError when it is none."""
    try:
        return parse_age(argument) if argument else DEFAULT_LIMIT_S
    except ValueError as error:
        raise UsageError(one_line(f"--liveness: {name}: {error}")) from None


def within(age_s: float | None, limit_s: float) -> bool:
    """Return whether an age is known and not beyond a limit."""
    return age_s is not None and age_s <= limit_s
