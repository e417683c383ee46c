# SPDX-License-Identifier: Apache-2.0
"""The cloud behind ``openstack``: logged in to when something must be asked of it, not before."""

from __future__ import annotations

import argparse
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import CloudError, UnknownName, UsageError, one_line

if TYPE_CHECKING:
    from valence_sched.app import App
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.registration import Registration

SERVICE_TYPE = "podm"


def sdk_connector(manager: Any) -> Callable[[], Any] | None:
    """Return what logs in and gives an SDK connection, None in the program without a cloud."""
    if not hasattr(manager, "setup_auth"):
        return None

    def connect() -> Any:
        manager._auth_required = True  # commands of ours say False, and this one needs it now
        return query_cloud(lambda: _login(manager))

    return connect


def catalogue(manager: Any) -> tuple[Registration, ...]:
    """Return the pod managers of the service catalogue, named by their regions.

    Where a region has several they are numbered in the order of their URLs.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError: the cloud does not answer, or its catalogue holds what is no URL.
    """
    from valence_sched.model.podm_url import strip_service_root, url_problem
    from valence_sched.model.registration import Registration

    connect = sdk_connector(manager)
    if connect is None:
        raise UsageError("--from-catalog: only inside openstack, which knows a cloud")
    sdk = connect()
    found = query_cloud(lambda: sorted(_endpoints(sdk)))
    names: Counter[str] = Counter()
    every = Counter(region for region, _ in found)
    podms = []
    for region, url in found:
        if wrong := url_problem(url):
            raise CloudError(one_line(f"service catalogue: {SERVICE_TYPE} of {region}: {wrong}"))
        names[region] += 1
        name = region if every[region] == 1 else f"{region}-{names[region]}"
        podms.append(Registration(name=name, url=strip_service_root(url)))
    return tuple(podms)


def _endpoints(sdk: Any) -> set[tuple[str, str]]:
    """Return region and URL of every endpoint; of a region that was named only its own."""
    config = sdk.config
    if override := config.get_endpoint(SERVICE_TYPE):
        return {(config.region_name or SERVICE_TYPE, override)}
    catalog = sdk.session.auth.get_access(sdk.session).service_catalog
    endpoints = catalog.get_endpoints_data(
        service_type=SERVICE_TYPE,
        interface=config.get_interface(SERVICE_TYPE) or "public",
        region_name=config.region_name or None,
    )
    every = [one for found in endpoints.values() for one in found]
    return {(one.region_name or SERVICE_TYPE, one.url) for one in every}


def query_cloud(query: Callable[[], Any]) -> Any:
    """Return what the cloud answers to a question.

    Raises:
        CloudError: it does not answer; in one line, without the password and the token.
    """
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from osc_lib.exceptions import CommandError

    try:
        return query()
    except (ClientException, CommandError, SDKException) as error:
        raise CloudError(_error_text(" ".join(str(error).split()).rstrip("."))) from None
    except (KeyError, TypeError) as error:  # what OpenStackClient raises for half a configuration
        raise CloudError(_error_text(f"its configuration lacks {error}")) from None


def _login(manager: Any) -> Any:
    manager.setup_auth()
    manager.sdk_connection.authorize()
    return manager.sdk_connection


def _error_text(reason: str) -> str:
    return one_line(f"no cloud to ask: {reason}: name one with --os-cloud or OS_CLOUD", 300)


NOVA_OPTION = "--nova-flavor"


def add_nova_options(parser: argparse.ArgumentParser, *, many: bool) -> None:
    """Add the option that names a flavor of the cloud."""
    parser.add_argument(
        NOVA_OPTION,
        metavar="<flavor>",
        action="append" if many else "store",
        default=[] if many else None,
        help="flavor of Nova, by name or ID, "
        + ("beside those of --flavor" if many else "in place of --flavor")
        + " (only inside openstack"
        + ("; repeat for several)" if many else ")"),
    )


def nova_flavor(
    main: App, client_manager: Any, name: str, flavor_files: Sequence[str] = ()
) -> Flavor:
    """Return a flavor of the cloud as one of ours; its remarks go to the configuration.

    One of bare metal stands for the flavor of ours that is named after its class, be it one of
    ``flavor_files``.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError: the cloud does not answer.
        UnknownName: it has no such flavor.
        InputError: the flavor has an extra spec without a counterpart here.
    """
    from valence_sched.config.foreign import detect
    from valence_sched.config.foreign.base import DocumentCursor

    connect = sdk_connector(client_manager)
    if connect is None:
        raise UsageError(f"{NOVA_OPTION}: only inside openstack, which knows a cloud")
    compute = connect().compute
    found = query_cloud(lambda: compute.find_flavor(name, get_extra_specs=True))
    if found is None:
        known = query_cloud(lambda: [other.name for other in compute.flavors()])
        raise UnknownName("Nova flavor", name, known)
    where = DocumentCursor(f"Nova flavor {name!r}", ignored=main.config.ignored_extra_specs)
    known = functools.partial(main.config.flavors, flavor_files)
    form = detect.parse_flavor(_nova_document(found), where, known)
    main.config.remarks += form.remarks
    return form.flavor


def _nova_document(found: Any) -> dict[str, Any]:
    """Return a flavor of openstacksdk as Nova's API has it."""
    words = ("id", "name", "description", "vcpus", "ram", "disk", "ephemeral", "swap")
    document = {word: getattr(found, word) for word in words}
    return {**document, "swap": found.swap or 0, "extra_specs": dict(found.extra_specs or {})}
