# SPDX-License-Identifier: Apache-2.0
"""Resolver: external resources and their locations from an operator's YAML map."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valence_sched.errors import InputError, plain_reason
from valence_sched.model.codec import MAX_HUMAN_BYTES, convert, load_yaml
from valence_sched.model.request_spec import Place

Map = dict[str, dict[str, Place]]


@dataclass(frozen=True, slots=True)
class MapResolver:
    """The resources of one map."""

    where: str
    places: Map

    def find(self, kind: str, name: str) -> Place | None:
        """Return the location of a resource in the map, None if the map lacks it."""
        return self.places.get(kind, {}).get(name)

    def known(self, kind: str) -> Iterable[str]:
        return self.places.get(kind, {})

    def kinds(self) -> Iterable[str]:
        return self.places


def things(source: str) -> MapResolver:
    """Read ``{volume: {ID: {zone: …, aggregates: […], facts: {…}}}}`` of a file; or InputError."""
    try:
        with Path(source).open("rb") as stream:
            data = stream.read(MAX_HUMAN_BYTES + 1)
    except OSError as error:
        raise InputError(source, "", plain_reason(error), "a readable file") from None
    return parse_map(data, source)


def parse_map(data: bytes, file: str) -> MapResolver:
    """Parse a map; errors as for :func:`things`."""
    kinds = convert(load_yaml(data, file), dict[str, Any], file)
    places: Map = {kind: {} for kind in kinds}
    for kind, named in kinds.items():
        for name, place in convert(named, dict[str, Any], file, f"$.{kind}").items():
            at = f"$.{kind}[{name!r}]"
            places[kind][name] = found = convert(place, Place, file, at)
            if not found:
                raise InputError(file, at, "no place", "zone, aggregates or facts")
    return MapResolver(file, places)
