# SPDX-License-Identifier: Apache-2.0
"""Event address: the URL at which each pod manager sends its events, with a token of its own."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from valence_sched.errors import InputError

PATH = "/v1/events/"
#: Characters of the secret that tokens are made of, at least.
LEAST_SECRET = 16
#: Characters of a token, at most; names of pod managers have 1,024 bytes and more.
MOST_TOKEN = 8192
_MAC = 43  # characters of a digest of 32 bytes
_URL = re.compile(r"https?://[^@/?#\s]+(?:/[^@?#\s]*)?")


class EventAddress:
    """Where the processes of a service receive events: the base ``url`` that pod managers reach.

    The token of a pod manager is its name with a digest of it under ``secret``, which all of these
    processes have: each knows the sender without looking anything up.

    Raises:
        InputError: the URL is none, or has a password; the secret is short.
    """

    def __init__(self, url: str, secret: str) -> None:
        if not _URL.fullmatch(url):
            expected = "the http or https URL at which pod managers reach the service"
            raise InputError("reader: receiver: url", "", "no such URL", expected)
        if len(secret) < LEAST_SECRET:
            expected = f"at least {LEAST_SECRET} characters"
            raise InputError("reader: receiver: secret", "", "a short one", expected)
        self._prefix = url.rstrip("/") + PATH
        self._secret = secret.encode()

    def __repr__(self) -> str:
        return f"EventAddress({self._prefix!r})"

    def destination(self, podm: str) -> str:
        """Return the URL for the events of one pod manager; it is a secret of its own."""
        name = base64.urlsafe_b64encode(podm.encode()).decode().rstrip("=")
        return f"{self._prefix}{name}.{self._digest(name)}"

    def podm_of(self, token: str) -> str | None:
        """Return the pod manager that a token was given to, None for what is no token."""
        name, _, digest = token[:MOST_TOKEN].rpartition(".")
        if not hmac.compare_digest(digest.encode(), self._digest(name).encode()):
            return None
        try:
            return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, ValueError):
            return None

    def owns(self, destination: str) -> bool:
        """Return whether a URL is one of these, of whatever pod manager."""
        return destination.startswith(self._prefix)

    def _digest(self, name: str) -> str:
        digest = hmac.digest(self._secret, b"events\0" + name.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode()[:_MAC]
