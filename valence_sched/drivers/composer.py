# SPDX-License-Identifier: Apache-2.0
"""Composer: the protocol of composing, reading back and removing nodes on a pod manager."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from valence_sched.drivers.document_shape import check_content
from valence_sched.drivers.fields import NO_NOTES, Json, Resource, objects
from valence_sched.drivers.http.exchange import BUSY_STATUSES, GATEWAY_STATUSES, GONE, Patience
from valence_sched.drivers.links import LinkedDocuments, joined_path, link_paths, whole_collection
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant
from valence_sched.model.http import REDIRECT, foreign_phrase

R = TypeVar("R", bound=Resource)
#: The HTTP status if the ETag of a write is outdated, and if a required ETag is missing.
PRECONDITION_FAILED, PRECONDITION_REQUIRED = 412, 428
CONFLICT, INSUFFICIENT_STORAGE = 409, 507
#: Statuses of a write that is only redirected; a write that is answered with 303 was done.
REDIRECTS = (301, 302, 307, 308)
Uris = Sequence[str]  # of blocks
#: Called with each state of a node, to show progress.
Watch = Callable[[str], None]
MAX_MESSAGES = 5
#: Message keys that report success; an error body may consist of these alone.
_SUCCESS_KEYS = ("success", "created", "accepteventnotification")
#: Message keys of a lack of room, of the base registry.
_FULL_KEYS = {"ResourceExhaustion", "CreateLimitReachedForResource", "InsufficientStorage"}
_FAILED_TASK_STATES = ("Exception", "Killed", "Cancelled", "Interrupted")
ACCEPTED = 202
RUNNING_TASK_STATES = frozenset(
    ["New", "Starting", "Running", "Pending", "Stopping", "Cancelling", "Service", "Suspended"]
)


class Reply(NamedTuple):
    """The answer to one HTTP request; ``text`` is a body that is not a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Json | None
    text: str = ""


class Session(Protocol):
    """A connection to one pod manager; every verb raises PodmError if it gets no reply.

    Each write is sent once. A service with ETags refuses to change or delete a document that has
    changed since the last read.
    """

    def get(self, uri: str) -> Reply: ...
    def post(self, uri: str, body: Json) -> Reply: ...
    def patch(self, uri: str, body: Json) -> Reply: ...
    def delete(self, uri: str) -> Reply: ...


class Change(NamedTuple):
    """The blocks of a node after a change, None if they could not be read back.

    ``reason`` names a refusal, a loss, or the cause of a failed reading. ``works``: the
    pod manager may still change the node. ``conflicts``: another client changed the node or holds
    a block. ``lost`` are blocks that the node had before a write and lacks after it, although the
    change does not name them. ``is_full``: the node has no slot or port for a block.
    """

    blocks: tuple[str, ...] | None
    reason: str = ""
    works: bool = False
    conflicts: bool = False
    lost: tuple[str, ...] = ()
    is_full: bool = False

    @property
    def is_known(self) -> bool:
        return self.blocks is not None


class AmountChange(NamedTuple):
    """The existing amounts of a change, None if they are unknown; fields as of :class:`Change`."""

    amounts: tuple[Grant, ...] | None
    reason: str = ""
    works: bool = False
    conflicts: bool = False

    @property
    def is_known(self) -> bool:
        return self.amounts is not None


