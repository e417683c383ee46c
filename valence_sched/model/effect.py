# SPDX-License-Identifier: Apache-2.0
"""Effects: what was changed, the state of each until a person has read it, and who changed it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from valence_sched.errors import SchedulerError, StoreError, Unverified, one_line
from valence_sched.model.base import MAX_WHOLE, Noun

AUDIT_LINES = 100_000  # that a state keeps
AUDIT_PAGE = 100
#: What a state stores of each kind, by the path that a service has for it.
_STORED = {"claim": "claims/{}", "node": "nodes/{}", "pod manager": "podms/{}"}
_STORED |= {"quota": "quotas/{}", "stats": "podms/{}/stats", "zone": "zones/{}"}


class AuditLine(Noun, frozen=True, kw_only=True):
    """A change of one object, or one that was refused.

    ``verb`` is the rule of the change, or the command on the machine of the state, whose
    ``request_id`` names the machine and its process. ``owner`` is the project of the user.
    ``outcome`` is ``accepted``, ``done`` or the code of an error.
    """

    number: int = 0
    at: float = 0.0
    user: str
    owner: str | None = None
    request_id: str
    verb: str
    object: str
    outcome: str


class AuditQuery(Noun, frozen=True, kw_only=True):
    """Which audit lines to list: the newest with these values, after ``skip`` newer ones."""

    user: str | None = None
    owner: str | None = None
    verb: str | None = None
    object: str | None = None
    outcome: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] = AUDIT_PAGE
    skip: Annotated[int, Meta(ge=0, le=MAX_WHOLE)] = 0


def held_state(claim_id: str) -> str:
    """Return the state of a claim that is held, as the end of a sentence about it."""
    return (
        f"is HELD: podm claim compose {claim_id} composes it, podm claim release {claim_id} ends it"
    )


def unsure_state(state: str, claim_id: str) -> str:
    """Return a state that a claim may have, and where to look."""
    return f"may be {state}: podm claim show {claim_id} has its state"


class EffectLog:
    """The latest state of everything that was changed, by kind and id, in order of its begin.

    A change is noted before it is begun, so that an interruption at any moment finds it here.
    Several threads may note.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], str] = {}
        self._named: set[tuple[str, str]] = set()
        self._refused: dict[tuple[str, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._states)

    def note(self, kind: str, id_: str, state: str) -> None:
        """Note the state of one thing, as the end of a sentence about it."""
        self._states[kind, id_] = state

    def forget(self, kind: str, id_: str) -> None:
        """Forget a thing of which nothing is left."""
        self._states.pop((kind, id_), None)

    def clear(self) -> None:
        """Forget everything: a program that goes on has told it."""
        self._states.clear()
        self._named.clear()
        self._refused.clear()

    @contextlib.contextmanager
    def change(self, kind: str, id_: str, begun: str, done: str) -> Iterator[None]:
        """Note a change that the block makes; one that raises our error has changed nothing.

        It may have where the answer of the store was lost, where it could not be verified, and
        wherever the block was interrupted.
        """
        before = self._states.get((kind, id_))
        self.note(kind, id_, begun)
        try:
            yield
        except SchedulerError as error:
            lost = isinstance(error, StoreError) and error.uncertain
            if not lost and not isinstance(error, Unverified):
                self.forget(kind, id_)
                self._refused[kind, id_] = error.code
                if before is not None:
                    self.note(kind, id_, before)
            raise
        self.note(kind, id_, done)

    def outcomes(self) -> Iterator[tuple[str, str]]:
        """Yield each object of a state that was changed, or not, with the outcome."""
        for (kind, id_), code in self._refused.items():
            if kind in _STORED and (kind, id_) not in self._states:
                yield _STORED[kind].format(id_), code
        for (kind, id_), state in self._states.items():
            if kind in _STORED:
                yield _STORED[kind].format(id_), "unsure" if state.startswith("may be") else "done"

    def mark_named(self, text: str) -> None:
        """Take what a text names, which was delivered, for known to the person."""
        for kind, id_ in list(self._states):
            if re.search(rf"(?<!\w){re.escape(id_)}(?!\w)", text):
                self._named.add((kind, id_))

    def unnamed_lines(self) -> list[str]:
        """Return a line for each thing that no delivered text names."""
        states = [(key, state) for key, state in self._states.items() if key not in self._named]
        return [one_line(f"{kind} {id_} {state}") for (kind, id_), state in states]
