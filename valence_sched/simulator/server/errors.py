# SPDX-License-Identifier: Apache-2.0
"""What a pod manager says no with: errors of the Redfish message registries."""

from __future__ import annotations

from valence_sched.simulator.server.documents import Answer, Json

#: The registry of each message that is sent; every other is of Base.
COMPOSITION = (
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


class Refused(Exception):
    """A request that cannot be done; nothing was changed."""

    def __init__(self, status: int, id_: str, text: str, *args: str) -> None:
        super().__init__(text)
        self.answer = refused(status, id_, text, *args)


def refused(status: int, id_: str, text: str, *args: str) -> Answer:
    """Return an answer with one message: its id without registry, its text and arguments."""
    return Answer(status, error(id_, text, *args))


def error(id_: str, text: str, *args: str, severity: str = "Critical") -> Json:
    """Return the body of an error with one message."""
    message = {
        "@odata.type": "#Message.v1_2_0.Message",
        "MessageId": named(id_),
        "Message": text,
        "MessageArgs": list(args),
        "MessageSeverity": severity,
        "Severity": severity,
        "Resolution": "None." if severity == "OK" else "Correct the request and send it again.",
    }
    return {"error": {"code": named(id_), "message": text, "@Message.ExtendedInfo": [message]}}


def named(id_: str) -> str:
    """Return a message id with its registry."""
    registry = "Composition.1.1.3" if id_ in COMPOSITION else "Base.1.18.1"
    return f"{registry}.{id_}"


def missing(uri: str) -> Answer:
    """Return the answer about a resource that is not there."""
    return refused(404, "ResourceMissingAtURI", f"There is no resource at {uri}.", uri)


def forbidden_method(method: str, uri: str) -> Answer:
    """Return the answer about a method that a resource does not know."""
    text = f"{uri} does not know the method {method}."
    return Answer(405, error("OperationNotAllowed", text), {"Allow": "GET, HEAD"})
