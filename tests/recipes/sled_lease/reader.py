# SPDX-License-Identifier: Apache-2.0
"""Reads pod managers that lease sleds: a sled is a block, and a lease of it is a node."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.drivers.fields import Field, Link, NamedResource, number, text
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.model.inventory import (
    Devices,
    FullBlock,
    FullPodm,
    Limit,
    Memory,
    Node,
    Pool,
    Processor,
    Status,
)

POOL = Pool(id="sleds", limits={"ComputerSystem": Limit(1, 1)})


class Sled(NamedResource):
    """One server; it is composed as a whole."""

    cores = Field("Cores", number, "of all processors together")
    memory = Field("MemoryGiB", number, "of all modules together", "GiB")


class Lease(NamedResource):
    """A sled in use: the node of this pod manager."""

    sled = Field("Sled/@odata.id", text, "the sled that is leased")


class LeaseRoot(NamedResource):
    """The service root."""

    sleds = Link("Oem/SledLease/Sleds", Sled, "every sled", collection=True)
    leases = Link("Oem/SledLease/Leases", Lease, "every lease", collection=True)


def read_podm(service: LinkedDocuments, id_: str, driver: str) -> FullPodm:
    """Read a pod manager; missing and invalid documents are noted and left out."""
    root = LeaseRoot(ROOT, service.json(ROOT, "the protocol") or {}, service.notes)
    leases = list(service.follow(root.leases, Lease, root.uri))
    nodes = tuple(Node(uri=one.uri, name=one.name, blocks=(one.sled or "",)) for one in leases)
    leased = {uri for node in nodes for uri in node.blocks}
    blocks = tuple(_blocks(service, root, leased))
    return FullPodm(
        id=id_, name=root.name, driver=driver, pools=(POOL,), blocks=blocks, nodes=nodes
    )


def _blocks(service: LinkedDocuments, root: LeaseRoot, leased: set[str]) -> Iterator[FullBlock]:
    for sled in service.follow(root.sleds, Sled, root.uri):
        if sled.cores is None:
            service.notes.remark(f"{sled.uri}: Cores: found none, expected a number")
        # A size that the sled does not report stays unknown; 0 would mean that it has none.
        memory = None if sled.memory is None else sled.memory * 1024
        yield FullBlock(
            uri=sled.uri,
            name=sled.name,
            type=("ComputerSystem",),
            pools=(POOL.id,),
            status=Status(state="Composed" if sled.uri in leased else "Unused"),
            devices=Devices(
                processors=(Processor(cores=sled.cores),), memory=(Memory(capacity_mib=memory),)
            ),
        )
