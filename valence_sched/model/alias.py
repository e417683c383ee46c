# SPDX-License-Identifier: Apache-2.0
"""Names that stand in for others: the same for the same name and key, and no way back.

An alias is a keyed hash (HMAC-SHA-256, 64 bits of it), so that without the key nobody can try out
which name it stands for. Words of Redfish stay, and so do numbers of up to three digits.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
from urllib.parse import unquote

from valence_sched.model.build import WHOLE
from valence_sched.model.resource import SCHEME

#: Parts of URIs that name no thing of a site: collections, services and single resources.
WORDS = frozenset(
    word.casefold()
    for word in """
    redfish v1 $metadata Systems Chassis Managers Fabrics CompositionService ResourceBlocks
    ResourceZones Zones Endpoints Switches Ports Connections AddressPools EndpointGroups
    Processors Memory MemoryDomains MemoryChunks MemorySummary ProcessorSummary Storage
    StorageServices SimpleStorage Drives Volumes StoragePools StorageGroups Controllers
    StorageControllers EthernetInterfaces NetworkInterfaces NetworkAdapters
    NetworkDeviceFunctions NetworkPorts PCIeDevices PCIeFunctions PCIeSlots PCIeInterfaces
    LogicalServices Services Nodes Actions Oem Members Links Capabilities Devices Thermal Power
    PowerSubsystem ThermalSubsystem Assembly Sensors LogServices Entries Bios Boot
    TaskService Tasks EventService Subscriptions UpdateService JsonSchemas Registries
    TelemetryService Facilities PowerEquipment AggregationService Aggregates
    FreePool ActivePool CompositionReservations GraphicsControllers USBControllers
    EthernetSwitches RemoteTargets LogicalDrives Accelerators FPGA InUse Metrics
    EnvironmentMetrics ProcessorMetrics SubProcessors OperatingConfigs MediaControllers
    FabricAdapters HostInterfaces VirtualMedia VLANs
    """.split()  # noqa: SIM905 - a word list reads better as text
)
_SHORT = re.compile(r"\d{1,3}")
_QUERY = re.compile(r"(\$?(?:skip|top)=\d{1,6}(?:&|$))+")
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<host>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_OURS = re.compile(r"(?P<head>(?:Processor|Accelerator|Memory|Drive|Nic)-\d{1,4})")


class Aliases:
    """Aliases under one key; ``originals`` is all that they stand for."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.of = functools.cache(self._of)
        self.uri = functools.cache(self._uri)
        self.originals: set[str] = set()

    def _of(self, text: str) -> str:
        """Return the alias of a whole text; empty text stays."""
        if not text:
            return text
        self.originals.add(text)
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"x{digest[:8].hex()}"

    def part(self, text: str) -> str:
        """Return the alias of one part of a URI, or an Id; standard words and short numbers stay.

        Parts that are spelled differently in URIs and documents (``%20``) have one alias.
        """
        if text.casefold() in WORDS or _SHORT.fullmatch(text) or text == WHOLE:
            return text
        return text if _OURS.fullmatch(text) else self.of(unquote(text))

    def path(self, text: str) -> str:
        """Return a text of parts between slashes, such as a location, part by part."""
        return "/".join(self.part(part) for part in text.split("/"))

    def _uri(self, uri: str) -> str:
        """Return a URI with its structure and without its names."""
        if found := _ADDRESS.fullmatch(uri):
            host = f"{self.of(found['host'].casefold())}.invalid" if found["host"] else ""
            return f"{found['scheme'].casefold()}://{host}{self._uri(found['rest'])}"
        if uri.startswith(SCHEME):
            head, hash_, rest = uri.partition("#")
            return f"{head}{hash_}{self.part(rest)}"
        path, hash_, pointer = uri.partition("#")
        path, mark, query = path.partition("?")
        if query and not _QUERY.fullmatch(query):
            query = self.of(query)
        return f"{self.path(path)}{mark}{query}{hash_}{self.path(pointer)}"

    def text(self, text: str) -> str:
        """Return any text: a URI as one, all else by one alias."""
        if text.startswith("/") or "://" in text:
            return self.uri(text)
        return self.part(text)
