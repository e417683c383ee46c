# SPDX-License-Identifier: Apache-2.0
"""The cloud behind ``openstack``: logged in to when something must be asked of it, not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valence_sched.errors import CloudError, one_line


def connection(manager: Any) -> Callable[[], Any] | None:
    """Return what logs in and gives an SDK connection, None in the program without a cloud."""
    if not hasattr(manager, "setup_auth"):
        return None

    def connect() -> Any:
        manager._auth_required = True  # commands of ours say False, and this one needs it now
        return told(lambda: _login(manager))

    return connect


def told(ask: Callable[[], Any]) -> Any:
    """Return what the cloud answers to a question.

    Raises:
        CloudError: it does not answer; in one line, without the password and the token.
    """
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from osc_lib.exceptions import CommandError

    try:
        return ask()
    except (ClientException, CommandError, SDKException) as error:
        raise CloudError(_worded(" ".join(str(error).split()).rstrip("."))) from None
    except (KeyError, TypeError) as error:  # what OpenStackClient raises for half a configuration
        raise CloudError(_worded(f"its configuration lacks {error}")) from None


def _login(manager: Any) -> Any:
    manager.setup_auth()
    manager.sdk_connection.authorize()
    return manager.sdk_connection


def _worded(reason: str) -> str:
    return one_line(f"no cloud to ask: {reason}: name one with --os-cloud or OS_CLOUD", 300)
