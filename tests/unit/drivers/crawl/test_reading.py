# SPDX-License-Identifier: Apache-2.0
"""One reading alone: facts of the registration, texts of failures, and the end of passes."""

import functools
import unittest
from datetime import UTC, datetime, timedelta, timezone
from unittest import mock

from tests.unit.drivers.crawl.test_crawler import FULL, asked, crawl, link, whole
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.crawl import reading
from valence_sched.drivers.crawl.reading import (
    PodmReader,
    ReadSettings,
    ReadTarget,
    read_in_passes,
    with_max_blocks,
)
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Link, Resource
from valence_sched.drivers.http.exchange import TlsContexts
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.errors import PodmError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Pool
from valence_sched.model.registration import Registration

NOON = datetime(2026, 5, 4, 12, 0, 30, 999_999, tzinfo=timezone(timedelta(hours=2)))
ROOT = "/redfish/v1"


def reader(**words) -> PodmReader:
    known = Registration(**{"name": "east", "url": "https://me:secret@h.invalid/x"} | words)
    return PodmReader(
        ReadTarget(known, "secret"), ReadSettings(timeout_s=7.5), NOON, lambda *_: False,
        TlsContexts(),
    )  # fmt: skip


class TestFailure(unittest.TestCase):
    """A pod manager that could not be read."""

    def test_a_deadline_that_has_passed_is_offline_with_the_seconds(self):
        found = reader().timeout_result()
        self.assertEqual(("east", "Offline"), (found.podm.id, found.podm.status))
        self.assertEqual("east: https://h.invalid/x: no complete answer within 7.5 s "
                         "(increase --request-timeout)", found.failure)  # fmt: skip
        self.assertEqual(((), {}, 0), (found.diagnostics, found.documents, found.requests))

    def test_the_driver_is_that_of_the_registration_where_it_names_one(self):
        self.assertEqual("rsd", reader(driver="rsd").timeout_result().podm.driver)
        self.assertIsNone(reader().timeout_result().podm.driver)

    def test_a_reason_names_the_pod_manager_once_and_is_one_line(self):
        found = reader()._failure("Unknown", "east: no\nsuch thing")
        self.assertEqual("east: https://h.invalid/x: no such thing", found.failure)
        self.assertEqual("Unknown", found.podm.status)

    def test_the_url_carries_no_password_and_the_target_prints_none(self):
        self.assertEqual("https://h.invalid/x", reader().timeout_result().podm.url)
        self.assertNotIn("secret", repr(ReadTarget(Registration(name="a", url="b"), "secret")))

    def test_nothing_is_cut_or_logged_out_before_there_is_a_connection(self):
        one = reader()
        one.cut()
        one.log_out()
        self.assertGreater(one.left_s, 7.0)
        self.assertLessEqual(one.left_s, 7.5)


class TestRegistration(unittest.TestCase):
    """Facts of the operator are added to facts of the pod manager, and override them."""

    def test_each_property_is_the_operators_or_both(self):
        known = {
            "enabled": False, "zone": "z", "aggregates": ("a", "b"), "traits": ("t", "u"),
            "capabilities": {"c": ("1",)}, "facts": {"f": 1},
        }  # fmt: skip
        told = FullPodm(
            id="told", zone="y", aggregates=("b", "x"), traits=("u", "w"),
            capabilities={"c": ("2",), "d": ("3",)}, facts={"f": 2, "g": 3}, url="https://told",
        )  # fmt: skip
        found = reader(**known)._with_registration(told)
        self.assertEqual(
            ("east", "https://h.invalid/x", False, "z", ("a", "b", "x"), ("t", "u", "w"),
             {"c": ("1",), "d": ("3",)}, {"f": 1, "g": 3}),
            (found.id, found.url, found.enabled, found.zone, found.aggregates, found.traits,
             found.capabilities, found.facts),
        )  # fmt: skip
        self.assertEqual("y", reader()._with_registration(told).zone)

    def test_the_time_is_that_of_the_reading_in_utc_to_the_second(self):
        found = reader()._with_registration(FullPodm(id="a"))
        self.assertEqual("2026-05-04T10:00:30Z", found.read_at)
        self.assertEqual(UTC, reader()._at.tzinfo)


