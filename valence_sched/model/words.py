# SPDX-License-Identifier: Apache-2.0
"""Compares text by whole words, ignoring case and trademark signs."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)")


def has_words(text: str, words: str) -> bool:
    """Return whether the text contains the words whole, in order and side by side.

    Case and the marks (R), (TM) and (C) are ignored. A model name is free text, so that a part of
    a word must not match::

        has_words("NVIDIA A100-SXM4-80GB", "a100")      True
        has_words("NVIDIA A100-SXM4-80GB", "A10")       False
        has_words("NVIDIA A100-SXM4-80GB", "A100 80GB") False, SXM4 is between them
    """
    have, want = split_words(text), split_words(words)
    return any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return _WORD.findall(_TRADEMARKS.sub(" ", text.casefold()))
