# SPDX-License-Identifier: Apache-2.0
"""Fault rules: the table of faults a simulated pod manager can have, and their parser.

In ``drop-reply:POST:/redfish/v1/Systems*@ID`` the method before the path or pattern and the pod
manager at the end are optional, and restrict the rule. A path with ``?`` includes the query.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from valence_sched.errors import UnknownName, UsageError

METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
_MOST = 10**9


class FaultRule(NamedTuple):
    """A kind of fault: its name, its arguments, and its effect."""

    name: str
    words: str
    help: str


#: ``WHERE`` is [METHOD:]PATH; brackets mark optional arguments.
RULES = (
    FaultRule("refuse", "", "the port refuses connections"),
    FaultRule("hang", "WHERE", "the request is never answered"),
    FaultRule("delay", "MS:WHERE", "the answer is delayed by MS milliseconds"),
    FaultRule("status", "CODE:WHERE[:TIMES]", "this status with a Redfish error; no effect"),
    FaultRule("busy", "S:WHERE[:TIMES]", "503 with S seconds in Retry-After; no effect"),
    FaultRule("malformed", "WHERE", "the body is only the first half of the document"),
    FaultRule("html", "WHERE", "an HTML page with status 200; no effect"),
    FaultRule("huge", "WHERE", "the body has 1 GB"),
    FaultRule("deep", "WHERE", "the body is JSON with 100,000 levels"),
    FaultRule("drop-reply", "WHERE", "the request is carried out, then the connection is closed"),
    FaultRule("done-status", "CODE:WHERE[:TIMES]", "the request is carried out, with this status"),
    FaultRule("cut-body", "WHERE", "the connection is closed after half of the body"),
    FaultRule("cut-after", "N", "after N requests every connection is closed without an answer"),
    FaultRule("lie", "WHERE", "status 200 with an error in the body; no effect"),
    FaultRule("die-after", "N", "after N writes every connection is closed without an answer"),
    FaultRule("closed-root", "", "the service root requires a login too"),
    FaultRule("slash-root", "", "the root answers only with a trailing slash"),
    FaultRule("bare-root", "", "the root answers only without a trailing slash"),
    FaultRule("older-root", "", "the root has its entries below Links"),
    FaultRule("older-collections", "", "collections have their members below Links"),
    FaultRule("no-members", "WHERE", "the collection has no members"),
    FaultRule("short-links", "", "links below a document omit its path"),
    FaultRule("session-basic", "", "creating a session requires basic authentication too"),
    FaultRule("no-uuid", "", "the service root has no UUID"),
    FaultRule("session-limit", "N", "at most N sessions at a time"),
    FaultRule("no-expand", "", "$expand is not offered and answers 501"),
    FaultRule("expand-404", "", "$expand is offered and answers 404"),
    FaultRule("expand-ignored", "", "$expand is offered and has no effect"),
    FaultRule("expand-drops", "", "$expand omits Id and Name of every expanded member"),
    FaultRule("page-missing", "N", "page N of every collection answers 404 (see --page-size)"),
    FaultRule("foreign-link", "", "the list of blocks links a block on another host"),
    FaultRule("dangle", "", "the list of blocks links a missing block"),
    FaultRule("list-twice", "", "blocks list each device again, without a common link or name"),
    FaultRule("physical-volumes", "", "the physical volume of each storage pool is listed too"),
    FaultRule("no-sizes", "", "memory domains and storage pools report no size of their own"),
    FaultRule("no-limits", "", "no capabilities and no limits are reported"),
    FaultRule("join", "", "a composed system has two compute blocks, and no limit is reported"),
    FaultRule("omit", "PROPERTY", "the property is missing in every document"),
    FaultRule("null", "PROPERTY", "the property is null in every document"),
    FaultRule("async", "", "every composition answers 202 with a task monitor"),
    FaultRule("task-exception", "", "every task ends in Exception; no node is composed"),
    FaultRule("task-warning", "", "every task is Completed with the status Warning"),
    FaultRule("empty-create", "", "composing answers 201 and composes no node"),
    FaultRule("stores", "", "composing stores the posted system and changes nothing else"),
    FaultRule("fixed-hosts", "", "each compute block is part of a host, which only PATCH changes"),
    FaultRule("hot-plug", "", "each device of a block is declared removable while it runs"),
    FaultRule("servers", "", "each compute block is a server, and there is no composition service"),
    FaultRule("fabric-zones", "", "zones of fabrics attach devices to servers or fixed-hosts"),
    FaultRule("change-off", "", "changing the blocks of a system that is not off answers 409"),
    FaultRule("change-race", "BLOCK", "another client attaches it just before a change: 412"),
    FaultRule("full-ports", "CODE", "more blocks than a system has ports: this status"),
    FaultRule("slow-change", "MS", "changing the blocks of a system is a task of MS milliseconds"),
    FaultRule(
        "late-change", "MS", "a change of blocks answers 204 and shows after MS milliseconds"
    ),
    FaultRule("empty-change", "", "a change of blocks answers 204 and has no effect"),
    FaultRule("half-change", "", "half of one change of blocks is done, and the connection is cut"),
    FaultRule("other-slot", "", "an attached device shows at another endpoint, or in a fixed slot"),
    FaultRule("drop-other", "MS", "attaching a block detaches one of another system for MS"),
    FaultRule("double-book", "", "a block in use is composed again"),
    FaultRule("steal", "BLOCK", "another client takes the block just before the next composition"),
    FaultRule("failed-node", "", "a composed node is in state Failed"),
    FaultRule("ghost", "", "deleting a node answers 204 and does not delete it"),
    FaultRule("patch-replaces", "", "PATCH replaces a nested object as a whole"),
    FaultRule("if-match", "", "PATCH and DELETE without If-Match answer 428"),
    FaultRule("stale-tags", "", "PATCH and DELETE with an ETag in If-Match answer 412"),
    FaultRule("body", "KIND:WHERE", "the request is carried out, the body is not a document"),
    FaultRule("own-names", "", "a composed node gets another name and URI"),
    FaultRule("uri-names", "", "a composed node has its name only as the last part of its URI"),
    FaultRule("no-location", "", "composing answers 201 without Location and body"),
    FaultRule("stays-unused", "BLOCK", "blocks of this name or pattern always report Unused"),
    FaultRule("equal-device", "", "a free equal block replaces each requested block"),
    FaultRule("short-amounts", "", "a memory chunk or a volume has half of the requested size"),
    FaultRule("connections", "", "a fabric connects memory chunks and volumes to systems"),
    FaultRule("typed-posts", "", "creating an amount or a connection without @odata.type is 400"),
    FaultRule("lists-deleted", "", "a deleted amount or connection answers 404 and stays listed"),
    FaultRule("reads-deleted", "", "a deleted amount or connection can be read but is not listed"),
    FaultRule("no-events", "", "the event service offers no stream and no subscriptions"),
    FaultRule("no-stream", "", "the event service accepts subscriptions and offers no stream"),
    FaultRule("stream-cut", "N", "the event stream is closed after N events (0: immediately)"),
    FaultRule("stream-storm", "N", "the event stream sends each event N times"),
    FaultRule("stream-endless", "", "the event stream sends one endless line, up to 1 GB"),
    FaultRule("stream-redirect", "", "the event stream is redirected to another host"),
    FaultRule("stream-older", "", "events have the older form: types, and origins as text"),
    FaultRule("odd-actions", "", "the actions of a rack's nodes have names with another prefix"),
)

KINDS = ("text", "number", "list", "object")  # the forms of a body that is not a document
_BY_NAME = {rule.name: rule for rule in RULES}


@dataclass(slots=True)
class Fault:
    """One rule as given; ``times`` is the number of remaining uses."""

    name: str
    number: int = 0
    method: str = ""
    path: str = ""
    times: int = _MOST
    podm: str = ""
    kind: str = ""

    def hits(self, method: str, path: str, path_qs: str) -> bool:
        if self.times <= 0 or (self.method and method != self.method):
            return False
        target = path_qs if "?" in self.path else path.rstrip("/") or "/"
        first, *others = map(re.escape, self.path.split("*"))
        between = "".join(f"(?>.*?{part})" for part in others[:-1])
        pattern = rf"{first}{between}{'.*' * bool(others)}{''.join(others[-1:])}\Z"
        return re.match(pattern, target, re.DOTALL) is not None


class Faults:
    """The faults of one pod manager."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)

    def __contains__(self, name: str) -> bool:
        return any(fault.name == name and fault.times > 0 for fault in self._faults)

    def number(self, name: str) -> int | None:
        return next((fault.number for fault in self._faults if fault.name == name), None)

    def paths(self, name: str) -> list[str]:
        return [fault.path for fault in self._faults if fault.name == name]

    def take(self, name: str, method: str, path: str, path_qs: str) -> Fault | None:
        for fault in self._faults:
            if fault.name == name and fault.hits(method, path, path_qs):
                fault.times -= 1
                return fault
        return None

    def once(self, name: str) -> Iterator[str]:
        """Yield the path of every unused fault of this name, and mark it as used."""
        for fault in self._faults:
            if fault.name == name and fault.times > 0:
                fault.times = 0
                yield fault.path