LINKED = functools.partial(LinkedDocuments, host="h.invalid")


class TestPasses(unittest.TestCase):
    """Documents are fetched and read until none is missing."""

    TREE = (
        (ROOT, whole(ROOT, CompositionService=link("/redfish/v1/CompositionService"),
                     Systems=link("/redfish/v1/Systems"))),
        ("/redfish/v1/CompositionService",
         whole("/redfish/v1/CompositionService", ResourceBlocks=link("/redfish/v1/Blocks"))),
        ("/redfish/v1/Systems", whole("/redfish/v1/Systems", Members=[])),
        ("/redfish/v1/Blocks", whole("/redfish/v1/Blocks", Members=[])),
    )  # fmt: skip

    def test_the_last_pass_has_all_that_was_read_and_nothing_that_is_missing(self):
        tree = dict(self.TREE)
        made = crawl(tree)
        found = read_in_passes(made, DIALECTS["redfish"](), tree[ROOT], "east", LINKED)
        self.assertEqual([], found.missing)
        self.assertLessEqual({ROOT, "/redfish/v1/CompositionService"}, set(found.read))
        self.assertEqual(("east", "redfish"), (found.podm.id, found.podm.driver))

    def test_documents_that_lead_on_without_end_are_given_up(self):
        passes = []

        def leads_on(crawler_, *_):
            passes.append(1)
            return reading.ReadPass(None, None, {}, [f"/x{len(passes)}"])

        tree = dict(self.TREE)
        with (
            mock.patch.object(reading, "_run_pass", leads_on),
            self.assertRaisesRegex(
                PodmError, r"link further documents without end \(stopped after 20 passes\)"
            ),
        ):
            read_in_passes(crawl(tree), DIALECTS["redfish"](), tree[ROOT], "east", LINKED)
        self.assertEqual(reading.MAX_PASSES, len(passes))


class Small(Resource):
    """A service root of a small dialect."""

    chassis = Link("Chassis", Resource, "one", collection=True)


def small_dialect(identity: str | None = None, *wants: str, services=None) -> Dialect:
    """Return a dialect that records its arguments, and may find the identity itself."""

    def read(service, name: str, driver: str) -> FullPodm:
        if services is not None:
            services.append(service)
        for uri in wants:
            service.json(uri, ROOT)
        return FullPodm(id=name, driver=driver, identity=identity)

    return Dialect("small", Small, read)


UUID = "0b6ffe0a-3f7c-4a35-9f9e-6d2cf2a6a1b1"


class TestOnePass(unittest.TestCase):
    """The arguments of a dialect, and the additions to its reading."""

    def passed(self, dialect, tree, **words):
        made = crawl(tree)
        return made, read_in_passes(
            made, dialect, tree.get(ROOT), "east", functools.partial(LINKED, **words)
        )

    def test_the_identity_is_the_dialects_own_else_what_the_service_tells(self):
        tree = {ROOT: whole(ROOT, UUID=UUID)}
        _, found = self.passed(small_dialect(), tree)
        self.assertIn(UUID, found.podm.identity)
        _, found = self.passed(small_dialect("own"), tree)
        self.assertEqual("own", found.podm.identity)
        _, found = self.passed(small_dialect(), {ROOT: whole(ROOT)})
        self.assertIsNone(found.podm.identity)

    def test_the_most_blocks_and_the_host_are_passed_on(self):
        services = []
        dialect = small_dialect(services=services)
        self.passed(dialect, {ROOT: whole(ROOT)}, max_blocks={"Compute": 3})
        self.assertEqual({"Compute": 3}, services[0].max_blocks)
        self.assertIsNone(services[0].uri("https://other.invalid/x", ROOT))
        self.assertEqual("/x", services[0].uri("https://h.invalid/x", ROOT))

    def test_where_documents_bring_what_is_below_them_the_first_pass_may_do_with_that(self):
        chassis = "/redfish/v1/Chassis"
        answers = {
            ROOT: whole(ROOT, Chassis=link(chassis)),
            f"{chassis}?$expand=.($levels=1)": whole(chassis, Members=[whole("/c")]),
            chassis: whole(chassis, Members=[link("/c")]),
        }
        made = crawl(answers, features=FULL)
        services = []
        dialect = small_dialect(None, chassis, "/c", services=services)
        linked = functools.partial(LINKED, max_blocks={"Compute": 3})
        found = read_in_passes(made, dialect, answers[ROOT], "east", linked)
        self.assertEqual(([], {"Compute": 3}), (found.missing, services[-1].max_blocks))
        self.assertEqual([f"{chassis}?$expand=.($levels=1)"], asked(made))

    def test_a_document_that_a_pass_lacks_is_fetched_for_the_next_one(self):
        tree = {ROOT: whole(ROOT), "/x": whole("/x")}
        made, found = self.passed(small_dialect(None, "/x", "/gone"), tree)
        self.assertEqual([], found.missing)
        self.assertEqual({ROOT, "/x"}, set(found.read) | {ROOT})
        self.assertEqual(2, made.unplanned)


