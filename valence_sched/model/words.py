# SPDX-License-Identifier: Apache-2.0
"""Compares text by whole words, ignoring case and trademark signs."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)")


def has_words(text: str, words: str) -> bool:
    """Return whether the text contains the words whole, in order and side by side.

    Case and the marks (R), (TM) and (C) are ignored.
    """
    have, want = split_words(text), split_words(words)
    return any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return _WORD.findall(_TRADEMARKS.sub(" ", text.casefold()))