class ComposerReads(Protocol):
    """The read-only verbs of one pod manager."""

    def refusal(self, request: CompositionRequest) -> str | None:
        """Return the reason why the pod manager can never compose this request, else None."""

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        """Return a line with the present state for each block that is no longer free."""

    def previews(self) -> bool:
        """Return whether the pod manager itself offers a preview; PodmError if unreadable."""

    def preview(self, request: CompositionRequest) -> str | None:
        """Return the reason why no node can be composed now, else None; PodmError if unknown."""

    def change_refusal(self, node: str, attach: Uris, detach: Uris) -> str | None:
        """Return the reason why a change of a node would fail, as far as readings show, else None.

        PodmError if the node is missing or unreadable.
        """

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        """Read a node back by its URI or, without a URI, by its name and blocks."""

    def is_on(self, node: str) -> bool | None:
        """Return whether a node is powered on, None if its pod manager does not report it."""

    def node_blocks(self, node: str) -> Sequence[str] | None:
        """Return the present blocks of a node, None if it is gone; PodmError if unreadable."""

    def is_hot_removable(self, block: str) -> bool:
        """Return whether the pod manager declares each device of a block removable while it runs.

        ``HotPluggable`` of the slot and ``ReadyToRemove`` of the device declare it.
        """


class Composer(ComposerReads, Protocol):
    """Composes on one pod manager; reads back after each write: an HTTP status proves nothing."""

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve the blocks if the service supports it; return whether they are reserved.

        Raises ClaimLost if another client has reserved a block, and PodmError if the pod manager
        refuses or the state of a block cannot be read.
        """

    def unreserve(self, request: CompositionRequest) -> None:
        """Undo a :meth:`reserve`, even of another process; PodmError if a block stays reserved."""

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Compose the node, wait for it, and read it back."""

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """Decompose a node and read it back: ``absent`` if the node and its parts are gone.

        If the URI now belongs to another node, that node is not changed. With an empty ``node``,
        only the memory chunks and volumes of the request are deleted.
        """

    def change(self, node: str, attach: Uris, detach: Uris, watch: Watch) -> Change:
        """Attach blocks to a node and detach others, and read all of them back by the node.

        Other blocks of the node stay, also those of other clients. PodmError only before the
        first write: the node does not exist or cannot be read.
        """

    def set_power(self, node: str, on: bool, watch: Watch) -> None:
        """Start a node, or shut it down, and wait; PodmError if it is not so in the end."""


class AmountReads(Protocol):
    """The read-only verbs for the memory chunks and volumes of existing nodes."""

    def amounts_refusal(self, request: CompositionRequest, node: str) -> str | None:
        """Return the reason why amounts of a request would not be attached to a node, else None."""

    def read_amounts(
        self, request: CompositionRequest, node: str, *, new: bool = False
    ) -> AmountChange:
        """Return the existing memory chunks and volumes of a request for a node.

        These are its ``amounts``, which its ``grants`` provided, or with ``new`` those of its
        grants besides its amounts. The reason names what is missing or not connected. PodmError if
        they are unreadable.
        """


