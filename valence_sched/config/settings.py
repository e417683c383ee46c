# SPDX-License-Identifier: Apache-2.0
"""Configuration: policies, flavors and resources, built in, of the user, and from named files."""

from __future__ import annotations

import functools
import importlib.resources
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.errors import InputError, UnknownName
from valence_sched.model.codec import MAX_HUMAN_BYTES
from valence_sched.model.custom_resource import CustomResource, unique_by_name
from valence_sched.model.flavor import Flavor
from valence_sched.model.policy import Policy

PROGRAM = "valence-sched"
HOME_VARIABLES = {
    "config": "XDG_CONFIG_HOME",
    "state": "XDG_STATE_HOME",
    "cache": "XDG_CACHE_HOME",
}


class Homes:
    """The folders of one person for this program.

    The variables of the environment given win over what is usual on the platform.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    @property
    def config(self) -> Path:
        """Return the folder of the files that the person writes."""
        return self._folder("config")

    @property
    def state(self) -> Path:
        """Return the folder of what the program must remember."""
        return self._folder("state")

    @property
    def cache(self) -> Path:
        """Return the folder of what the program can read again."""
        return self._folder("cache")

    def _folder(self, kind: str) -> Path:
        if home := self._environ.get(HOME_VARIABLES[kind]):
            return Path(home) / PROGRAM
        import platformdirs  # only where the environment does not say

        folder: Path = getattr(platformdirs, f"user_{kind}_path")(PROGRAM)
        return folder


class Configuration:
    """The files of a person: found by the environment, or named; ``-`` is standard input.

    ``remarks`` collects one line per word of a flavor that was accepted and is not looked at.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, stdin: BinaryIO | None = None
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self._stdin = stdin
        self.remarks: list[str] = []

    def policies(self, paths: Sequence[str] = ()) -> dict[str, Policy]:
        """Return policies by name: built in, then the user's, then ``paths``; the last wins."""
        return {
            policy.name: policy
            for file, data in self._layered_files("policies.yaml", paths)
            for policy in parsers.parse_policies(data, file)
        }

    def policies_in(self, path: str) -> list[Policy]:
        """Return the policies of one file."""
        return parsers.parse_policies(self.read(path), path)

    def flavors(self, paths: Sequence[str] = ()) -> dict[str, Flavor]:
        """Return flavors by name: built in, then the user's, then ``paths``; the last wins."""
        found: dict[str, Flavor] = {}
        for file, data in self._layered_files("flavors.yaml", paths):
            read = parsers.parse_flavors(data, file, found.copy, self.remarks)
            found |= {flavor.name: flavor for flavor in read}
        return found

    def flavors_in(self, path: str, paths: Sequence[str] = ()) -> list[Flavor]:
        """Return the flavors of one file, which may refer to others by name or uuid."""
        known = functools.partial(self.flavors, paths)
        return parsers.parse_flavors(self.read(path), path, known, self.remarks)

    def flavor(self, reference: str, paths: Sequence[str] = ()) -> Flavor:
        """Return the flavor that a word names: ``-`` is stdin, else a file, a name or a uuid.

        Raises:
            UnknownName: no such flavor.
            InputError: the file is not one flavor.
        """
        if reference == "-" or _looks_like_file(reference):
            found = self.flavors_in(reference, paths)
            if len(found) != 1:
                hint = "name the file with --flavor-file and one of its flavors with --flavor"
                raise InputError(reference, "$", f"{len(found)} flavors", "one", hint)
            return found[0]
        known = self.flavors(paths)
        by_uuid = {flavor.uuid: flavor for flavor in known.values() if flavor.uuid}
        found_by_name = known.get(reference) or by_uuid.get(reference)
        if not found_by_name:
            raise UnknownName("flavor", reference, known)
        return found_by_name

    def resources(self, paths: Sequence[str] = ()) -> list[CustomResource]:
        """Return declared resources: the user's, then those of ``paths``; the last wins."""
        return unique_by_name(
            resource
            for file, data in self._layered_files("resources.yaml", paths)
            for resource in parsers.parse_resources(data, file)
        )

    def _layered_files(self, name: str, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        built_in = importlib.resources.files("valence_sched") / "data" / name
        if built_in.is_file():
            yield f"built-in {name}", built_in.read_bytes()
        own = self.user_file(name)
        if own.is_file():
            yield str(own), files.read(str(own))
        for path in paths:
            yield path, self.read(path)

    def user_file(self, name: str) -> Path:
        """Return where a person's own file of this name stands."""
        return Homes(self.environ).config / name

    def read(self, path: str) -> bytes:
        """Return what a person wrote in a file."""
        return self.input.read(MAX_HUMAN_BYTES + 1) if path == "-" else files.read(path)

    @property
    def input(self) -> BinaryIO:
        """Return standard input."""
        return self._stdin or sys.stdin.buffer


def _looks_like_file(word: str) -> bool:
    return os.sep in word or word.endswith((".yaml", ".yml", ".json")) or Path(word).is_file()
