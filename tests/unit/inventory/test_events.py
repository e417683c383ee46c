# SPDX-License-Identifier: Apache-2.0
"""The event listener: the streams that it follows, its logs, and the cost of a cut stream."""

import itertools
import threading
import time
import unittest

from tests.unit.simulator.site import SYSTEMS, documents
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.events import EventStream
from valence_sched.errors import CredentialError
from valence_sched.inventory.events import EventListener
from valence_sched.model.registration import Registration
from valence_sched.testing.served import served

PATIENCE_S = 30


class ListenerCase(unittest.TestCase):
    """A listener on simulated pod managers, with pauses of milliseconds."""

    def setUp(self):
        self.lines, self.opened = [], []

    def serve(self, *fail):
        ids = {"a": documents(), "b": documents()}
        return self.enterContext(served(documents=ids, fail=fail))

    def listen(self, podms=(), open_stream=None, **words):
        listener = EventListener(
            open_stream or self.open_stream, self.lines.append, first_pause_s=0.02, **words
        )
        self.addCleanup(listener.close)
        self.members = {
            name: Registration(name=name, url=one.url) for name, one in dict(podms).items()
        }
        listener.follow(self.members)
        return listener

    def open_stream(self, registration):
        self.opened.append(registration.name)
        return EventStream(ReadTarget(registration), 10.0)

    def wait_until(self, holds):
        until = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), until, self.lines)
            time.sleep(0.01)

    def taken(self, listener):
        """Return the first hints, without empty ones."""
        found = {}
        self.wait_until(lambda: found.update(listener.take()) or found)
        return found

    def wait_for_lines(self, *lines):
        self.wait_until(lambda: {*lines} <= {*self.lines})

    def change(self, podm):
        tree = podm.documents
        tree.put(SYSTEMS, {**tree.get(SYSTEMS), "Description": str(time.monotonic())})


class TestListening(ListenerCase):
    def test_each_that_sends_an_event_is_taken_once_with_its_first(self):
        podms = self.serve("stream-storm:50")
        listener = self.listen(podms)
        self.wait_for_lines("a: subscribed", "b: subscribed")
        self.change(podms["a"])
        self.assertEqual({"a": f"an event: ResourceChanged {SYSTEMS}"}, self.taken(listener))

    def test_one_that_leaves_is_followed_no_more_and_one_at_another_url_anew(self):
        podms = self.serve()
        listener = self.listen(podms)
        self.wait_for_lines("a: subscribed", "b: subscribed")
        listener.follow({"a": Registration(name="a", url=podms["b"].url)})
        self.wait_until(lambda: self.lines.count("a: subscribed") == 2)
        self.change(podms["a"])
        self.change(podms["b"])
        self.assertEqual(["a"], [*self.taken(listener)])
        self.assertEqual(["a", "a", "b"], sorted(self.opened))

    def test_an_identity_that_was_learnt_opens_nothing_anew(self):
        podms = self.serve()
        listener = self.listen(podms)
        self.wait_for_lines("a: subscribed", "b: subscribed")
        known = {name: Registration(name=name, url=one.url, identity=f"urn:uuid:{name}")
                 for name, one in podms.items()}  # fmt: skip
        listener.follow(known)
        self.assertEqual(["a", "b"], sorted(self.opened))

    def test_when_it_closes_no_thread_and_no_stream_is_left(self):
        podms = self.serve()
        listener = self.listen(podms)
        self.wait_for_lines("a: subscribed", "b: subscribed")
        listener.close()
        names = [thread.name for thread in threading.enumerate()]
        self.assertNotIn("events", names)

    def test_no_more_are_followed_than_the_bound(self):
        listener = self.listen(self.serve(), most=1)
        self.wait_for_lines("a: subscribed")
        listener.follow(self.members)
        self.assertEqual(["a"], self.opened)


class TestEnds(ListenerCase):
    def test_a_stream_that_is_cut_is_opened_again_and_hints_once(self):
        """Events in the meantime may have been missed."""
        listener = self.listen(self.serve("stream-cut:0@a", "no-events@b"))
        self.wait_until(lambda: self.opened.count("a") >= 3)
        self.assertEqual({"a": "an event stream that is open again"}, listener.take())
        self.assertEqual(1, self.opened.count("b"), "one without a stream is left alone")
        told = [line for line in self.lines if "no event stream" in line]
        self.assertIn("a: no event stream: a truncated answer", told[0])

    def test_each_pause_is_twice_as_long_as_the_one_before(self):
        times = []

        def refuse(_registration):
            times.append(time.monotonic())
            raise CredentialError("the environment variable X, its password, is not set")

        listener = EventListener(refuse, self.lines.append, first_pause_s=0.02)
        self.addCleanup(listener.close)
        listener.follow({"a": Registration(name="a", url="https://a")})
        self.wait_until(lambda: len(times) == 5)
        gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
        for gap, least in zip(gaps, (0.02, 0.04, 0.08, 0.16), strict=True):
            self.assertGreaterEqual(gap, least)
        self.assertEqual(1, len(self.lines), "the same problem is told once")
        self.assertIn("a: no event stream: the environment variable X", self.lines[0])

    def test_an_error_that_nobody_expected_is_told_and_ends_nothing(self):
        calls = []

        def broken(_registration):
            calls.append(1)
            return 1 / 0

        listener = EventListener(broken, self.lines.append, first_pause_s=0.02)
        self.addCleanup(listener.close)
        listener.follow({"a": Registration(name="a", url="https://a")})
        self.wait_until(lambda: len(calls) == 3)
        self.assertIn("ZeroDivisionError", self.lines[0])


if __name__ == "__main__":
    unittest.main()
