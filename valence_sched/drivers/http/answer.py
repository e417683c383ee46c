# SPDX-License-Identifier: Apache-2.0
"""The HTTP answer of a pod manager: status, headers and a bounded body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError
from valence_sched.model.codec import decode

#: Statuses of a document that is not there.
GONE = (404, 410)


class Answer(NamedTuple):
    """An answer: its status, its headers in whatever case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, uri: str) -> Json:
        """Return the body as an object.

        Raises:
            InputError: the body is no object.
        """
        if len(self.body) > MAX_DOCUMENT_BYTES:
            expected = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", expected)
        return object_of(self.body, uri)


def object_of(body: bytes, uri: str) -> Json:
    """Return a body as an object.

    Raises:
        InputError: the body is no object; of a page of HTML the message says so.
    """
    data = body.removeprefix(b"\xef\xbb\xbf")
    if data[:200].lstrip()[:1] == b"<":
        raise InputError(uri, "", "a page of HTML or XML", "JSON", "is it a Redfish service?")
    return decode(data, dict, uri, "")
