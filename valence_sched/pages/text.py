# SPDX-License-Identifier: Apache-2.0
"""Text of others on a page: harmless, and no longer than a reader can use."""

from valence_sched.errors import escape

MOST_CHARACTERS = 2000  # a name has at most 1024


def in_sentence(title: str) -> str:
    """Return a title as it stands within a sentence; an abbreviation keeps its capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def shown_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text without what hides or turns it, which is written as in JSON; cut at ``most``.

    It is not markup: what would be is escaped where it is printed.
    """
    text = escape(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
