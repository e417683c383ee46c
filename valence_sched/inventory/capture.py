# SPDX-License-Identifier: Apache-2.0
"""Capture: writes pod managers as one inventory file or as Redfish trees, without credentials.

An unreadable pod manager has no tree, and no blocks in the file. For an anonymous capture, keyed
aliases replace all texts that are not known to be harmless.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import secrets as secrets_module
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote
from uuid import UUID

from msgspec.structs import replace

from valence_sched import errors, files
from valence_sched.drivers.crawl.reading import Reading
from valence_sched.drivers.files import tree as trees
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.sources import SourceReader
from valence_sched.model import inventory, redact
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.model.need import EFFECT
from valence_sched.model.podm_address import uuid_identity
from valence_sched.model.quantity import format_count
from valence_sched.model.reading import Selection

MIN_KEY_CHARS = 16  # characters of a key for aliases


class CaptureResult(NamedTuple):
    """The numbers of captured objects, and the reasons of failed readings by pod manager.

    ``left_out`` has a line for each document or pod manager that could not be written as a file.
    """

    podms: int
    blocks: int
    documents: int
    failures: dict[str, str]
    left_out: list[str]


class Redactor:
    """Removes ``secrets`` from readings, and names if it has aliases; collects ``failures``."""

    def __init__(self, aliases: Aliases | None = None, secrets: Collection[str] = ()) -> None:
        self._aliases, self._secrets = aliases, tuple(secrets)
        self.failures: dict[str, str] = {}

    def redact(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        for reading in readings:
            if reading.failure is not None:
                reason = reading.failure.removeprefix(f"{reading.podm.id}: ")
                redacted = redact.redact_text(reason, self._secrets)
                self.failures[reading.podm.id] = errors.one_line(redacted)
            podm = redact.redact_podm(reading.podm, self._secrets)
            documents = redact.redact_documents(reading.documents, self._secrets)
            if self._aliases is not None:
                podm = anonymise_podm(self._aliases, podm)
                documents = anonymise_documents(self._aliases, trees.join_pages(documents))
            yield Reading(podm, reading.failure, documents=documents)


def recorded_readings(
    podms: Iterable[tuple[FullPodm, Record]], diagnostics: Diagnostics, *, documents: bool = False
) -> Iterator[Reading]:
    """Yield the pod managers of an inventory as readings.

    With ``documents``, each has its Redfish documents: those of its recorded tree, else documents
    made from its fields. ``diagnostics`` notes each document that is left out.
    """
    for podm, record in podms:
        if not documents:
            yield Reading(podm)
        elif record.tree is None:
            # redact before rendering: documents encode credentials differently from fields
            clean = redact.redact_podm(podm)
            yield Reading(clean, documents=documents_of(clean))
        else:
            tree = dict(trees.tree_documents(record.tree, record.file, diagnostics))
            yield Reading(podm, documents=tree)


def write_file(readings: Iterable[Reading], file: str, redactor: Redactor) -> CaptureResult:
    def podm(reading: Reading) -> FullPodm:
        if reading.failure is None:
            return reading.podm
        status = "Unknown" if reading.podm.status == "Online" else reading.podm.status
        return replace(reading.podm, status=status, pools=(), blocks=(), stocks=(), nodes=())

    count, blocks = files.write_inventory(map(podm, redactor.redact(readings)), file)
    return CaptureResult(count, blocks, 0, redactor.failures, [])


def write_trees(readings: Iterable[Reading], folder: str, redactor: Redactor) -> CaptureResult:
    """Write each reading as ``FOLDER/ID/redfish/v1/…``; after InputError or PodmError, none."""
    left_out: list[str] = []
    counts: Counter[str] = Counter()

    def fill(root: Path) -> None:
        names: set[str] = set()
        for reading in redactor.redact(readings):
            if reading.failure is not None:
                continue
            podm = reading.podm
            fault = trees.name_fault(podm.id)
            if fault is None and podm.id.casefold() in names:
                fault = "found an ID that differs from another only in case"
            if fault:
                text = f"{podm.id}: {fault}, expected a valid name of a folder"
                left_out.append(errors.one_line(text))
                continue
            names.add(podm.id.casefold())
            lines: list[str] = []
            (root / podm.id).mkdir()
            written = trees.write_tree(reading.documents, root / podm.id, lines.append)
            left_out.extend(f"{podm.id}: {line}" for line in lines)
            counts.update(podms=1, blocks=len(podm.blocks), documents=written)
        if counts["podms"]:
            return
        if redactor.failures:
            lines = [f"{name}: {reason}" for name, reason in redactor.failures.items()]
            found = errors.name_some(lines, 1, last=", and")
            raise errors.PodmError(f"no pod manager could be read: {found}")
        raise errors.InputError(folder, "", (left_out or ["no pod manager"])[0], "at least one")

    trees.build_folder(folder, fill)
    sizes = counts["podms"], counts["blocks"], counts["documents"]
    return CaptureResult(*sizes, redactor.failures, left_out)


class Captures:
    """Records pod managers of a selection to files."""

    def __init__(self, sources: SourceReader, loader: InventoryLoader) -> None:
        self._sources, self._loader = sources, loader

    def capture(
        self,
        selection: Selection,
        *,
        file: str | None = None,
        tree: str | None = None,
        aliases: Aliases | None = None,
    ) -> CaptureResult:
        """Record pod managers of inventories or live ones; ``live.only`` limits either by name.

        The output is one inventory file, or with ``tree`` a folder of Redfish documents for each
        pod manager. It has no credentials, and with ``aliases`` no names. UsageError if no pod
        manager is known, UnknownName for a wrong name, InputError or PodmError if nothing can be
        read or written.
        """
        live, sources = selection.live, self._sources
        secrets: list[str] = []
        readings: Iterable[Reading]
        if named := sources.named_sources(selection):
            if live.selects_live:
                raise errors.UsageError("record either inventories or live pod managers, not both")
            selection = Selection(sources=tuple(named), live=live)
            chosen = _select(self._loader.podm_records(selection), live.only)
            readings = recorded_readings(chosen, sources.diagnostics, documents=tree is not None)
        else:
            reader = sources.live_reader(live, raw=tree is not None)
            if not reader:
                raise errors.NoPodm(sources.no_podm_message(live))
            secrets = reader.passwords()
            readings = sources.live_readings(reader)
        if tree is not None:
            return write_trees(readings, tree, Redactor(aliases, secrets))
        return write_file(readings, file or "", Redactor(aliases, secrets))

    def aliases(self, variable: str | None = None) -> Aliases:
        """Return aliases by the key in a variable, else by a random key; or CredentialError."""
        if variable is None:
            return Aliases(secrets_module.token_bytes(32))
        key = self._sources.config.environ.get(variable, "")
        if len(key) < MIN_KEY_CHARS:
            value = format_count(len(key), "character") if key else "nothing"
            wanted = f"a key of at least {MIN_KEY_CHARS} (a guessed key reveals the names)"
            text = f"found {value} in {variable}, expected {wanted}"
            raise errors.CredentialError(f"--anonymize-key-env: {text}")
        return Aliases(key.encode("utf-8", "surrogateescape"))


def _select(
    podms: Iterable[tuple[FullPodm, Record]], names: Sequence[str]
) -> Iterator[tuple[FullPodm, Record]]:
    known: list[str] = []
    missing = dict.fromkeys(names)
    for podm, record in podms:
        known.append(podm.id)
        if not names or podm.id in names:
            missing.pop(podm.id, None)
            yield podm, record
    for name in missing:
        raise errors.UnknownName("pod manager", name, known)


#: Parts of URIs that are the same at every site: collections, services and single resources.
STANDARD_SEGMENTS = frozenset(
    word.casefold()
    for word in """
    redfish v1 $metadata Systems Chassis Managers Fabrics CompositionService ResourceBlocks
    ResourceZones Zones Endpoints Switches Ports Connections AddressPools EndpointGroups
    Processors Memory MemoryDomains MemoryChunks MemorySummary ProcessorSummary Storage
    StorageServices SimpleStorage Drives Volumes AllocatedVolumes StoragePools StorageGroups
    Controllers StorageControllers EthernetInterfaces NetworkInterfaces NetworkAdapters
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
N = TypeVar("N", inventory.FullBlock, inventory.Stock, inventory.Node)
_SHORT = re.compile(r"\d{1,3}")
_QUERY = re.compile(r"(\$?(?:skip|top)=\d{1,6}(?:&|$))+")
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<host>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_DEVICE_NUMBER = re.compile(r"(?P<head>(?:Processor|Accelerator|Memory|Drive|Nic)-\d{1,4})")
#: Properties whose texts stay: terms of a standard, or product names.
_HARMLESS = re.compile(
    r"(?:.*(?:Type|Types|State|Status|Health|HealthRollup|Mode|Protocol|Protocols|Media|"
    r"Architecture|InstructionSet|UseCase|Units|AllowableValues|Severity|Version)"
    r"|Model|Manufacturer|Vendor|@odata\.type|Reserved|BaseModuleType|RAIDTypes|"
    r"BootSourceOverrideEnabled|BootSourceOverrideTarget)"
)
_STANDARD = ("Id", "Name", "Description", "Links", "Oem")
_POOLS = ("Free", "Active", "Unassigned")
_UUIDS = ("UUID", "ServiceEntryPointUUID")  # properties with the UUID of a Redfish service
#: Numeric properties that identify a single device.
_IDENTIFYING = re.compile(
    r"(?i).*(serial|uuid|guid|asset|mac|address|host|fqdn|sku|partnumber|wwn|wwpn|eui|nguid|"
    r"durablename|vlan|phone|latitude|longitude|altitude).*"
)
_PROPERTY = re.compile(r"[#@]?[A-Za-z_][A-Za-z_.@#\d]*")
_HARDWARE = re.compile(r"[^\r\n]{0,200}")


