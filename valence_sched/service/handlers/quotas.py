# SPDX-License-Identifier: Apache-2.0
"""Handlers of quotas: list, show, set, change."""

from __future__ import annotations

from valence_sched.errors import UnknownName
from valence_sched.model.quota import Quota
from valence_sched.service.call import Call


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
