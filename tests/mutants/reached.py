# SPDX-License-Identifier: Apache-2.0
"""The set of functions that a test has reached, while threads of an earlier test continue."""

from collections.abc import Iterator


class Reached(set[str]):
    """Names of functions; an iteration sees the names at its start.

    mutmut iterates over the set at the end of each test. A thread of an earlier test, such as one
    that deletes a session, may add a name at the same time. A plain set would then raise
    RuntimeError, and mutmut would end with "failed to collect stats".
    """

    def __iter__(self) -> Iterator[str]:
        return set.__iter__(set.copy(self))  # no other thread runs during a copy
