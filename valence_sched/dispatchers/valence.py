# SPDX-License-Identifier: Apache-2.0
"""Asks an OpenStack Valence API to compose each node on the pod manager that was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valence_sched.dispatchers.sending import post
from valence_sched.errors import DispatchFailed
from valence_sched.model.inventory import to_json
from valence_sched.model.order import Order, Receipt


def valence(url: str, order: Order) -> Sequence[Receipt]:
    """Posts each node to ``/v1/nodes`` with its pod manager and what it was asked to be.

    Errors as for a dispatcher; they say which nodes were taken before. What Valence has no words
    for is refused before anything is sent.
    """
    if order.unsaid is not None:
        raise DispatchFailed(f"Valence cannot be asked for this node, nothing sent: {order.unsaid}")
    found: list[Receipt] = []
    for placement in order.placements:
        several = len(order.placements) > 1
        body = {
            "name": f"{order.name}-{placement.node}" if several else order.name,
            "podm_id": placement.chosen.podm,
            "properties": order.properties,
        }
        try:
            status, answer = post(f"{url.rstrip('/')}/v1/nodes", to_json(body), order.timeout_s)
        except DispatchFailed as error:
            before = ", ".join(str(receipt.reference) for receipt in found)
            more = f"; taken before: {before}" if before else ""
            raise DispatchFailed(f"node {placement.node}: {error}{more}") from None
        found.append(
            Receipt(nodes=(placement.node,), podm=placement.chosen.podm, status=status,
                    reference=_uuid(answer))
        )  # fmt: skip
    return found


def _uuid(answer: Any) -> str | None:
    uuid = answer.get("uuid") if isinstance(answer, dict) else None
    return uuid if isinstance(uuid, str) else None
