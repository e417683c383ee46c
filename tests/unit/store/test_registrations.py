# SPDX-License-Identifier: Apache-2.0
"""Registered pod managers: their registrations, failures and identities."""

import contextlib
import threading

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, decision, part, podm
from valence_sched.errors import IdentityConflict, InUse, NameTaken, UnknownName
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.store import tables
from valence_sched.store.maintenance import Maintenance

ONE = Registration(
    name="rack-1", url="https://pod", username="u", password=PasswordReference(env="SECRET")
)


@on_each_engine
class TestRegistry:
    """Each name is used once."""

    def test_what_was_registered_is_there_after_opening_again(self):
        self.store().register(ONE)
        self.assertEqual([ONE], self.store().registrations())

    def test_a_name_is_taken_once_and_case_and_spaces_tell_names_apart(self):
        self.one.register(ONE)
        with self.assertRaises(NameTaken) as caught:
            self.one.register(ONE)
        self.assertEqual("a pod manager named 'rack-1' is already registered: change its "
                         "registration, or choose another name",
                         str(caught.exception))  # fmt: skip
        for name in ("RACK-1", "rack-1 ", "räck-1", "r" * 1024):
            self.one.register(replace(ONE, name=name))
        self.assertEqual(5, len(self.one.registrations()))

    def test_a_change_takes_the_place_of_what_was_there(self):
        self.one.register(ONE)
        moved = replace(ONE, url="https://other")
        self.one.change(moved)
        self.one.change(moved)
        self.assertEqual([moved], self.one.registrations())
        with self.assertRaisesRegex(UnknownName, "did you mean 'rack-1'"):
            self.one.change(replace(ONE, name="rack-2"))

    def test_what_a_registration_has_no_more_is_removed_from_what_was_read(self):
        placed = replace(ONE, zone="z", traits=("T",))
        self.one.register(placed)
        generation = self.one.remember(podm("rack-1", zone="z", traits=("OWN", "T")))
        self.one.remember(podm("rack-2", zone="z", traits=("T",)))
        self.one.change(ONE)
        found = self.one.load_podms()
        self.assertEqual((None, ("OWN",)), (found["rack-1"].zone, found["rack-1"].traits))
        self.assertEqual(generation + 1, found["rack-1"].generation)
        self.assertEqual(("z", ("T",)), (found["rack-2"].zone, found["rack-2"].traits))
        self.one.change(replace(ONE, url="https://other"))
        self.assertEqual(generation + 1, self.one.load_podms()["rack-1"].generation)

    def test_what_a_pod_manager_reports_stays_where_its_registration_has_it_no_more(self):
        self.one.register(replace(ONE, zone="z"))
        generation = self.one.remember(podm("rack-1", zone="z"))
        self.one.update_stats("rack-1", {"zone": "z"})
        self.one.change(ONE)
        self.assertEqual("z", self.one.load_podms()["rack-1"].zone)
        self.assertEqual(generation, self.one.load_podms()["rack-1"].generation)

    def test_of_one_that_was_never_read_only_the_registration_changes(self):
        self.one.register(replace(ONE, zone="z"))
        self.one.change(ONE)
        self.assertEqual(([ONE], {}), (self.one.registrations(), self.one.load_podms()))

    def test_an_unknown_one_is_named_with_those_that_are_known(self):
        self.one.register(ONE)
        unknown = replace(ONE, name="x")
        for change in (lambda: self.one.unregister("x"), lambda: self.one.change(unknown)):
            with self.assertRaises(UnknownName) as caught:
                change()
            self.assertTrue(str(caught.exception).startswith("no pod manager named 'x' "))

    def test_reports_are_listed_by_name(self):
        for name in ("c", "a", "b"):
            self.one.update_stats(name, {"zone": "z"})
        self.assertEqual(["a", "b", "c"], [*self.one.reports()])
        self.one.forget_report("b")
        self.assertEqual(["a", "c"], [*self.one.reports()])
        with self.assertRaises(UnknownName):
            self.one.forget_report("b")

    def test_one_goes_with_what_was_read_of_it(self):
        self.one.register(ONE)
        self.one.remember(podm("rack-1"))
        self.one.unregister("rack-1")
        self.assertEqual(([], {}), (self.one.registrations(), self.one.load_podms()))
        with self.assertRaises(UnknownName):
            self.one.unregister("rack-1")

    def test_one_stays_while_something_of_it_is_claimed(self):
        self.one.register(ONE)
        claim = self.one.claims.create([part("rack-1", self.one.remember(podm("rack-1")), "c0")])
        with self.assertRaisesRegex(InUse, rf"still has 1 claim \({claim.id}\)"):
            self.one.unregister("rack-1")
        self.one.claims.release(claim.id)
        self.one.unregister("rack-1")


