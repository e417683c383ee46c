# SPDX-License-Identifier: Apache-2.0
"""Pod manager URLs: validated, normalised and compared."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

SERVICE_ROOT = "/redfish/v1"

EndpointKey = tuple[str, str, int | None, str]


def url_problem(url: str) -> str | None:
    """Return what is wrong with the URL of a pod manager, None if it is valid.

    A URL that may contain a password is not repeated.
    """
    if "@" in url:
        return "a URL with a user or password in it: say them with username and password"
    shown = repr(url[:80])
    if not url.isprintable() or any(char.isspace() for char in url) or "\\" in url:
        return f"{shown}, a URL with characters that no URL has"
    try:
        parts = urlsplit(url)
        no_port = parts.port == 0 or parts.netloc.endswith(":")
    except ValueError:
        ipv6 = url.count(":") > 2 and "[" not in url
        hint = ": an IPv6 address has brackets, as in https://[fd00::7]:8443" if ipv6 else ""
        return f"{shown}, which is no URL{hint}"
    if no_port:
        return f"{shown}, a URL without the port that it announces"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{shown}, which is not http://HOST or https://HOST"
    if parts.query or parts.fragment:
        return f"{shown}, a URL with a query or fragment"
    if parts.path.rstrip("/") not in ("", "/redfish", SERVICE_ROOT):
        return (
            f"{shown}, a URL with the path {parts.path[:80]!r}: every link of a pod manager begins "
            "at the root of its host, so behind a proxy it needs a host or port of its own"
        )
    return None


def strip_service_root(url: str) -> str:
    """Return a URL without the path of the service root, which every pod manager has."""
    bare = url.rstrip("/")
    return bare.removesuffix(SERVICE_ROOT).removesuffix("/redfish").rstrip("/") or url


def same_endpoint(url: str, other: str) -> bool:
    """Return whether two URLs are of the same pod manager."""
    return endpoint_key(url) == endpoint_key(other)


def endpoint_key(url: str) -> EndpointKey:
    """Return a key that is equal for all URLs of one pod manager."""
    parts: SplitResult = urlsplit(strip_service_root(url))
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port, parts.path


def is_unencrypted(url: str) -> bool:
    """Return whether others on the network can read the traffic: plain HTTP to another host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
