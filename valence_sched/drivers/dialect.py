# SPDX-License-Identifier: Apache-2.0
"""What a pod manager speaks: where reading begins, and how its resources become a podm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from valence_sched.drivers.fields import Json, Resource
from valence_sched.drivers.links import Service
from valence_sched.model.inventory import FullPodm


class Dialect(NamedTuple):
    """One way to speak Redfish; an entry point of ``valence_sched.dialects`` by its name.

    ``read`` takes the documents, the id of the podm and the name of the driver. All that it
    follows is declared as ``fields.Link`` on ``root`` and what that leads to, so the documents
    can be fetched ahead of it.
    """

    name: str
    root: type[Resource]
    read: Callable[[Service, str, str], FullPodm]


def told(root: Json | None) -> str:
    """Return the name of the dialect that a service root speaks.

    Intel RSD has its ``Nodes`` in the root, or in its own part of it.
    """
    root = root or {}
    oem = root.get("Oem")
    rack_scale = isinstance(oem, dict) and "Intel_RackScale" in oem
    return "rsd" if rack_scale or isinstance(root.get("Nodes"), dict) else "redfish"
