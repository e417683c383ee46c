# SPDX-License-Identifier: Apache-2.0
"""The head of an answer and its body leave together; on sockets that keep what is sent apart."""

import socket
import unittest

from valence_sched.server.buffered_worker import COALESCED_BYTES, ResponseSocket


class TestResponseSocket(unittest.TestCase):
    def setUp(self):
        self.server, self.client = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.client.close)
        self.addCleanup(self.server.close)
        self.client.setblocking(False)
        self.response = ResponseSocket(self.server)

    def came(self):
        found = []
        while True:
            try:
                found.append(self.client.recv(2 * COALESCED_BYTES))
            except BlockingIOError:
                return found

    def test_a_head_leaves_with_the_first_bytes_of_its_body(self):
        for data in (b"head ", b"body", b" and more"):
            self.response.sendall(data)
        self.response.flush()
        self.assertEqual([b"head body", b" and more"], self.came())

    def test_a_head_without_a_body_leaves_at_the_end_and_once(self):
        self.response.sendall(b"head")
        self.assertEqual([], self.came())
        self.response.flush()
        self.response.flush()
        self.assertEqual([b"head"], self.came())

    def test_a_large_body_is_not_copied_to_its_head(self):
        body = b"x" * (COALESCED_BYTES + 1)
        self.response.sendall(b"head")
        self.response.sendall(body)
        self.assertEqual([b"head", body], self.came())

    def test_what_else_is_done_with_the_socket_comes_after_the_head(self):
        self.response.sendall(b"head")
        self.response.shutdown(socket.SHUT_WR)
        self.assertEqual([b"head", b""], [self.client.recv(100), self.client.recv(100)])
