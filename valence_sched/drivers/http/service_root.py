# SPDX-License-Identifier: Apache-2.0
"""The service root: where it answers, and the login that some services want before they show it."""

from __future__ import annotations

from typing import NamedTuple

from valence_sched.drivers.document_shape import check_content, current_form, type_name
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import GONE, Answer, Unreachable
from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError


class RootSearch(NamedTuple):
    """What was found at the URIs of the root: the root, else what was found in its place."""

    root: Json | None = None
    login_status: int = 0
    problem: InputError | None = None


def enter_service(connection: Connection) -> Json:
    """Return the service root and log in; some services require the login to show the root.

    Errors as for :meth:`Connection.get`, and an InputError where there is none, or something else
    answers.
    """
    found = _search_root(connection)
    if found.root is not None:
        connection.log_in(current_form(found.root, root=True))
        if connection.has_login and _shows_login_only(found.root):
            found = _search_root(connection)
    elif found.login_status:
        connection.log_in(None)
        found = _search_root(connection)
    if found.root is not None:
        return found.root
    if found.login_status:
        refusal = connection.refusal()
        raise refusal if found.login_status == 401 else Unreachable(str(refusal))
    hint = "is it a Redfish service?"
    raise found.problem or InputError(ROOT, "", "no such document", "a service root", hint)


def _search_root(connection: Connection) -> RootSearch:
    """Look for the root with a slash at the end, as the standard has it, and without."""
    result = RootSearch()
    for uri in (f"{ROOT}/", ROOT):
        try:
            connection.root_uri = uri
            answer = connection.get_anonymous(uri)
            if answer.status == 401 or (answer.status == 403 and not connection.has_login):
                result = result._replace(login_status=answer.status)
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
    root = check_content(answer.json(ROOT), ROOT, "a service root")
    kind = type_name(root)
    if not ("root" in kind or "RedfishVersion" in root or (not kind and _linked(root))):
        what = root.get("@odata.type") if kind else "neither a type, nor a version, nor a link"
        raise InputError(ROOT, "", str(what)[:80], "a service root", "is it a Redfish service?")
    return root


def _linked(root: Json) -> set[str]:
    """Return the entries of a root that link something."""
    entries = current_form(root, root=True).items()
    return {key for key, value in entries if isinstance(value, dict) and "@odata.id" in value}


def _shows_login_only(root: Json) -> bool:
    """Return whether a root links nothing but what a login needs: the rest may come after it."""
    return _linked(root) <= {"SessionService", "Sessions", "Registries", "JsonSchemas"}
