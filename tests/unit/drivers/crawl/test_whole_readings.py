# SPDX-License-Identifier: Apache-2.0
"""A reading is whole or none: whatever comes late or is cut off, at whichever request."""

import itertools
import unittest

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.drivers.crawl.test_faults import cut, half, half_without_length, hang, on
from tests.unit.drivers.crawl.test_fewer_requests import dressed
from tests.unit.drivers.crawl.test_live import DIALECTS, NOON, TREES, LiveTest
from tests.unit.drivers.served import Server
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.model.registration import Registration

TREE = dressed(TREES["shared-blocks"])
#: The trees by whether they are requested a document at a time.
EXPANDS = (0, 2, 6)


def half_in_chunks(handler):
    found = handler.podm.document(handler.path) or b"{}"
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    piece = found[: len(found) // 2]
    handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    return True


def die(handler):
    """Answer nothing from now on."""
    handler.podm.rules.insert(0, cut)
    return cut(handler)


TROUBLES = (cut, half, half_without_length, half_in_chunks, hang, die)


def at_request(number, times, act):
    """Return a rule for as many requests from this one on, counted from 0."""
    count = itertools.count()

    def rule(handler):
        present = handler.command == "GET" and handler.podm.document(handler.path.partition("?")[0])
        return bool(present) and number <= next(count) < number + times and act(handler)

    return rule


def slowly(delay_s):
    return lambda handler: handler.podm.stop.wait(delay_s) and False


class WholeReadingTest(LiveTest):
    def check(self, expand, timeout_s, *rules):
        server = Server(TREE, expand=expand, rules=rules)
        try:
            target = ReadTarget(Registration(name="podm", url=server.url))
            pace = ReadSettings(timeout_s=timeout_s)
            (reading,) = read([target], DIALECTS, pace, clock=lambda: NOON)
        finally:
            server.close()
        podm = reading.podm
        if reading.failure is not None:
            self.assertEqual(("Offline", (), (), ()),
                             (podm.status, podm.blocks, podm.pools, podm.nodes))  # fmt: skip
            self.assertIn("(", reading.failure)
            return False
        self.same(msgspec.structs.replace(self.recorded(TREE)[0], id=podm.id), reading)
        return True

    @settings(max_examples=60)
    @given(
        expand=st.sampled_from(EXPANDS),
        number=st.integers(0, 40),
        times=st.sampled_from((1, 2, 1000)),
        act=st.sampled_from(TROUBLES),
        delay_ms=st.sampled_from((0, 0, 5, 40)),
        timeout_ms=st.sampled_from((60, 200, 700)),
    )
    def test_whatever_is_late_or_cut_off_all_blocks_are_there_or_none(
        self, expand, number, times, act, delay_ms, timeout_ms
    ):
        trouble = at_request(number, times, act)
        self.check(expand, timeout_ms / 1000, slowly(delay_ms / 1000), trouble)

    def test_each_trouble_at_each_document_once_is_read_over_or_fails_the_whole(self):
        for act, expand in itertools.product(TROUBLES[:4], EXPANDS):
            for number in (0, 3, 9):
                with self.subTest(act.__name__, expand=expand, number=number):
                    self.assertTrue(self.check(expand, 10.0, at_request(number, 1, act)))

    def test_an_expanded_answer_that_is_late_is_requested_again_without(self):
        late = on("expand", hang)
        for expand in EXPANDS[1:]:
            self.assertTrue(self.check(expand, 2.0, late))


if __name__ == "__main__":
    unittest.main()
