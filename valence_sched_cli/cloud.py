# SPDX-License-Identifier: Apache-2.0
"""The cloud behind ``openstack``: its connection, service catalogue and Nova flavors, on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import CloudError, UnknownName, UsageError, one_line

if TYPE_CHECKING:
    from valence_sched.app import App
    from valence_sched.model.baremetal import CloudLogin
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.registration import Registration
    from valence_sched.model.tls import ClientCertificate

SERVICE_TYPE = "podm"
SCHEDULER_TYPE = "podm-scheduler"  # of the scheduler's service itself
#: The token is the one header of a client whose value the user gives.
_UNSENDABLE = ("header X-Auth-Token: found a line break or a character beyond Latin-1, expected "
               "one line of Latin-1: check the token")  # fmt: skip
UNNAMED_CLOUDS = ("defaults", "envvars")  # as openstacksdk calls one without a name of its own


def sdk_connector(manager: Any) -> Callable[[], Any] | None:
    """Return what logs in and gives an SDK connection, None in the program without a cloud."""
    if not hasattr(manager, "setup_auth"):
        return None

    def connect() -> Any:
        manager._auth_required = True  # commands of ours say False, and this one needs it now
        return query_cloud(manager, lambda: _login(manager))

    return connect


def catalogue(manager: Any, *, all_regions: bool = False) -> tuple[Registration, ...]:
    """Return the pod managers of the service catalogue, named by region and endpoint id.

    The registry names them after their services. The zone of each is its region.
    Without ``all_regions`` they are those of the region that is configured, if one is.

    Raises:
        UsageError: the program is not ``openstack``.
        CloudError: the cloud does not answer, or its catalogue holds none, or what is no URL.
    """
    from valence_sched.model.podm_address import strip_service_root, url_problem
    from valence_sched.model.registration import Registration

    connect = sdk_connector(manager)
    if connect is None:
        raise UsageError("--from-catalog: only inside openstack, which knows a cloud")
    sdk = connect()
    region_name = None if all_regions else sdk.config.region_name or None
    endpoints = query_cloud(manager, lambda: sorted({*_endpoints(sdk, SERVICE_TYPE, region_name)}))
    if not endpoints:
        raise CloudError(_no_endpoint_text(sdk, region_name))
    podms: dict[tuple[str, str], Registration] = {}
    for region, id_, url in endpoints:
        word = region or SERVICE_TYPE
        if wrong := url_problem(url):
            raise CloudError(one_line(f"service catalogue: {SERVICE_TYPE} of {word}: {wrong}"))
        name = f"{word}-{id_}" if id_ else word
        one = Registration(name=name, url=strip_service_root(url), zone=region or None)
        podms.setdefault((region, one.url), one)
    return tuple(podms.values())


def _endpoints(sdk: Any, kind: str, region_name: str | None) -> list[tuple[str, str, str]]:
    """Return region, id and URL of every endpoint, of one region or of all; no region is empty.

    A login without a catalogue, such as ``admin_token``, has the one endpoint that it names, which
    is a pod manager's; that has no id.
    """
    config, auth = sdk.config, sdk.session.auth
    if override := config.get_endpoint(kind):
        return [(config.region_name or "", "", override)]
    if not hasattr(auth, "get_access"):
        endpoint = kind == SERVICE_TYPE and auth.get_endpoint(sdk.session, service_type=kind)
        return [(config.region_name or "", "", endpoint)] if endpoint else []
    endpoints = auth.get_access(sdk.session).service_catalog.get_endpoints_data(
        service_type=kind, interface=_interface(sdk, kind), region_name=region_name
    )
    return [(one.region_name or "", _endpoint_id(one), one.url)
            for found in endpoints.values() for one in found]  # fmt: skip


def _endpoint_id(endpoint: Any) -> str:
    """Return the id of an endpoint; where the catalogue has none, one that is made of its URL."""
    told = endpoint.endpoint_id or (endpoint.raw_endpoint or {}).get("id")
    return str(told or hashlib.blake2b(endpoint.url.encode(), digest_size=8).hexdigest())


def _interface(sdk: Any, kind: str) -> Any:
    return sdk.config.get_interface(kind) or "public"


def _no_endpoint_text(sdk: Any, region_name: str | None) -> str:
    interface = _interface(sdk, SERVICE_TYPE)
    text = f"the service catalogue has no endpoint of service type {SERVICE_TYPE}: "
    text += f"region {region_name}" if region_name else "any region"
    text += f", interface {interface if isinstance(interface, str) else ' or '.join(interface)}"
    return one_line(f"{text}, {_scope_text(sdk)}")


def _scope_text(sdk: Any) -> str:
    if not hasattr(sdk.session.auth, "get_access"):
        return "a token without a catalogue"
    access = sdk.session.auth.get_access(sdk.session)
    if access.project_id:
        return f"project {access.project_name or access.project_id}"
    if access.domain_id:
        return f"domain {access.domain_name or access.domain_id}"
    return "system scope" if access.system_scoped else "a token without a scope"


def scheduler_endpoint(manager: Any) -> tuple[str, bool | str, ClientCertificate | None] | None:
    """Return the URL of the scheduler's service in the catalogue, and how TLS is spoken.

    That is what verifies it, and the certificate that is presented to it.
    None where the program knows no cloud, or its catalogue has no such service.

    Raises:
        CloudError: the cloud does not answer; its catalogue has the service in several regions,
            and none is configured.
    """
    from valence_sched.model.tls import client_certificate

    connect = sdk_connector(manager)
    if connect is None or not _names_cloud(manager):
        return None
    sdk = connect()
    region = sdk.config.region_name or None
    known = query_cloud(manager, lambda: _endpoints(sdk, SCHEDULER_TYPE, region))
    found = {region: url for region, _, url in known}
    if len(found) > 1:
        regions = ", ".join(sorted(region or "no region" for region in found))
        raise CloudError(one_line(f"service catalogue: {SCHEDULER_TYPE} in several regions "
                                  f"({regions}): name one with --os-region-name"))  # fmt: skip
    cert = sdk.session.cert or (None, None)
    files = (cert, None) if isinstance(cert, str) else cert
    trust = (sdk.session.verify, client_certificate(*files))
    return next(((url, *trust) for url in found.values()), None)


def baremetal_login(manager: Any) -> CloudLogin | None:
    """Return the login to the cloud that may have Ironic, None where the program knows no cloud.

    Raises:
        CloudError: the cloud does not answer.
    """
    from valence_sched.model.baremetal import CloudLogin

    connect = sdk_connector(manager)
    if connect is None:
        return None
    if not (_names_cloud(manager) or manager._cli_options.config.get("endpoint")):
        return None  # the latter is of a service that stands alone, with the login "none"
    sdk, kind = connect(), "baremetal"
    return CloudLogin(sdk.session, sdk.config.get_interface(kind) or "public",
                      sdk.config.region_name or None, sdk.config.get_endpoint(kind))  # fmt: skip


def token_source(manager: Any) -> Callable[[], str] | None:
    """Return what gives a token of the cloud, None where the program knows no cloud."""
    connect = sdk_connector(manager)
    if connect is None or not _names_cloud(manager):
        return None

    def token() -> str:
        return str(query_cloud(manager, connect().session.get_token))

    return token


def token_project(manager: Any, *, log_in: bool) -> str | None:
    """Return the ID of the project whose token the cloud gave to this command.

    None where the command has no cloud, has not logged in and ``log_in`` is not asked for, or the
    token is of no project.
    """
    connect = sdk_connector(manager)
    # by itself: another command of the same shell does not count
    has_logged_in = connect and manager._auth_required and manager._auth_setup_completed
    if connect is None or not (log_in or has_logged_in):
        return None
    session = connect().session
    found: str | None = query_cloud(manager, session.get_project_id)
    return found


def query_cloud(manager: Any, query: Callable[[], Any]) -> Any:
    """Return what the cloud of a client manager answers to a question.

    Raises:
        CloudError: it does not answer; in one line, without the password and the token.
    """
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from osc_lib.exceptions import CommandError

    try:
        return query()
    except (ClientException, CommandError, SDKException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        if " in header " in reason:  # requests shows what it cannot send
            reason = _UNSENDABLE
        raise CloudError(_error_text(manager, reason)) from None
    except UnicodeEncodeError:
        raise CloudError(_error_text(manager, _UNSENDABLE)) from None
    except (KeyError, TypeError) as error:  # what OpenStackClient raises for half a configuration
        raise CloudError(_error_text(manager, f"its configuration lacks {error}")) from None


def _login(manager: Any) -> Any:
    manager.setup_auth()
    manager.sdk_connection.authorize()
    return manager.sdk_connection


def _error_text(manager: Any, reason: str) -> str:
    cloud = _cloud_text(manager)
    if cloud is None:
        return one_line(f"no cloud to ask: {reason}: name one with --os-cloud or OS_CLOUD", 300)
    return one_line(f"{cloud}: {reason}", 300)


def _names_cloud(manager: Any) -> bool:
    return bool(_cloud_text(manager) or manager._cli_options.config.get("auth_url"))


def _cloud_text(manager: Any) -> str | None:
    options = manager._cli_options
    auth = options.config.get("auth") or {}
    url = auth.get("auth_url") or auth.get("endpoint")
    if options.name and options.name not in UNNAMED_CLOUDS:
        return f"cloud {options.name!r}"
    return f"cloud at {str(url).rpartition('@')[2]}" if url else None  # without a password in it


NOVA_OPTION = "--nova-flavor"


def nova_flavor(
    app: App, client_manager: Any, name: str, flavor_files: Sequence[str] = ()
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
    connect = sdk_connector(client_manager)
    if connect is None:
        raise UsageError(f"{NOVA_OPTION}: only inside openstack, which knows a cloud")
    compute = connect().compute
    answer = query_cloud(client_manager, lambda: compute.find_flavor(name, get_extra_specs=True))
    if answer is None:
        known = query_cloud(client_manager, lambda: [other.name for other in compute.flavors()])
        raise UnknownName("Nova flavor", name, known)
    return app.config.nova_flavor(_nova_document(answer), name, flavor_files)


def _nova_document(flavor: Any) -> dict[str, Any]:
    fields = ("id", "name", "description", "vcpus", "ram", "disk", "ephemeral", "swap")
    document = {field: getattr(flavor, field) for field in fields}
    return {**document, "swap": flavor.swap or 0, "extra_specs": dict(flavor.extra_specs or {})}
