# SPDX-License-Identifier: Apache-2.0
"""The plug-in of OpenStackClient, ``openstack podm …``, and its access to the cloud."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched.errors import CloudError, UnknownName, UsageError, describe_error, one_line
from valence_sched_cli.late import app, model
from valence_sched_cli.options.parser import add_options

API_NAME = "podm"
API_VERSION_OPTION = "os_podm_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = ("1",)
VERSION_NAMES = ("1", "1.0", "latest")  # accepted names of the API version
_KNOWN = ", ".join(VERSION_NAMES)
URL_VARIABLE = "VALENCE_SCHED_URL"
VERSION_VARIABLE = "OS_PODM_API_VERSION"
#: The global option of both programs that names a scheduler service.
ENDPOINT = (
    "--os-scheduler-endpoint <url>: URL of a scheduler service, which decides instead of the local "
    f"scheduler (Env: {URL_VARIABLE})"
)


def make_client(instance: Any) -> app.App:
    """Return the application for one run; UsageError if the environment has an unknown version."""
    options = getattr(instance, "_cli_options", None)
    version = os.environ.get(VERSION_VARIABLE, "")
    implied = options and isinstance(options.config.get("podm_api_version"), Implied)
    if implied and version and version not in VERSION_NAMES:
        raise UsageError(f"{VERSION_VARIABLE}: no API version {version[:40]!r}: {_KNOWN}")
    # starting more threads would take longer than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from valence_sched_cli.output.progress import terminal_progress  # not for other commands

    cloud = functools.partial(connect, instance) if has_cloud(instance) else None
    return app.App(progress=terminal_progress(), cloud=cloud)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the API version option, which OpenStackClient expects of a plug-in, and the endpoint."""
    text = f"""
        --os-podm-api-version <podm-api-version>: pod manager scheduling API version: {_KNOWN},
            default={DEFAULT_API_VERSION} (Env: {VERSION_VARIABLE})
        {ENDPOINT}"""
    default = Implied(DEFAULT_API_VERSION)  # ``make_client`` checks the environment
    add_options(parser, text, os_podm_api_version={"type": _version, "default": default})
    return parser


class Implied(str):
    """The default value of an option; the type distinguishes it from a value of the user."""


def _version(text: str) -> str:
    """Return the API version of a text; groups of commands are named after its number."""
    if isinstance(text, Implied):
        return text
    if text not in VERSION_NAMES:
        raise argparse.ArgumentTypeError(f"no API version {text[:40]!r}: {_KNOWN}")
    return DEFAULT_API_VERSION


#: The token is the only header with a value from the user, so only it can be unsendable.
_UNSENDABLE = "header X-Auth-Token: the token has a line break or a character outside Latin-1: "
_UNSENDABLE += "check the token"
UNNAMED_CLOUDS = ("defaults", "envvars")  # openstacksdk's name for a cloud without a name


def has_cloud(manager: Any) -> bool:
    """Return whether the program can log in to a cloud: only ``openstack`` can."""
    return hasattr(manager, "setup_auth")


def connect(manager: Any, option: str = "") -> Any:
    """Log in and return an SDK connection; UsageError if there is no cloud for an ``option``."""
    if not has_cloud(manager):
        raise UsageError(f"{option}: only inside openstack, which has a cloud")

    def log_in() -> Any:
        manager.setup_auth()
        manager.sdk_connection.authorize()
        return manager.sdk_connection

    manager._auth_required = True  # the commands of this plug-in set False
    return query_cloud(manager, log_in)


def catalogue(
    manager: Any, *, all_regions: bool = False
) -> tuple[model.registration.Registration, ...]:
    """Return the pod managers of the service catalogue, named by region and endpoint ID.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError: the cloud does not answer, or its catalogue has no endpoint or an invalid URL.
    """
    sdk = connect(manager, "--from-catalog")
    region = None if all_regions else sdk.config.region_name or None
    podms: tuple[model.registration.Registration, ...]
    podms = query_cloud(manager, lambda: app.catalogue().registrations(sdk, region))
    return podms


