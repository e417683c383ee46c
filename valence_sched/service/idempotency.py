# SPDX-License-Identifier: Apache-2.0
"""Idempotency: a POST that is sent again with its key gets the answer that it had."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from valence_sched.errors import InputError, NameTaken, Undecodable, UnknownName
from valence_sched.model.inventory import to_json
from valence_sched.model.verbs import ClaimBody, NodesBody, ReconcileBody, RecordedReply, Route
from valence_sched.model.zone import ZoneClaimBody
from valence_sched.service.call import Call, CallResult
from valence_sched.service.operations import digest
from valence_sched.service.routes import HANDLERS
from valence_sched.service.visibility import visible_error

KEY_HEADER = "Idempotency-Key"
PREFIX = "answer-"

#: Claims and nodes have the key themselves, and an operation is one of its key.
KEYED_BODIES = (ClaimBody, NodesBody, ReconcileBody, ZoneClaimBody)
_KEY = re.compile(r"[!-~]([ -~]{0,253}[!-~])?")


def check_key(key: str | None) -> str | None:
    """Return an idempotency key; InputError where a header is none."""
    if key is not None and not _KEY.fullmatch(key):
        raise InputError(KEY_HEADER, "", "no key", "1 to 255 printable characters")
    return key


def replayed(route: Route, call: Call) -> tuple[CallResult, bool]:
    """Return what the handler answers, or answered before under this key, and whether it did.

    Only a success is recorded. Of two requests at a time the first that ends is, and both get it.
    NameTaken for the key of another request.
    """
    if call.key is None or route.body in KEYED_BODIES:
        return _answer(route, call), False
    user = call.user
    # also by what the user sees: an answer may name claims of others
    words = (user.tenant, user.owner or "", route.path, *call.path.values(), call.key)
    record = PREFIX + digest("\0".join(words).encode())
    content = digest(to_json(call.body) + b"\0" + repr(sorted(call.query.items())).encode())
    if (found := call.parts.records.get(record)) is not None:
        return _recorded(found[0], content, call.key), True
    answer = _answer(route, call)
    body = msgspec.Raw(encoded(answer.body))
    document = to_json(RecordedReply(content, answer.status, dict(answer.headers), body))
    stored = call.parts.records.put_new(record, document)
    return _recorded(stored, content, call.key), stored != document


def encoded(body: Any) -> bytes:
    """Return a body as JSON, whose maps keep their order."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _answer(route: Route, call: Call) -> CallResult:
    try:
        result = HANDLERS[route.operation](call)
    except (UnknownName, Undecodable) as error:
        raise visible_error(error, call.user.owner) from None
    answer = result if isinstance(result, CallResult) else CallResult(result)
    return answer._replace(body=call.visible(answer.body))


def _recorded(document: bytes, content: str, key: str) -> CallResult:
    recorded = msgspec.json.decode(document, type=RecordedReply)
    if recorded.content != content:
        raise NameTaken(f"idempotency key {key!r} stands for another request: use a new one")
    return CallResult(bytes(recorded.body), recorded.status, recorded.headers)
