# SPDX-License-Identifier: Apache-2.0
"""Handlers of what requests may name, and of the service itself."""

from __future__ import annotations

from valence_sched.errors import UnknownName
from valence_sched.model.policy import PluginList
from valence_sched.model.service_bodies import ApiVersion, ApiVersions, Health
from valence_sched.service.call import Call, CallResult
from valence_sched.service.microversion import GREATEST, LEAST


def plugins(call: Call) -> PluginList:
    """List the installed filters or weighers."""
    kind = call.name()
    if kind not in ("filters", "weighers"):
        raise UnknownName("kind of plug-ins", kind, ("filters", "weighers"))
    with call.reading() as scheduler:
        return scheduler.plugins("filters" if kind == "filters" else "weighers")


def versions(_call: Call) -> ApiVersions:
    """List the versions of the API."""
    one = ApiVersion(
        id="v1",
        status="CURRENT",
        min_version=str(LEAST),
        version=str(GREATEST),
        links=({"rel": "self", "href": "/v1"},),
    )
    return ApiVersions(versions=(one,))


def openapi(call: Call) -> CallResult:
    """Describe the API as OpenAPI 3.1."""
    return CallResult(call.parts.openapi(), headers={"Content-Type": "application/json"})


def health(call: Call) -> CallResult:
    """Tell whether the service can decide."""
    found = call.parts.health()
    return CallResult(found, 200 if found.status in ("ok", "degraded") else 503)


def alive(_call: Call) -> Health:
    """Answer, whether the service can decide or not."""
    return Health(status="ok")


def metrics(call: Call) -> CallResult:
    """Show counters and times in the text format of Prometheus."""
    media_type, text = call.parts.metrics()
    return CallResult(text, headers={"Content-Type": media_type})
