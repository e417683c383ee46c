# SPDX-License-Identifier: Apache-2.0
"""Drain: the command or the URL of a site that drains a node before blocks are detached from it."""

from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.registration import PasswordReference

LEAST_DRAIN_S, MOST_DRAIN_S = 1, 3600


class DrainSettings(Noun, frozen=True, kw_only=True):
    """The hook that must drain a node within ``deadline_s`` before blocks are detached from it.

    ``command`` is a program with its arguments; no shell is involved. ``url`` receives a POST,
    which the key of ``key`` signs.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    key: PasswordReference | None = None
    deadline_s: Annotated[float, Meta(ge=LEAST_DRAIN_S, le=MOST_DRAIN_S)] = 60.0


class DrainBody(Struct, frozen=True, kw_only=True):
    """The message to a hook: the node, and the URIs of the blocks that it loses.

    ``id`` is the same in each attempt of a change, and another one after the node was changed.
    """

    id: str
    node: str
    podm: str
    uri: str
    owner: str | None
    flavor: str | None
    blocks: tuple[str, ...]


class DrainAnswer(Struct, frozen=True):
    """The answer of a URL; ``reason`` explains a refusal."""

    drained: bool
    reason: str = ""


def check_drain(settings: DrainSettings, file: str, path: str = "$") -> None:
    """Raise InputError unless there is exactly one valid hook, and a key only for a URL."""
    command, url, key = settings.command, settings.url, settings.key
    if bool(command) == (url is not None):
        found = "both" if command else "neither command nor url"
        raise InputError(file, path, found, "either command or url")
    if command and (not command[0].strip() or "\0" in "".join(command)):
        expected = "a list of a program and its arguments"
        raise InputError(file, f"{path}.command", "an invalid command", expected)
    if url is not None and not _is_url(url):
        expected = "http://HOST or https://HOST, without a user"
        raise InputError(file, f"{path}.url", "an invalid URL", expected)
    if key is not None and url is None:
        raise InputError(file, path, "a key without a url", "the url whose requests it signs")
    if key is not None:
        key.check_source(file, f"{path}.key")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usual = parts.port != 0 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return usual and text.isprintable() and " " not in text and "@" not in parts.netloc
