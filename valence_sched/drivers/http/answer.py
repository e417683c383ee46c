# SPDX-License-Identifier: Apache-2.0
"""What a live pod manager answers: status, headers and a body that may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError
from valence_sched.model.codec import decode

#: States of a task that goes on.
RUNNING_TASK_STATES = (
    "New",
    "Starting",
    "Running",
    "Pending",
    "Stopping",
    "Cancelling",
    "Service",
    "Suspended",
)


class Answer(NamedTuple):
    """What a pod manager answered: status, headers in whatever case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, uri: str) -> Json:
        """Return the body as an object.

        Raises:
            InputError: it is none.
        """
        if len(self.body) > MAX_DOCUMENT_BYTES:
            expected = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", expected)
        return object_of(self.body, uri)


def object_of(body: bytes, uri: str) -> Json:
    """Return a body as an object.

    Raises:
        InputError: it is none; a page for people is called by its name.
    """
    data = body.removeprefix(b"\xef\xbb\xbf")
    if data[:200].lstrip()[:1] == b"<":
        raise InputError(uri, "", "a page of HTML or XML", "JSON", "is it a Redfish service?")
    return decode(data, dict, uri, "")


def is_task_running(answer: Answer) -> bool:
    """Return whether an answer says that its task has not ended."""
    if answer.status == 202:
        return True
    if answer.status != 200 or not answer.body:
        return False
    return answer.json("task").get("TaskState") in RUNNING_TASK_STATES
