# SPDX-License-Identifier: Apache-2.0
"""Actions that a document advertises, with their parameters; Reset starts and stops a node."""

import re
from collections.abc import Mapping
from typing import Any

from valence_sched.drivers import composer
from valence_sched.drivers.composer import Session, Watch, get_document
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, objects, text, words
from valence_sched.drivers.http.exchange import LATE_READS, MakePatience
from valence_sched.drivers.links import link_path
from valence_sched.errors import PodmError

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

    The action itself states them, or its ActionInfo; a parameter without a readable list has no
    values.
    """
    found = {
        key.removesuffix(_ALLOWED): _values(value)
        for key, value in action.items()
        if key.endswith(_ALLOWED)
    }
    info = action.get(_INFO)
    uri = info.get("@odata.id") if isinstance(info, dict) else info
    json = get_document(session, link_path(uri)) if isinstance(uri, str) else None
    for parameter in objects((json or {}).get("Parameters") or []):
        found.setdefault(str(parameter.get("Name")), _values(parameter.get("AllowableValues")))
    return found


def _values(stated: Any) -> tuple[str, ...]:
    try:
        return words(stated)
    except ValueError:
        return ()


_STATES = {"on": True, "poweringon": True, "off": False, "poweringoff": False}
#: The types of reset that start or stop a node, the preferred first.
_RESETS = {True: ("On", "ForceOn"), False: ("GracefulShutdown", "ForceOff")}


class PoweredNode(Resource):
    """ComputerSystem or ComposedNode, read for its power."""

    power = Field("PowerState", text, "On, Off, PoweringOn or PoweringOff")


def is_on(session: Session, node: str) -> bool | None:
    """Return whether a node is on or starts, None if that is unknown; PodmError if unreadable."""
    return _STATES.get(_power(get_document(session, node) or {}))


def set_power(session: Session, node: str, on: bool, patience: MakePatience, watch: Watch) -> None:
    """Start a node, or shut it down, by the first type of reset that has the effect.

    Each type has the whole patience. PodmError if the node is not on, or off, in the end.
    """
    word = "On" if on else "Off"

    def read() -> Json:
        if (json := get_document(session, node)) is None:
            raise PodmError(f"{node}: found no such node")
        return json

    def has_power() -> bool:
        return _power(read()) == word.casefold()

    json, failure = None, PodmError(f"{node}: no time is left to read it")
    for _ in patience().tries(LATE_READS):  # one failed read must not leave a node off
        try:
            json = read()
            break
        except PodmError as error:
            failure = error
    if json is None:
        raise failure
    if _power(json) == word.casefold():
        return
    if (action := find_action(json, "Reset")) is None:
        raise PodmError(f"{node}: found no action Reset, expected one to set the power {word}")
    allowed = action_parameters(session, action).get("ResetType") or _RESETS[on]
    kinds = [kind for kind in _RESETS[on] if kind in allowed]
    problem = f"the allowed types of reset are {', '.join(allowed)}"
    for kind in kinds:
        watch(f"resetting ({kind})")
        body, target = {"ResetType": kind}, link_path(action["target"]) or ""
        pauses = patience()
        sent = composer.write(session, target, body, pauses, watch, lambda: not has_power())
        problem = sent.reason or f"{kind} has had no effect"
        while True:
            try:
                if has_power():
                    return
            except PodmError as error:
                problem = f"could not be read back: {error}"
            if sent.refused or sent.unsent or not pauses.pause():
                break
            watch("reading back")
    raise PodmError(f"{node} is not {word}: {problem}")


def _power(json: Json) -> str:
    return (PoweredNode("", json, NO_NOTES).power or "").casefold()
