# SPDX-License-Identifier: Apache-2.0
"""Validates Allocate bodies, and the error replies of a rack's pod manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from valence_sched.simulator.server.documents import Json, SimulatedReply

#: Returns the expectation that a value does not meet, None for a value that is valid.
Check = Callable[[Any], str | None]


def violations(body: Any, knows: Callable[[str], bool]) -> list[str]:
    """Return the faults of a body, a line each; ``knows`` returns whether a URI exists here."""
    if not isinstance(body, dict):
        return ["The body: expected an object"]
    return [*_property_violations(body, BODY, ""), *_clashes(body), *_unknown_links(body, knows)]


def requested_resources(body: Json) -> dict[str, list[str]]:
    """Return the URIs that the elements of each list of a valid body name."""
    return {
        key: [item["Resource"]["@odata.id"] for item in body.get(key) or () if item.get("Resource")]
        for key in LISTS
    }


def _property_violations(value: Json, allowed: Mapping[str, Check], place: str) -> Iterator[str]:
    for key, item in value.items():
        if key not in allowed:
            yield f"{place}{key}: no such property"
        elif key in LISTS:
            yield from _list_violations(item, LISTS[key], f"{place}{key}")
        elif item is not None and (expected := allowed[key](item)):
            yield f"{place}{key}: expected {expected}"


def _list_violations(items: Any, allowed: Mapping[str, Check], place: str) -> Iterator[str]:
    if items is not None and not isinstance(items, list):
        yield f"{place}: expected an array"
        return
    for number, item in enumerate(items or ()):
        if isinstance(item, dict):
            yield from _property_violations(item, allowed, f"{place}[{number}].")
        else:
            yield f"{place}[{number}]: expected an object"


def _clashes(body: Json) -> Iterator[str]:
    drives = body.get("RemoteDrives")
    for number, drive in enumerate(drives if isinstance(drives, list) else ()):
        if not isinstance(drive, dict):
            continue
        if drive.get("CapacityGiB") is None:
            yield f"RemoteDrives[{number}].CapacityGiB: expected a number above 0"
        if drive.get("Master") and drive.get("Protocol") == "NVMeOverFabrics":
            yield f"RemoteDrives[{number}].Master: no clone or snapshot over NVMeOverFabrics"


def _unknown_links(body: Json, knows: Callable[[str], bool]) -> Iterator[str]:
    for key in LISTS:
        items = body.get(key)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            for word in ("Resource", "Chassis"):
                link = item.get(word) if isinstance(item, dict) else None
                uri = link.get("@odata.id") if isinstance(link, dict) else None
                if isinstance(uri, str) and not knows(uri):
                    yield f"{key}[{number}].{word}: {uri} is not here"


def _more(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and value > 0 else "a number above 0"


def _kind(kind: type, text: str) -> Check:
    return lambda value: None if isinstance(value, kind) else text


_text, _flag = _kind(str, "text"), _kind(bool, "true or false")
_object, _array = _kind(dict, "an object"), _kind(list, "an array")


def _link(value: Any) -> str | None:
    is_link = isinstance(value, dict) and isinstance(value.get("@odata.id"), str)
    return None if is_link else "a link with @odata.id"


def _oem(value: Any) -> str | None:
    parts = [value, value.get("Intel_RackScale")] if isinstance(value, dict) else [value]
    for part in (part for part in parts if part is not None):
        words = part.get("Capabilities") if isinstance(part, dict) else part
        is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not isinstance(part, dict) or not (words is None or is_list):
            return "Brand and Capabilities, an array of text"
    return None


def _word(*words: str) -> Check:
    return lambda value: None if value in words else "one of " + ", ".join(words)


_PLACE: Mapping[str, Check] = {"Resource": _link, "Chassis": _link, "Oem": _object}
LISTS: Mapping[str, Mapping[str, Check]] = {
    "Processors": {
        "Model": _text, "TotalCores": _more, "AchievableSpeedMHz": _more, "InstructionSet": _text,
        "ProcessorType": _text, "Connectivity": _array, **_PLACE, "Oem": _oem,
    },
    "Memory": {
        "CapacityMiB": _more, "MemoryDeviceType": _text, "MemoryType": _text, "SpeedMHz": _more,
        "Manufacturer": _text, "DataWidthBits": _more, **_PLACE,
    },
    "LocalDrives": {
        "CapacityGiB": _more, "Type": _word("HDD", "SSD"), "MinRPM": _more, "SerialNumber": _text,
        "Interface": _word("SAS", "SATA", "NVMe"), "FabricSwitch": _flag, **_PLACE,
    },
    "RemoteDrives": {
        "CapacityGiB": _more, "Protocol": _word("iSCSI", "NVMeOverFabrics"), "Master": _object,
        "iSCSIAddress": _text, **_PLACE,
    },
    "EthernetInterfaces": {
        "SpeedMbps": _more, "PrimaryVLAN": _more, "VLANs": _array, **_PLACE,
    },
}  # fmt: skip
BODY: Mapping[str, Check] = {
    "Name": _text,
    "Description": _text,
    "TotalSystemCoreCount": _more,
    "TotalSystemMemoryMiB": _more,
    "Security": _object,
    "Oem": _object,
    **dict.fromkeys(LISTS, _array),
}


RETRY_AFTER_S = 5
NO_CONTENT = SimulatedReply(204)


def invalid_reply(violations: Iterable[str]) -> SimulatedReply:
    """Return 400 with a message for each violation."""
    return _refusal(400, "InvalidPayload", "Request payload is invalid or missing", violations)


def missing_reply(uri: str) -> SimulatedReply:
    """Return 404 for a URI that is no composed node."""
    return _refusal(404, "InvalidEndpoint", "No such composed node", [f"{uri} is not here"])


def conflict_reply(message: str, reasons: Iterable[str]) -> SimulatedReply:
    """Return 409 with its reasons."""
    return _refusal(409, "ResourcesStateMismatch", message, reasons)


def unavailable_reply(uris: Iterable[str]) -> SimulatedReply:
    """Return 503 for assets that do not answer now; the client shall come again."""
    reasons = [f"{uri} does not answer" for uri in uris]
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return _refusal(503, "ServiceTemporarilyUnavailable", "An asset is away", reasons, **headers)


def server_error_reply() -> SimulatedReply:
    """Return 500 without a reason."""
    return _refusal(500, "UnknownException", "Something went wrong", ())


def _refusal(
    status: int, code: str, message: str, reasons: Iterable[str], **headers: str
) -> SimulatedReply:
    info: list[Json] = [{"Message": reason} for reason in reasons]
    error = {"code": f"Base.1.0.{code}", "message": message, "@Message.ExtendedInfo": info}
    return SimulatedReply(status, {"error": error}, headers)