class Aliases:
    """Makes the same alias for the same text and key; ``originals`` are the replaced texts."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.of = functools.cache(self._of)
        self.uri = functools.cache(self._uri)
        self.originals: set[str] = set()

    def _of(self, text: str) -> str:
        if not text:
            return text
        self.originals.add(text)
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"x{digest[:8].hex()}"

    def segment(self, text: str) -> str:
        """Return the alias of a part of a URI, encoded or not; standard words and numbers stay."""
        is_standard = text.casefold() in STANDARD_SEGMENTS or text == inventory.WHOLE_POOL
        is_number = _SHORT.fullmatch(text) or _DEVICE_NUMBER.fullmatch(text)
        return text if is_standard or is_number else self.of(unquote(text))

    def uuid(self, text: str) -> str | None:
        """Return the alias of a UUID in any spelling, which is also a UUID; None for other text."""
        identity = uuid_identity(text)
        if identity is None:
            return None
        self.originals.add(text)
        digest = hmac.digest(self._key, identity.encode(), hashlib.sha256)
        return str(UUID(bytes=digest[:16], version=4))

    def identity(self, identity: str) -> str:
        kind, colon, value = identity.partition(":")
        return f"{kind}{colon}{self.uuid(value) or self.of(value)}"

    def path(self, text: str) -> str:
        return "/".join(self.segment(part) for part in text.split("/"))

    def _uri(self, uri: str) -> str:
        if url := _URL.fullmatch(uri):
            host = f"{self.of(url['host'].casefold())}.invalid" if url["host"] else ""
            return f"{url['scheme'].casefold()}://{host}{self._uri(url['rest'])}"
        if uri.startswith(inventory.DECLARED_SCHEME):
            head, hash_, rest = uri.partition("#")
            return f"{head}{hash_}{self.segment(rest)}"
        path, hash_, pointer = uri.partition("#")
        path, mark, query = path.partition("?")
        if query and not _QUERY.fullmatch(query):
            query = self.of(query)
        return f"{self.path(path)}{mark}{query}{hash_}{self.path(pointer)}"

    def text(self, text: str) -> str:
        """Return the alias of a text: a URI is replaced part by part, another text as a whole."""
        if text.startswith("/") or "://" in text:
            return self.uri(text)
        return self.segment(text)


def anonymise_podm(aliases: Aliases, podm: inventory.FullPodm) -> inventory.FullPodm:
    """Replace the names of a pod manager; amounts, kinds, traits and capabilities stay."""

    def fact(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(fact, value))
        if not isinstance(value, str):
            return value
        return aliases.uri(value) if "://" in value else aliases.path(value)

    text = aliases.text
    pools = (replace(it, id=text(it.id), name=_name(aliases, it.name)) for it in podm.pools)
    stocks = (replace(_named(aliases, it), pools=tuple(map(text, it.pools))) for it in podm.stocks)
    return replace(
        podm,
        id=aliases.segment(podm.id),
        name=_name(aliases, podm.name),
        url=aliases.uri(podm.url) if podm.url else podm.url,
        identity=aliases.identity(podm.identity) if podm.identity else podm.identity,
        zone=_name(aliases, podm.zone),
        aggregates=tuple(map(aliases.segment, podm.aggregates)),
        facts={key: fact(value) for key, value in podm.facts.items()},
        pools=tuple(pools),
        blocks=tuple(_block(aliases, block) for block in podm.blocks),
        stocks=tuple(stocks),
        nodes=tuple(_node(aliases, node) for node in podm.nodes),
    )


def anonymise_documents(aliases: Aliases, documents: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the names in recorded documents by URI; links still lead to the same documents."""
    by_alias = {aliases.uri(uri): _json(aliases, json, "", 200) for uri, json in documents.items()}
    originals = {text.casefold() for text in aliases.originals if len(text) >= 4}
    return {uri: _keys(aliases, json, originals) for uri, json in by_alias.items()}


