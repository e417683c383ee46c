# SPDX-License-Identifier: Apache-2.0
"""Fault rules: the table of faults a simulated pod manager can have, and their parser.

A rule is words with colons between them: ``status:503:/redfish/v1/Systems*:2``. What a rule
applies to is a path, where ``*`` stands for anything, with a method and a colon before it if it
is about one method: ``drop-reply:POST:/redfish/v1/Systems``. A path with ``?`` is compared with
the query too. ``@ID`` at the end confines a rule to one of several pod managers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from valence_sched.errors import UnknownName, UsageError

METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE")
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A kind of fault: its name, what follows the name, and what happens."""

    name: str
    words: str
    help: str


#: ``WHERE`` is [METHOD:]PATH; what stands in brackets may be left out.
RULES = (
    FaultRule("refuse", "", "its port takes no connection"),
    FaultRule("hang", "WHERE", "no answer ever comes"),
    FaultRule("delay", "MS:WHERE", "the answer comes so many milliseconds later"),
    FaultRule("status", "CODE:WHERE[:TIMES]", "this status with a Redfish error, nothing is done"),
    FaultRule("busy", "S:WHERE[:TIMES]", "503 and S seconds in Retry-After, nothing is done"),
    FaultRule("malformed", "WHERE", "the body ends in its middle"),
    FaultRule("html", "WHERE", "a page of HTML with status 200, nothing is done"),
    FaultRule("huge", "WHERE", "a body that does not end before 1 GB"),
    FaultRule("deep", "WHERE", "JSON nested 100,000 deep"),
    FaultRule("drop-reply", "WHERE", "all is done, then the connection is cut"),
    FaultRule("cut-body", "WHERE", "half of the body is sent, then the connection is cut"),
    FaultRule("cut-after", "N", "after N requests every connection is cut unanswered"),
    FaultRule("lie", "WHERE", "status 200 with an error in the body, nothing is done"),
    FaultRule("die-after", "N", "after N writes every connection is cut unanswered"),
    FaultRule("closed-root", "", "the service root, too, needs a login"),
    FaultRule("slash-root", "", "the root answers only with a slash at its end"),
    FaultRule("bare-root", "", "the root answers only without a slash at its end"),
    FaultRule("older-root", "", "the root has its entries below Links"),
    FaultRule("older-collections", "", "collections have their members below Links"),
    FaultRule("no-members", "WHERE", "a collection is sent without its members"),
    FaultRule("short-links", "", "links lack the path of the document they stand in"),
    FaultRule("session-basic", "", "making a session, too, needs basic authentication"),
    FaultRule("no-uuid", "", "the service root tells no UUID"),
    FaultRule("session-limit", "N", "no more than N sessions at a time"),
    FaultRule("no-expand", "", "$expand is neither offered nor known (501)"),
    FaultRule("expand-404", "", "$expand is offered, and answers 404"),
    FaultRule("expand-ignored", "", "$expand is offered, and does nothing"),
    FaultRule("expand-drops", "", "$expand leaves Id and Name out of every expanded member"),
    FaultRule("page-missing", "N", "page N of every collection answers 404 (see --page-size)"),
    FaultRule("foreign-link", "", "the list of blocks links one on another host"),
    FaultRule("dangle", "", "the list of blocks links one that is not there"),
    FaultRule("list-twice", "", "blocks list each device again, without a common link or name"),
    FaultRule("physical-volumes", "", "the physical volume of each storage pool is listed, too"),
    FaultRule("no-sizes", "", "only what memory domains and storage pools hold tells their size"),
    FaultRule("no-limits", "", "no capability and no limit is stated"),
    FaultRule("join", "", "a composed system has two compute blocks, and no limit is stated"),
    FaultRule("omit", "PROPERTY", "the property is missing in every document"),
    FaultRule("null", "PROPERTY", "the property is null in every document"),
    FaultRule("async", "", "every composition answers 202 with a task monitor"),
    FaultRule("task-exception", "", "every task ends in Exception, nothing is composed"),
    FaultRule("empty-create", "", "composing answers 201 and composes nothing"),
    FaultRule("stores", "", "composing stores a system as it was sent, and nothing else"),
    FaultRule("double-book", "", "a busy block is composed again"),
    FaultRule("steal", "BLOCK", "somebody else takes the block just before the next composition"),
    FaultRule("failed-node", "", "what is composed comes out as failed"),
    FaultRule("ghost", "", "deleting a node answers 204, and the node stays"),
    FaultRule("patch-replaces", "", "PATCH replaces a nested object as a whole"),
    FaultRule("if-match", "", "PATCH and DELETE without If-Match answer 428"),
    FaultRule("stale-tags", "", "PATCH and DELETE with an ETag in If-Match answer 412"),
    FaultRule("body", "KIND:WHERE", "all is done, the answer is text, a number, a list or object"),
    FaultRule("own-names", "", "a composed node has a name and a URI of its own"),
    FaultRule("uri-names", "", "a composed node keeps its name only in its URI"),
    FaultRule("no-location", "", "composing answers 201 and nothing more"),
    FaultRule("stays-unused", "BLOCK", "a block (* in it is anything) always says Unused"),
    FaultRule("equal-device", "", "an equal block is composed in place of one that was named"),
    FaultRule("short-amounts", "", "a memory chunk or volume comes out at half its size"),
    FaultRule("no-events", "", "the event service offers no stream and no subscriptions"),
    FaultRule("no-stream", "", "the event service takes subscriptions, and offers no stream"),
    FaultRule("stream-cut", "N", "the event stream is cut after N events, with 0 at once"),
    FaultRule("stream-storm", "N", "the event stream sends each event N times"),
    FaultRule("stream-endless", "", "the event stream sends one line without an end"),
    FaultRule("stream-redirect", "", "the event stream is redirected to another host"),
    FaultRule("stream-older", "", "events are those of older services: types, origins as text"),
    FaultRule("odd-actions", "", "the actions of a rack's nodes begin with other words"),
)

