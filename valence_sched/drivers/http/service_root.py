# SPDX-License-Identifier: Apache-2.0
"""The service root: where it answers, and the login that some services want before they show it."""

from __future__ import annotations

from typing import NamedTuple

from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import GONE, Answer
from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError


class RootSearch(NamedTuple):
    """What was found at the URIs of the root: the root, else what was found in its place."""

    root: Json | None = None
    needs_login: bool = False
    problem: InputError | None = None


def enter_service(connection: Connection) -> Json | None:
    """Return the service root and log in; some services require the login to show the root.

    None where there is none. Errors as for :meth:`Connection.get`, and an InputError where
    something else answers.
    """
    found = _search_root(connection)
    if found.root is not None:
        connection.log_in(current_form(found.root, root=True))
        if connection.has_login and _shows_login_only(found.root):
            found = _search_root(connection)
    elif found.needs_login:
        connection.log_in(None)
        found = _search_root(connection)
    if found.root is None and found.needs_login:
        raise connection.refusal()
    if found.root is None and found.problem:
        raise found.problem
    return found.root


def _search_root(connection: Connection) -> RootSearch:
    """Look for the root with a slash at the end, as the standard has it, and without."""
    result = RootSearch()
    for uri in (f"{ROOT}/", ROOT):
        try:
            connection.root_uri = uri
            answer = connection.get_anonymous(uri)
            if answer.status == 401 or (answer.status == 403 and not connection.has_login):
                result = result._replace(needs_login=True)
            elif (root := root_document(answer)) is not None:
                return RootSearch(root)
        except InputError as error:
            result = result._replace(problem=result.problem or error)
    return result


def root_document(answer: Answer) -> Json | None:
    """Return the root of an answer, None where there is none."""
    if answer.status in GONE:
        return None
    if answer.status != 200:
        raise InputError(ROOT, "", f"HTTP {answer.status}", "a service root")
    root = answer.json(ROOT)
    if "error" in root and "@odata.id" not in root:
        raise InputError(ROOT, "", "an error in an answer of success", "a service root")
    return root


def _shows_login_only(root: Json) -> bool:
    """Return whether a root links nothing but what a login needs: the rest may come after it."""
    entries = current_form(root, root=True).items()
    linked = {key for key, value in entries if isinstance(value, dict) and "@odata.id" in value}
    return linked <= {"SessionService", "Sessions", "Registries", "JsonSchemas"}