@on_each_engine
class TestRemember:
    """The generation changes only with the content."""

    def test_what_was_read_comes_back_with_its_generation(self):
        read = podm(read_at="2026-01-01T00:00:00Z", stocks=[{"uri": "s", "resource": "r"}])
        generation = self.one.remember(read)
        expected = replace(read, generation=generation)
        self.assertEqual({"p": expected}, self.one.load_podms())
        self.assertEqual({"p": expected}, self.one.load_podms(["p", "q"]))

    def test_only_those_that_are_named_come_back(self):
        for name in "cab":
            self.one.remember(podm(name))
        self.assertEqual(["b", "c"], [*self.one.load_podms(["c", "b", "absent"])])
        self.assertEqual({}, self.one.load_podms([]))
        self.assertEqual(["a", "b", "c"], [*self.one.load_podms()])

    def test_the_time_of_reading_alone_moves_nothing(self):
        first = self.one.remember(podm(read_at="2026-01-01T00:00:00Z"))
        self.assertEqual(
            first, self.one.remember(podm(read_at="2026-01-02T00:00:00Z", generation=9))
        )
        self.assertEqual("2026-01-02T00:00:00Z", self.one.load_podms()["p"].read_at)
        self.assertEqual(
            first + 1, self.one.remember(podm(blocks=2, read_at="2026-01-03T00:00:00Z"))
        )

    def test_a_reading_older_than_the_stored_one_is_left_aside(self):
        first = self.one.remember(podm(blocks=2, read_at="2026-01-02T00:00:00+00:00"))
        self.assertEqual(first, self.one.remember(podm(blocks=3, read_at="2026-01-01T23:59:59Z")))
        self.assertEqual(2, len(self.one.load_podms()["p"].blocks))

    def test_one_from_the_future_does_not_keep_out_those_that_come(self):
        first = self.one.remember(podm(blocks=2, read_at="9999-01-01T00:00:00Z"))
        now = podm(blocks=3, read_at="2026-01-01T00:00:00Z")
        self.assertEqual(first + 1, self.one.remember(now))
        self.assertEqual(
            (3, now.read_at),
            (len(self.one.load_podms()["p"].blocks), self.one.load_podms()["p"].read_at),
        )

    def test_a_generation_never_comes_back(self):
        self.one.register(ONE)
        first = self.one.remember(podm("rack-1"))
        self.one.unregister("rack-1")
        self.one.register(ONE)
        self.assertGreater(self.one.remember(podm("rack-1")), first)

    def test_a_large_podm_is_stored_whole(self):
        self.one.remember(podm(blocks=20_000))
        self.assertEqual(20_000, len(self.one.load_podms()["p"].blocks))


@on_each_engine
class TestDecisions:
    """Decisions stored for later."""

    def test_a_decision_is_kept_once_and_as_it_was(self):
        self.one.decisions.save("d-1", to_json(decision(1)))
        self.one.decisions.save("d-1", DECISION)
        self.assertEqual(decision(1), self.store().decisions.get("d-1"))
        with self.assertRaisesRegex(UnknownName, "no decision named 'd-2' .*'d-1'"):
            self.one.decisions.get("d-2")


AWAY = ReadFailure(reason="does not answer")


