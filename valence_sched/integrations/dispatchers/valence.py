# SPDX-License-Identifier: Apache-2.0
"""Dispatcher: requests each node from an OpenStack Valence API."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.errors import DispatchFailed, RequestError
from valence_sched.integrations.dispatchers.http_post import NOT_AGAIN, get, order_headers, post
from valence_sched.model import dispatch
from valence_sched.model.inventory import to_json
from valence_sched.model.need import Alternative, Need
from valence_sched.model.quantity import format_age


def valence(url: str, order: dispatch.Order) -> Sequence[dispatch.Receipt]:
    """Posts each node to ``/v1/nodes`` with its pod manager and its requested properties.

    A repeated order skips the nodes that ``/v1/nodes`` already lists: their names contain the id of
    the order. Errors as for a dispatcher; they name the accepted nodes. A request that Valence
    cannot express is refused before sending.
    """
    try:
        if len(order.alternatives) != 1:
            raise RequestError("the nodes use several alternatives of the flavor")
        body: dict[str, Any] = {"properties": properties(order.alternatives[0])}
    except RequestError as error:
        text = f"Valence cannot express this node, nothing was sent: {error}"
        raise DispatchFailed(text) from None
    if (made := order.recording) is not None:
        age = "of unknown age"
        if made.read_at is not None and made.age_s is not None:
            age = f"read at {made.read_at}, {format_age(made.age_s)} ago"
        body["description"] = f"decided on a recording {age}, not on the live pod manager"
    receipts: list[dispatch.Receipt] = []
    nodes_url, known = f"{url.rstrip('/')}/v1/nodes", {}
    if order.again:
        known = _uuids(nodes_url, get(nodes_url, order.timeout_s, order_headers(order)))
    for placement in order.placements:
        number = placement.node if len(order.placements) > 1 else None
        name = "-".join(str(part) for part in (order.name, order.id, number) if part is not None)
        receipt = dispatch.Receipt(nodes=(placement.node,), podm=placement.chosen.podm, status=200)
        if name in known:
            receipts.append(replace(receipt, reference=known[name]))
            continue
        content = to_json({"name": name, "podm_id": placement.chosen.podm, **body})
        try:
            headers = order_headers(order, placement.node)
            status, answer = post(nodes_url, content, order.timeout_s, headers)
        except DispatchFailed as error:
            before = ", ".join(str(receipt.reference) for receipt in receipts)
            more = f"; accepted before: {before}" if before else ""
            raise DispatchFailed(f"node {placement.node}: {error}{more}") from None
        receipts.append(replace(receipt, status=status, reference=_uuid(answer)))
    return receipts


def _uuids(where: str, answer: Any) -> dict[str, str | None]:
    nodes = answer.get("nodes", answer) if isinstance(answer, dict) else answer
    if not isinstance(nodes, list | None):
        raise DispatchFailed(f"{where}: not a list of nodes: {NOT_AGAIN}: check the other system")
    found = [one for one in nodes or () if isinstance(one, dict)]
    return {one["name"]: _uuid(one) for one in found if isinstance(one.get("name"), str)}


def _uuid(answer: Any) -> str | None:
    uuid = answer.get("uuid") if isinstance(answer, dict) else None
    return uuid if isinstance(uuid, str) else None


#: The amounts that Valence supports, and the supported attributes of each.
TOTALS = {
    ("processor", "cores"): ("processor", "total_cores", ("model",)),
    ("memory", "capacity_mib"): ("memory", "capacity_mib", ("type",)),
}


def properties(alternative: Alternative) -> dict[str, Any]:
    """Return the properties of an equivalent Valence flavor; RequestError if there is none."""
    if alternative.topology:
        raise RequestError("Valence does not support topology constraints")
    totals: dict[str, Any] = {}
    types: list[str] = []
    for need in alternative.needs:
        if (need.kind, need.measure) in TOTALS:
            name, total, attributes = TOTALS[need.kind, need.measure]
            if name in totals:
                raise RequestError(f"Valence supports only one kind of {name}")
            totals[name] = {total: int(need.amount), **_attributes(need, attributes)}
        elif need.kind == "stock" and need.resource == "storage_gib" and need.count == 1:
            totals["remote_storage"] = {"capacity_gib": int(need.amount)}
        else:
            types += [_device_type(need)] * int(need.amount)
    if types:
        totals["pci_device"] = {"type": types}
    return totals


def _attributes(need: Need, allowed: Iterable[str]) -> dict[str, Any]:
    values = {test.attribute: test.value for test in need.tests}
    if unknown := next((name for name in values if name not in allowed), None):
        raise RequestError(f"Valence does not support the {unknown} of a {need.kind}")
    return values


def _device_type(need: Need) -> str:
    values = {test.attribute: test.value for test in need.tests}
    if need.kind == "accelerator" and set(values) == {"kind"}:
        return str(values["kind"])
    if need.kind == "drive" and values == {"media": "SSD"}:
        return "SSD"
    if need.kind == "nic" and not values:
        return "NIC"
    what = need.resource if need.kind == "stock" else need.kind
    more = f" by its {', '.join(sorted(values))}" if values else f" as {need.measure}"
    raise RequestError(f"Valence does not support {what}{more}")
