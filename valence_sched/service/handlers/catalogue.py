# SPDX-License-Identifier: Apache-2.0
"""Handlers of what requests may name, of quotas, and of the service itself."""

from __future__ import annotations

from valence_sched.errors import UnknownName
from valence_sched.model.policy import PluginList
from valence_sched.model.quota import Quota
from valence_sched.model.verbs import ApiVersion, ApiVersions, Health
from valence_sched.service.call import GREATEST_VERSION, LEAST_VERSION, Call, CallResult


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
        min_version=str(LEAST_VERSION),
        version=str(GREATEST_VERSION),
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


def quota(call: Call) -> Quota:
    """Show which limits hold for an owner, and what it has."""
    name = call.name()
    if call.user.owner not in (None, name):
        raise UnknownName("owner", name, ())
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.quota(name)


def set_default(call: Call) -> Quota:
    """Set the limits of each owner that has none of its own."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.set_quota(None, call.body.limits)


def change_default(call: Call) -> Quota:
    """Change limits of each owner that has none of its own; null: there is no limit."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.change_quota(None, call.body.limits)
