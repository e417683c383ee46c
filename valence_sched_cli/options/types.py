# SPDX-License-Identifier: Apache-2.0
"""Types of option values: whole numbers, seconds and ages; options that are given once."""

from __future__ import annotations

import argparse
from typing import Any


class StoreOnce(argparse._StoreAction):
    """Stores the value of an option, and refuses a second one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.option_strings:
            stored: set[str] = namespace.__dict__.setdefault("_stored_once", set())
            if self.dest in stored:
                raise argparse.ArgumentError(self, "given twice: it has one value")
            stored.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


def whole(text: str) -> int:
    """Parse a whole number of at most 18 digits."""
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not text.isascii() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number of at most 18 digits")
    return int(text)


def positive(text: str) -> int:
    """Parse a whole number from 1 on."""
    if (
        not text.isdecimal()
        or not text.isascii()
        or len(text) > 7
        or not 1 <= int(text) <= 1_000_000
    ):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1,000,000")
    return int(text)


def natural(text: str) -> int:
    """Parse a whole number from 0 on."""
    return 0 if text == "0" else positive(text)


def seconds(text: str) -> float:
    """Parse how long something may take: more than nothing, at most a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds up to 86,400")
    return number


def age(text: str) -> float:
    """Parse an age such as 30s, 10m, 2h or 1d into seconds."""
    from valence_sched.model.age import parse_age

    try:
        return parse_age(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
