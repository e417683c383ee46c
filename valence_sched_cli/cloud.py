# SPDX-License-Identifier: Apache-2.0
"""The cloud that ``openstack`` is configured for, logged in to only when an option needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valence_sched.errors import SchedulerError, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable


def connection(client_manager: Any, option: str) -> Any:
    """Return a connection of openstacksdk, logging in when nobody has yet.

    Raises:
        UsageError: the program is not ``openstack``.
        SchedulerError: no cloud is configured, or it does not let us in.
    """
    if not hasattr(client_manager, "setup_auth"):
        raise UsageError(f"{option}: only inside openstack, which knows a cloud")
    client_manager._auth_required = True  # our commands work without, so nobody has asked yet
    return told(lambda: _login(client_manager))


def told(ask: Callable[[], Any]) -> Any:
    """Return what the cloud answers to a question.

    Raises:
        SchedulerError: it does not answer; in one line, without the password and the token.
    """
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from osc_lib.exceptions import CommandError

    try:
        return ask()
    except (ClientException, CommandError, SDKException) as error:
        raise SchedulerError(f"no cloud: {one_line(str(error), 300)}") from None
    except (KeyError, TypeError) as error:  # what OpenStackClient raises for half a configuration
        raise SchedulerError(f"no cloud: its configuration lacks {one_line(str(error))}") from None


def _login(client_manager: Any) -> Any:
    client_manager.setup_auth()
    client_manager.sdk_connection.authorize()
    return client_manager.sdk_connection
