# SPDX-License-Identifier: Apache-2.0
"""Resolver: volumes, ports and networks of an OpenStack cloud.

=========  =====================================  ==============================================
kind       zone                                   aggregates
=========  =====================================  ==============================================
volume     its availability zone
network    its availability zone, if only one     its physical networks (shown to administrators)
port       that of its network                    those of its network
=========  =====================================  ==============================================
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from valence_sched.errors import CloudError, UsageError
from valence_sched.model.request_spec import Place


@dataclass(frozen=True, slots=True)
class OpenStackResolver:
    """The resources of the cloud behind an ``openstack.connection.Connection``."""

    connection: Any
    where: str = "OpenStack (volume, port, network)"

    def find(self, kind: str, name: str) -> Place | None:
        """Return the location of a resource, None if it does not exist; CloudError on failure."""
        from keystoneauth1.exceptions import ClientException
        from openstack.exceptions import SDKException

        if kind not in _FINDERS:
            return None
        try:
            return _FINDERS[kind](self.connection, name)
        except (SDKException, ClientException) as error:
            raise CloudError(f"cannot query OpenStack for {kind} {name!r}: {error}") from None

    def known(self, kind: str) -> Iterable[str]:
        """Return an empty list: a cloud may have a million resources of a kind."""
        return ()

    def kinds(self) -> Iterable[str]:
        return _FINDERS


def things(source: Any) -> OpenStackResolver:
    """Return the resolver of an SDK connection; UsageError for a text from ``--near-map``."""
    if isinstance(source, str):
        raise UsageError("openstack is not a map: the openstack client always uses its cloud")
    return OpenStackResolver(source)


def _volume(connection: Any, name: str) -> Place | None:
    volume = connection.block_storage.find_volume(name, ignore_missing=True)
    return Place(zone=volume.availability_zone) if volume else None


def _port(connection: Any, name: str) -> Place | None:
    port = connection.network.find_port(name, ignore_missing=True)
    return _network_place(connection.network.get_network(port.network_id)) if port else None


def _network(connection: Any, name: str) -> Place | None:
    network = connection.network.find_network(name, ignore_missing=True)
    return _network_place(network) if network else None


def _network_place(network: Any) -> Place:
    zones = network.availability_zones or network.availability_zone_hints or []
    segments = [part.get("provider:physical_network") for part in network.segments or []]
    wires = tuple(dict.fromkeys(filter(None, [network.provider_physical_network, *segments])))
    return Place(zone=zones[0] if len(zones) == 1 else None, aggregates=wires)


_FINDERS: dict[str, Callable[[Any, str], Place | None]] = {
    "volume": _volume,
    "port": _port,
    "network": _network,
}
