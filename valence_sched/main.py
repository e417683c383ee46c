# SPDX-License-Identifier: Apache-2.0
"""Reads configuration once and wires the scheduler from it."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.resources
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from valence_sched import files
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.engine import Engine
from valence_sched.errors import (
    DuplicateId,
    InputError,
    InventoryIncomplete,
    Remark,
    UnknownName,
    UsageError,
)
from valence_sched.model.asked import Asked, compiled, own_flavor
from valence_sched.model.build import ViewBuilder
from valence_sched.model.decision import Report, Reports
from valence_sched.model.documents import MAX_HUMAN_BYTES, decode
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.near import Thing, Things, knows, place_of, things
from valence_sched.model.policy import Policy
from valence_sched.model.reports import parse_report
from valence_sched.model.request import Mix, Near, Request, Share
from valence_sched.model.resource import Declared, Resource, by_name, replaced
from valence_sched.model.view import View

Progress = Callable[[int | None], None]
Cloud = Callable[[], Any]  # logs in and returns an openstack.connection.Connection


class Main:
    """The scheduler's parts, made on demand from files, the environment and standard input.

    ``problems`` collects one line per document that could not be read, and remarks on those
    that are doubtful; with ``strict`` the first document that could not be read is an error.
    ``remarks`` collects one line per word of a flavor that was accepted and is not looked at.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
        cloud: Cloud | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._stdin = stdin
        self._progress = progress or (lambda _podms: None)
        self._cloud = cloud
        self.problems: list[str] = []
        self.remarks: list[str] = []

    @property
    def skipped(self) -> list[str]:
        """Return the lines about documents that were left out."""
        return [line for line in self.problems if not isinstance(line, Remark)]

    def engine(
        self,
        sources: Sequence[str],
        policy_files: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
    ) -> Engine:
        """Return a scheduler for the inventories and all known policies."""
        known = self.policies(policy_files)
        view = self.view(sources, strict=strict, resource_files=resource_files)
        skipped = self.skipped
        return Engine(view, known.values(), mix=self.mix, skipped=skipped, strict=strict)

    def mix(self) -> Mix:
        """Return the mix of all known flavors, built in and the user's, each as often."""
        return Mix(tuple(Share(f.needs, f.traits) for f in self.flavors().values() if f.needs))

    def view(
        self, sources: Sequence[str], *, strict: bool = False, resource_files: Sequence[str] = ()
    ) -> View:
        """Read inventories into one View.

        Raises:
            UsageError: no inventory is named.
            InputError: a source cannot be read at all, holds no pod manager, or repeats an id.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
        """
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        decoder = msgspec.json.Decoder(LeanPodm)
        with _collector_paused():
            for number, record in enumerate(self._records(sources), 1):
                try:
                    podm = replaced(_quick(decoder, record), declared)
                    builder.add(podm, record.file, record.place)
                except InputError as error:
                    self._skip(error)
                if number % 256 == 0:
                    self._progress(number)
            self._check(len(builder.podms), sources, strict)
            self._tell_declared(declared)
            view = builder.view()
        self._progress(None)
        return view

    def podms(
        self, sources: Sequence[str], *, strict: bool = False, resource_files: Sequence[str] = ()
    ) -> Iterator[FullPodm]:
        """Yield pod managers whole, as their documents describe them; errors as for a view."""
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        for number, record in enumerate(self._records(sources), 1):
            try:
                builder.add(
                    decode(record.json, LeanPodm, record.file, record.place),
                    record.file,
                    record.place,
                )
                podm = decode(record.json, FullPodm, record.file, record.place)
                yield replaced(podm, declared)
            except InputError as error:
                self._skip(error)
            self._progress(number)
        self._progress(None)
        self._check(len(builder.podms), sources, strict)
        self._tell_declared(declared)

    def convert(
        self,
        sources: Sequence[str],
        output: str,
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
    ) -> tuple[int, int]:
        """Write inventories as one file; return how many podms and blocks it holds."""
        podms = self.podms(sources, strict=strict, resource_files=resource_files)
        return files.write_inventory(podms, output)

    def write_report(self, report: Report | Reports, file: str) -> None:
        """Write a decision as JSON."""
        files.write_json(report, file)

    def report(self, file: str) -> tuple[Report, list[str]]:
        """Read a decision that was written, ``-`` for standard input; and warnings about it.

        Raises:
            InputError: it cannot be read, or is no such document.
            NewerSchema: its major version is newer than ours.
        """
        data = self._input.read() if file == "-" else files.read(file, limit=-1)
        return parse_report(data, "stdin" if file == "-" else file)

    def policies(self, paths: Sequence[str] = ()) -> dict[str, Policy]:
        """Return policies by name: built in, then the user's, then ``paths``; the last wins."""
        return {
            policy.name: policy
            for file, data in self._configured("policies.yaml", paths)
            for policy in files.policies(data, file)
        }

    def policies_in(self, path: str) -> list[Policy]:
        """Return the policies of one file."""
        return files.policies(self._read(path), path)

    def flavors(self, paths: Sequence[str] = ()) -> dict[str, Flavor]:
        """Return flavors by name: built in, then the user's, then ``paths``; the last wins."""
        found: dict[str, Flavor] = {}
        for file, data in self._configured("flavors.yaml", paths):
            read = files.flavors(data, file, found.copy, self.remarks)
            found |= {flavor.name: flavor for flavor in read}
        return found

    def flavors_in(self, path: str, paths: Sequence[str] = ()) -> list[Flavor]:
        """Return the flavors of one file, which may refer to others by name or uuid."""
        known = functools.partial(self.flavors, paths)
        return files.flavors(self._read(path), path, known, self.remarks)

    def flavor(self, word: str, paths: Sequence[str] = ()) -> Flavor:
        """Return the flavor that a word names: ``-`` is stdin, else a file, a name or a uuid.

        Raises:
            UnknownName: no such flavor.
            InputError: the file is not one flavor.
        """
        if word == "-" or _looks_like_file(word):
            found = self.flavors_in(word, paths)
            if len(found) != 1:
                hint = "name the file with --flavor-file and one of its flavors with --flavor"
                raise InputError(word, "$", f"{len(found)} flavors", "one", hint)
            return found[0]
        known = self.flavors(paths)
        by_uuid = {flavor.uuid: flavor for flavor in known.values() if flavor.uuid}
        found_by_name = known.get(word) or by_uuid.get(word)
        if not found_by_name:
            raise UnknownName("flavor", word, known)
        return found_by_name

    def requests(
        self, path: str, flavor_files: Sequence[str] = (), near_maps: Sequence[str] = ()
    ) -> list[Request]:
        """Return the requests of a file, compiled.

        Raises:
            InputError: the file is not what it must be.
            UnknownName: a request names a flavor that is not there.
        """
        known = self.flavors(flavor_files)
        found = []
        for place, asked in files.requests(self._read(path), path):
            if isinstance(asked, Request):
                found.append(asked)
                continue
            if asked.flavor is not None and asked.flavor not in known:
                raise UnknownName("flavor", asked.flavor, known, f"{path}: {place}.flavor")
            found.append(self.compiled(asked, known.get(asked.flavor or ""), near_maps))
        return found

    def compiled(
        self, asked: Asked, flavor: Flavor | None = None, near_maps: Sequence[str] = ()
    ) -> Request:
        """Return a request that a person wrote, compiled; without a flavor from its properties.

        Errors as for what it is to be near.
        """
        near = self.near((*things(asked.near), *things(asked.prefer_near, soft=True)), near_maps)
        return compiled(asked, flavor or own_flavor(asked), near)

    def resources(self, paths: Sequence[str] = ()) -> list[Resource]:
        """Return declared resources: the user's, then those of ``paths``; the last wins."""
        return by_name(
            resource
            for file, data in self._configured("resources.yaml", paths)
            for resource in files.resources(data, file)
        )

    def near(self, asked: Iterable[Thing], sources: Sequence[str] = ()) -> tuple[Near, ...]:
        """Return where things are: maps and resolvers named by ``sources`` know, or the cloud.

        The user's own map is looked in after ``sources``, the cloud last and only for what
        nobody before it knows.

        Raises:
            UnknownName: nobody knows a thing; the message says where was looked.
            RequestError: a thing is known, but not where it is.
            CloudError: the cloud is needed and does not answer.
            InputError: a map is not what it must be.
        """
        wanted = tuple(asked)
        known = self._things(sources) if wanted else []
        cloud: list[Things] = []
        found = []
        for thing in wanted:
            if not knows(known, thing) and self._cloud and not cloud:
                resolve = plugins.installed(plugins.RESOLVERS).get("openstack")
                cloud.append(resolve(self._cloud()))
            found.append(place_of(thing, [*known, *cloud]))
        return tuple(found)

    def _things(self, sources: Sequence[str]) -> list[Things]:
        own = self._own("near.yaml")
        named = [_named_plugin(source) for source in sources]
        named += [("", str(own))] if own.is_file() else []
        resolvers = plugins.installed(plugins.RESOLVERS)
        return [resolvers.get(name or "map")(path) for name, path in named]

    def _declared(self, paths: Sequence[str]) -> Declared | None:
        resources = self.resources(paths)
        return Declared(resources) if resources else None

    def _tell_declared(self, declared: Declared | None) -> None:
        if declared:
            self.problems += [*declared.remarks, *declared.strangers()]

    def _records(self, sources: Sequence[str]) -> Iterator[recorded.Record]:
        named = sources or self._environ.get("VALENCE_SCHED_INVENTORY", "").split(os.pathsep)
        if not any(named):
            raise UsageError("no inventory: name one with --inventory PATH, or - for stdin")
        for source in filter(None, named):
            read, path = _driver(source)
            yield from read(path, self._input, self.problems)

    def _skip(self, error: InputError) -> None:
        """Remember a document that is skipped; one whose blocks nobody could tell is not."""
        if isinstance(error, DuplicateId):
            raise error
        self.problems.append(str(error))

    def _check(self, found: int, sources: Sequence[str], strict: bool) -> None:
        if strict and (skipped := self.skipped):
            others = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
            raise InventoryIncomplete(f"incomplete inventory: {skipped[0]}{others}")
        if not found and len(self.problems) == 1:
            raise InputError(self.problems.pop())
        if not found:
            hint = "see what was skipped" if self.skipped else "is this the right file?"
            file = ", ".join(sources) or "VALENCE_SCHED_INVENTORY"
            raise InputError(file, "$", "no pod manager", "at least one", hint)

    def _configured(self, name: str, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        built_in = importlib.resources.files("valence_sched") / "data" / name
        if built_in.is_file():
            yield f"built-in {name}", built_in.read_bytes()
        own = self._own(name)
        if own.is_file():
            yield str(own), files.read(str(own))
        for path in paths:
            yield path, self._read(path)

    def _own(self, name: str) -> Path:
        """Return where a person's own file of this name stands."""
        home = self._environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
        return Path(home) / "valence-sched" / name

    def _read(self, path: str) -> bytes:
        return self._input.read(MAX_HUMAN_BYTES + 1) if path == "-" else files.read(path)

    @property
    def _input(self) -> BinaryIO:
        return self._stdin or sys.stdin.buffer


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking a million new objects again and again.

    What was made meanwhile lives as long as the inventory does: it is left out of later walks.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _driver(source: str) -> tuple[Callable[..., Iterator[recorded.Record]], str]:
    """Return who reads a source, and its path: ``DRIVER:PATH`` names an installed driver."""
    name, path = _named_plugin(source)
    if not name:
        return recorded.records, source
    return plugins.installed(plugins.DRIVERS).get(name), path


def _named_plugin(source: str) -> tuple[str, str]:
    """Return the name before the colon, empty for none, and the rest."""
    name, colon, path = source.partition(":")
    if not colon or not name.isidentifier() or Path(source).exists():
        return "", source
    return name, path


def _looks_like_file(word: str) -> bool:
    return os.sep in word or word.endswith((".yaml", ".yml", ".json")) or Path(word).is_file()


def _quick(decoder: msgspec.json.Decoder[LeanPodm], record: recorded.Record) -> LeanPodm:
    """Decode a podm fast; only a document that fails is decoded again for its error's words."""
    try:
        return decoder.decode(record.json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(record.json, LeanPodm, record.file, record.place)