def _name(aliases: Aliases, text: str | None) -> str | None:
    return None if text is None else aliases.text(text)


def _named(aliases: Aliases, one: N) -> N:
    return replace(one, uri=aliases.uri(one.uri), name=_name(aliases, one.name))


def _block(aliases: Aliases, block: inventory.FullBlock) -> inventory.FullBlock:
    status, places = block.status, block.places
    if status is not None and status.client is not None:
        status = replace(status, client=aliases.segment(status.client))
    if status is not None and status.taints:
        words = (taint.removesuffix(EFFECT).split("=") for taint in status.taints)
        taints = ("=".join(map(aliases.segment, each)) + EFFECT for each in words)
        status = replace(status, taints=tuple(taints))
    if places is not None:
        places = {kind: aliases.text(place) for kind, place in places.items()}
    pools = tuple(map(aliases.text, block.pools))
    return replace(_named(aliases, block), pools=pools, places=places, status=status)


def _node(aliases: Aliases, node: inventory.Node) -> inventory.Node:
    owner, group = _name(aliases, node.owner), _name(aliases, node.group)
    blocks, named = tuple(map(aliases.uri, node.blocks)), _named(aliases, node)
    # flavor and request are left out: they may name zones, traits and external resources
    return replace(named, owner=owner, group=group, blocks=blocks, flavor=None, request=None)


