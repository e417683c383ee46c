# SPDX-License-Identifier: Apache-2.0
"""Options written as in a usage text and given once, and types of values: numbers, ages."""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")

_A_FILE = "name a file"
#: What a usage text calls files and URLs, and what to do about an empty one.
NAMES: Mapping[Any, str] = {
    "<file>": _A_FILE, "<path>": "name a file or a folder", "<inventory>": _A_FILE,
    "<old>": _A_FILE, "<new>": _A_FILE, "<plan>": _A_FILE, "<report>": _A_FILE,
    "<dir>": "name a folder", "<url>": "name a URL",
}  # fmt: skip


def add_option(parser: argparse._ActionsContainer, text: str, **settings: Any) -> None:
    """Add an option or argument by its usage and help, as in ``--podm <podm>...: only this``.

    An option without a value or ``settings`` is a flag; one with dots is a list.
    """
    usage, _, words = text.partition(": ")
    name, _, value = usage.partition(" ")
    several = usage.endswith("...")
    if not name.startswith("-"):
        settings |= {"metavar": name.removesuffix("...")} | ({"nargs": "+"} if several else {})
        name = settings["metavar"].strip("<>")
    elif value:
        settings["metavar"] = value.removesuffix("...")
        settings |= {"action": "append", "default": []} if several else {}
    elif not settings:
        settings["action"] = "store_true"
    parser.add_argument(name, help=words, **settings)


def add_options(
    parser: argparse._ActionsContainer, text: str, **settings: Mapping[str, Any]
) -> None:
    """Add an option for each line of a text, with its settings; indented lines continue one."""
    for line in re.sub(r"\n +", " ", textwrap.dedent(text).strip()).split("\n"):
        name = re.match(r"[-<]*([\w-]+)", line)
        assert name is not None, line
        add_option(parser, line, **settings.get(name[1].replace("-", "_"), {}))


def refuse_empty_names(parser: argparse.ArgumentParser) -> None:
    """Let each option and argument that is called after a file or a URL refuse an empty one.

    Most often it is a variable of a script that is not set, which must not mean the default.
    """
    for action in parser._actions:
        if action.metavar in NAMES and action.type is None:
            action.type = nonempty(NAMES[action.metavar])


def nonempty(hint: str) -> Callable[[str], str]:
    """Return the type of a name that is not empty; the hint says what to do about an empty one."""

    def parse(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"an empty name: {hint}")
        return text

    return parse


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


def by_name(
    option: str, pairs: Iterable[tuple[str, Value]], hint: str = "say it in one of them"
) -> dict[str, Value]:
    """Return what the values of an option ``NAME=VALUE`` say, by name.

    Raises:
        UsageError: two of them are about one name; the ``hint`` says what to write.
    """
    from valence_sched.errors import UsageError, one_line

    named: dict[str, Value] = {}
    for name, value in pairs:
        if name in named:
            raise UsageError(one_line(f"{option}: {name!r} twice: {hint}"))
        named[name] = value
    return named


def whole(text: str) -> int:
    """Parse a whole number of at most 18 digits."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(_must("a whole number of at most 18 digits", text))
    return int(text)


def positive(text: str) -> int:
    """Parse a whole number from 1 on."""
    return _bounded(text, least=1)


def natural(text: str) -> int:
    """Parse a whole number from 0 on."""
    return _bounded(text, least=0)


def _bounded(text: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or not least <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(_must(f"{least} to 1,000,000", text))
    return int(text)


def _must(wanted: str, text: str) -> str:
    return f"must be {wanted}, got {text[:40]!r}"


def seconds(text: str) -> float:
    """Parse how long something may take: more than nothing, at most a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(_must("seconds above 0 and at most 86,400", text))
    return number


def age_limit(text: str) -> float:
    """Parse an age into seconds; 0 and never are infinite."""
    from valence_sched.model.quantity import parse_age_limit

    try:
        return parse_age_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def age(text: str) -> float:
    """Parse an age such as 30s, 10m, 2h or 1d into seconds."""
    from valence_sched.model.quantity import parse_age

    try:
        return parse_age(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def resource_limit(text: str) -> tuple[str, float]:
    """Parse ``NAME=LIMIT``, a number from 0 to 1e15."""
    name, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = -1.0
    if not name or not 0.0 <= limit <= 1e15:
        hint = "as in nodes=20, with a number from 0 to 1e15"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=LIMIT, {hint}")
    return name, limit


def flavor_shares(text: str) -> dict[str, float]:
    """Parse ``FLAVOR=SHARE,FLAVOR=SHARE``; a flavor alone has a share of 1."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        share = _share(number or "1")
        if not name or share is None or name in shares:
            hint = "as in gpu-large=1,small=3, each flavor once"
            raise argparse.ArgumentTypeError(f"{part[:40]!r} is not FLAVOR=SHARE, {hint}")
        shares[name] = share
    return shares


def percentage(text: str) -> float:
    """Parse a percentage above 0, at most 100, such as ``5%`` or ``5``, into a share."""
    share = _share(text.strip().removesuffix("%"))
    if share is None or share > 100.0:
        wanted = "a percentage above 0 and at most 100, such as 5%"
        raise argparse.ArgumentTypeError(_must(wanted, text))
    return share / 100.0


def _share(text: str) -> float | None:
    """Return a number above 0, None for anything else."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 < share < math.inf else None