@on_each_engine
class TestFailures:
    """Failed readings of a pod manager."""

    def setUp(self):
        super().setUp()
        self.other = self.store()

    def fail_reading(self, name="p", failure=AWAY):
        return self.one.record_failures({name: (FullPodm(id=name, status="Offline"), failure)})

    def changes(self, position):
        snapshot = self.other.snapshot(position)
        self.position = snapshot.position
        return [(one.id, one.podm is not None, one.failure and one.failure.reason)
                for one in snapshot.changes]  # fmt: skip

    def test_it_keeps_what_was_read_and_the_time_at_which_failures_began(self):
        before = podm(read_at="2026-01-01T00:00:00Z")
        generation = self.one.remember(before)
        self.assertEqual(["p"], self.fail_reading())
        since = self.other.failures()["p"].since
        self.assertGreater(since, 1e9)
        self.assertEqual([], self.fail_reading())
        self.assertEqual(
            ["p"], self.fail_reading(failure=ReadFailure(reason="login refused", status="Unknown"))
        )
        failure = self.other.failures()["p"]
        self.assertEqual(
            ("login refused", "Unknown", since), (failure.reason, failure.status, failure.since)
        )
        stored = self.other.load_podms()["p"]
        self.assertEqual((3, generation, before.read_at),
                         (len(stored.blocks), stored.generation, stored.read_at))  # fmt: skip

    def test_followers_see_it_begin_and_end_without_the_document(self):
        self.one.remember(podm())
        self.changes(None)
        self.fail_reading()
        self.assertEqual([("p", False, AWAY.reason)], self.changes(self.position))
        self.fail_reading()
        self.assertEqual([], self.changes(self.position))
        self.one.remember_all([podm()])
        self.assertEqual([("p", False, None)], self.changes(self.position))
        self.assertEqual({}, self.other.failures())

    def test_a_new_content_ends_it(self):
        self.one.remember(podm())
        self.fail_reading()
        self.changes(None)
        self.one.remember(podm(blocks=4))
        self.assertEqual([("p", True, None)], self.changes(self.position))

    def test_one_that_was_never_read_is_known_without_blocks(self):
        self.fail_reading()
        self.assertEqual([("p", True, AWAY.reason)], self.changes(None))
        self.assertEqual((), self.other.load_podms()["p"].blocks)
        self.one.remember(podm())
        self.assertEqual([("p", True, None)], self.changes(self.position))

    def test_one_that_was_never_read_has_no_time_of_reading_and_no_identity(self):
        known = {"identity": "uuid:1", "read_at": "2026-01-01T00:00:00Z", "status": "Offline"}
        self.one.record_failures({"p": (FullPodm(id="p", **known), AWAY)})
        stored = self.other.load_podms()["p"]
        self.assertEqual((None, None, "Offline"), (stored.read_at, stored.identity, stored.status))
        self.assertEqual({"p": None}, self.other.read_times(["p"]))
        self.assertEqual({}, self.other.identities())

    def test_it_begins_anew_for_one_that_was_registered_again(self):
        registration = Registration(name="p", url="https://p")
        self.one.register(registration)
        generation = self.one.remember(podm())
        self.fail_reading()
        self.execute(sa.update(tables.podms).values(
            failure=b'{"reason":"does not answer","since":7.0}'))  # fmt: skip
        self.assertEqual([], self.fail_reading())
        self.assertEqual(7.0, self.other.failures()["p"].since)
        self.one.unregister("p")
        self.one.register(registration)
        self.changes(None)
        self.assertEqual(["p"], self.fail_reading())
        self.assertGreater(self.other.failures()["p"].since, 1e9)
        self.assertEqual([("p", True, AWAY.reason)], self.changes(self.position))
        stored = self.other.load_podms()["p"]
        self.assertEqual((), stored.blocks)
        self.assertGreater(stored.generation, generation)

    def test_a_report_stays_with_it(self):
        self.one.update_stats("p", {"zone": "z"})
        self.assertEqual(["p"], self.fail_reading())
        self.assertEqual({"zone": "z"}, self.other.reports()["p"].stats)
        self.assertEqual("z", self.other.load_podms()["p"].zone)

    def test_each_has_its_own(self):
        self.one.remember_all([podm("a"), podm("b"), podm("c")])
        reasons = {name: f"{name} is away" for name in "ab"}
        self.one.record_failures(
            {name: (FullPodm(id=name), ReadFailure(reason=why)) for name, why in reasons.items()}
        )
        found = self.other.failures()
        self.assertEqual(reasons, {name: one.reason for name, one in found.items()})
        self.assertEqual(["a", "b"], [*found])
        again = {name: (FullPodm(id=name), found.get(name, AWAY)) for name in "abcd"}
        self.assertEqual(["c", "d"], self.one.record_failures(again))

    def test_a_report_does_not_end_it(self):
        self.one.remember(podm())
        self.fail_reading()
        self.one.update_stats("p", {"zone": "z"})
        self.assertEqual(["p"], [*self.other.failures()])

    def test_a_claim_stays_with_a_change_of_state(self):
        generation = self.one.remember(podm())
        self.one.claims.create([part("p", generation, "c0")])
        self.changes(None)
        self.fail_reading()
        (change,) = self.other.snapshot(self.position).changes
        self.assertEqual(({"c0": 1}, False), (change.usage.blocks, change.incremental))

    def test_it_goes_with_the_registration(self):
        self.one.register(Registration(name="p", url="https://p"))
        self.fail_reading()
        self.one.unregister("p")
        self.assertEqual({}, self.other.failures())
        self.fail_reading()
        self.assertEqual(["p"], [*self.other.failures()])

    def test_several_at_once(self):
        readings = {f"p{n}": (FullPodm(id=f"p{n}"), AWAY) for n in range(120)}
        self.assertEqual(sorted(readings), sorted(self.one.record_failures(readings)))
        self.assertEqual(sorted(readings), sorted(self.other.failures()))


