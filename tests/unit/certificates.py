# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, each its own authority."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: The names of a server on loopback, and of one elsewhere.
LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("other.example")


def server_context(
    folder: Path, name: x509.GeneralName, from_day: int = -1, to_day: int = 2
) -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a server, and the file in the folder that trusts it.

    The certificate is for a name, and valid between days from today.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "podm")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=from_day))
        .not_valid_after(now + dt.timedelta(days=to_day))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(pem, form, serialization.NoEncryption())
    trusted, both = folder / "ca.pem", folder / "both.pem"
    trusted.write_bytes(certificate.public_bytes(pem))
    both.write_bytes(certificate.public_bytes(pem) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context, str(trusted)
