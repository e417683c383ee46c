# SPDX-License-Identifier: Apache-2.0
"""Handlers of what requests may name, and of the service itself."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.errors import UnknownName
from valence_sched.model.effect import AuditLine, AuditQuery
from valence_sched.model.flavor import Flavor
from valence_sched.model.policy import PluginList, PodmReads, Policy
from valence_sched.model.service_bodies import ApiVersion, ApiVersions, Health
from valence_sched.service.call import Call, CallResult
from valence_sched.service.microversion import GREATEST, LEAST


def audit(call: Call) -> Sequence[AuditLine]:
    """List the newest changes, and those that were refused, by user and object."""
    with call.parts.schedulers.changing() as scheduler:
        return tuple(scheduler.audit(call.query_noun(AuditQuery)))


def policies(call: Call) -> Sequence[Policy]:
    """List the policies that a request may name."""
    with call.reading() as scheduler:
        return tuple(scheduler.policies())


def podm_reads(call: Call) -> PodmReads:
    """List the fields of pod managers that decisions of a policy read."""
    with call.parts.schedulers.reading() as scheduler:
        return scheduler.podm_reads(call.name(), call.text("flavor"))


def flavors(call: Call) -> Sequence[Flavor]:
    """List the flavors that a request may name."""
    with call.reading() as scheduler:
        return tuple(scheduler.flavors())


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
