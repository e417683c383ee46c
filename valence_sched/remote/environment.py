# SPDX-License-Identifier: Apache-2.0
"""The service that the environment names, and how to log in to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from valence_sched.errors import UsageError, one_line
from valence_sched.remote.connection import ServiceConnection

URL = "VALENCE_SCHED_URL"
USER, PASSWORD = "VALENCE_SCHED_USER", "VALENCE_SCHED_PASSWORD"
AUTHORITIES = "VALENCE_SCHED_CACERT"


def connection(
    environ: Mapping[str, str],
    url: str | None = None,
    *,
    token: Callable[[], str] | None = None,
    verify: bool | str = True,
) -> ServiceConnection | None:
    """Return the connection to a service: at ``url``, else where the environment says.

    None where neither names one. ``token`` and ``verify`` as of a connection; authorities that the
    environment names win over ``verify``, and where it has a user no token is sent.

    Raises:
        UsageError: it is no URL; a user without a password, or a password without a user; the file
            of the authorities cannot be read.
    """
    address = url or environ.get(URL)
    if not address:
        return None
    user, password = environ.get(USER) or None, environ.get(PASSWORD) or None
    if (user is None) != (password is None):
        raise UsageError(f"a login to the service needs both {USER} and {PASSWORD}")
    authorities = environ.get(AUTHORITIES)
    if authorities and not os.access(authorities, os.R_OK):
        hint = "name the file of the authorities to trust"
        raise UsageError(
            one_line(f"{AUTHORITIES}: {authorities}: no file that can be read: {hint}")
        )
    return ServiceConnection(
        address,
        user=user,
        password=password,
        verify=authorities or verify,
        token=None if user else token,
        variable=None if url else URL,
    )
