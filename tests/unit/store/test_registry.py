# SPDX-License-Identifier: Apache-2.0
"""The registry, pod managers as last read, and the generation between them."""

import msgspec

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, decision, part, podm
from valence_sched.errors import InUse, NameTaken, UnknownName
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import PasswordReference, Registration

ONE = Registration(
    name="rack-1", url="https://pod", username="u", password=PasswordReference(env="SECRET")
)


@on_each_engine
class TestRegistry:
    """Names are taken once."""

    def test_what_was_registered_is_there_after_opening_again(self):
        self.store().register(ONE)
        self.assertEqual([ONE], self.store().registrations())

    def test_a_name_is_taken_once_and_case_and_spaces_tell_names_apart(self):
        store = self.store()
        store.register(ONE)
        with self.assertRaises(NameTaken) as caught:
            store.register(ONE)
        self.assertEqual("a pod manager named 'rack-1' is registered already: change that one, or "
                         "choose another name", str(caught.exception))  # fmt: skip
        for name in ("RACK-1", "rack-1 ", "räck-1", "r" * 1024):
            store.register(msgspec.structs.replace(ONE, name=name))
        self.assertEqual(5, len(store.registrations()))

    def test_a_change_takes_the_place_of_what_was_there(self):
        store = self.store()
        store.register(ONE)
        moved = msgspec.structs.replace(ONE, url="https://other")
        store.change(moved)
        store.change(moved)
        self.assertEqual([moved], store.registrations())
        with self.assertRaisesRegex(UnknownName, "did you mean 'rack-1'"):
            store.change(msgspec.structs.replace(ONE, name="rack-2"))

    def test_what_a_registration_has_no_more_is_removed_from_what_was_read(self):
        store = self.store()
        placed = msgspec.structs.replace(ONE, zone="z", traits=("T",))
        store.register(placed)
        generation = store.remember(podm("rack-1", zone="z", traits=("OWN", "T")))
        store.remember(podm("rack-2", zone="z", traits=("T",)))
        store.change(ONE)
        found = store.load_podms()
        self.assertEqual((None, ("OWN",)), (found["rack-1"].zone, found["rack-1"].traits))
        self.assertEqual(generation + 1, found["rack-1"].generation)
        self.assertEqual(("z", ("T",)), (found["rack-2"].zone, found["rack-2"].traits))
        store.change(msgspec.structs.replace(ONE, url="https://other"))
        self.assertEqual(generation + 1, store.load_podms()["rack-1"].generation)

    def test_what_a_pod_manager_reports_stays_where_its_registration_has_it_no_more(self):
        store = self.store()
        store.register(msgspec.structs.replace(ONE, zone="z"))
        generation = store.remember(podm("rack-1", zone="z"))
        store.update_stats("rack-1", {"zone": "z"})
        store.change(ONE)
        self.assertEqual("z", store.load_podms()["rack-1"].zone)
        self.assertEqual(generation, store.load_podms()["rack-1"].generation)

    def test_of_one_that_was_never_read_only_the_registration_changes(self):
        store = self.store()
        store.register(msgspec.structs.replace(ONE, zone="z"))
        store.change(ONE)
        self.assertEqual(([ONE], {}), (store.registrations(), store.load_podms()))

    def test_an_unknown_one_is_named_with_those_that_are_known(self):
        store = self.store()
        store.register(ONE)
        for change in (lambda: store.unregister("x"),
                       lambda: store.change(msgspec.structs.replace(ONE, name="x"))):  # fmt: skip
            with self.assertRaises(UnknownName) as caught:
                change()
            self.assertTrue(str(caught.exception).startswith("no pod manager named 'x' "))

    def test_reports_are_listed_by_name(self):
        store = self.store()
        for name in ("c", "a", "b"):
            store.update_stats(name, {"zone": "z"})
        self.assertEqual(["a", "b", "c"], [*store.reported_stats()])
        self.assertEqual(["a", "b", "c"], [*store.report_ages_s()])
        store.forget_report("b")
        self.assertEqual(["a", "c"], [*store.reported_stats()])
        with self.assertRaises(UnknownName):
            store.forget_report("b")

    def test_one_goes_with_what_was_read_of_it(self):
        store = self.store()
        store.register(ONE)
        store.remember(podm("rack-1"))
        store.unregister("rack-1")
        self.assertEqual(([], {}), (store.registrations(), store.load_podms()))
        with self.assertRaises(UnknownName):
            store.unregister("rack-1")

    def test_one_stays_while_something_of_it_is_claimed(self):
        store = self.store()
        store.register(ONE)
        claim = store.claims.create([part("rack-1", store.remember(podm("rack-1")), "c0")])
        with self.assertRaisesRegex(InUse, rf"still has 1 claim \({claim.id}\)"):
            store.unregister("rack-1")
        store.claims.release(claim.id)
        store.unregister("rack-1")