@on_each_engine
class TestFailuresOfRegistered:
    """A follower sees that registrations changed."""

    def test_each_change_is_seen_once(self):
        one, other = self.store(), self.store()
        position = other.snapshot().position
        at_url = Registration(name="p", url="https://p")
        for change in (
            lambda: one.register(at_url),
            lambda: one.change(Registration(name="p", url="https://p", zone="z")),
            lambda: one.unregister("p"),
        ):
            self.assertFalse(other.snapshot(position).registry_changed)
            change()
            snapshot = other.snapshot(position)
            self.assertTrue(snapshot.registry_changed)
            position = snapshot.position
        with self.assertRaises(UnknownName):
            one.unregister("p")
        self.assertFalse(other.snapshot(position).registry_changed)

    def test_times_of_readings(self):
        one = self.store()
        one.remember_all([podm("a", read_at="2026-01-01T00:00:00Z"), podm("b")])
        times = {"a": "2026-01-01T00:00:00Z", "b": None}
        self.assertEqual(times, one.read_times(["a", "b", "c"]))


U, V = "uuid:11111111-2222-4333-8444-555555555555", "uuid:99999999-2222-4333-8444-555555555555"
HERE, THERE = "address:127.0.0.1:8000", "address:127.0.0.2:8000"


def named(name, identity, *uris):
    """Return a pod manager with an identity, of two blocks or of these."""
    one = podm(name, 2, identity=identity)
    blocks = [replace(one.blocks[0], uri=uri) for uri in uris]
    return replace(one, blocks=tuple(blocks)) if uris else one


