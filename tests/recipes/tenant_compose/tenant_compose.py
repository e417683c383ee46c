# SPDX-License-Identifier: Apache-2.0
"""The dialect of pod managers that compose for a tenant, which each new system names."""

from __future__ import annotations

from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Json
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.redfish.methods import ComposeCapabilities, ComposeWrite, specific_body
from valence_sched.model.claim import CompositionRequest


def tenant_compose() -> Dialect:
    """DMTF Redfish, with nodes that name their tenant."""
    return redfish((for_tenant,))._replace(name="tenant_compose", recognise=has_tenants)


def has_tenants(root: Json) -> bool:
    """Return whether a service root belongs to a pod manager with tenants."""
    oem = root.get("Oem")
    return isinstance(oem, dict) and "Tenants" in oem


def for_tenant(
    capabilities: ComposeCapabilities, request: CompositionRequest
) -> ComposeWrite | str | None:
    """Return the body with the blocks and the tenant of the new system."""
    oem = (capabilities.service or {}).get("Oem")
    tenant = oem.get("DefaultTenant") if isinstance(oem, dict) else None
    if not capabilities.systems:
        return None
    if not isinstance(tenant, str):
        return "its CompositionService names no Oem/DefaultTenant"
    body = specific_body(request) | {"Oem": {"Tenant": tenant}}
    return ComposeWrite("for tenant", capabilities.systems, body, exact=True)
