# SPDX-License-Identifier: Apache-2.0
"""Tenants: what an owner sees of a pod manager that it shares with others."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from msgspec.structs import replace

from valence_sched.model.inventory import Node, Podm

OTHERS = "another owner"  # in place of what is another's
HIDDEN = "another-owner:"
RESERVED_FOR = "reserved_for"  # the capability that names the owners of a pod manager
PodmT = TypeVar("PodmT", bound=Podm[Any, Any])


def hidden_uri(uri: str) -> str:
    """Return what stands for the URI of a node of another owner: always the same, and no URI."""
    if uri.startswith(HIDDEN):
        return uri
    return HIDDEN + hashlib.blake2b(uri.encode(), digest_size=8).hexdigest()


def visible_podm(podm: PodmT, owner: str) -> PodmT:
    """Return a pod manager that tells of nodes of other owners only which blocks they have."""
    nodes = tuple(
        node if node.owner == owner else Node(uri=hidden_uri(node.uri), blocks=node.blocks)
        for node in podm.nodes
    )
    return podm if nodes == podm.nodes else replace(podm, nodes=nodes)