@on_each_engine
class TestIdentities:
    """Identities that are stored, refused and learned."""

    def register(self, name, identity=None):
        self.one.register(Registration(name=name, url=f"http://{name}", identity=identity))

    def kept(self, *names):
        """Return the stored names of pod managers that are read in this order."""
        return [name for name, one in zip(names, self.one.upsert_all(
            [named(name, U) for name in names]), strict=True)
            if not isinstance(one, IdentityConflict)]  # fmt: skip

    def test_one_service_is_stored_under_one_name_whoever_comes_second(self):
        self.assertEqual(["a"], self.kept("a", "b"))
        self.register("a")
        self.assertEqual(["a"], self.kept("b", "a"))
        with self.assertRaisesRegex(
            IdentityConflict, "'b' is the same service as 'a'.*podm delete"
        ):
            self.one.remember(named("b", U))
        with self.assertRaisesRegex(IdentityConflict, "'c' is the same service as 'a'"):
            self.register("c", U)
        self.assertEqual({"a": U}, self.one.identities())

    def test_a_name_that_is_neither_registered_nor_in_use_can_change(self):
        self.one.remember(named("a", U))
        self.one.remember(named("b", U))
        claim = self.one.claims.create([part("b", 1, "c0")])
        with self.assertRaisesRegex(IdentityConflict, "'a' is the same service as 'b'"):
            self.one.remember(named("a", U))
        self.one.claims.release(claim.id)
        self.one.remember(named("a", U))
        self.assertEqual({"a": U}, self.one.identities())

    def test_another_service_is_not_stored_under_a_name_and_is_once_it_is_accepted(self):
        for known, found, refused in (
            (named("a", U), named("a", U), False),
            (named("a", U), named("a", V), True),
            (named("a", U), named("a", HERE), True),
            (named("a", U), named("a", None), False),
            (named("a", None), named("a", U), False),
            (named("a", HERE), named("a", U), False),
            (named("a", HERE), named("a", THERE), True),
            (named("a", HERE, "x", "y"), named("a", HERE, "y", "z"), False),
            (named("a", HERE, "x", "y"), named("a", HERE, "z"), True),
            (named("a", HERE, "x"), named("a", U, "z"), True),
            (named("a", U, "x"), named("a", U, "z"), False),
        ):
            with self.subTest(known=known.identity, found=found.identity, blocks=found.blocks):
                self.register("a")
                self.one.remember(known)
                before = self.one.load_podms()["a"]
                expected = (
                    self.assertRaisesRegex(IdentityConflict, "another service.*unset a --identity")
                    if refused else contextlib.nullcontext()
                )  # fmt: skip
                with expected:
                    self.one.remember(found)
                if refused:
                    self.assertEqual(before, self.one.load_podms()["a"])
                    self.one.change(Registration(name="a", url="http://a"))
                    self.one.remember(found)
                (registered,) = self.one.registrations()
                self.assertEqual(found.identity or known.identity, registered.identity)
                self.one.unregister("a")

    def test_an_identity_that_was_registered_counts_before_anything_is_read(self):
        self.register("a", U)
        with self.assertRaisesRegex(IdentityConflict, f"was {U} and is now {V}"):
            self.one.remember(named("a", V))
        with self.assertRaisesRegex(IdentityConflict, "'b' is the same service as 'a'"):
            self.one.remember(named("b", U))
        self.one.unregister("a")
        self.one.remember(named("b", U))

    def test_of_many_in_one_batch_only_those_that_conflict_are_left_out(self):
        self.register("p3", V)
        every = [named(f"p{number}", f"uuid:{number}") for number in range(120)]
        before = self.one.counts.transactions
        results = self.one.upsert_all([*every, named("twice", "uuid:7")])
        self.assertLess(self.one.counts.transactions - before, 8)
        refused = [str(one) for one in results if isinstance(one, IdentityConflict)]
        self.assertEqual(2, len(refused), refused)
        self.assertEqual(119, len(self.one.load_podms()))

    def test_two_that_read_one_service_at_once_store_it_once(self):
        stores, outcomes = [self.store() for _ in range(4)], []
        barrier = threading.Barrier(len(stores))

        def read(number):
            barrier.wait()
            outcomes.extend(stores[number].upsert_all([named(f"n{number}", U)]))

        threads = [threading.Thread(target=read, args=(n,)) for n in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(self.one.identities()), outcomes)

    def test_a_store_of_before_is_upgraded_and_learns(self):
        self.register("a")
        self.one.remember(named("a", None))
        with Maintenance(self.url) as older:
            older.downgrade("0001")
        again = self.store()
        again.remember(named("a", U))
        self.assertEqual({"a": U}, again.identities())
        self.assertEqual(U, again.registrations()[0].identity)
        with self.assertRaises(IdentityConflict):
            again.remember(named("b", U))
