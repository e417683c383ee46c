# SPDX-License-Identifier: Apache-2.0
"""The base URL of a pod manager, and the proxies on the way to it."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

from valence_sched.drivers.links import ROOT
from valence_sched.errors import PodmError
from valence_sched.model.registration import Registration


def base_url(registration: Registration) -> str:
    """Return scheme, host and port of a pod manager.

    Raises:
        PodmError: its URL is none.
    """
    try:
        parts = urlsplit(registration.url)
        port = parts.port
    except ValueError as error:
        raise PodmError(f"{error} (expected https://host or https://host:port)") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise PodmError("found no such URL, expected https://host or https://host:port")
    if parts.path.rstrip("/") not in ("", "/redfish", ROOT):
        found = f"found the path {parts.path[:80]!r} in its URL"
        raise PodmError(f"{found}, expected https://host or https://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def proxies_to(url: str) -> dict[str, str]:
    """Return the proxies on the way to a URL; most sites have none, and need no library to know."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform not in ("darwin", "win32"):
        return {}
    from requests.utils import get_environ_proxies, select_proxy

    proxies: dict[str, str] = get_environ_proxies(url)
    return proxies if select_proxy(url, proxies) else {}
