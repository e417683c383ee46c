# SPDX-License-Identifier: Apache-2.0
"""Configuration: the built-in policies and flavors, the user's files, and named files."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

import msgspec

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup
from valence_sched.config.podms_file import read_password
from valence_sched.core import plugins
from valence_sched.errors import InputError, RequestError, UnknownName, UsageError, shown_name
from valence_sched.model import codec, need, registration, request_spec as nouns, zone
from valence_sched.model.baremetal import Baremetals, IronicSettings, check_ironic
from valence_sched.model.custom_resource import CustomResource, DeclaredResources
from valence_sched.model.flavor import Flavor
from valence_sched.model.node_change import DrainSettings, check_drain
from valence_sched.model.policy import Policy
from valence_sched.model.quantity import format_count, parse_age_limit
from valence_sched.model.request import FlavorShare, Mix, Request

if TYPE_CHECKING:
    from valence_sched.model.dispatch import MessagingSettings, UrlReference
    from valence_sched.model.profile import Profile
    from valence_sched.model.zone_registry import ZoneRegistration

T = TypeVar("T")
Cloud = Callable[[], Any]  # logs in and returns an openstack.connection.Connection
PROGRAM = "valence-sched"
ZONES_FILE, DRAIN_FILE = "zones.yaml", "drain.yaml"
IRONIC_FILE, IRONIC_URL = "ironic.yaml", "VALENCE_SCHED_IRONIC_URL"
DATA = Path(__file__).parents[1] / "data"  # the data files of the package
WARN_AGE, DEFAULT_WARN_AGE = "VALENCE_SCHED_WARN_AGE", "1d"
HOME_VARIABLES = {"config": "XDG_CONFIG_HOME", "state": "XDG_STATE_HOME", "cache": "XDG_CACHE_HOME"}
#: Default folders below the home folder of the user, by the XDG Base Directory standard.
USUAL_FOLDERS = {"config": ".config", "state": ".local/state", "cache": ".cache"}
NO_HOME = "/nonexistent"  # the home folder of a user without one, as in a container


def split_plugin_name(source: str) -> tuple[str, str]:
    """Split ``NAME:ARGUMENT`` into plug-in name and argument; the name may be empty."""
    name, colon, path = source.partition(":")
    if not colon or not name.isidentifier() or os.path.exists(source):
        return "", source
    return name, path


def user_folder(kind: Literal["config", "state", "cache"], environ: Mapping[str, str]) -> Path:
    """Return a folder of the user; an environment variable overrides the platform's default."""
    if home := environ.get(HOME_VARIABLES[kind]):
        return Path(home) / PROGRAM
    if sys.platform == "linux":
        own = os.path.expanduser(f"~/{USUAL_FOLDERS[kind]}")
        return Path(NO_HOME if own.startswith("~") else own) / PROGRAM
    import platformdirs  # only on other platforms: the import is slow

    folder: Path = getattr(platformdirs, f"user_{kind}_path")(PROGRAM)
    return folder


