# SPDX-License-Identifier: Apache-2.0
"""Texts that would control a terminal or hide in it, and characters that must not reach one."""

#: Control characters, changes of direction, zero width, line separators, half of a surrogate pair.
RANGES = (
    (0x00, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x2069), (0xFEFF, 0xFEFF), (0xD800, 0xDFFF), (0xE0001, 0xE007F),
)  # fmt: skip
FORBIDDEN = frozenset(chr(code) for first, last in RANGES for code in range(first, last + 1))
#: Characters that a name of another program may contain; JSON files cannot contain half a pair.
WORDS = (
    "\x1b]0;mine\x07", "\x1b[31mred\x9b1m", "a\nplaced 1 of 1", "b\r\x08\t", "\x7f\x85",
    "\u202egnp\u2066x\u2069", "\u200e\u200f\u061c", "\u200b\u200d\ufeff", "\u2028\u2029",
)  # fmt: skip
EVIL = "-".join(WORDS)


def raw(text: str, keep: str = "\n") -> str:
    """Return the characters of a text that must not reach a terminal, with their codes."""
    return " ".join(sorted(f"U+{ord(char):04X}" for char in set(text) & FORBIDDEN - set(keep)))