#: What a body may be in place of a document.
KINDS = ("text", "number", "list", "object")

_BY_NAME = {rule.name: rule for rule in RULES}


@dataclass(slots=True)
class Fault:
    """One rule as it was given; ``times`` is how often it still applies."""

    name: str
    number: int = 0
    method: str = ""
    path: str = ""
    times: int = _MOST
    podm: str = ""
    kind: str = ""

    def hits(self, method: str, path: str, path_qs: str) -> bool:
        """Return whether a request is one that the fault is about, and it still applies."""
        if self.times <= 0 or (self.method and method != self.method):
            return False
        target = path_qs if "?" in self.path else path.rstrip("/") or "/"
        return _pattern(self.path).match(target) is not None


class Faults:
    """The faults of one pod manager."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)

    def __contains__(self, name: str) -> bool:
        return any(fault.name == name and fault.times > 0 for fault in self._faults)

    def number(self, name: str) -> int | None:
        """Return the number a rule was given, None when the rule was not given."""
        return next((fault.number for fault in self._faults if fault.name == name), None)

    def paths(self, name: str) -> list[str]:
        """Return the paths, or blocks, that the rules of this name are about."""
        return [fault.path for fault in self._faults if fault.name == name]

    def take(self, name: str, method: str, path: str, path_qs: str) -> Fault | None:
        """Return the fault of this name that a request meets; it is used up by one."""
        for fault in self._faults:
            if fault.name == name and fault.hits(method, path, path_qs):
                fault.times -= 1
                return fault
        return None

    def once(self, name: str) -> Iterator[str]:
        """Yield the path of every fault of this name that was not yet used, and use it up."""
        for fault in self._faults:
            if fault.name == name and fault.times > 0:
                fault.times = 0
                yield fault.path


def faults_of(rules: Sequence[str], podms: Sequence[str]) -> dict[str, Faults]:
    """Return the faults that rules give each pod manager; UnknownName or UsageError of a rule."""
    every = [_fault(rule, podms) for rule in rules]
    # each pod manager has a fault of its own, since it counts
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
    words = rest.split(":") if rest else []
    fault = Fault(name, podm=podm)
    try:
        _read(fault, rule.words, words)
    except ValueError as error:
        form = f"{name}:{rule.words}" if rule.words else name
        raise UsageError(f"--fail {text}: {error}, expected {form}") from None
    return fault


def _read(fault: Fault, form: str, words: list[str]) -> None:
    for part in form.removesuffix("[:TIMES]").split(":") if form else []:
        if part in ("N", "S", "MS", "CODE"):
            fault.number = _number(words, 599 if part == "CODE" else _MOST)
            if part == "CODE" and fault.number < 200:
                raise ValueError(f"{fault.number} is no status")
            if fault.name == "page-missing" and not fault.number:
                raise ValueError("pages count from 1")
        elif part == "KIND":
            fault.kind = words.pop(0) if words else ""
            if fault.kind not in KINDS:
                raise ValueError(f"found {fault.kind!r} for a kind of body")
        elif part == "WHERE":
            if words and words[0] in METHODS:
                fault.method = words.pop(0)
            fault.path = _path(words)
        else:
            fault.path = words.pop(0) if words else ""
            if not fault.path:
                raise ValueError(f"found no {part.lower()}")
    if words and form.endswith("[:TIMES]"):
        fault.times = _number(words, _MOST)
        if not fault.times:
            raise ValueError("found 0 times, which is never")
    if words:
        raise ValueError(f"found {words[0]!r} at the end")


def _number(words: list[str], most: int) -> int:
    text = words.pop(0) if words else ""
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > most:
        raise ValueError(f"found {text!r} for a number")
    return int(text)


def _path(words: list[str]) -> str:
    path = words.pop(0) if words else ""
    if not path.startswith(("/", "*")):
        raise ValueError(f"found {path!r} for a path")
    return path if path == "/" else path.rstrip("/")


def _pattern(path: str) -> re.Pattern[str]:
    first, *others = map(re.escape, path.split("*"))
    between = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(rf"{first}{between}{'.*' * bool(others)}{''.join(others[-1:])}\Z", re.DOTALL)
