# SPDX-License-Identifier: Apache-2.0
"""The service catalogue of an OpenStack cloud, read through a connection of openstacksdk."""

import itertools
from typing import Any

from valence_sched.errors import CloudError, one_line
from valence_sched.model import podm_address
from valence_sched.model.base import digest_of
from valence_sched.model.registration import Registration

SERVICE_TYPE = "podm"
SCHEDULER_TYPE = "podm-scheduler"  # the scheduler's own service


def registrations(sdk: Any, region_name: str | None) -> tuple[Registration, ...]:
    """Return the pod managers of a region or of all regions, named by region and endpoint ID.

    CloudError: the catalogue has no pod manager, or an invalid URL.
    """
    endpoints = sorted({*_endpoints(sdk, SERVICE_TYPE, region_name)})
    if not endpoints:
        interface = _interface(sdk, SERVICE_TYPE)
        where = f"region {region_name}" if region_name else "any region"
        names = interface if isinstance(interface, str) else " or ".join(interface)
        text = f"the service catalogue has no endpoint of service type {SERVICE_TYPE}: {where}"
        raise CloudError(one_line(f"{text}, interface {names}, {_scope(sdk)}"))
    podms: dict[tuple[str, str], Registration] = {}
    for region, id_, url in endpoints:
        word = region or SERVICE_TYPE
        if wrong := podm_address.url_problem(url):
            raise CloudError(f"service catalogue: {SERVICE_TYPE} of {word}: {wrong}")
        name, root = f"{word}-{id_}" if id_ else word, podm_address.strip_service_root(url)
        one = Registration(name=name, url=root, zone=region or None)
        podms.setdefault((region, one.url), one)
    return tuple(podms.values())


def scheduler_url(sdk: Any) -> str | None:
    """Return the URL of the scheduler's service, None without one.

    CloudError: it has several, none of the interface, or no endpoint at all in the region; or the
    token has no catalogue.
    """
    region_name = sdk.config.region_name or None
    known = _endpoints(sdk, SCHEDULER_TYPE, region_name)
    found = {region: url for region, _, url in known}
    if not found and hasattr(sdk.session.auth, "get_access"):
        access = sdk.session.auth.get_access(sdk.session)
        if not access.has_service_catalog():
            missing = "the token has no scope and therefore no catalogue"
            raise CloudError(f"{missing}: name a project with --os-project-name")
        query = access.service_catalog.get_endpoints_data
        if any(query(service_type=SCHEDULER_TYPE, region_name=region_name).values()):
            interface = _interface(sdk, SCHEDULER_TYPE)
            missing = f"{SCHEDULER_TYPE}, but not of interface {interface}"
            raise CloudError(f"service catalogue: {missing}: name one with --os-interface")
        if any(query().values()) and not any(query(region_name=region_name).values()):
            missing = one_line(f"no region {region_name!r}", 100)
            raise CloudError(f"service catalogue: {missing}: name one with --os-region-name")
    if len(found) > 1:
        regions = ", ".join(sorted(region or "no region" for region in found))
        found_in = f"{SCHEDULER_TYPE} in several regions ({regions})"
        raise CloudError(f"service catalogue: {found_in}: name one with --os-region-name")
    return next(iter(found.values()), None)


def _scope(sdk: Any) -> str:
    if not hasattr(sdk.session.auth, "get_access"):
        return "a token without a catalogue"
    access = sdk.session.auth.get_access(sdk.session)
    if access.project_id:
        return f"project {access.project_name or access.project_id}"
    if access.domain_id:
        return f"domain {access.domain_name or access.domain_id}"
    return "system scope" if access.system_scoped else "a token without a scope"


def _endpoints(sdk: Any, kind: str, region_name: str | None) -> list[tuple[str, str, str]]:
    """Return region, ID and URL of every endpoint; without a catalogue, the login's endpoint."""
    config, auth = sdk.config, sdk.session.auth
    region, url = config.region_name or "", config.get_endpoint(kind)
    if not hasattr(auth, "get_access"):
        # the one endpoint of such a login, for all services, is not a scheduler's
        endpoint = auth.get_endpoint(sdk.session, service_type=kind)
        if kind == SERVICE_TYPE:
            url = url or endpoint
        elif url == endpoint:
            url = None
        return [(region, "", url)] if url else []
    if url:
        return [(region, "", url)]
    endpoints = auth.get_access(sdk.session).service_catalog.get_endpoints_data(
        service_type=kind, interface=_interface(sdk, kind), region_name=region_name
    )
    return [
        # an endpoint without an ID gets one that is made of its URL
        (one.region_name or "", str(one.endpoint_id or (one.raw_endpoint or {}).get("id")
         or digest_of(one.url.encode(), 8)), one.url)
        for one in itertools.chain(*endpoints.values())
    ]  # fmt: skip


def _interface(sdk: Any, kind: str) -> Any:
    return sdk.config.get_interface(kind) or "public"