class Configuration:
    """The files of the user and named files; ``-`` is standard input.

    ``cloud`` logs in and returns a connection of openstacksdk. ``remarks`` collects a line for each
    accepted key of a flavor that has no effect. ``ignored_extra_specs`` are the keys of Nova's
    extra specs to skip. ``default_owner`` returns the owner of a request that names none.
    ``baremetals`` returns each Ironic that is queried before hardware changes. ``service_flavors``
    and ``service_policies`` return the flavors and policies of a service; they replace the built-in
    ones and the user's own.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        cloud: Cloud | None = None,
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self.origins: Mapping[str, str] = {}
        self._stdin, self._cloud = stdin, cloud
        self.remarks: list[str] = []
        self.ignored_extra_specs: tuple[str, ...] = ()
        self.default_owner: Callable[[], str | None] | None = None
        self.baremetals: Baremetals = tuple
        self.service_flavors: Callable[[], Iterable[Flavor]] | None = None
        self.service_policies: Callable[[], Iterable[Policy]] | None = None
        # the files and their flavors: a command reads them for its flavor, and for the mix
        self._flavors: tuple[object, dict[str, Flavor], list[str]] | None = None

    def policies(self, paths: Sequence[str] = ()) -> dict[str, Policy]:
        """Return policies by name: built-in, of the user, of ``paths``; later ones override."""
        policies = {one.name: one for one in (self.service_policies or tuple)()}
        for file, data in self._layered_files("policies.yaml", paths, self.service_policies):
            policies |= {policy.name: policy for policy in parsers.parse_policies(data, file)}
        return policies

    def policies_in(self, path: str) -> list[Policy]:
        return parsers.parse_policies(*self.read(path))

    def flavors(self, paths: Sequence[str] = ()) -> dict[str, Flavor]:
        """Return flavors by name: built-in, of the user, of ``paths``; later ones override."""
        layers = tuple(self._layered_files("flavors.yaml", paths, self.service_flavors))
        key = (layers, tuple((self.service_flavors or tuple)()), self.ignored_extra_specs)
        known = self._flavors
        if known is not None and known[0] == key:
            self.remarks += known[2]
            return known[1].copy()
        flavors, start = {one.name: one for one in key[1]}, len(self.remarks)
        for file, data in layers:
            parsed = self._parse_flavors(data, file, flavors.copy)
            flavors |= {flavor.name: flavor for flavor in parsed}
        self._flavors = key, flavors, self.remarks[start:]
        return flavors.copy()

    def flavors_in(self, path: str, paths: Sequence[str] = ()) -> list[Flavor]:
        """Return the flavors of one file, which may name other flavors by name or uuid."""
        return self._parse_flavors(*self.read(path), functools.partial(self.flavors, paths))

    def _parse_flavors(self, data: bytes, file: str, known: FlavorLookup) -> list[Flavor]:
        return parsers.parse_flavors(data, file, known, self.remarks, self.ignored_extra_specs)

    def flavor(self, reference: str, paths: Sequence[str] = ()) -> Flavor:
        """Return a flavor by name, uuid or file (``-``: stdin); or UnknownName, InputError."""
        is_named = os.sep in reference or reference.endswith((".yaml", ".yml", ".json"))
        if reference == "-" or is_named or os.path.isfile(reference):
            flavors = self.flavors_in(reference, paths)
            if len(flavors) != 1:
                hint = "name the file with --flavor-file and one of its flavors with --flavor"
                name, found = shown_name(reference), format_count(len(flavors), "flavor")
                raise InputError(name, "$", found, "one", hint)
            return flavors[0]
        by_name = self.flavors(paths)
        known = {one.uuid: one for one in by_name.values() if one.uuid} | by_name
        if reference not in known:
            raise UnknownName("flavor", reference, by_name)
        return known[reference]

    def nova_flavor(self, document: dict[str, Any], name: str, paths: Sequence[str] = ()) -> Flavor:
        """Convert a Nova flavor; a bare metal one becomes the flavor that its class names."""
        cursor = DocumentCursor(f"Nova flavor {name!r}", ignored=self.ignored_extra_specs)
        flavor = parsers.parse_flavor(document, cursor, functools.partial(self.flavors, paths))
        self.remarks += cursor.remarks
        return flavor

    def mix(self, flavor_files: Sequence[str] = ()) -> Mix:
        flavors = [flavor for flavor in self.flavors(flavor_files).values() if flavor.share]
        return Mix(tuple(FlavorShare(one.needs, one.traits, one.share) for one in flavors))

    def resources(self, paths: Sequence[str] = ()) -> list[CustomResource]:
        """Return declared resources: of the user, of ``paths``; later ones override."""
        layers = self._layered_files("resources.yaml", paths)
        parsed = (parsers.parse_resources(data, file) for file, data in layers)
        return list({one.name: one for one in itertools.chain(*parsed)}.values())

    def declared_resources(self, paths: Sequence[str]) -> DeclaredResources | None:
        found = self.resources(paths)
        return DeclaredResources(found) if found else None

    def read_requests(
        self, path: str, flavor_files: Sequence[str] = (), near_maps: Sequence[str] = ()
    ) -> list[Request]:
        """Return the requests of a file, each compiled with its flavor; InputError, UnknownName."""
        flavors = self.flavors(flavor_files)
        data, name = self.read(path)

        def compiled(place: str, spec: nouns.RequestSpec | Request) -> Request:
            if isinstance(spec, Request):
                return spec
            if spec.flavor is not None and spec.flavor not in flavors:
                raise UnknownName("flavor", spec.flavor, flavors, f"{name}: {place}.flavor")
            try:
                return self.compile_request(spec, flavors.get(spec.flavor or ""), near_maps)
            except (RequestError, UnknownName) as error:
                raise error.at(f"{name}: {place}") from None

        return [compiled(place, spec) for place, spec in parsers.parse_requests(data, name)]

    def messaging(self, path: str) -> MessagingSettings:
        """Return the settings of a message broker from a file; InputError if it is invalid."""
        from valence_sched.model import dispatch as nouns  # only for a broker

        check = nouns.check_messaging
        return parsers.parse_settings(*self.read(path), nouns.MessagingSettings, check)

    def profile(self, name: str | None = None) -> tuple[str, Profile]:
        """Return the profile selected by name, environment or file, else an empty one."""
        from valence_sched.model import profile as profiles

        path = self.own_file(profiles.CONFIG_FILE)
        source = "--profile" if name else profiles.PROFILE
        name = name or self.environ.get(profiles.PROFILE) or ""
        if path is None:
            if name:
                where = f"{source}: {self.user_file(profiles.CONFIG_FILE)} does not exist"
                raise UnknownName("profile", name, (), where)
            return "", profiles.Profile()
        check, data = profiles.check_profiles, files.read(path)
        file = parsers.parse_settings(data, path, profiles.ProfileFile, check)
        source = source if name else f"{path}: $.profile"
        if not (name := name or file.profile or ""):
            return "", profiles.Profile()
        if name not in file.profiles:
            raise UnknownName("profile", name, file.profiles, source)
        return name, profiles.located_profile(file.profiles[name], os.path.dirname(path))

    def _own_settings(
        self, name: str, kind: type[T], check: Callable[[T, str], object]
    ) -> T | None:
        own = self.own_file(name)
        return None if own is None else parsers.parse_settings(files.read(own), own, kind, check)

    def zones(self) -> zone.ZoneSettings:
        """Return the zone settings of the user's own file; InputError if it is invalid."""
        own = self._own_settings(ZONES_FILE, zone.ZoneSettings, zone.check_zone_settings)
        return own or zone.ZoneSettings()

    def ironic(self) -> IronicSettings:
        """Return the Ironic settings of the user's file and the environment; or InputError."""
        own = self._own_settings(IRONIC_FILE, IronicSettings, check_ironic) or IronicSettings()
        if url := self.environ.get(IRONIC_URL):
            own = msgspec.structs.replace(own, url=url)
            check_ironic(own, IRONIC_URL)
        return own

    def drain(self) -> DrainSettings | None:
        """Return the drain hook of the user's own file, if any; InputError if it is invalid."""
        return self._own_settings(DRAIN_FILE, DrainSettings, check_drain)

    def zone_password(self, child: ZoneRegistration) -> str | None:
        return read_password(child.password, child.name, self.environ, None)

    def secret_url(self, reference: UrlReference) -> str:
        source = registration.PasswordReference(env=reference.env, file=reference.file)
        return read_password(source, "messaging", self.environ, None) or ""

    def check_request(self, spec: nouns.RequestSpec) -> None:
        nouns.check_syntax(spec, "the request", "$")

    def compile_request(
        self, spec: nouns.RequestSpec, flavor: Flavor | None = None, near_maps: Sequence[str] = ()
    ) -> Request:
        """Compile a request with a flavor, or with its own ``properties`` if it has no flavor."""
        near = self.resolve_near(spec.external_resources, near_maps)
        request = nouns.compile_request(spec, flavor, near)
        if request.owner is None and self.default_owner is not None:
            request = msgspec.structs.replace(request, owner=self.default_owner())
        return request

    def resolve_near(
        self, resources: Iterable[nouns.ExternalResource], sources: Sequence[str] = ()
    ) -> tuple[need.Proximity, ...]:
        """Return the locations of external resources; else UnknownName or RequestError.

        The maps and resolvers that ``sources`` name precede the user's own map. The cloud is
        queried last, for a resource that no other resolver knows. CloudError if it does not answer,
        InputError for an invalid map.
        """
        wanted = tuple(resources)
        if not wanted and not sources:  # most requests need no map
            return ()
        installed, own_map = plugins.load(plugins.RESOLVERS), self.own_file("near.yaml")
        resolvers: list[nouns.Resolver] = []
        named = [split_plugin_name(source) for source in sources]
        for name, path in [*named, ("", own_map)] if own_map else named:
            make = installed.get(name or "map")
            with plugins.plugin_errors(f"resolver {name or 'map'!r}: {path}"):
                resolvers.append(make(path))
        cloud_resolver: list[nouns.Resolver] = []
        located = []
        for resource in wanted:
            who = f"the resolver of {resource.text}"
            with plugins.plugin_errors(who):
                found = (one.find(resource.kind, resource.name) for one in resolvers)
                unknown = all(place is None for place in found)
            if unknown and self._cloud and not cloud_resolver:
                cloud_resolver.append(installed.get("openstack")(self._cloud()))
            with plugins.plugin_errors(who):
                located.append(nouns.resolve_resource(resource, [*resolvers, *cloud_resolver]))
        return tuple(located)

    def _layered_files(
        self, name: str, paths: Sequence[str], service: object = None
    ) -> Iterator[tuple[str, bytes]]:
        if service is None:
            shipped = DATA / name.replace(".yaml", ".json")
            if shipped.is_file():
                yield f"built-in {shipped.name}", codec.ShippedJson(shipped.read_bytes())
            if (own := self.own_file(name)) is not None:
                yield own, files.read(own)
        for path in paths:
            data, name = self.read(path)
            yield name, data

    def user_file(self, name: str) -> Path:
        return user_folder("config", self.environ) / name

    def own_file(self, name: str) -> str | None:
        """Return the path of a file of the user, None if missing; InputError if it is no file."""
        path = str(self.user_file(name))
        if os.path.lexists(path) and not os.path.isfile(path):
            raise InputError(path, "", "a special file", "a file that can be read")
        return path if os.path.lexists(path) else None

    def read_stats(self, path: str) -> dict[str, Any]:
        """Return the report of a pod manager in a file; InputError if it is not an object."""
        data, name = self.read(path)
        document = codec.load_yaml(data, name)
        if not isinstance(document, dict):
            found = "an empty document" if document is None else type(document).__name__
            raise InputError(name, "$", found, "an object")
        return {str(word): value for word, value in document.items()}

    def warn_age_s(self) -> float | None:
        """Return the age of a reading, in seconds, at which to warn; None: never. Or UsageError."""
        try:
            return parse_age_limit(self.environ.get(WARN_AGE) or DEFAULT_WARN_AGE)
        except ValueError as error:
            raise UsageError(f"{WARN_AGE}: {error}") from None

    def origin(self, variable: str) -> str:
        return self.origins.get(variable, variable)

    def read(self, path: str) -> tuple[bytes, str]:
        """Return the content, of limited size, of a file that people write, and its shown name."""
        limit = codec.MAX_HUMAN_BYTES + 1
        data = self.input.read(limit) if path == "-" else files.read(path)
        return data, shown_name(path)

    def read_document(self, path: str) -> tuple[bytes, str]:
        """Return the content and shown name of a file that programs write; errors as documents."""
        return files.read_document(path, self.input), shown_name(path)

    @property
    def input(self) -> BinaryIO:
        """Return standard input, or an empty stream if it was closed."""
        if self._stdin is None:
            self._stdin = sys.stdin.buffer if sys.stdin is not None else BytesIO()
        return self._stdin