@runtime_checkable
class AmountChanger(AmountReads, Protocol):
    """A composer that changes the memory chunks and volumes of existing nodes."""

    def attach_amounts(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        """Create the amounts of the grants of a request, and connect them to an existing node.

        If one fails, all are deleted again: the result has those that remain. PodmError only before
        the first write.
        """

    def detach_amounts(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        """Disconnect the amounts of a request from a node, and delete them.

        If nothing can be deleted, all are connected again: the result has those that remain.
        PodmError only before the first write.
        """


def amount_changer(composer: object) -> AmountChanger:
    """Return a composer that changes amounts; PodmError if it does not."""
    if isinstance(composer, AmountChanger):
        return composer
    raise PodmError("the driver cannot change the memory or storage of an existing node")


def get_document(session: Session, uri: str | None) -> Json | None:
    """Return a document, None if it no longer exists; PodmError if it is unreadable."""
    if not uri:
        return None
    reply = session.get(uri)
    if reply.status in GONE:
        return None
    if reply.status != 200 or reply.body is None:
        raise PodmError(f"{uri}: {_describe(reply)}, expected a document")
    try:
        return check_content(reply.body, uri)
    except InputError as error:
        raise PodmError(str(error)) from None


def read_resource(session: Session, type_: type[R], uri: str) -> R:
    """Return a resource, without any property if it no longer exists; PodmError if unreadable."""
    return type_(uri, get_document(session, uri) or {}, NO_NOTES)


def live_documents(session: Session) -> LinkedDocuments:
    """Return the documents of a service, each read once; errors as for :func:`get_document`."""
    return LinkedDocuments(functools.partial(get_document, session), NO_NOTES)


def member_uris(session: Session, collection: str | None) -> Iterator[str]:
    """Yield the URIs of all members of a collection; PodmError for an unreadable or missing page.

    A missing collection has no members.
    """
    for page in whole_collection(functools.partial(get_document, session), collection):
        yield from link_paths(page.members)


def unread_result(error: PodmError, node: str | None = None) -> CompositionResult:
    return CompositionResult(state="unknown", node=node, reason=f"could not be read back: {error}")


def _describe(reply: Reply) -> str:
    return one_line(f"HTTP {reply.status}" + (f": {reply.text}" if reply.text else ""), 200)


def refusal(reply: Reply) -> str | None:
    """Return the refusal in the status or body of a reply, None without a refusal."""
    bodies = (reply.body, *_stanza_responses(reply.body))
    messages = [text for body in bodies for text in _messages(body)]
    task = reply.body or {}
    state, inner = task.get("TaskState"), task.get("Messages")
    if not messages and state in _FAILED_TASK_STATES:
        texts = map(_message_text, inner if isinstance(inner, list) else [])
        messages = [f"the task ended in state {state}", *filter(None, texts)]
    if not messages and reply.status in REDIRECTS:
        messages = [foreign_phrase(REDIRECT, reply.headers.get("Location", ""))]
    if reply.status >= 400 or messages:
        words = "; ".join(messages[:MAX_MESSAGES]) or reply.text or task.get("message")
        words = words or "no reason given"
        return one_line(f"HTTP {reply.status}: {words}", 300)
    return None


def _stanza_responses(body: Any) -> tuple[Json, ...]:
    manifest = body.get("Manifest") if isinstance(body, dict) else None
    stanzas = manifest.get("Stanzas") if isinstance(manifest, dict) else []
    return objects([stanza.get("Response") for stanza in objects(stanzas or [])])


def _items(error: Any) -> list[Any]:
    """Return the messages of an error, the error itself the last."""
    if not isinstance(error, dict):
        return []
    extended = error.get("@Message.ExtendedInfo")
    return [*(extended if isinstance(extended, list) else [extended]), error]


def _messages(body: Any) -> list[str]:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return [str(error)] if error else []
    messages = [text for text in dict.fromkeys(map(_message_text, _items(error))) if text]
    # A general error only refers to its messages.
    is_general = "generalerror" in str(error.get("code", "")).casefold() or not error.get("message")
    return messages[:-1] if len(messages) > 1 and is_general else messages


def _message_text(item: Any) -> str:
    if not isinstance(item, dict) or (key := _key(item)).casefold() in _SUCCESS_KEYS:
        return ""
    return str(item.get("Message") or item.get("message") or key)


def _key(item: Any) -> str:
    """Return the key of a message, without its registry."""
    known = item if isinstance(item, dict) else {}
    return str(known.get("MessageId") or known.get("code") or "").rpartition(".")[2]


class SendResult(NamedTuple):
    """The outcome of a write: the node in its answer, and the reason of a refusal or loss.

    A ``lost`` write may still take effect: it got no answer, its task monitor is gone, or an answer
    reports success without a readable node. An ``unsent`` write has no effect. A write that
    ``goes_on`` was accepted, but its end is unknown. ``conflicts`` means that another client
    changed the resource or holds a part of it. ``status`` is the HTTP status of a refusal.
    ``is_full`` means that the refusal names a lack of room.
    """

    node: str | None = None
    reason: str = ""
    lost: bool = False
    unsent: bool = False
    goes_on: bool = False
    conflicts: bool = False
    status: int = 0
    is_full: bool = False

    @property
    def refused(self) -> bool:
        return bool(self.reason) and not (self.lost or self.goes_on or self.unsent)

    @property
    def succeeded(self) -> bool:
        return not (self.reason or self.unsent)


def write(
    session: Session,
    target: str,
    body: Json | None,
    patience: Patience,
    watch: Watch,
    is_undone: Callable[[], bool] = lambda: False,
    *,
    changes: bool = False,
) -> SendResult:
    """POST ``body`` to ``target``, or DELETE ``target`` if there is no body; wait for the task.

    If the write ``changes`` the target, the body is sent by PATCH.

    The write is sent again once if its ETag is refused, once if an ETag is required, and after each
    pause that a busy service requests. Before each retry, ``is_undone`` reads the node and must
    return True: the write had no effect.
    """

    def send() -> Reply:
        if body is None:
            return session.delete(target)
        return session.patch(target, body) if changes else session.post(target, body)

    try:
        reply, stale = send(), {PRECONDITION_FAILED, PRECONDITION_REQUIRED}
        while reply.status in stale or (
            reply.status in BUSY_STATUSES and patience.wait_retry_after(reply.headers)
        ):
            stale.discard(reply.status)
            watch("trying again")
            undone = False
            with contextlib.suppress(PodmError):  # the effect is read back later
                undone = is_undone()
            if not undone:
                break
            reply = send()
    except PodmError as error:
        sent = getattr(error, "sent", True)
        return SendResult(reason=f"no reply: {error}", lost=sent, unsent=not sent)
    watch("answered")
    last, goes_on = wait_for_task(session, target, reply, patience, watch)
    if goes_on:
        return SendResult(reason="the task did not end in time", goes_on=True)
    found = last.body or {}
    if reply.status == ACCEPTED and last.status in GONE:  # it may be deleted when the task ends
        return SendResult(reason=f"the task monitor is gone (HTTP {last.status})", lost=True)
    if why := refusal(last):
        conflicts = last.status in (CONFLICT, PRECONDITION_FAILED)
        items = objects(found.get("Messages") or [])
        keys = {_key(one) for one in (*_items(found.get("error")), *items)}
        is_full = last.status == INSUFFICIENT_STORAGE or not keys.isdisjoint(_FULL_KEYS)
        # without a document, the status may be that of the read, not that of the operation
        is_unknown = reply.status == ACCEPTED and last.body is None
        is_lost = is_unknown or last.status in GATEWAY_STATUSES
        sent = SendResult(reason=why, lost=is_lost, goes_on=is_unknown, conflicts=conflicts)
        return sent._replace(status=last.status, is_full=is_full)
    is_system = str(found.get("@odata.type", "")).startswith("#ComputerSystem.")
    stanzas = [response.get("@odata.id") for response in _stanza_responses(found)]
    own = found.get("@odata.id") if is_system else None
    named = (*stanzas, own, last.headers.get("Location"))
    if link := next((it for it in named if it and isinstance(it, str)), None):
        return SendResult(joined_path(target, link))
    return SendResult(reason=_describe(last), lost=True) if last.text else SendResult()


def wait_for_task(
    session: Session,
    target: str,
    reply: Reply,
    patience: Patience,
    watch: Watch = lambda _state: None,
) -> tuple[Reply, bool]:
    """Return the last reply, and whether the task still runs; ignore failed reads of the task."""
    if reply.status != ACCEPTED:
        return reply, False
    link = reply.headers.get("Location") or (reply.body or {}).get("@odata.id")
    monitor = joined_path(target, str(link)) if link else None
    while monitor and patience.pause(reply.headers):
        watch(str((reply.body or {}).get("TaskState") or "accepted").lower())
        try:
            found = session.get(monitor)
        except PodmError:
            continue
        if found.status in (*GATEWAY_STATUSES, *BUSY_STATUSES):
            continue
        reply = found
        state = str((reply.body or {}).get("TaskState"))
        if reply.status != ACCEPTED and state not in RUNNING_TASK_STATES:
            return reply, False
    return reply, True