@on_each_engine
class TestRemember:
    """The generation moves with the content and with nothing else."""

    def test_what_was_read_comes_back_with_its_generation(self):
        store = self.store()
        read = podm(read_at="2026-01-01T00:00:00Z", stocks=[{"uri": "s", "resource": "r"}])
        generation = store.remember(read)
        expected = msgspec.structs.replace(read, generation=generation)
        self.assertEqual({"p": expected}, store.load_podms())
        self.assertEqual({"p": expected}, store.load_podms(["p", "q"]))

    def test_only_those_that_are_named_come_back(self):
        store = self.store()
        for name in "cab":
            store.remember(podm(name))
        self.assertEqual(["b", "c"], [*store.load_podms(["c", "b", "absent"])])
        self.assertEqual({}, store.load_podms([]))
        self.assertEqual(["a", "b", "c"], [*store.load_podms()])

    def test_the_time_of_reading_alone_moves_nothing(self):
        store = self.store()
        first = store.remember(podm(read_at="2026-01-01T00:00:00Z"))
        self.assertEqual(first, store.remember(podm(read_at="2026-01-02T00:00:00Z", generation=9)))
        self.assertEqual("2026-01-02T00:00:00Z", store.load_podms()["p"].read_at)
        self.assertEqual(first + 1, store.remember(podm(blocks=2, read_at="2026-01-03T00:00:00Z")))

    def test_a_reading_older_than_the_stored_one_is_left_aside(self):
        store = self.store()
        first = store.remember(podm(blocks=2, read_at="2026-01-02T00:00:00+00:00"))
        self.assertEqual(first, store.remember(podm(blocks=3, read_at="2026-01-01T23:59:59Z")))
        self.assertEqual(2, len(store.load_podms()["p"].blocks))

    def test_one_from_the_future_does_not_keep_out_those_that_come(self):
        store = self.store()
        first = store.remember(podm(blocks=2, read_at="9999-01-01T00:00:00Z"))
        now = podm(blocks=3, read_at="2026-01-01T00:00:00Z")
        self.assertEqual(first + 1, store.remember(now))
        self.assertEqual(
            (3, now.read_at), (len(store.load_podms()["p"].blocks), store.load_podms()["p"].read_at)
        )

    def test_a_generation_never_comes_back(self):
        store = self.store()
        store.register(ONE)
        first = store.remember(podm("rack-1"))
        store.unregister("rack-1")
        store.register(ONE)
        self.assertGreater(store.remember(podm("rack-1")), first)

    def test_a_large_podm_is_stored_whole(self):
        store = self.store()
        store.remember(podm(blocks=20_000))
        self.assertEqual(20_000, len(store.load_podms()["p"].blocks))


@on_each_engine
class TestDecisions:
    """Kept for who asks later."""

    def test_a_decision_is_kept_once_and_as_it_was(self):
        store = self.store()
        store.decisions.save("d-1", to_json(decision(1)))
        store.decisions.save("d-1", DECISION)
        self.assertEqual(decision(1), self.store().decisions.get("d-1"))
        with self.assertRaisesRegex(UnknownName, "no decision named 'd-2' .*'d-1'"):
            store.decisions.get("d-2")
