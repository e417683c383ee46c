# SPDX-License-Identifier: Apache-2.0
"""Diagnostics, progress and effects of reading and composing, and audit lines."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, Protocol

from msgspec import Meta

from valence_sched.errors import SchedulerError, StoreError, Unverified, escape, one_line
from valence_sched.model.base import MAX_WHOLE, Noun

Kind = Literal["skipped", "unread", "warning", "remark"]
MAX_AWAITED = 3  # names of the progress; others are counted


class Diagnostic(NamedTuple):
    """One line about an inventory or a pod manager.

    ``skipped``: a document was left out. ``unread``: a pod manager could not be read. ``warning``:
    a reading is old. ``remark``: a value is doubtful, but was used.
    """

    kind: Kind
    text: str


class Diagnostics(list[Diagnostic]):
    """Diagnostics in the order in which they were found."""

    def skip(self, text: object) -> None:
        self.append(Diagnostic("skipped", str(text)))

    def unread(self, text: str) -> None:
        self.append(Diagnostic("unread", text))

    def warn(self, text: str) -> None:
        self.append(Diagnostic("warning", text))

    def remark(self, text: str) -> None:
        self.append(Diagnostic("remark", text))

    def lines(self, *kinds: Kind) -> list[str]:
        return [one.text for one in self if not kinds or one.kind in kinds]


class Progress(Protocol):
    """Receives the progress; any thread may call it, and no call blocks."""

    def count_podms(self, done: int, total: int | None = None, awaited: Sequence[str] = ()) -> None:
        """Report the number of podms read; ``awaited`` names up to :data:`MAX_AWAITED` others."""

    def end_count(self) -> None:
        """Report that all pod managers of the last count are read."""

    def begin(self, subject: str, activity: str) -> None:
        """Report the present activity of a subject."""

    def finish(self, subject: str) -> None:
        """Report the end of the activity of a subject."""

    def close(self) -> None:
        """Report the end of all activities, before other output."""


class NoProgress:
    """Ignores the progress."""

    def count_podms(self, *_: object, **_named: object) -> None:
        pass

    end_count = begin = finish = close = count_podms


@contextlib.contextmanager
def awaiting(progress: Progress, subject: str, activity: str) -> Iterator[None]:
    """Report an activity of a subject while the ``with`` block runs."""
    progress.begin(subject, activity)
    try:
        yield
    finally:
        progress.finish(subject)


MAX_NAME_LENGTH = 40  # characters of a name on the line


class Awaited:
    """The number of pod managers read, the names of those awaited, and the present activities."""

    def __init__(self) -> None:
        self.count: tuple[int, int | None, Sequence[str]] | None = None  # read, total, awaited
        self.activities: dict[str, str] = {}  # by subject

    def __bool__(self) -> bool:
        return bool(self.activities) or self.count is not None

    def text(self, width: int) -> str:
        """Return the text with as many names as fit into a width, but at least one name."""
        texts, activities = [""], self.activities.items()
        if activities:
            names = [f"{_shorten(subject)}: {escape(activity)}" for subject, activity in activities]
            texts = _name_some(names, len(names), "; ")
        elif self.count is not None:
            done, total, awaited = self.count
            read = f"read {done:,}" if total is None else f"read {done:,} of {total:,}"
            texts = [f"{read} pod managers"]
            if total is not None and awaited:
                names = _name_some(list(map(_shorten, awaited)), total - done, ", ")
                texts = [f"{texts[0]}, waiting for {some}" for some in names]
                texts.append(f"{read}, waiting for {names[-1]}")
        return next((text for text in texts if len(text) <= width), texts[-1])


def _name_some(names: Sequence[str], total: int, separator: str) -> list[str]:
    """Return texts that name fewer and fewer of the names, and count the others."""
    texts = []
    for most in range(MAX_AWAITED, 0, -1):
        some = [*names[:most]]
        last = f"{more:,} more" if (more := total - len(some)) else some.pop()
        texts.append(f"{separator.join(some)} and {last}" if some else last)
    return texts


def _shorten(name: str) -> str:
    """Return a name without control characters, shortened if it is long."""
    text = escape(name)
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…"


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


RECONCILE_HINT = "podm claim reap reconciles it"


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
    def change(self, kind: str, id_: str, begun: str | None, done: str) -> Iterator[None]:
        """Record the change made by a ``with`` block; if it is refused, restore the old state.

        Without ``begun``, the block notes the state when its change begins.
        """
        before = self._states.get((kind, id_))
        if begun is not None:
            self.note(kind, id_, begun)
        try:
            yield
        except SchedulerError as error:
            self._refused[kind, id_] = error.code
            lost = isinstance(error, StoreError) and error.uncertain
            if not lost and not isinstance(error, Unverified):
                self.forget(kind, id_)
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
                unsure = state.startswith("may be") or RECONCILE_HINT in state
                yield _STORED[kind].format(id_), Unverified.code if unsure else "done"

    def mark_named(self, text: str) -> None:
        for kind, id_ in list(self._states):
            if re.search(rf"(?<!\w){re.escape(id_)}(?!\w)", text):
                self._named.add((kind, id_))

    def unnamed_lines(self) -> list[str]:
        states = [(key, state) for key, state in self._states.items() if key not in self._named]
        return [one_line(f"{kind} {id_} {state}") for (kind, id_), state in states]
