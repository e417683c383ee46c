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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from valence_sched.errors import CloudError, UsageError, describe_error
from valence_sched.model.http import MALFORMED
from valence_sched.model.request_spec import Place

KINDS = ("volume", "port", "network")


@dataclass(frozen=True, slots=True)
class OpenStackResolver:
    """The resources of the cloud behind an ``openstack.connection.Connection``."""

    connection: Any
    where: str = "OpenStack (volume, port, network)"

    def find(self, kind: str, name: str) -> Place | None:
        """Return the location of a resource, None if it does not exist; CloudError on failure."""
        from keystoneauth1.exceptions import ClientException
        from openstack.exceptions import SDKException

        failed = f"cannot query OpenStack for {kind} {name!r}"
        try:
            place = self._place(kind, name) if kind in KINDS else None
            # openstacksdk does not check types
            return place and msgspec.convert(msgspec.to_builtins(place), Place)
        except (SDKException, ClientException) as error:
            raise CloudError(f"{failed}: {error}") from None
        except MALFORMED as error:
            raise CloudError(f"{failed}: a malformed answer ({describe_error(error)})") from None
        except OSError as error:  # a file of certificates, of which keystoneauth tells nothing
            raise CloudError(f"{failed}: {describe_error(error)}") from None

    def _place(self, kind: str, name: str) -> Place | None:
        if kind == "volume":
            volume = self.connection.block_storage.find_volume(name, ignore_missing=True)
            return Place(zone=volume.availability_zone) if volume else None
        cloud = self.connection.network
        if kind == "port":
            port = cloud.find_port(name, ignore_missing=True)
            network = cloud.get_network(port.network_id) if port else None
        else:
            network = cloud.find_network(name, ignore_missing=True)
        if not network:
            return None
        zones = network.availability_zones or network.availability_zone_hints or []
        segments = [part.get("provider:physical_network") for part in network.segments or []]
        wires = tuple(dict.fromkeys(filter(None, [network.provider_physical_network, *segments])))
        return Place(zone=zones[0] if len(zones) == 1 else None, aggregates=wires)

    def known(self, kind: str) -> Iterable[str]:
        """Return an empty list: a cloud may have a million resources of a kind."""
        return ()

    def kinds(self) -> Iterable[str]:
        return KINDS


def things(source: Any) -> OpenStackResolver:
    """Return the resolver of an SDK connection; UsageError for a text from ``--near-map``."""
    if isinstance(source, str):
        raise UsageError("openstack is not a map: the openstack client always uses its cloud")
    return OpenStackResolver(source)