def faults_of(rules: Sequence[str], podms: Sequence[str]) -> dict[str, Faults]:
    every = [_fault(rule, podms) for rule in rules]
    # each pod manager has its own copy of a fault, which counts its uses
    return {
        id_: Faults(replace(fault) for fault in every if fault.podm in ("", id_)) for id_ in podms
    }


def _fault(text: str, podms: Sequence[str]) -> Fault:
    rule_text, at, podm = text.rpartition("@")
    if not at:
        rule_text, podm = text, ""
    elif podm not in podms:
        raise UnknownName("pod manager", podm, podms, f"--fail {text}")
    name, _, rest = rule_text.partition(":")
    if name not in _BY_NAME:
        raise UnknownName("fault rule", name, _BY_NAME, "--fail")
    rule = _BY_NAME[name]
    fault = Fault(name, podm=podm)
    try:
        _read(fault, rule.words, rest.split(":") if rest else [])
    except ValueError as error:
        form = f"{name}:{rule.words}" if rule.words else name
        raise UsageError(f"--fail {text}: {error}, expected {form}") from None
    return fault


def _read(fault: Fault, form: str, words: list[str]) -> None:
    for part in form.removesuffix("[:TIMES]").split(":") if form else []:
        if part in ("N", "S", "MS", "CODE"):
            fault.number = _number(words, 599 if part == "CODE" else _MOST)
            if part == "CODE" and fault.number < 200:
                raise ValueError(f"{fault.number} is not a status")
            if fault.name == "page-missing" and not fault.number:
                raise ValueError("pages count from 1")
        elif part == "KIND":
            fault.kind = words.pop(0) if words else ""
            if fault.kind not in KINDS:
                raise ValueError(f"{fault.kind!r} is not a kind of body")
        elif part == "WHERE":
            if words and words[0] in METHODS:
                fault.method = words.pop(0)
            path = words.pop(0) if words else ""
            if not path.startswith(("/", "*")):
                raise ValueError(f"{path!r} is not a path")
            fault.path = path.rstrip("/") or "/"
        else:
            fault.path = words.pop(0) if words else ""
            if not fault.path:
                raise ValueError(f"the {part.lower()} is missing")
    if words and form.endswith("[:TIMES]"):
        fault.times = _number(words, _MOST)
        if not fault.times:
            raise ValueError("TIMES must be 1 or more")
    if words:
        raise ValueError(f"unexpected {words[0]!r} at the end")


def _number(words: list[str], most: int) -> int:
    text = words.pop(0) if words else ""
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > most:
        raise ValueError(f"{text!r} is not a number")
    return int(text)
