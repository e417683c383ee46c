# SPDX-License-Identifier: Apache-2.0
"""The dialect of Intel Rack Scale Design 2.1 to 2.5."""

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.exchange import MakePatience
from valence_sched.drivers.redfish.stocks import STORAGE
from valence_sched.drivers.rsd.reader import read_podm
from valence_sched.drivers.rsd.schema import RackRoot


def rsd() -> Dialect:
    """Intel Rack Scale Design 2.1 to 2.5."""

    def composer(session: Session, patience: MakePatience) -> Composer:
        from valence_sched.drivers.rsd.composer import RsdComposer  # not needed to read

        return RsdComposer(session, patience)

    services, amounts = (RackRoot.rack_nodes, RackRoot.nodes), frozenset((STORAGE,))
    return Dialect("rsd", RackRoot, read_podm, is_rack_root, composer, amounts, services)


def is_rack_root(root: Json) -> bool:
    """Return whether a root lists nodes; services below the pod manager have the same Oem part."""
    oem = root.get("Oem")
    rack = oem.get("Intel_RackScale") if isinstance(oem, dict) else None
    parts = (root, rack if isinstance(rack, dict) else {})
    return any(isinstance(part.get("Nodes"), dict) for part in parts)
