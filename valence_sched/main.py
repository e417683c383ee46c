# SPDX-License-Identifier: Apache-2.0
"""Reads configuration once and wires the scheduler from it."""

from __future__ import annotations

import functools
import secrets as secrets_module
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from valence_sched import credentials, files
from valence_sched.core import plugins
from valence_sched.engine import Engine
from valence_sched.errors import (
    CredentialError,
    RequestError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched.inventories import Inventories, Now, Progress, named_plugin
from valence_sched.model.alias import Aliases
from valence_sched.model.asked import Asked, compiled, own_flavor
from valence_sched.model.decision import Report, Reports
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import FullPodm
from valence_sched.model.live import EVERY, Live
from valence_sched.model.near import Thing, Things, knows, place_of, things
from valence_sched.model.registered import Password
from valence_sched.model.reports import parse_report
from valence_sched.model.request import Mix, Near, Request, Share

if TYPE_CHECKING:
    from valence_sched.capturing import Captured
    from valence_sched.drivers.live import Reading
    from valence_sched.drivers.recorded import Record
    from valence_sched.readings import Readings

LEAST_KEY = 16  # characters of a key for aliases

Cloud = Callable[[], Any]  # logs in and returns an openstack.connection.Connection


class Main(Inventories):
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

    def engine(
        self,
        sources: Sequence[str],
        policy_files: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        flavor_files: Sequence[str] = (),
        live: Live = EVERY,
        texts: dict[str, bytes] | None = None,
    ) -> Engine:
        """Return a scheduler for the inventories and all known policies and flavors.

        ``texts`` gets the JSON of each pod manager as it was told, by its id.
        """
        known = self.policies(policy_files)
        view = self.view(sources, strict=strict, resource_files=resource_files, live=live,
                         texts=texts)  # fmt: skip
        skipped = [str(line) for line in (*self.unread, *self.skipped)]  # reports take no other
        mix = functools.partial(self.mix, flavor_files)
        return Engine(view, known.values(), mix=mix, skipped=skipped, strict=strict)

    def mix(self, flavor_files: Sequence[str] = ()) -> Mix:
        """Return the mix of all known flavors, each by its share."""
        known = [flavor for flavor in self.flavors(flavor_files).values() if flavor.share]
        return Mix(tuple(Share(flavor.needs, flavor.traits, flavor.share) for flavor in known))

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
        for place, asked in files.requests(self.read(path), path):
            if isinstance(asked, Request):
                found.append(asked)
                continue
            if asked.flavor is not None and asked.flavor not in known:
                raise UnknownName("flavor", asked.flavor, known, f"{path}: {place}.flavor")
            try:
                found.append(self.compiled(asked, known.get(asked.flavor or ""), near_maps))
            except (RequestError, UnknownName) as error:
                raise error.at(f"{path}: {place}") from None
        return found

    def compiled(
        self, asked: Asked, flavor: Flavor | None = None, near_maps: Sequence[str] = ()
    ) -> Request:
        """Return a request that a person wrote, compiled; without a flavor from its properties.

        Errors as for what it is to be near.
        """
        near = self.near((*things(asked.near), *things(asked.prefer_near, soft=True)), near_maps)
        return compiled(asked, flavor or own_flavor(asked), near)

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
        known = self._things(sources) if wanted or sources else []
        cloud: list[Things] = []
        found = []
        for thing in wanted:
            if not knows(known, thing) and self._cloud and not cloud:
                resolve = plugins.installed(plugins.RESOLVERS).get("openstack")
                cloud.append(resolve(self._cloud()))
            found.append(place_of(thing, [*known, *cloud]))
        return tuple(found)

    def _things(self, sources: Sequence[str]) -> list[Things]:
        own = self.own("near.yaml")
        named = [named_plugin(source) for source in sources]
        named += [("", str(own))] if own.is_file() else []
        resolvers = plugins.installed(plugins.RESOLVERS)
        return [resolvers.get(name or "map")(path) for name, path in named]

    def convert(
        self,
        sources: Sequence[str],
        output: str,
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> tuple[int, int]:
        """Write inventories as one file; return how many podms and blocks it holds."""
        podms = self.podms(sources, strict=strict, resource_files=resource_files, live=live)
        return files.write_inventory(podms, output)

    def serve(
        self,
        sources: Sequence[str],
        ready: Callable[[list[tuple[str, str]]], None],
        *,
        username: str | None = None,
        password: Password | None = None,
        strict: bool = False,
        **how: Any,
    ) -> None:
        """Serve inventories as live pod managers until the process is told to stop.

        ``ready`` is called with id and URL of each when all listen; ``how`` are the fields of
        :class:`~valence_sched.simulator.serving.Service`.

        Raises:
            UsageError: a user without a password, or a password without a user.
            CredentialError: the password is not there, or others can read it.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
            SchedulerError: as the service says.
        """
        from valence_sched.simulator import serving, sessions

        if (username is None) != (password is None):
            raise UsageError("a login needs --username and one of --password-env, --password-file")
        if username is not None:
            word = credentials.password(password, "podm serve", self.environ, None)
            how["login"] = sessions.Login(username, word or "")

        def checked(named: list[tuple[str, str]]) -> None:
            self._check(len(named), sources, strict)
            ready(named)

        records = self._records(sources, EVERY)
        serving.serve(records, self.problems, serving.Service(**how), checked)

    def capture(
        self,
        sources: Sequence[str],
        live: Live = EVERY,
        *,
        file: str | None = None,
        tree: str | None = None,
        aliases: Aliases | None = None,
    ) -> Captured:
        """Record pod managers: those of inventories, or else live ones, those of ``live.only``.

        Written as one inventory, or with ``tree`` as a folder of Redfish documents each; without
        credentials, and with ``aliases`` without names.

        Raises:
            UsageError: no pod manager is known.
            UnknownName: one that is named is not there.
            InputError: it cannot be read at all, or not be written.
            PodmError: no pod manager could be read, so there is no tree.
        """
        from valence_sched import capturing  # the renderer: only for who captures

        secrets: list[str] = []
        found: Iterable[Reading]
        if named := self.sources(sources, live):
            if live.chosen:
                raise UsageError("record either inventories or live pod managers, not both")
            whole = self._only(self.whole(named, live=live), live.only)
            found = capturing.recorded(whole, self.problems, documents=tree is not None)
        else:
            readings = self.readings(live, raw=tree is not None)
            if not readings:
                raise UsageError(self._nobody(live))
            secrets = readings.passwords()
            found = self._told(readings)
        if tree is not None:
            return capturing.to_trees(found, tree, aliases, secrets)
        return capturing.to_file(found, file or "", aliases, secrets)

    def aliases(self, variable: str | None = None) -> Aliases:
        """Return names in place of others: under the key in a variable, or one of this run.

        Raises:
            CredentialError: there is no such variable, or its key could be guessed.
        """
        if variable is None:
            return Aliases(secrets_module.token_bytes(32))
        key = self.environ.get(variable, "")
        if len(key) < LEAST_KEY:
            found = f"{len(key)} characters" if key else "nothing"
            raise CredentialError(one_line(
                f"--anonymize-key-env: found {found} in {variable}, expected a key of at least "
                f"{LEAST_KEY} (whoever guesses it can look up names)"
            ))  # fmt: skip
        return Aliases(key.encode("utf-8", "surrogateescape"))

    def _told(self, readings: Readings) -> Iterator[Reading]:
        """Yield live readings; what is doubtful in them is told when the command ends."""
        try:
            for reading in readings:
                self.live_ids.add(reading.podm.id)
                self.problems += reading.problems
                yield reading
        finally:
            self._progress(None)
            self.remarks += readings.remarks

    @staticmethod
    def _only(
        found: Iterable[tuple[FullPodm, Record]], names: Sequence[str]
    ) -> Iterator[tuple[FullPodm, Record]]:
        """Yield the pod managers of these names, all without names."""
        known: list[str] = []
        missing = dict.fromkeys(names)
        for podm, record in found:
            known.append(podm.id)
            if not names or podm.id in names:
                missing.pop(podm.id, None)
                yield podm, record
        for name in missing:
            raise UnknownName("pod manager", name, known)

    def write_report(self, report: Report | Reports, file: str) -> None:
        """Write a decision as JSON."""
        files.write_json(report, file)

    def report(self, file: str) -> tuple[Report | Reports, list[str]]:
        """Read one decision or several that were written, ``-`` for stdin; and warnings.

        Raises:
            InputError: it cannot be read, or is no such document.
            NewerSchema: its major version is newer than ours.
        """
        data = self.input.read() if file == "-" else files.read(file, limit=-1)
        return parse_report(data, "stdin" if file == "-" else file)


def fault_rules() -> list[tuple[str, str]]:
    """Return the form of every fault rule of ``podm serve``, and what it does."""
    from valence_sched.simulator.faults import RULES

    return [(f"{rule.name}:{rule.words}".rstrip(":"), rule.help) for rule in RULES]
