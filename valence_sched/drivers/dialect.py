# SPDX-License-Identifier: Apache-2.0
"""What a pod manager speaks: where reading begins, and how its resources become a podm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from valence_sched.drivers.fields import Json, Resource
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.model.inventory import FullPodm


class Dialect(NamedTuple):
    """One way to speak Redfish; an entry point of ``valence_sched.dialects`` by its name.

    ``read`` takes the documents, the id of the podm and the name of the driver. All that it
    follows is declared as ``fields.Link`` on ``root`` and what that leads to, so the documents
    can be fetched ahead of it.
    """

    name: str
    root: type[Resource]
    read: Callable[[LinkedDocuments, str, str], FullPodm]


def dialect_name(root: Json | None) -> str:
    """Return the name of the dialect that a service root speaks.

    Intel RSD has its ``Nodes`` in the root, or in its own part of it. The services below its pod
    manager have that part too but compose nothing.
    """
    root = root or {}
    oem = root.get("Oem")
    rack = oem.get("Intel_RackScale") if isinstance(oem, dict) else None
    parts = (root, rack if isinstance(rack, dict) else {})
    return "rsd" if any(isinstance(part.get("Nodes"), dict) for part in parts) else "redfish"
