# SPDX-License-Identifier: Apache-2.0
"""Reads configuration once and wires the scheduler from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.errors import RequestError, UnknownName
from valence_sched.inventory.capture import Captures
from valence_sched.inventory.sources import Now, Progress, split_plugin_name
from valence_sched.model.decision import Report, Reports
from valence_sched.model.flavor import Flavor
from valence_sched.model.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from valence_sched.model.reports import parse_report
from valence_sched.model.request import FlavorShare, Mix, Proximity, Request
from valence_sched.model.request_spec import RequestSpec, compile_request, inline_flavor
from valence_sched.view.proximity import (
    ExternalResource,
    Resolver,
    external_resources,
    is_known,
    resolve_resource,
)

Cloud = Callable[[], Any]  # logs in and returns an openstack.connection.Connection


class App(Captures):
    """The scheduler's parts, made on demand from files, the environment and standard input."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
        cloud: Cloud | None = None,
        now: Now | None = None,
    ) -> None:
        super().__init__(environ, stdin, progress, now)
        self._cloud = cloud

    def decider(
        self,
        sources: Sequence[str],
        policy_files: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        flavor_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
        texts: dict[str, bytes] | None = None,
    ) -> Decider:
        """Return a scheduler for the inventories and all known policies and flavors.

        ``texts`` gets the JSON of each pod manager as it was told, by its id.
        """
        known = self.policies(policy_files)
        view = self.view(sources, strict=strict, resource_files=resource_files, live=live,
                         texts=texts)  # fmt: skip
        skipped = [
            str(line) for line in (*self.unread_lines, *self.skipped_lines)
        ]  # reports take no other
        mix = functools.partial(self.mix, flavor_files)
        return Decider(view, known.values(), mix=mix, skipped=skipped, strict=strict)

    def mix(self, flavor_files: Sequence[str] = ()) -> Mix:
        """Return the mix of all known flavors, each by its share."""
        known = [flavor for flavor in self.flavors(flavor_files).values() if flavor.share]
        return Mix(
            tuple(FlavorShare(flavor.needs, flavor.traits, flavor.share) for flavor in known)
        )

    def read_requests(
        self, path: str, flavor_files: Sequence[str] = (), near_maps: Sequence[str] = ()
    ) -> list[Request]:
        """Return the requests of a file, compiled.

        Raises:
            InputError: the file is not what it must be.
            UnknownName: a request names a flavor that is not there.
        """
        known = self.flavors(flavor_files)
        found = []
        for place, asked in parsers.parse_requests(self.read(path), path):
            if isinstance(asked, Request):
                found.append(asked)
                continue
            if asked.flavor is not None and asked.flavor not in known:
                raise UnknownName("flavor", asked.flavor, known, f"{path}: {place}.flavor")
            try:
                found.append(self.compile_request(asked, known.get(asked.flavor or ""), near_maps))
            except (RequestError, UnknownName) as error:
                raise error.at(f"{path}: {place}") from None
        return found

    def compile_request(
        self, asked: RequestSpec, flavor: Flavor | None = None, near_maps: Sequence[str] = ()
    ) -> Request:
        """Return a request that a person wrote, compiled; without a flavor from its properties.

        Errors as for what it is to be near.
        """
        near = self.resolve_near(
            (*external_resources(asked.near), *external_resources(asked.prefer_near, soft=True)),
            near_maps,
        )
        return compile_request(asked, flavor or inline_flavor(asked), near)

    def resolve_near(
        self, asked: Iterable[ExternalResource], sources: Sequence[str] = ()
    ) -> tuple[Proximity, ...]:
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
        known = self._resolvers(sources) if wanted or sources else []
        cloud: list[Resolver] = []
        found = []
        for thing in wanted:
            who = f"a resolver asked for {thing.text}"
            with plugins.plugin_errors(who):
                unknown = not is_known(known, thing)
            if unknown and self._cloud and not cloud:
                resolve = plugins.load(plugins.RESOLVERS).get("openstack")
                cloud.append(resolve(self._cloud()))
            with plugins.plugin_errors(who):
                found.append(resolve_resource(thing, [*known, *cloud]))
        return tuple(found)

    def _resolvers(self, sources: Sequence[str]) -> list[Resolver]:
        own = self.user_file("near.yaml")
        named = [split_plugin_name(source) for source in sources]
        named += [("", str(own))] if own.is_file() else []
        resolvers = plugins.load(plugins.RESOLVERS)
        things = []
        for name, path in named:
            make = resolvers.get(name or "map")
            with plugins.plugin_errors(f"resolver {name or 'map'!r}: {path}"):
                things.append(make(path))
        return things

    def convert(
        self,
        sources: Sequence[str],
        output: str,
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> tuple[int, int]:
        """Write inventories as one file; return how many podms and blocks it holds."""
        podms = self.podms(sources, strict=strict, resource_files=resource_files, live=live)
        return files.write_inventory(podms, output)

    def write_report(self, report: Report | Reports, file: str) -> None:
        """Write a decision as JSON."""
        files.write_json(report, file)

    def read_report(self, file: str) -> tuple[Report | Reports, list[str]]:
        """Read one decision or several that were written, ``-`` for stdin; and warnings.

        Raises:
            InputError: it cannot be read, or is no such document.
            NewerSchema: its major version is newer than ours.
        """
        data = self.input.read() if file == "-" else files.read(file, limit=-1)
        return parse_report(data, "stdin" if file == "-" else file)