def _json(aliases: Aliases, json: Any, key: str, depth: int) -> Any:
    if depth == 0:
        return None
    if isinstance(json, dict):
        items = ((name, _json(aliases, value, name, depth - 1)) for name, value in json.items())
        named = {name: name if _PROPERTY.fullmatch(name) else aliases.of(name) for name in json}
        return {named[name]: value for name, value in items}
    if isinstance(json, list):
        return [_json(aliases, item, key, depth - 1) for item in json]
    if isinstance(json, str):
        return _text(aliases, json, key)
    if isinstance(json, int | float) and not isinstance(json, bool) and _IDENTIFYING.fullmatch(key):
        return aliases.of(str(json))
    return json


def _text(aliases: Aliases, text: str, key: str) -> str:
    if text.startswith("/") or "://" in text:
        return aliases.uri(text)
    if _HARMLESS.fullmatch(key) and not _IDENTIFYING.fullmatch(key) and _HARDWARE.fullmatch(text):
        return text
    if key == "Pool" and text in _POOLS:
        return text
    if key in _UUIDS and (alias := aliases.uuid(text)):
        return alias
    return aliases.segment(text)


def _keys(aliases: Aliases, json: Any, originals: set[str]) -> Any:
    if isinstance(json, list):
        return [_keys(aliases, item, originals) for item in json]
    if not isinstance(json, dict):
        return json
    found = {}
    for key, value in json.items():
        # a replaced text may equal the name of a standard property, which must stay
        is_standard = _HARMLESS.fullmatch(key) or key in _STANDARD
        replaced = key.casefold() in originals and not is_standard
        found[aliases.of(key) if replaced else key] = _keys(aliases, value, originals)
    return found