class TestLogOut(unittest.TestCase):
    """A session that cannot be deleted."""

    def test_it_is_said_and_the_reading_stands(self):
        class Broken:
            def close(self) -> None:
                raise OSError("no route")

        one = reader()
        one._connection = Broken()
        with self.assertLogs("valence_sched.drivers.crawl.reading", "WARNING") as logged:
            one.log_out()
        self.assertEqual(["east: could not log out: no route"],
                         [record.getMessage() for record in logged.records])  # fmt: skip


def limited(most, *pools: dict[str, Limit]):
    """Return the limits of each pool, and the remarks."""
    noted: list[str] = []

    class Notes(Diagnostics):
        def remark(self, text: str) -> None:
            noted.append(text)

    podm = FullPodm(id="a", pools=tuple(Pool(id=f"p{n}", limits=one)
                                        for n, one in enumerate(pools)))  # fmt: skip
    return [pool.limits for pool in with_max_blocks(podm, most, Notes()).pools], noted


class TestMaxBlocks(unittest.TestCase):
    """The stricter of two limits applies."""

    def test_a_limit_is_set_where_the_pod_manager_states_none(self):
        for stated in ({}, {"Compute": Limit()}):
            self.assertEqual(([{"Compute": Limit(0, 3)}], []), limited({"Compute": 3}, stated))

    def test_limits_of_other_types_and_the_least_number_stay(self):
        stated = {"Compute": Limit(1, None), "Memory": Limit(0, 9)}
        self.assertEqual(([{"Compute": Limit(1, 3), "Memory": Limit(0, 9)}], []),
                         limited({"Compute": 3}, stated))  # fmt: skip
        self.assertEqual(([stated], []), limited({}, stated))

    def test_a_looser_limit_of_the_pod_manager_gives_way_without_a_word(self):
        self.assertEqual(([{"Compute": Limit(0, 3)}], []),
                         limited({"Compute": 3}, {"Compute": Limit(0, 5)}))  # fmt: skip

    def test_a_stricter_one_holds_and_that_is_noted(self):
        limits, noted = limited({"Compute": 3}, {"Compute": Limit(0, 2)})
        self.assertEqual([{"Compute": Limit(0, 2)}], limits)
        self.assertEqual(["pool p0: found a limit of 2 Compute blocks in a node, expected 3 as "
                          "registered (the limit of the pod manager applies)"], noted)  # fmt: skip

    def test_the_most_is_never_below_the_least_and_that_is_noted(self):
        limits, noted = limited({"Compute": 1}, {"Compute": Limit(2, 5)})
        self.assertEqual([{"Compute": Limit(2, 2)}], limits)
        self.assertIn("found a limit of 2 Compute blocks in a node, expected 1", noted[0])

    def test_pools_with_the_same_limit_are_one_note_and_each_limit_is_another(self):
        two, one = {"Compute": Limit(0, 2)}, {"Compute": Limit(0, 1)}
        _, noted = limited({"Compute": 3, "Memory": 4}, two, one, two, {}, two)
        self.assertEqual(2, len(noted))
        self.assertTrue(noted[0].startswith("pool p0 and 2 more: found a limit of 2"))
        self.assertTrue(noted[1].startswith("pool p1: found a limit of 1"))
