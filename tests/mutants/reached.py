# SPDX-License-Identifier: Apache-2.0
"""The set of functions that a test has reached, while threads of an earlier test go on."""

from collections.abc import Iterator


class Reached(set[str]):
    """Names of functions; iterating sees those that were there when it began.

    mutmut iterates over the set at the end of each test. A thread that outlives its test, such as
    one that deletes a session, adds to it meanwhile, which raises RuntimeError on a plain set: then
    mutmut ends with "failed to collect stats".
    """

    def __iter__(self) -> Iterator[str]:
        return set.__iter__(set.copy(self))  # no other thread runs during a copy
