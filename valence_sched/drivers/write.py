# SPDX-License-Identifier: Apache-2.0
"""Sends one write to a Redfish service, once, and waits for its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urljoin

from valence_sched.drivers.composer import (
    PRECONDITION_FAILED,
    PRECONDITION_REQUIRED,
    Reply,
    Session,
    Watch,
    describe_reply,
)
from valence_sched.drivers.http.retry import BUSY_STATUSES, GATEWAY_STATUSES, Patience
from valence_sched.drivers.links import link_path
from valence_sched.drivers.refusals import refusal, stanza_responses
from valence_sched.errors import PodmError

ACCEPTED = 202
#: States of a task that goes on.
RUNNING_TASK_STATES = ("New", "Starting", "Running", "Pending", "Stopping", "Cancelling",
                       "Service", "Suspended")  # fmt: skip


class SendResult(NamedTuple):
    """The outcome of a write.

    ``node`` is what it names, ``reason`` why it is refused or lost. It is ``lost`` when it may
    have had its effect, or have it yet, ``unsent`` when it cannot have had any; it ``goes_on``
    when it was accepted and did not end while there was patience. An answer of success that
    cannot be read and names nothing is lost: what it stands for is looked for.
    """

    node: str | None = None
    reason: str = ""
    lost: bool = False
    unsent: bool = False
    goes_on: bool = False

    @property
    def refused(self) -> bool:
        """Whether the answer came, and was no."""
        return bool(self.reason) and not (self.lost or self.goes_on or self.unsent)

    @property
    def succeeded(self) -> bool:
        """Whether the answer came, and was yes."""
        return not (self.reason or self.unsent)


def write(
    session: Session, target: str, send: Callable[[], Reply], patience: Patience, watch: Watch,
    is_undone: Callable[[], bool] = lambda: False,
) -> SendResult:  # fmt: skip
    """Send once to ``target``, and wait for the task of a reply that only accepts.

    It is sent again where it was refused by its ETag, or for want of one, once each, or until a
    time that the service names, and ``is_undone``, which reads anew, finds that nothing was done
    and it is still to be done.
    """
    try:
        reply = _send_until_taken(send, patience, watch, is_undone)
    except PodmError as error:
        sent = getattr(error, "sent", True)
        return SendResult(reason=f"no reply: {error}", lost=sent, unsent=not sent)
    watch("answered")
    last, goes_on = _wait_for_task(session, target, reply, patience, watch)
    if goes_on:
        return SendResult(reason="its task did not end in time", goes_on=True)
    if why := refusal(last):
        return SendResult(reason=why, lost=last.status in GATEWAY_STATUSES)
    if (node := node_uri_of(last, target)) or not last.text:
        return SendResult(node)
    return SendResult(reason=describe_reply(last), lost=True)


def _send_until_taken(
    send: Callable[[], Reply], patience: Patience, watch: Watch, is_undone: Callable[[], bool]
) -> Reply:
    reply, stale = send(), {PRECONDITION_FAILED, PRECONDITION_REQUIRED}
    while reply.status in stale or (
        reply.status in BUSY_STATUSES and patience.wait_as_told(reply.headers)
    ):
        stale.discard(reply.status)
        watch("trying again")
        try:
            if not is_undone():
                break
        except PodmError:  # what was done is read back later
            break
        reply = send()
    return reply


def node_uri_of(reply: Reply, target: str) -> str | None:
    """Return the URI of the system that a reply names, in its header or in a stanza.

    A relative link is relative to ``target``; the host of an absolute one is ignored.
    """
    body = reply.body or {}
    kind = str(body.get("@odata.type", ""))
    stanzas = [response.get("@odata.id") for response in stanza_responses(body)]
    own = body.get("@odata.id") if kind.startswith("#ComputerSystem.") else None
    for link in (*stanzas, own, reply.headers.get("Location")):
        if link and isinstance(link, str):
            return link_path(urljoin(target, link))
    return None


def _wait_for_task(
    session: Session, target: str, reply: Reply, patience: Patience, watch: Watch
) -> tuple[Reply, bool]:
    """Wait for a task; return the last reply, and whether the task still runs.

    A monitor that does not answer well for a while says nothing about its task.
    """
    if reply.status != ACCEPTED:
        return reply, False
    link = reply.headers.get("Location") or (reply.body or {}).get("@odata.id")
    monitor = link_path(urljoin(target, str(link))) if link else None
    while monitor and patience.pause(reply.headers):
        watch(str((reply.body or {}).get("TaskState") or "accepted").lower())
        try:
            found = session.get(monitor)
        except PodmError:
            continue
        if found.status in (*GATEWAY_STATUSES, *BUSY_STATUSES):
            continue
        reply = found
        state = (reply.body or {}).get("TaskState")
        if reply.status != ACCEPTED and state not in RUNNING_TASK_STATES:
            return reply, False
    return reply, True
