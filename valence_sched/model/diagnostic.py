# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: what reading inventories and pod managers found wrong or doubtful."""

from typing import Literal, NamedTuple

Kind = Literal["skipped", "unread", "warning", "remark"]


class Diagnostic(NamedTuple):
    """One line about an inventory or a pod manager.

    ``skipped``: a document was left out. ``unread``: a pod manager could not be read.
    ``warning``: what was read is so old that it may be wrong by now. ``remark``: something is
    doubtful, and nothing was left out.
    """

    kind: Kind
    text: str


class Diagnostics(list[Diagnostic]):
    """Diagnostics in the order in which they were found."""

    def skip(self, text: object) -> None:
        """Note that a document was left out; ``text`` is the line or the error about it."""
        self.append(Diagnostic("skipped", str(text)))

    def unread(self, text: str) -> None:
        self.append(Diagnostic("unread", text))

    def warn(self, text: str) -> None:
        """Note what everybody is told who decides on this, and not only how often."""
        self.append(Diagnostic("warning", text))

    def remark(self, text: str) -> None:
        """Note something doubtful that left nothing out."""
        self.append(Diagnostic("remark", text))

    def lines(self, *kinds: Kind) -> list[str]:
        """Return the texts of these kinds, of all without a kind, in order."""
        return [one.text for one in self if not kinds or one.kind in kinds]
