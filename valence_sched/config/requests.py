# SPDX-License-Identifier: Apache-2.0
"""Requests as people write them: compiled, with the locations of what they are to be near."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from valence_sched.config import parsers
from valence_sched.core import plugins
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.flavor import Flavor
from valence_sched.model.proximity import (
    ExternalResource,
    Resolver,
    external_resources,
    is_known,
    resolve_resource,
)
from valence_sched.model.request import Proximity, Request
from valence_sched.model.request_spec import RequestSpec, compile_request, inline_flavor

Cloud = Callable[[], Any]  # logs in and returns an openstack.connection.Connection


def compile_file(
    data: bytes,
    file: str,
    flavors: Mapping[str, Flavor],
    compile_one: Callable[[RequestSpec, Flavor | None], Request],
) -> list[Request]:
    """Return the requests of a file, each compiled by ``compile_one`` with its flavor.

    Raises:
        InputError, UnknownName: the file breaks its format, or names an unknown flavor.
    """
    compiled = []
    for place, spec in parsers.parse_requests(data, file):
        if isinstance(spec, Request):
            compiled.append(spec)
            continue
        if spec.flavor is not None and spec.flavor not in flavors:
            raise UnknownName("flavor", spec.flavor, flavors, f"{file}: {place}.flavor")
        try:
            compiled.append(compile_one(spec, flavors.get(spec.flavor or "")))
        except (RequestError, UnknownName) as error:
            raise error.at(f"{file}: {place}") from None
    return compiled


def compile_spec(
    spec: RequestSpec,
    flavor: Flavor | None,
    resolve: Callable[[Iterable[ExternalResource]], tuple[Proximity, ...]],
) -> Request:
    """Return one request compiled; ``resolve`` locates the resources it is to be near."""
    required = external_resources(spec.near)
    preferred = external_resources(spec.prefer_near, soft=True)
    return compile_request(spec, flavor or inline_flavor(spec), resolve((*required, *preferred)))


def resolve_near(
    resources: Iterable[ExternalResource],
    sources: Sequence[str],
    own_map: Path,
    cloud: Cloud | None,
) -> tuple[Proximity, ...]:
    """Return the locations of external resources.

    The maps and resolvers that ``sources`` name are searched first, then the user's own map. The
    cloud is asked last, and only for a resource that no other resolver knows.

    Raises:
        UnknownName, RequestError: no resolver knows a resource, or one does without its location.
        CloudError, InputError: the cloud does not answer; a map breaks its format.
    """
    wanted = tuple(resources)
    resolvers = _open_resolvers(sources, own_map) if wanted or sources else []
    cloud_resolver: list[Resolver] = []
    located = []
    for resource in wanted:
        who = f"a resolver asked for {resource.text}"
        with plugins.plugin_errors(who):
            unknown = not is_known(resolvers, resource)
        if unknown and cloud and not cloud_resolver:
            make = plugins.load(plugins.RESOLVERS).get("openstack")
            cloud_resolver.append(make(cloud()))
        with plugins.plugin_errors(who):
            located.append(resolve_resource(resource, [*resolvers, *cloud_resolver]))
    return tuple(located)


def _open_resolvers(sources: Sequence[str], own_map: Path) -> list[Resolver]:
    named = [split_plugin_name(source) for source in sources]
    named += [("", str(own_map))] if own_map.is_file() else []
    installed = plugins.load(plugins.RESOLVERS)
    resolvers = []
    for name, path in named:
        make = installed.get(name or "map")
        with plugins.plugin_errors(f"resolver {name or 'map'!r}: {path}"):
            resolvers.append(make(path))
    return resolvers


def split_plugin_name(source: str) -> tuple[str, str]:
    """Return the plug-in name before the colon, empty without one, and the rest."""
    name, colon, path = source.partition(":")
    if not colon or not name.isidentifier() or os.path.exists(source):
        return "", source
    return name, path
