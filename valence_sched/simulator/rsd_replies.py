# SPDX-License-Identifier: Apache-2.0
"""The refusals of a rack's pod manager, in the words that clients parse."""

from __future__ import annotations

from collections.abc import Iterable

from valence_sched.simulator.documents import Answer, Json

RETRY_AFTER_S = 5
DONE = Answer(204)


def invalid(violations: Iterable[str]) -> Answer:
    """Return 400 with a message for each violation."""
    return _refusal(400, "InvalidPayload", "Request payload is invalid or missing", violations)


def missing(uri: str) -> Answer:
    """Return 404 for what is no composed node."""
    return _refusal(404, "InvalidEndpoint", "No such composed node", [f"{uri} is not here"])


def conflict(message: str, reasons: Iterable[str]) -> Answer:
    """Return 409 with its reasons."""
    return _refusal(409, "ResourcesStateMismatch", message, reasons)


def away(uris: Iterable[str]) -> Answer:
    """Return 503 for assets that do not answer now; the client shall come again."""
    reasons = [f"{uri} does not answer" for uri in uris]
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return _refusal(503, "ServiceTemporarilyUnavailable", "An asset is away", reasons, headers)


def broken() -> Answer:
    """Return 500 without a reason."""
    return _refusal(500, "UnknownException", "Something went wrong", ())


def _refusal(
    status: int,
    code: str,
    message: str,
    reasons: Iterable[str],
    headers: dict[str, str] | None = None,
) -> Answer:
    info: list[Json] = [{"Message": reason} for reason in reasons]
    error = {"code": f"Base.1.0.{code}", "message": message, "@Message.ExtendedInfo": info}
    return Answer(status, {"error": error}, headers or {})
