# SPDX-License-Identifier: Apache-2.0
"""Connects to a pod manager and yields the composer of its dialect."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from valence_sched.drivers import dialect
from valence_sched.drivers.composer import Composer
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.dialect import dialect_of_driver, root_identity, service_identity
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.connection import Connection, enter_service, root_document
from valence_sched.drivers.http.exchange import Deadline, Patience, is_outage
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.session import HttpSession
from valence_sched.errors import InputError, PodmError, UnknownName
from valence_sched.model.podm_address import change_text
from valence_sched.model.registration import Registration


class ConnectedPodm(NamedTuple):
    """The composer and the session of one pod manager after the login."""

    composer: Composer
    session: HttpSession


@contextlib.contextmanager
def connect(
    target: ReadTarget, dialects: dialect.Dialects, timeout_s: float, patience_s: float
) -> Iterator[ConnectedPodm]:
    """Yield the composer of a pod manager and its session, which is deleted afterwards.

    ``timeout_s`` limits the login and each request, ``patience_s`` the wait for an accepted task.
    PodmError: the pod manager is unreachable, refuses the login, is not the registered service, or
    has a read-only dialect. PluginError: a dialect failed on the service root.
    """
    registration = target.registered
    with Connection(registration, target.password, Deadline(timeout_s)) as connection:
        try:
            root = enter_service(connection)
            identity = live_identity(connection, root) if registration.identity else None
        except InputError as error:
            raise PodmError(str(error)) from None
        if registration.identity and identity and identity != registration.identity:
            raise PodmError(change_text(registration.name, registration.identity, identity))
        name, make_composer = registration.driver, None
        with contextlib.suppress(UnknownName):
            dialect = dialect_of_driver(name, root, dialects, registration.name)
            name, make_composer = dialect.name, dialect.composer
        if make_composer is None:
            raise PodmError(f"driver {name!r} only reads pod managers and cannot compose")
        session = HttpSession(connection, timeout_s, root)
        yield ConnectedPodm(make_composer(session, lambda: Patience(patience_s)), session)


def live_identity(connection: Connection, root: Json) -> str:
    """Return the identity that a service states, else its address; PodmError on failure."""

    def get(uri: str) -> Json | None:
        if uri == ROOT:
            return root
        answer = connection.get(uri)
        if is_outage(answer.status):
            raise PodmError(f"{uri}: found HTTP {answer.status}, expected a document")
        return answer.json(uri) if answer.status == 200 else None

    service = LinkedDocuments(get, NO_NOTES, host=connection.host)
    return service_identity(service) or dialect.address_identity(connection.url)


def probe_identity(registration: Registration, password: str | None, timeout_s: float) -> str:
    """Return the identity of the service at a registered URL; it logs in if that is needed.

    PodmError or InputError: the service does not answer, refuses the login, or has no root.
    """
    with Connection(registration, password, Deadline(timeout_s)) as connection:
        answer = connection.get_anonymous(ROOT)
        if answer.status == 200 and (identity := root_identity(root_document(answer))):
            return identity
        return live_identity(connection, enter_service(connection))
