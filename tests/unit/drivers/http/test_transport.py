# SPDX-License-Identifier: Apache-2.0
"""The choice of transports, and when they are made."""

import unittest

from valence_sched.drivers.http.connection import LazyTransport, choose_transports
from valence_sched.drivers.http.tls import TlsContexts


class TestChoice(unittest.TestCase):
    """Reads go by the standard library, unless there is a proxy."""

    def choose(self, proxies):
        return choose_transports("http://127.0.0.1:9", True, proxies, 1, TlsContexts())

    def test_without_a_proxy_reads_and_writes_have_transports_of_their_own(self):
        transports = self.choose({})
        self.assertIsNot(transports.reads, transports.writes)

    def test_through_a_proxy_one_transport_does_both(self):
        transports = self.choose({"http": "http://127.0.0.1:8"})
        self.assertIs(transports.reads, transports.writes)


class TestLazyTransport(unittest.TestCase):
    """A transport is made for its first request."""

    def test_a_transport_that_was_never_asked_is_never_made(self):
        transport = LazyTransport(lambda: self.fail("it was made"))
        transport.cut()
        transport.close()
