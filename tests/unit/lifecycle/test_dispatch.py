# SPDX-License-Identifier: Apache-2.0
"""The decision for a dispatcher, and the facts of its recording."""

import datetime
import unittest
from unittest import mock

from msgspec.structs import replace

from tests.unit.integrations.test_dispatchers import placed
from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.site import podm
from valence_sched.core import plugins
from valence_sched.core.plugins import Plugins
from valence_sched.errors import (
    CredentialError,
    DispatchFailed,
    PluginError,
    UnknownName,
    UsageError,
)
from valence_sched.lifecycle.dispatch import dispatch, with_recording
from valence_sched.model.decision import Recording
from valence_sched.model.dispatch import Receipt
from valence_sched.model.inventory import to_json

NOW = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
OLD, NEW = "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"
DAY_S = 86_400.0


class TestRecording(unittest.TestCase):
    """Its pod managers, its oldest reading and the age of it."""

    def setUp(self):
        self.report = make_test_plan(podm("a"), podm("b")).decision

    def recording(self, recorded, *chosen):
        placements = tuple(placed(number, name) for number, name in enumerate(chosen, 1))
        return with_recording(replace(self.report, placements=placements), recorded, NOW)

    def test_the_oldest_of_those_that_take_a_node_counts(self):
        for recorded, chosen, podms, read_at, age_s in (
            ({"a": OLD}, ("a",), ("a",), OLD, 2 * DAY_S),
            ({"a": NEW, "b": OLD}, ("b", "a", "b"), ("a", "b"), OLD, 2 * DAY_S),
            ({"a": NEW, "b": OLD}, ("a",), ("a",), NEW, DAY_S),
            ({"a": NEW}, ("a", "live"), ("a",), NEW, DAY_S),
            ({"a": None, "b": OLD}, ("a", "b"), ("a", "b"), None, None),
            ({"a": "yesterday"}, ("a",), ("a",), None, None),
        ):
            with self.subTest(recorded, chosen=chosen):
                expected = Recording(podms=podms, read_at=read_at, age_s=age_s)
                self.assertEqual(expected, self.recording(recorded, *chosen).recording)

    def test_a_decision_on_live_ones_says_nothing_of_it(self):
        report = self.recording({"a": OLD}, "live")
        self.assertNotIn(b"recording", to_json(report))

    def test_the_rest_of_the_report_stays(self):
        report = self.recording({"a": OLD}, "a")
        self.assertEqual(self.report.request, report.request)
        self.assertEqual(("a",), tuple(one.chosen.podm for one in report.placements))


class TestDispatch(unittest.TestCase):
    """A dispatcher is called once, and a failure is one line."""

    RECEIPT = Receipt(nodes=(1,), podm="a", status=202)

    def setUp(self):
        self.report = make_test_plan(podm("a"), podm("b")).decision
        self.sent = []

    def dispatch(self, target="note=http://h/?a=b", report=None, answer=(RECEIPT,), **words):
        def send(url, order):
            self.sent.append((url, order))
            if isinstance(answer, Exception):
                raise answer
            return answer

        installed = Plugins("dispatcher", {"note": send})
        groups = {plugins.DISPATCHERS: installed}
        with mock.patch.object(plugins, "load", groups.__getitem__):
            return dispatch(target, report or self.report, **{"environ": {}, **words})

    def test_the_order_has_the_decision_and_what_its_nodes_are(self):
        self.assertEqual((self.RECEIPT,), self.dispatch())
        ((url, order),) = self.sent
        self.assertEqual("http://h/?a=b", url)
        self.assertEqual(to_json(self.report), order.report)
        self.assertEqual(self.report.placements, order.placements)
        self.assertEqual(self.report.request.alternatives, order.alternatives)
        self.assertEqual((None, 30.0, None), (order.key, order.timeout_s, order.recording))

    def test_only_the_alternatives_that_nodes_are_made_by_are_in_it_each_once(self):
        first = self.report.request.alternatives[0]
        asked = replace(self.report.request, other_alternatives=(first, replace(first, needs=())))
        places = [replace(placed(number, "a"), choice=choice)
                  for number, choice in enumerate((3, 1, 3), 1)]  # fmt: skip
        self.dispatch(report=replace(self.report, request=asked, placements=tuple(places)))
        ((_, order),) = self.sent
        self.assertEqual((asked.alternatives[2], asked.alternatives[0]), order.alternatives)

    def test_it_is_named_by_its_flavor_or_else_by_its_request(self):
        for flavor, id_, name in (("gpu", "r-1", "gpu"), (None, "r-1", "r-1")):
            asked = replace(self.report.request, flavor=flavor, id=id_)
            self.dispatch(report=replace(self.report, request=asked))
            self.assertEqual(name, self.sent[-1][1].name)

    def test_the_recording_is_told_beside_the_document(self):
        recording = Recording(podms=("a",), read_at=OLD, age_s=1.0)
        self.dispatch(report=replace(self.report, recording=recording))
        self.assertEqual(recording, self.sent[0][1].recording)

    def test_the_key_is_read_where_one_is_named_and_the_time_limit_is_the_callers(self):
        self.dispatch(environ={"K": "s\udcffcret"}, key_variable="K", timeout_s=2.0)
        ((_, order),) = self.sent
        self.assertEqual((b"s\xffcret", 2.0), (order.key, order.timeout_s))
        for environ in ({}, {"K": ""}):
            with self.assertRaises(CredentialError) as caught:
                self.dispatch(environ=environ, key_variable="K")
            self.assertEqual("--dispatch-key-env: K is empty, expected a key",
                             str(caught.exception))  # fmt: skip
        self.assertEqual(1, len(self.sent))

    def test_a_target_without_a_url_or_a_dispatcher_of_its_name_is_refused(self):
        for target in ("note", "note="):
            with self.assertRaises(UsageError) as caught:
                self.dispatch(target)
            self.assertEqual("--dispatch: expected <name>=<url>, as in webhook=https://host/path",
                             str(caught.exception))  # fmt: skip
        with self.assertRaisesRegex(UnknownName, "^--dispatch: .*'notes'.*'note'"):
            self.dispatch("notes=http://h")
        self.assertEqual([], self.sent)

    def test_one_that_breaks_says_that_the_decision_may_have_been_taken(self):
        with self.assertRaises(PluginError) as caught:
            self.dispatch(answer=ValueError("bad\nthing"))
        self.assertRegex(str(caught.exception), "^dispatcher 'note': ValueError: bad.*thing: the "
                         "decision may have been accepted: check the other "
                         "system first$")  # fmt: skip
        self.assertNotIn("\n", str(caught.exception))
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        for answer in ((self.RECEIPT, "ok"), 7):
            with self.assertRaisesRegex(PluginError, "TypeError: .*may have been accepted"):
                self.dispatch(answer=answer)
        with self.assertRaisesRegex(PluginError, "found str, expected a Receipt"):
            self.dispatch(answer=("ok",))

    def test_a_refusal_of_the_other_side_is_told_as_it_is(self):
        refusal = DispatchFailed("no")
        with self.assertRaises(DispatchFailed) as caught:
            self.dispatch(answer=refusal)
        self.assertIs(refusal, caught.exception)
