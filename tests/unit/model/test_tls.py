# SPDX-License-Identifier: Apache-2.0
"""The default trusted authorities, and hints after a TLS failure."""

import ssl
import tempfile
from pathlib import Path
from unittest import TestCase, mock

from valence_sched.errors import UsageError
from valence_sched.model.http import AUTHORITY_VARIABLES, default_authorities, failure_hint


class TestAuthorities(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_the_first_variable_that_is_set_counts(self) -> None:
        files = [str(self.folder / name) for name in AUTHORITY_VARIABLES]
        for file in files:
            Path(file).touch()
        self.assertEqual(("OS_CACERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
                         AUTHORITY_VARIABLES)  # fmt: skip
        for first, file in enumerate(files):
            environ = dict(zip(AUTHORITY_VARIABLES[first:], files[first:], strict=True))
            unset = dict.fromkeys(AUTHORITY_VARIABLES[:first], "")
            self.assertEqual(file, default_authorities(environ))
            self.assertEqual(file, default_authorities(unset | environ))

    def test_a_variable_that_names_nothing_is_an_error_and_no_later_one_counts(self) -> None:
        for name in AUTHORITY_VARIABLES:
            environ = {name: "/none", "SSL_CERT_DIR": str(self.folder)} | {name: "/none"}
            with self.subTest(name), self.assertRaisesRegex(UsageError, f"^{name}: '/none': no"):
                default_authorities(environ)

    def test_the_store_of_the_system_is_its_file_else_a_folder_that_has_entries(self) -> None:
        file, certs, empty = (self.folder / name for name in ("file", "certs", "empty"))
        certs.mkdir()
        empty.mkdir()
        (certs / "0").touch()
        file.touch()
        for known, folder, expected in (
            (file, certs, file),
            (self.folder / "none", certs, certs),
            (self.folder / "none", empty, None),
            (self.folder / "none", self.folder / "none", None),
        ):
            paths = ssl.DefaultVerifyPaths(None, None, "F", str(known), "D", str(folder))
            with mock.patch("ssl.get_default_verify_paths", lambda paths=paths: paths):
                self.assertEqual(expected and str(expected), default_authorities({}))


class TestHints(TestCase):
    """The error of OpenSSL, and the hint."""

    def test_an_alert_or_a_failure_names_what_to_change(self) -> None:
        for reason, words in (
            ("tlsv13 alert certificate required", "demands a client certificate: give one with CE"),
            (
                "sslv3 alert handshake failure",
                "no cipher or name in common, or it demands a client",
            ),
            ("ssl/tls alert handshake failure", "no cipher or name in common"),
            ("tlsv1 alert protocol version", "does not support TLS 1.2 or later"),
            ("unsupported protocol", "does not support TLS 1.2 or later"),
            ("tlsv1 unrecognized name", "SNI"),
            ("dh key too small", "key is too weak"),
            ("ee key too small", "key is too weak"),
            ("ca md too weak", "too weak"),
            ("tlsv1 alert insufficient security", "strong enough"),
            ("tlsv1 alert unknown ca", "refuses the client certificate: check .* CERT"),
            ("sslv3 alert bad certificate", "refuses the client certificate"),
            ("sslv3 alert certificate expired", "refuses the client certificate"),
            ("sslv3 alert certificate revoked", "refuses the client certificate"),
            ("tlsv1 alert access denied", "refuses the client certificate"),
            ("wrong version number", "is it HTTP without TLS"),
            ("http request", "is it HTTP without TLS"),
            ("unsafe legacy renegotiation disabled", "renegotiates"),
        ):
            error = ssl.SSLError(
                1, f"[SSL: {reason.upper().replace(' ', '_')}] {reason} (_ssl.c:1)"
            )
            with self.subTest(reason):
                self.assertRegex(failure_hint(error, cacert="CA", cert="CERT"), words)

    def test_what_is_wrong_with_a_certificate_is_told_by_its_code(self) -> None:
        for code, words in (
            (9, "check the clocks"),
            (10, "renew the certificate"),
            (18, "^give the file of its authority with CA$"),
            (19, "with CA, or that of a proxy"),
            (20, "^give the file of its authority with CA$"),
            (62, "a host in the URL that the certificate names"),
            (66, "too weak"),
        ):
            error = ssl.SSLCertVerificationError(1, "certificate verify failed")
            error.verify_code, error.verify_message = code, "certificate is wrong"
            with self.subTest(code):
                self.assertRegex(failure_hint(error, cacert="CA", cert="CERT"), words)
