# SPDX-License-Identifier: Apache-2.0
"""Whose certificates the transport of the standard library trusts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cryptography import x509

from tests.unit.certificates import ELSEWHERE, LOOPBACK, server_context
from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from valence_sched.drivers.http.exchange import Unreachable
from valence_sched.drivers.http.stdlib_transport import StdlibTransport
from valence_sched.drivers.http.tls import TlsContexts


class TlsTest(ServedBytes):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def secure(
        self, name: x509.GeneralName, verify: bool | None = None, connections: int = 1
    ) -> StdlibTransport:
        """Serve under a certificate for a name; it is verified by its own file unless told."""
        context, trusted = server_context(self.folder, name)
        answers = [[answer(b"one"), answer(b"two")]] * connections
        return self.serve(*answers, tls=context, verify=trusted if verify is None else verify)

    def refuse(self, transport: StdlibTransport, words: str) -> None:
        with self.assertRaisesRegex(Unreachable, words) as caught:
            self.ask(transport)
        self.assertFalse(caught.exception.sent)
        self.assertTrue(self.closed[0].wait(5))
        self.assertEqual([], self.received)

    def test_a_certificate_of_a_named_authority_is_trusted(self) -> None:
        transport = self.secure(LOOPBACK)
        self.assertEqual([b"one", b"two"], [self.ask(transport), self.ask(transport)])

    def test_one_of_an_unknown_authority_is_not_and_nothing_is_sent(self) -> None:
        self.refuse(self.secure(LOOPBACK, verify=True), "^TLS: self-signed certificate .*--cacert")

    def test_one_of_another_host_is_not_even_of_a_named_authority(self) -> None:
        self.refuse(self.secure(ELSEWHERE), r"^TLS: .*127\.0\.0\.1")

    def test_any_is_trusted_where_none_is_verified(self) -> None:
        self.assertEqual(b"one", self.ask(self.secure(ELSEWHERE, verify=False)))

    def test_an_authority_that_is_not_there_is_told_before_a_request(self) -> None:
        nowhere = str(self.folder / "none.pem")
        with self.assertRaises(Unreachable):
            StdlibTransport("https://127.0.0.1:1", nowhere, TlsContexts())
        StdlibTransport("http://127.0.0.1:1", nowhere, TlsContexts()).close()
