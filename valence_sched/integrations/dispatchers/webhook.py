# SPDX-License-Identifier: Apache-2.0
"""Dispatcher: posts the decision to a URL, signed with HMAC-SHA256 if a key is set."""

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched.integrations.dispatchers.http_post import MAY_BE_ACCEPTED, order_headers, post
from valence_sched.model.dispatch import Order, Receipt

TIMESTAMP, SIGNATURE = "X-Valence-Sched-Timestamp", "X-Valence-Sched-Signature"
CLAIM = "X-Valence-Sched-Claim"


def webhook(url: str, order: Order) -> Sequence[Receipt]:
    """Posts the whole decision to a URL, signed with HMAC-SHA256 if there is a key.

    The signature covers the timestamp, a full stop, and the body, so that changed or old messages
    can be detected. A header has the claim that holds the choice. Errors as for a dispatcher.
    """
    headers = order_headers(order)
    if order.claim is not None:
        headers[CLAIM] = order.claim
    status, _ = post_signed(url, order.report, order.key, order.timeout_s, headers)
    podms = dict.fromkeys(placement.chosen.podm for placement in order.placements)
    numbers = tuple(placement.node for placement in order.placements)
    where = url.partition("?")[0]  # the query may be a secret
    return [Receipt(nodes=numbers, podm=", ".join(podms), status=status, reference=where)]


def post_signed(
    url: str,
    body: bytes,
    key: bytes | None,
    timeout_s: float,
    headers: Mapping[str, str],
    hint: str = MAY_BE_ACCEPTED,
) -> tuple[int, Any]:
    """Post a body, signed with the key, if any; answer, ``hint`` and errors as for ``post``."""
    signed = dict(headers)
    if key is not None:
        signed[TIMESTAMP] = str(int(time.time()))
        signed[SIGNATURE] = f"sha256={signature(key, signed[TIMESTAMP], body)}"
    return post(url, body, timeout_s, signed, hint)


def signature(key: bytes, timestamp: str, body: bytes) -> str:
    return hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
