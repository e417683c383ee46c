# SPDX-License-Identifier: Apache-2.0
"""Actions that a document advertises: their targets, and the values of their parameters."""

import re
from collections.abc import Mapping

from valence_sched.drivers.composer import Session, get_document
from valence_sched.drivers.fields import Json, objects, words
from valence_sched.drivers.links import link_path

_ALLOWED = "@Redfish.AllowableValues"
_INFO = "@Redfish.ActionInfo"


def find_action(json: Json, name: str) -> Json | None:
    """Return an action by the last part of its name, such as ``Reset``; its prefix may vary."""
    actions = json.get("Actions")
    for key, value in actions.items() if isinstance(actions, dict) else ():
        if isinstance(value, dict) and re.split(r"[.#/]", key)[-1].casefold() == name.casefold():
            target = value.get("target")
            if isinstance(target, str) and target:
                return value
    return None


def action_target(json: Json, name: str) -> str | None:
    action = find_action(json, name)
    return link_path(action["target"]) if action else None


def action_parameters(session: Session, action: Json) -> Mapping[str, tuple[str, ...]]:
    """Return the allowed values of each stated parameter; empty if the action states none.

    The action itself states them, or its ActionInfo; a parameter without a list has no values.
    """
    found = {
        key.removesuffix(_ALLOWED): words(value)
        for key, value in action.items()
        if key.endswith(_ALLOWED)
    }
    info = action.get(_INFO)
    uri = info.get("@odata.id") if isinstance(info, dict) else info
    json = get_document(session, link_path(uri)) if isinstance(uri, str) else None
    for parameter in objects((json or {}).get("Parameters") or []):
        found.setdefault(str(parameter.get("Name")), words(parameter.get("AllowableValues")))
    return found
