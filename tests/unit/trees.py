# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers of this project, changed in the ways in which real ones differ."""

import functools
from pathlib import Path
from typing import Any

import msgspec

from valence_sched.testing.served import served

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "site.json")
V = "/redfish/v1"
RULES = f"{V}/Systems/Capabilities-of-ours"


def tree(name: str = "gpu-east") -> dict[str, Any]:
    """Return the documents of one pod manager of the example, without its UUID.

    Each served copy has a separate UUID.
    """
    found: dict[str, Any] = msgspec.json.decode(_encoded(name))
    del found[V]["UUID"]
    return found


@functools.cache
def _encoded(name: str) -> bytes:
    with served(EXAMPLE) as podms:
        return msgspec.json.encode(podms[name].documents.copy())


def ruled(documents: dict[str, Any], use_case: str, **rules: Any) -> dict[str, Any]:
    """Let the collection of systems offer one use case, with these rules."""
    link = {
        "CapabilitiesObject": {"@odata.id": RULES},
        "UseCase": use_case,
        "Links": {"TargetCollection": {"@odata.id": f"{V}/Systems"}},
    }
    documents[RULES] = {"@odata.id": RULES, "Id": "Ours", "Name": "Ours", **rules}
    documents[f"{V}/Systems"]["@Redfish.CollectionCapabilities"] = {"Capabilities": [link]}
    return documents


def constrained(documents: dict[str, Any]) -> dict[str, Any]:
    """Let a pod manager compose by needs, and choose the blocks itself."""
    processor = {"ProcessorType@Redfish.OptionalOnCreate": True,
                 "TotalCores@Redfish.OptionalOnCreate": True}  # fmt: skip
    memory = {"CapacityMiB@Redfish.OptionalOnCreate": True}
    return ruled(
        documents,
        "ComputerSystemConstrainedComposition",
        **{"Name@Redfish.RequiredOnCreate": True},
        Processors={"Members": [processor]},
        Memory={"Members": [memory]},
        Storage={"Members": [{}]},
        EthernetInterfaces={"Members": [{"SpeedMbps@Redfish.OptionalOnCreate": True}]},
    )
