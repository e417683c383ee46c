# SPDX-License-Identifier: Apache-2.0
"""Spending: the search states that a decision may still spend on hard questions.

A question asks whether a node fits in one pool. A short search, which is free, answers nearly all
questions. The other searches are limited by the two budgets of the policy: per question and per
decision. A cached answer costs its states again, so that decisions do not depend on the cache.
"""

from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Struct

from valence_sched.model.policy import DEFAULT_BUDGET, Budget

FREE_STATES, FREE_TOPOLOGY_STATES = 400, 2_000  # states of the short search


class Undecided(Struct, frozen=True):
    """The search ended without an answer within its states."""

    states: int


class SearchOutcome(Struct, frozen=True, gc=False):
    """The best result found, else None; if ``complete``, no better result exists."""

    found: Any
    complete: bool
    states: int

    @property
    def is_open(self) -> bool:
        return self.found is None and not self.complete


class Spending:
    """The states that one decision has left, and its answers to hard questions."""

    def __init__(self, budget: Budget = DEFAULT_BUDGET) -> None:
        self.left = budget.decision_states
        self._answers: dict[Hashable, SearchOutcome] = {}

    @property
    def undecided(self) -> int:
        return sum(answer.is_open for answer in self._answers.values())

    def answer(
        self, question: Hashable, short: SearchOutcome, search: Callable[[], SearchOutcome]
    ) -> SearchOutcome:
        """Return the answer of the long search, or ``short`` if no states are left."""
        answer = self._answers.get(question)
        if answer is None:
            answer = short
            if self.left > 0:
                answer = search()
                self.left -= answer.states
            self._answers[question] = answer
        return answer
