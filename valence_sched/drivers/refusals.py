# SPDX-License-Identifier: Apache-2.0
"""The reason of a refusal, from the messages of an error body, as one line."""

from __future__ import annotations

from typing import Any

from valence_sched.drivers.composer import Reply
from valence_sched.drivers.fields import Json
from valence_sched.errors import one_line

MAX_MESSAGES = 5

#: Message keys that report success; an error body may hold nothing else.
_SUCCESS_KEYS = ("success", "created", "accepteventnotification")

_FAILED_TASK_STATES = ("Exception", "Killed", "Cancelled", "Interrupted")


def refusal(reply: Reply) -> str | None:
    """Return why a reply refuses, None when it does not: by its status or by its body.

    Some answer 200 with an error in the body, or in a stanza of it; some put success into an
    error body.
    """
    bodies = (reply.body, *stanza_responses(reply.body))
    messages = [text for body in bodies for text in _messages(body)] or _task_messages(reply.body)
    if reply.status >= 400 or messages:
        words = "; ".join(messages[:MAX_MESSAGES]) or reply.text or "no reason given"
        return one_line(f"HTTP {reply.status}: {words}", 300)
    return None


def stanza_responses(body: Any) -> list[Json]:
    """Return the responses to the stanzas of a manifest."""
    stanzas = ((body or {}).get("Manifest") or {}).get("Stanzas") if isinstance(body, dict) else []
    found = [stanza.get("Response") for stanza in stanzas or [] if isinstance(stanza, dict)]
    return [response for response in found if isinstance(response, dict)]


def _messages(body: Any) -> list[str]:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return [str(error)] if error else []
    extended = error.get("@Message.ExtendedInfo")
    inner = extended if isinstance(extended, list) else [extended]
    found = [_message_text(item) for item in [*inner, error] if isinstance(item, dict)]
    messages = [text for text in dict.fromkeys(found) if text]
    # A general error only says that there are messages.
    is_general = "generalerror" in str(error.get("code", "")).casefold() or not error.get("message")
    return messages[:-1] if len(messages) > 1 and is_general else messages


def _task_messages(body: Any) -> list[str]:
    """Return why a task ended without success; empty for one that did not, and for no task."""
    state = body.get("TaskState") if isinstance(body, dict) else None
    if state not in _FAILED_TASK_STATES:
        return []
    messages = body.get("Messages")
    inner = messages if isinstance(messages, list) else []
    texts = [text for item in inner if isinstance(item, dict) and (text := _message_text(item))]
    return [f"its task ended in {state}", *texts]


def _message_text(item: dict[str, Any]) -> str:
    key = str(item.get("MessageId") or item.get("code") or "").rpartition(".")[2]
    if key.casefold() in _SUCCESS_KEYS:
        return ""
    return str(item.get("Message") or item.get("message") or key)
