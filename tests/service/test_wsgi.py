# SPDX-License-Identifier: Apache-2.0
"""The application for other WSGI servers: whom it answers where it authenticates nobody."""

import unittest

from falcon import testing

from valence_sched.server.wsgi import loopback_only


class TestLoopback(unittest.TestCase):
    def answered(self, address):
        statuses = []

        def application(_environ, start_response):
            start_response("200 OK", [])
            return [b"in"]

        environ = testing.create_environ(remote_addr=address)
        chunks = loopback_only(application)(
            environ, lambda status, _headers: statuses.append(status)
        )
        return statuses[0], b"".join(chunks)

    def test_this_machine_is_answered(self):
        for address in ("127.0.0.1", "::1", "127.1.2.3"):
            self.assertEqual(("200 OK", b"in"), self.answered(address))

    def test_others_and_who_has_no_address_are_refused(self):
        for address in ("10.0.0.1", "", "::2", "example.org"):
            with self.subTest(address):
                status, body = self.answered(address)
                self.assertEqual("403 Forbidden", status)
                self.assertIn(b'"code":"access_denied"', body)
