# SPDX-License-Identifier: Apache-2.0
"""The addresses of pod managers: URL, identity, and the URL for their events.

An identity is ``uuid:…`` with the UUID of the service, else ``address:…`` with the address of its
URL. Equal identities do not suffice: two readings must also have a block in common.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import uuid
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from valence_sched.errors import InputError, one_line

SERVICE_ROOT = "/redfish/v1"
EndpointKey = tuple[str, str, int | None, str]
UUID_KIND, ADDRESS_KIND = "uuid:", "address:"
_NO_UUIDS = (uuid.UUID(int=0), uuid.UUID(int=2**128 - 1))  # RFC 9562: nil and max
EVENTS_PATH = "/v1/events/"
LEAST_SECRET = 16  # characters
MOST_TOKEN = 8192  # characters
_MAC = 43  # characters of a digest of 32 bytes
_EVENTS_URL = re.compile(r"https?://[^@/?#\s]+(?:/[^@?#\s]*)?")


def url_problem(url: str) -> str | None:
    """Return the problem of the URL of a pod manager, without a password in it."""
    if problem := service_url_problem(url):
        return problem
    path = urlsplit(url).path
    if path.rstrip("/") in ("", "/redfish", SERVICE_ROOT):
        return None
    reason = "every link of a pod manager begins at the root of its host"
    hint = f"{reason}, so behind a proxy it needs a host or port of its own"
    return f"{url[:80]!r}, a URL with the path {path[:80]!r}: {hint}"


def service_url_problem(url: str) -> str | None:
    """Return the problem of the URL of a service, without a password in it."""
    if "@" in url:
        return "a URL with a user or password in it: set them with username and password"
    shown = one_line(repr(url[:80]))
    if not url.isprintable() or any(char.isspace() for char in url) or "\\" in url:
        return f"{shown}, a URL with invalid characters"
    try:
        parts = urlsplit(url)
        no_port = parts.port == 0 or parts.netloc.endswith(":")
    except ValueError:
        ipv6 = url.count(":") > 2 and "[" not in url
        hint = ": an IPv6 address has brackets, as in https://[fd00::7]:8443" if ipv6 else ""
        return f"{shown}, an invalid URL{hint}"
    if no_port:
        return f"{shown}, a URL with a colon and no port"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{shown}, which is not http://HOST or https://HOST"
    return f"{shown}, a URL with a query or fragment" if parts.query or parts.fragment else None


def is_http_url(text: str) -> bool:
    """Return whether a text is an http or https URL of a host, without a user."""
    try:
        parts = urlsplit(text)
        usual = parts.port != 0 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return usual and text.isprintable() and " " not in text and "@" not in parts.netloc


def strip_service_root(url: str) -> str:
    """Return a URL without the path of the service root."""
    bare = url.rstrip("/")
    return bare.removesuffix(SERVICE_ROOT).removesuffix("/redfish").rstrip("/") or url


def endpoint_key(url: str) -> EndpointKey:
    """Return a key that is equal for all URLs of one pod manager."""
    parts: SplitResult = urlsplit(strip_service_root(url))
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port, parts.path


def is_unencrypted(url: str) -> bool:
    """Return whether a URL is plain HTTP to another host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def uuid_identity(text: object) -> str | None:
    """Return the identity of a UUID in any spelling, None for other values."""
    try:
        found = uuid.UUID(text.strip()) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if found is None or found in _NO_UUIDS else f"{UUID_KIND}{found}"


def is_address(identity: str | None) -> bool:
    """Return whether an identity is an address."""
    return identity is not None and identity.startswith(ADDRESS_KIND)


def contradicts(known: str | None, found: str | None) -> bool:
    """Return whether two identities contradict; a UUID reported later is not a contradiction."""
    if known is None or found is None or known == found:
        return False
    return not (is_address(known) and not is_address(found))


def has_other_blocks(known: Collection[str], found: Collection[str]) -> bool:
    """Return whether a service has no block of its last reading."""
    return bool(known) and bool(found) and set(known).isdisjoint(found)


def conflict_text(name: str, identity: str, other: str) -> str:
    """Return the message about a service that is already registered under another name."""
    hint = "keep one name, and delete the other (podm delete); a clone needs a UUID of its own"
    return f"{name!r} is the same service as {other!r} (identity {identity}): {hint}"


def change_text(name: str, known: str, found: str) -> str:
    """Return the message about a pod manager at whose URL another service answers now."""
    now = "it has no block of its last reading" if known == found else f"is now {found}"
    before = f"{name!r} is another service than before: its identity was {known}"
    return f"{before} and {now}: check its URL, or accept it (podm unset {name} --identity)"


class EventAddress:
    """The base ``url`` of events; a token is the name of a pod manager, signed by ``secret``."""

    def __init__(self, url: str, secret: str) -> None:
        if not _EVENTS_URL.fullmatch(url):
            expected = "the http or https URL at which pod managers reach the service"
            raise InputError("reader: receiver: url", "", "an invalid URL", expected)
        if len(secret) < LEAST_SECRET:
            expected = f"at least {LEAST_SECRET} characters"
            raise InputError("reader: receiver: secret", "", "fewer characters", expected)
        self._prefix = url.rstrip("/") + EVENTS_PATH
        self._secret = secret.encode()

    def __repr__(self) -> str:
        return f"EventAddress({self._prefix!r})"

    def destination(self, podm: str) -> str:
        name = base64.urlsafe_b64encode(podm.encode()).decode().rstrip("=")
        return f"{self._prefix}{name}.{self._digest(name)}"

    def podm_of(self, token: str) -> str | None:
        """Return the pod manager of a token, None if it is invalid."""
        name, _, digest = token[:MOST_TOKEN].rpartition(".")
        if not hmac.compare_digest(digest.encode(), self._digest(name).encode()):
            return None
        try:
            return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, ValueError):
            return None

    def owns(self, destination: str) -> bool:
        return destination.startswith(self._prefix)

    def _digest(self, name: str) -> str:
        digest = hmac.digest(self._secret, b"events\0" + name.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode()[:_MAC]
