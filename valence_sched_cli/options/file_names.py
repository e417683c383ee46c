# SPDX-License-Identifier: Apache-2.0
"""The files that the options and arguments of one command name, checked against each other."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from valence_sched.errors import UsageError, one_line

#: What may be a path or standard input; some stand without an option, as their help calls them.
_READ = ("inventory", "podm_file", "source", "flavor", "flavor_file", "policy_file",
         "resource_file", "request_file", "scenario", "workload", "map_file", "baseline", "file",
         "old", "new", "planned")  # fmt: skip
_ARGUMENTS = {"source": "path", "file": "file", "old": "old", "new": "new", "planned": "plan"}
_READ_AND_NO_STDIN = ("zone_file", "near_map")
#: What is written; the first ones in a form that is never read in the place of an input.
_WRITTEN_BESIDE = ("report", "html", "plan", "junit")
_WRITTEN = (*_WRITTEN_BESIDE, "output")


def check_file_names(args: argparse.Namespace) -> None:
    """Refuse files that one command cannot have together, before anything is read or written.

    Raises:
        UsageError: standard input is read twice, a file is written twice, or a report, page or
            plan would replace a file that the command reads.
    """
    _check_stdin(args)
    written: dict[str, str] = {}
    for name in _WRITTEN:
        for file in filter(_is_replaced, _words(args, name)):
            place = os.path.realpath(file)
            if place in written:
                raise _collision(name, f"{_option(written[place])} writes {file}, too")
            written[place] = name
    for name in (*_READ, *_READ_AND_NO_STDIN):
        for file in _words(args, name):
            writer = written.get(os.path.realpath(file.partition("#")[0]))
            if writer in _WRITTEN_BESIDE:
                raise _collision(writer, f"{_option(name)} reads {file}")


def _collision(name: str, what: str) -> UsageError:
    return UsageError(one_line(f"{_option(name)}: {what}: name another file"))


def _check_stdin(args: argparse.Namespace) -> None:
    """Refuse to read standard input twice: the second reader would find it empty."""
    readers = [_option(name) for name in _READ for word in _words(args, name) if word == "-"]
    if len(readers) > 1:
        raise UsageError(f"only one may be standard input (-): {', '.join(readers)}")
    if "-" in _words(args, "near_map"):
        raise UsageError("--near-map: no map is read from standard input: name a file")


def _words(args: argparse.Namespace, name: str) -> Iterator[str]:
    value: Any = getattr(args, name, None)
    words = value if isinstance(value, list) else [value]
    return (word for word in words if isinstance(word, str))


def _option(name: str) -> str:
    return f"<{_ARGUMENTS[name]}>" if name in _ARGUMENTS else f"--{name.replace('_', '-')}"


def _is_replaced(file: str) -> bool:
    """Return whether writing makes a new file of this name; it does not of a pipe or a device."""
    return file not in ("", "-") and (os.path.isfile(file) or not os.path.exists(file))
