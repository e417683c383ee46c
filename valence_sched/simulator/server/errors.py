# SPDX-License-Identifier: Apache-2.0
"""Error replies with messages of the Redfish registries."""

from __future__ import annotations

from valence_sched.simulator.server.documents import Json, SimulatedReply

#: The registry of each message that is sent; every other is of Base.
COMPOSITION_MESSAGES = (
    "ResourceBlockInUse",
    "EmptyManifest",
    "UnableToProcessStanzaRequest",
    "ResourceBlockInvalid",
    "ResourceBlockNotFound",
    "NoResourceMatch",
    "IncompatibleZone",
    "SpecifiedResourceAlreadyReserved",
    "ConstrainedResourceAlreadyReserved",
)


class RequestRefused(Exception):
    """A request that cannot be done; nothing was changed."""

    def __init__(self, status: int, id_: str, text: str, *args: str) -> None:
        super().__init__(text)
        self.answer = refusal(status, id_, text, *args)


def refusal(status: int, id_: str, text: str, *args: str) -> SimulatedReply:
    """Return an answer with one message: its id without registry, its text and arguments."""
    return SimulatedReply(status, error_body(id_, text, *args))


def error_body(id_: str, text: str, *args: str, severity: str = "Critical") -> Json:
    """Return the body of an error with one message."""
    message = {
        "@odata.type": "#Message.v1_2_0.Message",
        "MessageId": message_id(id_),
        "Message": text,
        "MessageArgs": list(args),
        "MessageSeverity": severity,
        "Severity": severity,
        "Resolution": "None." if severity == "OK" else "Correct the request and send it again.",
    }
    return {"error": {"code": message_id(id_), "message": text, "@Message.ExtendedInfo": [message]}}


def message_id(id_: str) -> str:
    """Return a message id with its registry."""
    registry = "Composition.1.1.3" if id_ in COMPOSITION_MESSAGES else "Base.1.18.1"
    return f"{registry}.{id_}"


def not_found(uri: str) -> SimulatedReply:
    """Return the answer about a resource that is not there."""
    return refusal(404, "ResourceMissingAtURI", f"There is no resource at {uri}.", uri)


def method_not_allowed(method: str, uri: str) -> SimulatedReply:
    """Return the answer about a method that a resource does not know."""
    text = f"{uri} does not know the method {method}."
    return SimulatedReply(405, error_body("OperationNotAllowed", text), {"Allow": "GET, HEAD"})
