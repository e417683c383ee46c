# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: what reading inventories and pod managers found wrong or doubtful."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["skipped", "unread", "remark"]


class Diagnostic(NamedTuple):
    """One line about an inventory or a pod manager.

    ``skipped``: a document was left out. ``unread``: a pod manager could not be read.
    ``remark``: something is doubtful, and nothing was left out.
    """

    kind: Kind
    text: str


class Diagnostics:
    """Collects diagnostics in the order in which they were found."""

    def __init__(self) -> None:
        self._diagnostics: list[Diagnostic] = []

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._diagnostics)

    def __len__(self) -> int:
        return len(self._diagnostics)

    def skip(self, text: object) -> None:
        """Note that a document was left out; ``text`` is the line or the error about it."""
        self._diagnostics.append(Diagnostic("skipped", str(text)))

    def unread(self, text: str) -> None:
        """Note that a pod manager could not be read."""
        self._diagnostics.append(Diagnostic("unread", text))

    def remark(self, text: str) -> None:
        """Note something doubtful that left nothing out."""
        self._diagnostics.append(Diagnostic("remark", text))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add the diagnostics of another reader."""
        self._diagnostics.extend(diagnostics)

    def clear(self) -> None:
        """Forget everything: in interactive mode another command follows this one."""
        self._diagnostics.clear()

    def lines(self, *kinds: Kind) -> list[str]:
        """Return the texts of these kinds, of all without a kind, in order."""
        return [one.text for one in self._diagnostics if not kinds or one.kind in kinds]
