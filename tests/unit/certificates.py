# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests; each is its own authority."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

#: The names of a server on loopback, and of another host.
LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
LOCALHOST = x509.DNSName("localhost")
ELSEWHERE = x509.DNSName("other.example")
PEM = serialization.Encoding.PEM

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def server_context(
    folder: Path,
    name: x509.GeneralName,
    from_day: int = -1,
    to_day: int = 2,
    key: Key | None = None,
) -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a server, and the file in the folder that trusts it.

    The certificate is for a name, and is valid between these days from today.
    """
    trusted, secret = certificate_files(folder, name, from_day, to_day, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # a server may use weak keys
    context.load_cert_chain(trusted, secret)
    return context, trusted


def certificate_files(
    folder: Path,
    name: x509.GeneralName = LOOPBACK,
    from_day: int = -1,
    to_day: int = 2,
    key: Key | None = None,
    pass_phrase: bytes | None = None,
) -> tuple[str, str]:
    """Write a certificate and its key into a new folder; return the files."""
    folder.mkdir(exist_ok=True)
    key = key or ec.generate_private_key(ec.SECP256R1())
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
    seal = serialization.NoEncryption()
    if pass_phrase is not None:
        seal = serialization.BestAvailableEncryption(pass_phrase)
    trusted, secret = folder / "ca.pem", folder / "key.pem"
    trusted.write_bytes(certificate.public_bytes(PEM))
    secret.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, seal))
    return str(trusted), str(secret)
