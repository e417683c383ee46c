# SPDX-License-Identifier: Apache-2.0
"""The liveness protocol: decides from the last contact which pod managers are alive."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from valence_sched.errors import UsageError, one_line
from valence_sched.model.age import parse_age

DEFAULT_LIMIT_S = 600.0  # if the argument gives no other


class Sign(NamedTuple):
    """The last contact with a pod manager; None is never, or unknown.

    ``read_s`` is how many seconds ago it was read or reported, ``beat_s`` how many seconds ago it
    reported by the clock of the state.
    """

    id: str
    read_s: float | None = None
    beat_s: float | None = None


class Liveness(Protocol):
    """A function of the entry point group ``valence_sched.liveness``."""

    def __call__(self, signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
        """Return by id whether each pod manager is alive; one that is left out keeps its status.

        ``argument`` is the text after the name and a colon, empty if there is none.

        Raises:
            UsageError: the argument is invalid.
        """


def parse_limit(argument: str, name: str) -> float:
    """Return the age in seconds up to which a pod manager is alive; UsageError if it is no age."""
    try:
        return parse_age(argument) if argument else DEFAULT_LIMIT_S
    except ValueError as error:
        raise UsageError(one_line(f"{name}: {error}")) from None


def within(age_s: float | None, limit_s: float) -> bool:
    """Return whether an age is known and at most the limit."""
    return age_s is not None and age_s <= limit_s
