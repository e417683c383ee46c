# SPDX-License-Identifier: Apache-2.0
"""Hints over a real RabbitMQ: their receivers, invalid hints, and an unavailable broker."""

import logging
import queue
import time

from tests.unit.messaging.broker import BrokerCase
from valence_sched.errors import UsageError
from valence_sched.model.dispatch import MessagingSettings, UrlReference

PATIENCE_S = 60


class FanoutCase(BrokerCase):
    """Processes that share a topic; a queue has the hints that each receives."""

    def process(self, url=None, *, listens=True):
        from valence_sched.messaging.fanout import HintFanout

        heard = queue.SimpleQueue()
        settings = MessagingSettings(url=UrlReference(env="U"), topic=self.topic)
        fanout = HintFanout(url or self.url, settings, heard.put)
        fanout.start()
        self.addCleanup(fanout.close)
        if listens:
            self.assertTrue(fanout.listening.wait(PATIENCE_S))
        return fanout, heard

    def hears(self, heard, wanted):
        """Return whether a hint arrives; earlier hints are skipped."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                if heard.get(timeout=0.2) == wanted:
                    return True
            except queue.Empty:
                continue
        return False


class TestHints(FanoutCase):
    def test_every_other_process_hears_each_hint_and_the_sender_does_not(self):
        """S48: all processes receive one report."""
        sender, own = self.process()
        others = [self.process()[1] for _ in range(3)]
        sender.send(["rack-7"])
        for heard in others:
            self.assertEqual(("rack-7",), heard.get(timeout=PATIENCE_S))
        others_of_last = self.process()
        others_of_last[0].send()
        self.assertEqual((), own.get(timeout=PATIENCE_S))
        self.assertTrue(own.empty())

    def test_hints_that_wait_are_one(self):
        sender, _ = self.process()
        _, heard = self.process()
        for number in range(500):
            sender.send([f"p{number}"])
        names = set()
        while len(names) < 500:
            names.update(heard.get(timeout=PATIENCE_S))
        self.assertEqual({f"p{number}" for number in range(500)}, names)

    def test_one_of_very_many_names_says_that_something_changed(self):
        sender, _ = self.process()
        _, heard = self.process()
        sender.send(f"p{number}" for number in range(1001))
        self.assertEqual((), heard.get(timeout=PATIENCE_S))

    def test_what_is_forged_is_no_more_than_a_hint(self):
        sender, _ = self.process()
        _, heard = self.process()
        for words in (
            {},
            {"podms": "rack-7"},
            {"podms": [1, None, {}, "", "x" * 2000, "rack-7"], "sender": [1]},
            {"podms": ["a"] * 5000},
            {"more": {"nested": [1]}},
        ):
            sender._client.cast({}, "state_changed", **words)
        found = [heard.get(timeout=PATIENCE_S) for _ in range(5)]
        self.assertEqual([(), (), (), (), ("rack-7",)], sorted(found))
        sender._client.cast({}, "close")
        sender._client.cast({}, "_take", names=["a"], sender="b")
        sender.send(["later"])
        self.assertEqual(("later",), heard.get(timeout=PATIENCE_S), "nothing else can be called")


class TestBroker(FanoutCase):
    def test_after_a_cut_hints_are_heard_and_sent_again(self):
        way, url = self.way()
        cut, heard = self.process(url)
        other, heard_by_other = self.process()
        other.send(["before"])
        self.assertTrue(self.hears(heard, ("before",)))
        way.cut()
        cut.send(["lost"])  # returns in any case
        other.send(["lost"])
        way.mend()
        until = time.monotonic() + PATIENCE_S
        back = False
        while not back and time.monotonic() < until:
            other.send(["after"])
            cut.send(["of the cut one"])
            time.sleep(0.2)
            back = not heard.empty() and self.hears(heard, ("after",))
        self.assertTrue(back)
        self.assertTrue(self.hears(heard_by_other, ("of the cut one",)))

    def test_a_broker_that_is_away_delays_nothing_and_its_password_is_in_no_log(self):
        way, _ = self.way()
        way.cut()
        url = f"rabbit://ann:canary-7f3@127.0.0.1:{way.port}/"
        with self.assertLogs(level=logging.DEBUG) as logs:
            logging.getLogger().info("one line at least")
            away, heard = self.process(url, listens=False)
            for _ in range(1000):
                away.send(["a"])
            until = time.monotonic() + PATIENCE_S
            while not any("oslo" in line for line in logs.output):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            away.close()
        self.assertTrue(heard.empty())
        self.assertNotIn("canary-7f3", "\n".join(logs.output))

    def test_a_url_that_is_none_is_refused_and_not_repeated(self):
        from valence_sched.messaging.fanout import HintFanout

        settings = MessagingSettings(url=UrlReference(env="U"), topic=self.topic)
        query = "rabbit://a:canary-9@h/?x=1"
        others = "", "canary-9", "http://a:canary-9@h/", "rabbit://", "kafka://canary-9", "//["
        for url in (query, *others):
            with self.subTest(url), self.assertRaises(UsageError) as caught:
                HintFanout(url, settings, print)
            self.assertNotIn("canary-9", str(caught.exception))
