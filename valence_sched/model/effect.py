# SPDX-License-Identifier: Apache-2.0
"""Effects: the changes that a command makes, the states not printed yet, and audit lines."""

import contextlib
import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from valence_sched.errors import SchedulerError, StoreError, Unverified, one_line
from valence_sched.model.base import MAX_WHOLE, Noun

AUDIT_LINES = 100_000  # lines that a state stores
AUDIT_PAGE = 100
_STORED = {"claim": "claims/{}", "node": "nodes/{}", "pod manager": "podms/{}"}  # paths of the API
_STORED |= {"quota": "quotas/{}", "stats": "podms/{}/stats", "zone": "zones/{}"}


class AuditLine(Noun, frozen=True, kw_only=True):
    """A change of one object, made or refused.

    ``verb`` is the access rule of the change, or the name of a local command. The ``request_id`` of
    a local command is its host and process. ``owner`` is the project of the user. ``outcome`` is
    ``accepted``, ``done`` or the code of an error.
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
    """A query for the newest audit lines with these values, without the first ``skip``."""

    user: str | None = None
    owner: str | None = None
    verb: str | None = None
    object: str | None = None
    outcome: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] = AUDIT_PAGE
    skip: Annotated[int, Meta(ge=0, le=MAX_WHOLE)] = 0


def held_state(claim_id: str) -> str:
    """Return the state of a held claim in words that follow its name: ``is HELD: …``."""
    compose, release = f"podm claim compose {claim_id}", f"podm claim release {claim_id}"
    return f"is HELD: {compose} composes it, {release} ends it"


def unsure_state(state: str, claim_id: str) -> str:
    """Return an unverified state of a claim, and the command that checks it."""
    return f"may be {state}: check it with podm claim show {claim_id}"


class EffectLog:
    """The latest state of each changed object, recorded before a change begins; thread-safe."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], str] = {}
        self._named: set[tuple[str, str]] = set()
        self._refused: dict[tuple[str, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._states)

    def note(self, kind: str, id_: str, state: str) -> None:
        """Record the state of an object in words that follow its name, such as ``is HELD``."""
        self._states[kind, id_] = state

    def forget(self, kind: str, id_: str) -> None:
        self._states.pop((kind, id_), None)

    def clear(self) -> None:
        self._states.clear()
        self._named.clear()
        self._refused.clear()

    @contextlib.contextmanager
    def change(self, kind: str, id_: str, begun: str, done: str) -> Iterator[None]:
        """Record the change of a ``with`` block; a SchedulerError of known outcome removes it."""
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
        """Yield the API path of each stored object, and the outcome of its change."""
        for (kind, id_), code in self._refused.items():
            if kind in _STORED and (kind, id_) not in self._states:
                yield _STORED[kind].format(id_), code
        for (kind, id_), state in self._states.items():
            if kind in _STORED:
                yield _STORED[kind].format(id_), "unsure" if state.startswith("may be") else "done"

    def mark_named(self, text: str) -> None:
        for kind, id_ in list(self._states):
            if re.search(rf"(?<!\w){re.escape(id_)}(?!\w)", text):
                self._named.add((kind, id_))

    def unnamed_lines(self) -> list[str]:
        states = [(key, state) for key, state in self._states.items() if key not in self._named]
        return [one_line(f"{kind} {id_} {state}") for (kind, id_), state in states]
