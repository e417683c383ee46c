# SPDX-License-Identifier: Apache-2.0
"""Handlers of quotas: list, show, set."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.errors import UnknownName
from valence_sched.model.quota import Quota, check_resources
from valence_sched.service.call import Call, CallResult


def quotas(call: Call) -> Sequence[Quota]:
    """List the quotas that are set; the one without an owner is that of all others."""
    return tuple(call.parts.quotas.quotas())


def quota(call: Call) -> Quota:
    """Show which limits hold for an owner, and what it has."""
    name = call.name()
    if call.user.owner not in (None, name):
        raise UnknownName("owner", name, ())
    return call.parts.quotas.quota(name)


def set_quota(call: Call) -> Quota:
    """Set the limits of an owner in place of those that it had; none: those of all hold."""
    name = call.name()
    check_resources(call.body.limits, "the body: $.limits")
    call.parts.quotas.set_quota(name, call.body.limits)
    return call.parts.quotas.quota(name)


def set_default(call: Call) -> CallResult:
    """Set the limits of each owner that has none of its own."""
    check_resources(call.body.limits, "the body: $.limits")
    call.parts.quotas.set_quota(None, call.body.limits)
    return CallResult(Quota(limits=call.body.limits))
