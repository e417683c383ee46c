# SPDX-License-Identifier: Apache-2.0
"""Reads the service root and logs in as the root offers or requires."""

from __future__ import annotations

from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.answer import Answer
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError


def enter_service(connection: Connection) -> Json | None:
    """Return the service root and log in; some services require the login to show the root.

    Where the root is missing, its parts may still be at their usual URIs.
    """
    answer = connection.get_anonymous(f"{ROOT}/")
    if answer.status == 404:
        answer = connection.get_anonymous(ROOT)
    if answer.status in (401, 403):
        connection.log_in(None)
        return _root_document(connection.get(f"{ROOT}/"))
    root = _root_document(answer)
    connection.log_in(root)
    return root


def _root_document(answer: Answer) -> Json | None:
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise InputError(ROOT, "", f"HTTP {answer.status}", "a service root")
    root = answer.json(ROOT)
    if "error" in root and "@odata.id" not in root:
        raise InputError(ROOT, "", "an error in an answer of success", "a service root")
    return root
