# SPDX-License-Identifier: Apache-2.0
"""The service that the environment names, and how to log in to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from valence_sched.errors import UsageError, one_line
from valence_sched.model.tls import ClientCertificate, client_certificate, file_problem
from valence_sched.remote.connection import AUTHORITIES, CERTIFICATE, KEY, ServiceConnection

URL = "VALENCE_SCHED_URL"
USER, PASSWORD = "VALENCE_SCHED_USER", "VALENCE_SCHED_PASSWORD"


def connection(
    environ: Mapping[str, str],
    url: str | None = None,
    *,
    token: Callable[[], str] | None = None,
    verify: bool | str = True,
    certificate: ClientCertificate | None = None,
) -> ServiceConnection | None:
    """Return the connection to a service: at ``url``, else where the environment says.

    None where neither names one. ``token``, ``verify`` and ``certificate`` as of a connection;
    files that the environment names win over them, and where it has a user no token is sent.

    Raises:
        UsageError: it is no URL; a user without a password, or a password without a user; a file
            of the authorities, the certificate or the key cannot be read.
    """
    address = url or environ.get(URL)
    if not address:
        return None
    user, password = environ.get(USER) or None, environ.get(PASSWORD) or None
    if (user is None) != (password is None):
        raise UsageError(f"a login to the service needs both {USER} and {PASSWORD}")
    authorities, cert, key = (_file(environ, it) for it in (AUTHORITIES, CERTIFICATE, KEY))
    if problem := file_problem(cert, key):
        raise UsageError(f"{CERTIFICATE}, {KEY}: {problem}")
    return ServiceConnection(
        address,
        user=user,
        password=password,
        verify=authorities or verify,
        certificate=client_certificate(cert, key) or certificate,
        token=None if user else token,
        variable=None if url else URL,
    )


_FILES = {
    AUTHORITIES: "the file of the authorities to trust",
    CERTIFICATE: "the file of the certificate to present",
    KEY: "the file of the key of the certificate",
}


def _file(environ: Mapping[str, str], name: str) -> str | None:
    file = environ.get(name) or None
    if file is not None and "-----BEGIN" not in file and not os.access(file, os.R_OK):
        hint = f"name {_FILES[name]}"
        raise UsageError(one_line(f"{name}: {file}: no file that can be read: {hint}"))
    return file
