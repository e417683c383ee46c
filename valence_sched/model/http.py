# SPDX-License-Identifier: Apache-2.0
"""HTTP between services: errors as documents of RFC 9457, headers, foreign texts, and TLS."""

import contextlib
import itertools
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from valence_sched import errors
from valence_sched.errors import SchedulerError, ServiceError, UsageError, one_line, plain_reason

if TYPE_CHECKING:
    import ssl

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:valence-sched:error:"
#: Phrases about a text of another service, which operators see and tenants do not.
ANSWER, REDIRECT = "an answer of '{}'", "a redirect to '{}'"
CALLED, SERVER = " (called '{}')", ", of server '{}'"
#: The words that tenants see in their place.
_HIDDEN = {ANSWER: "an answer of another kind", REDIRECT: "a redirect to another host"}
_HIDDEN |= {CALLED: "", SERVER: ""}
MOST_FOREIGN = 60  # characters shown of one text of another service
#: The errors of a library that reads an answer of another form than its protocol has.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
_UNSENDABLE = re.compile(r"[\r\n\0]|[^\0-\xff]")
ROUTE_HEADER = "X-Podm-Scheduler-Route"
DEADLINE_HEADER = "X-Podm-Scheduler-Deadline"
MOST_DEADLINE_S = 600.0
MOST_HOPS = 16  # levels of zones below the zone that gets the request first
#: The members of an error that another service may set, by the type of their default.
_MEMBERS: Mapping[type, Any] = {
    bool: bool,
    float: Annotated[float, Meta(ge=0, le=86400)],
    str: Annotated[str, Meta(max_length=1 << 13, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z")],
}
MOST_MEMBERS = 32
SERVICE_HINT = "is it a scheduler's service?"
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_ROUTE = re.compile(r"[\w-]{1,64}(?:,[\w-]{1,64}){0,31}", re.ASCII)

ROUTE: ContextVar[tuple[str, ...]] = ContextVar("ROUTE", default=())  # zones passed before this one
#: The seconds within which this zone, or a zone below it, must answer; None: no limit.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as in RFC 9457, with the ``code`` and ``exit_code`` of the library.

    ``members`` are the other attributes of the error.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    exit_code: int = 1
    request_id: str = ""
    members: dict[str, Any] = {}


def problem_of(error: SchedulerError, request_id: str = "") -> Problem:
    """Return the document of an error, with its public text."""
    plain = (str, int, float, bool)
    members = {name: value for name, value in vars(error).items() if isinstance(value, plain)}
    return Problem(
        type=f"{TYPE}{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        detail=one_line(error.public_text),
        code=error.code,
        exit_code=error.exit_code,
        request_id=request_id,
        members=members,
    )


def http_problem(status: int, title: str, detail: str, request_id: str = "") -> Problem:
    """Return the document of an HTTP error, such as an unknown path."""
    code, text = f"http_{status}", one_line(detail)
    kind = f"{TYPE}{code}"
    return Problem(
        type=kind, title=title, status=status, detail=text, code=code, request_id=request_id
    )


def error_of(problem: Problem) -> SchedulerError:
    """Return the error of a document, of the same class and text.

    Of its members, it has those that its class may have: no other type, method or status.
    """
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    known = {one.code: one for one in classes if issubclass(one, SchedulerError)}
    kind = known.get(problem.code, ServiceError)
    error = kind.__new__(kind)
    error.args = (one_line(problem.detail),)
    for name, value in itertools.islice(problem.members.items(), MOST_MEMBERS):
        is_public = name.isidentifier() and not name.startswith("_")
        is_own = name not in vars(SchedulerError)
        expected = _MEMBERS.get(type(getattr(kind, name, "")))
        if is_public and is_own and expected is not None:
            with contextlib.suppress(msgspec.ValidationError):
                error.__dict__[name] = msgspec.convert(value, expected)
    return error


def problem_error(
    content: bytes, status: int, url: str, hint: str = SERVICE_HINT
) -> SchedulerError:
    """Return the error of an answer; ServiceError with a hint if it is not an error document."""
    try:
        problem = msgspec.json.decode(content, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = f"HTTP {status} without an error document"
        return ServiceError(f"{url}: {found}: {hint}")
    return error_of(problem)


def foreign_phrase(phrase: str, text: str) -> str:
    """Return a phrase, such as ``ANSWER``, about a text of another service."""
    return phrase.format(" ".join(text.split()).replace("'", "`")[:MOST_FOREIGN])


def without_foreign_texts(message: str) -> str:
    """Return a message without the texts of other services; it may end within such a text."""
    if "'" in message:
        for phrase, words in _HIDDEN.items():
            start, end = map(re.escape, phrase.split("{}"))
            message = re.sub(rf"{start}[^']*(?:{end}|$)", words, message)
    return message


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return the problem of an invalid header, without its value, which may be secret."""
    if not _UNSENDABLE.search("".join(headers.values())):
        return None
    found = ((name, _UNSENDABLE.search(value)) for name, value in headers.items())
    name, character = next((name, match[0]) for name, match in found if match)
    what = "a character beyond Latin-1" if character > "\xff" else "a line break or NUL"
    return f"header {name}: found {what}, expected one line of Latin-1"


def parse_deadline(text: str | None) -> float | None:
    """Return the seconds in a header; ValueError if they are invalid."""
    if not text:
        return None
    if not _SECONDS.fullmatch(text) or not 0.0 < float(text) <= MOST_DEADLINE_S:
        raise ValueError(f"{DEADLINE_HEADER}: expected seconds, at most {MOST_DEADLINE_S:.0f}")
    return float(text)


def parse_route(text: str | None) -> tuple[str, ...]:
    """Return the zone ids in a header; ValueError if they are invalid."""
    if not text:
        return ()
    if not _ROUTE.fullmatch(text):
        raise ValueError(f"{ROUTE_HEADER}: expected up to 32 ids of zones, comma-separated")
    return tuple(text.split(","))


#: The environment variables of trusted authorities, in order of precedence.
AUTHORITY_VARIABLES = ("OS_CACERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_AUTHORITY = "give the file of its authority with {cacert}"
_WEAK = "its certificate is too weak: use RSA with 2048 bits or more, and SHA-256"
#: The hint for a certificate, by the error code of OpenSSL; else its authority is unknown.
_CERTIFICATE_HINTS = {
    9: "check the clocks of both hosts",
    10: "renew the certificate, and check the clock here",
    19: _AUTHORITY + ", or that of a proxy on the way",
    23: "it was revoked: renew the certificate",
    **dict.fromkeys((62, 64), "use a host in the URL that the certificate names"),
    **dict.fromkeys((66, 67, 68), _WEAK),
}
_CLIENT = "it demands a client certificate: give one with {cert}"
_REFUSED = "it refuses the client certificate: check which authorities it accepts, and {cert}"
_VERSION = "it does not support TLS 1.2 or later: update its firmware"
_PLAIN = "is it HTTP without TLS?"
#: The hint for a failed handshake, by words of OpenSSL, in order of precedence.
_FAILURE_HINTS = {
    "alert certificate required": _CLIENT,
    "unrecognized name": "it has no certificate for this name (SNI): use its own name in the URL",
    "protocol version|unsupported protocol|wrong ssl version|no protocols available": _VERSION,
    "legacy renegotiation": "it renegotiates TLS in an unsafe way: update its firmware",
    "too small": "its key is too weak: use RSA with 2048 bits or more",
    "too weak": _WEAK,
    "insufficient security": "no common cipher is strong enough for it",
    "alert handshake failure": "no cipher or name in common, or " + _CLIENT,
    "no shared cipher": "no cipher in common: update its firmware",
    "alert (unknown ca|access denied|decrypt error|(bad|unsupported) certificate)": _REFUSED,
    "alert certificate (expired|revoked|unknown)": _REFUSED,
    "wrong version number|http request|packet length too long|record layer failure": _PLAIN,
}
_OPENSSL = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")


class ClientCertificate(NamedTuple):
    """The files of a client certificate and its key; one file may contain both."""

    cert: str
    key: str | None = None

    def load(self, context: "ssl.SSLContext") -> None:
        """Load the certificate into a context; ValueError if its files are invalid."""
        import ssl  # slow, and only for TLS

        name = self.key or self.cert
        try:
            context.load_cert_chain(self.cert, self.key, password=_refuse_pass_phrase)
        except ssl.SSLError as error:
            reason, what = plain_text(error), "a key of another certificate"
            if "mismatch" not in reason:
                what = f"no certificate and key in PEM ({reason})"
            raise ValueError(f"{self.cert!r} and {name!r}: found {what}") from None
        except OSError as error:
            raise ValueError(f"{self.cert!r} and {name!r}: {plain_reason(error)}") from None


def _refuse_pass_phrase() -> str:
    raise ValueError("the key has a pass phrase, which is not supported: store it without one")


def client_certificate(cert: str | None, key: str | None) -> ClientCertificate | None:
    """Return the client certificate of these files, if any."""
    return None if cert is None else ClientCertificate(cert, key)


def file_problem(cert: str | None, key: str | None) -> str | None:
    """Return the problem of the names of these files, None if they are valid."""
    if key is not None and cert is None:
        return "a key without a certificate"
    for name in (cert, key):
        if name is not None and ("-----BEGIN" in name or "\n" in name):
            return "a certificate or a key, expected the file that holds it"
    return None


def default_authorities(environ: Mapping[str, str]) -> str | None:
    """Return the file or folder of trusted authorities, if any; UsageError if it does not exist."""
    for name in AUTHORITY_VARIABLES:
        if value := environ.get(name):
            if not os.path.exists(value):
                hint = "set it to the file of the trusted authorities, or unset it"
                raise UsageError(f"{name}: {value!r}: no such file: {hint}")
            return value
    import ssl  # slow, and only for TLS

    paths = ssl.get_default_verify_paths()
    for store in (paths.openssl_cafile, paths.openssl_capath):
        if os.path.isfile(store) or (os.path.isdir(store) and os.listdir(store)):
            return store
    return None


def plain_text(error: BaseException) -> str:
    """Return the text of an error without the prefix and suffix of libraries."""
    text, verify = plain_reason(error), getattr(error, "verify_message", None)
    message = str(verify or text.rpartition("object at 0x")[2] or text)
    return _OPENSSL.sub("", message.lower()).removesuffix(".")


def failure_hint(error: BaseException, *, cacert: str, cert: str) -> str:
    """Return the hint for a failure of TLS; it names the options of the certificate files."""
    code = getattr(error, "verify_code", 0)
    reason = plain_text(error)
    found = next((hint for words, hint in _FAILURE_HINTS.items() if re.search(words, reason)), None)
    if code or found is None:
        found = _CERTIFICATE_HINTS.get(code, _AUTHORITY)
    return found.format(cacert=cacert, cert=cert)
