# SPDX-License-Identifier: Apache-2.0
"""TLS: trusted authorities, client certificates, and hints for failures."""

import os
import re
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from valence_sched.errors import UsageError

#: The environment variables of trusted authorities, in order of precedence.
AUTHORITY_VARIABLES = ("OS_CACERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_AUTHORITY = "give the file of its authority with {cacert}"
_HOST = "use a host in the URL that the certificate names"
_WEAK = "its certificate is too weak: use RSA with 2048 bits or more, and SHA-256"
#: The hint for a certificate, by the error code of OpenSSL; else its authority is unknown.
_CERTIFICATE_HINTS = {
    9: "check the clocks of both hosts",
    10: "renew the certificate, and check the clock here",
    19: _AUTHORITY + ", or that of a proxy on the way",
    23: "it was revoked: renew the certificate",
    **dict.fromkeys((62, 64), _HOST),
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
    "legacy renegotiation": "it renegotiates in a way that is not safe: update its firmware",
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
    """The files of a client certificate and of its key, which one file may hold."""

    cert: str
    key: str | None = None

    def load(self, context: ssl.SSLContext) -> None:
        """Load the certificate into a context; ValueError if its files are invalid."""
        name = self.key or self.cert
        try:
            context.load_cert_chain(self.cert, self.key, password=_refuse_pass_phrase)
        except ssl.SSLError as error:
            reason, what = plain_text(error), "a key of another certificate"
            if "mismatch" not in reason:
                what = f"no certificate and key in PEM ({reason})"
            raise ValueError(f"{self.cert!r} and {name!r}: found {what}") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ValueError(f"{self.cert!r} and {name!r}: {reason}") from None


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
    paths = ssl.get_default_verify_paths()
    for store in (paths.openssl_cafile, paths.openssl_capath):
        if os.path.isfile(store) or (os.path.isdir(store) and os.listdir(store)):
            return store
    return None


def plain_text(error: BaseException) -> str:
    """Return the text of an error without the prefix and suffix of libraries."""
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    verify = getattr(error, "verify_message", None)
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


def is_about_certificate(error: object) -> bool:
    """Return whether the verification of the server's certificate failed."""
    return isinstance(error, ssl.SSLCertVerificationError)