def scheduler_endpoint(
    manager: Any,
) -> tuple[str, bool | str, model.http.ClientCertificate | None] | None:
    """Return the service's URL, its CA certificates, and the client's certificate.

    Returns None without a cloud, or if its catalogue does not have the service. CloudError if the
    cloud does not answer, and as for ``scheduler_url``.
    """
    if not _names_cloud(manager):
        return None
    sdk = connect(manager)
    url = query_cloud(manager, lambda: app.catalogue().scheduler_url(sdk))
    cert = sdk.session.cert or (None, None)
    certificate = model.http.client_certificate(*((cert, None) if isinstance(cert, str) else cert))
    return None if url is None else (url, sdk.session.verify, certificate)


def baremetal_login(manager: Any) -> model.baremetal.CloudLogin | None:
    """Return the login to the cloud that may have Ironic; None without a cloud."""
    if not _names_cloud(manager, "endpoint"):
        return None  # with auth type "none" the endpoint is a standalone service, not a cloud
    sdk, kind = connect(manager), "baremetal"
    region, endpoint = sdk.config.region_name or None, sdk.config.get_endpoint(kind)
    interface = sdk.config.get_interface(kind) or "public"
    return model.baremetal.CloudLogin(sdk.session, interface, region, endpoint)


def token_source(manager: Any) -> Callable[[], str] | None:
    """Return a function that returns a token of the cloud; None without a cloud."""
    if not _names_cloud(manager):
        return None
    return lambda: str(query_cloud(manager, connect(manager).session.get_token))


def token_project(manager: Any, *, log_in: bool) -> str | None:
    """Return the project ID of the token; without a token, ``log_in`` gets one, else None."""
    if not has_cloud(manager):
        return None
    # ignore a login by an earlier command of the same shell
    has_logged_in = manager._auth_required and manager._auth_setup_completed
    if not (log_in or has_logged_in):
        return None
    project: str | None = query_cloud(manager, connect(manager).session.get_project_id)
    return project


def query_cloud(manager: Any, query: Callable[[], Any]) -> Any:
    """Return the cloud's answer; CloudError in one line, without the password and the token."""
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from osc_lib.exceptions import CommandError

    try:
        return query()
    except (ClientException, CommandError, SDKException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        if " in header " in reason:  # the error of requests shows the value of the header
            reason = _UNSENDABLE
    except UnicodeEncodeError:
        reason = _UNSENDABLE
    except model.http.MALFORMED as error:
        reason = f"its configuration or its answer is malformed ({describe_error(error)})"
    except OSError as error:  # a file of certificates, of which keystoneauth tells nothing
        reason = describe_error(error)
    cloud = _cloud_text(manager)
    hint = "" if cloud else ": name one with --os-cloud or OS_CLOUD"
    raise CloudError(one_line(f"{cloud or 'no cloud'}: {reason}{hint}", 300))


def _names_cloud(manager: Any, *settings: str) -> bool:
    """Return whether the user names a cloud, by a URL or by one of the other ``settings``."""
    if not has_cloud(manager):
        return False
    config = manager._cli_options.config
    return bool(_cloud_text(manager) or any(map(config.get, ("auth_url", *settings))))


def _cloud_text(manager: Any) -> str | None:
    options = manager._cli_options
    auth = options.config.get("auth") or {}
    url = auth.get("auth_url") or auth.get("endpoint")
    if options.name and options.name not in UNNAMED_CLOUDS:
        return f"cloud {options.name!r}"
    return f"cloud at {str(url).rpartition('@')[2]}" if url else None  # without the password


def nova_flavor(
    app: app.App, client_manager: Any, name: str, flavor_files: Sequence[str] = ()
) -> model.flavor.Flavor:
    """Convert a flavor of the cloud; its remarks are added to the configuration.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError, UnknownName: the cloud does not answer, or has no such flavor.
        InputError: the flavor has an unsupported extra spec.
    """
    compute = connect(client_manager, "--nova-flavor").compute
    answer = query_cloud(client_manager, lambda: compute.find_flavor(name, get_extra_specs=True))
    if answer is None:
        known = query_cloud(client_manager, lambda: [other.name for other in compute.flavors()])
        raise UnknownName("Nova flavor", name, known)
    fields = ("id", "name", "description", "vcpus", "ram", "disk", "ephemeral")
    document = {field: getattr(answer, field) for field in fields}
    document |= {"swap": answer.swap or 0, "extra_specs": dict(answer.extra_specs or {})}
    return app.config.nova_flavor(document, name, flavor_files)
