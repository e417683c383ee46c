# SPDX-License-Identifier: Apache-2.0
"""Claims over a tree of zones: complete or not at all, if a zone refuses, dies or is silent."""

import contextlib
import dataclasses
import threading
import time
import unittest

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.lifecycle.site import request
from tests.unit.store.engines import raw_engine
from tests.unit.zones.in_process import InProcessZone, served_tree
from valence_sched.errors import (
    ClaimLost,
    NameTaken,
    QuotaExceeded,
    SchedulerError,
    StaleOffer,
    UnknownName,
)
from valence_sched.model.decision import SilentZone
from valence_sched.model.zone import ZoneClaimBody
from valence_sched.store import tables

#: Nodes that are as far apart as possible: one on each pod manager.
APART = {"group": {"name": "web", "anti_affinity": ["podm"]}, "owner": "alice"}


class TreeCase(unittest.TestCase):
    """A test case with a zone over ``east``, with ``e1`` below it, and ``west``; each has a pod
    manager.
    """

    podms = ("top-p", "east-p", "e1-p", "west-p")
    faults: tuple[str, ...] = ()
    words: dict = {}  # noqa: RUF012 - of the zones

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder, self.served = stack.enter_context(served_tree(*self.podms, fail=self.faults))
        self.e1 = self.zone("e1")
        self.east, self.west = self.zone("east", self.e1), self.zone("west")
        self.top = self.zone("top", self.east, self.west)
        self.zones = (self.top, self.east, self.e1, self.west)

    def zone(self, name, *children):
        own = [self.served[f"{name}-p"]] if f"{name}-p" in self.served else []
        zone = InProcessZone(name, self.folder, own, children, **self.words)
        self.addCleanup(zone.store.close)
        return zone

    def apart(self, count=4, **words):
        return request(**{**APART, "count": count, **words})

    def held(self):
        """Return the held blocks by zone."""
        return {zone.name: blocks for zone in self.zones if (blocks := zone.held_blocks())}

    def body(self, count=4, **words):
        asked = self.apart(count)
        tokens = tuple(node.chosen.token for node in self.top.select(asked).nodes)
        return ZoneClaimBody(request=asked, tokens=tokens, **words)

    def rows(self, zone, table=tables.zone_claims):
        engine = raw_engine(zone.state)
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            return connection.execute(sa.select(table)).all()

    def pass_time(self, zone):
        """Let all prepared parts and holds of a zone expire."""
        past = {"expires_at": 1.0, "sweep_at": 1.0}
        held = tables.claims.c.state.in_(("PREPARED", "HELD"))
        self.pass_time_of_rows(zone, sa.update(tables.claims).where(held).values(past))

    def pass_time_of_rows(self, zone, *changes):
        """Let the zone claims of a zone expire, and change other columns."""
        engine = raw_engine(zone.state)
        with engine.begin() as connection:
            for change in (sa.update(tables.zone_claims).values(expires_at=1.0), *changes):
                connection.execute(change)
        engine.dispose()

    def breaks(self, zone, verb, error, *, after=False):
        """Let a verb of a zone fail, at its start or ``after`` its work."""
        call = getattr(zone, verb)

        def broken(*words, **named):
            if after:
                call(*words, **named)
            raise error

        zone.__dict__[verb] = broken


class TestHeld(TreeCase):
    """Four nodes in four zones, three of them below."""

    def test_one_claim_holds_the_nodes_of_all_zones(self):
        """S41: the merged plan is held."""
        claim = self.top.claim(self.apart(), ttl_s=90).claim
        self.assertEqual({"top", "east", "e1", "west"}, self.held().keys())
        self.assertEqual(["east/e1/e1-p", "east/east-p", "top-p", "west/west-p"],
                         sorted(claim.podms))  # fmt: skip
        self.assertEqual(("HELD", "alice", 4), (claim.state, claim.owner, claim.nodes))
        numbers = sorted(share.node for part in claim.parts for share in part.shares)
        self.assertEqual([1, 2, 3, 4], numbers)
        for zone in self.zones:
            for own in zone.store.claims.list():
                self.assertAlmostEqual(90, own.expires_at - time.time(), delta=30)

    def test_no_zone_has_a_row_of_one_below_its_children(self):
        """S71: a store has only the child zones, and the claims in them."""
        self.top.claim(self.apart())
        (row,) = self.rows(self.top)
        self.assertIn(b'"east"', row.document)
        self.assertEqual([], self.rows(self.e1))
        (claim,) = self.top.store.zone_claims.list()
        self.assertEqual({"", "east", "west"}, {part.zone for part in claim.parts})
        for table in tables.METADATA.sorted_tables:
            for row in self.rows(self.top, table):
                self.assertNotRegex(repr(tuple(row)), '"e1"|e1-p')

    def test_a_node_in_one_zone_is_held_there_for_the_whole_time_at_once(self):
        claim = self.top.claim(request(podms=["e1-p"], owner="alice"), ttl_s=90).claim
        self.assertEqual(("east/e1/e1-p",), claim.podms)
        self.assertEqual(0, self.east.calls.count("renew"))
        (own,) = self.e1.store.claims.list()
        self.assertAlmostEqual(90, own.expires_at - own.created_at, places=2)

    def test_a_key_gives_the_same_claim_at_every_level(self):
        first = self.top.claim(self.apart(), key="k").claim
        held = self.held()
        again = self.top.claim(self.apart(), key="k")
        self.assertEqual((first, None), (again.claim, again.selected))
        self.assertEqual(held, self.held())
        with self.assertRaises(NameTaken):
            self.top.claim(self.apart(2), key="k")
        body = self.body(1)
        below = self.top.hold_offers(body, key="j")
        self.assertEqual(below, self.top.hold_offers(body, key="j"))

    def test_a_call_that_goes_in_a_circle_or_too_deep_ends(self):
        with self.assertRaisesRegex(SchedulerError, "cycle"):
            self.top.hold_offers(self.body(route=("top",)))
        with self.assertRaisesRegex(SchedulerError, "too deep"):
            self.top.hold_offers(self.body(hops=0))
        self.assertEqual({}, self.held())

    def test_tokens_of_others_are_refused(self):
        body = self.body()
        with self.assertRaises(StaleOffer):
            self.west.hold_offers(body)
        with self.assertRaises(StaleOffer):
            self.top.hold_offers(replace(body, tokens=("x",)))
        self.assertEqual({}, self.held())

    def test_nothing_fits_is_no_claim(self):
        outcome = self.top.claim(self.apart(5))
        self.assertIsNone(outcome.claim)
        self.assertEqual(4, len(outcome.selected.nodes))
        self.assertEqual({}, self.held())


class TestAllOrNothing(TreeCase):
    """A part that cannot be held."""

    def test_where_one_zone_refuses_the_others_release(self):
        body = self.body()
        self.west.claim(request(count=2))  # all its blocks
        with self.assertRaisesRegex(ClaimLost, "zone west: west-p: block .* is not free in pool"):
            self.top.hold_offers(body)
        self.assertEqual({"west"}, self.held().keys())
        self.assertEqual([], list(self.top.store.zone_claims.list()))
        self.assertEqual([], list(self.east.store.zone_claims.list()))

    def test_what_was_lost_is_decided_again(self):
        first = self.top.select

        def select_and_lose(asked, left_out):
            selected = first(asked, left_out)
            if not self.west.held_blocks():
                (token,) = [one.chosen.token for one in selected.nodes if one.chosen.zone == "west"]
                self.top.hold_offers(ZoneClaimBody(request=request(), tokens=(token,)))
            return selected

        outcome = self.top.claims_here.claim(self.apart(), select_and_lose)
        self.assertEqual(1, outcome.retries)
        self.assertEqual(4, outcome.claim.nodes)

    def test_a_dead_zone_is_named_and_the_others_release(self):
        body = self.body()
        self.west.dead = True
        with self.assertRaisesRegex(ClaimLost, "zone west: west: does not answer"):
            self.top.hold_offers(body)
        self.assertEqual({}, self.held())

    def test_a_claim_is_decided_again_without_a_zone_that_died(self):
        first = self.top.select

        def select_and_die(asked, left_out):
            selected = first(asked, left_out)
            self.west.dead = True
            return selected

        outcome = self.top.claims_here.claim(self.apart(min_count=2), select_and_die)
        self.assertEqual(["east/e1/e1-p", "east/east-p", "top-p"], sorted(outcome.claim.podms))

    def test_always_losing_ends_with_the_name_of_the_zone(self):
        def select_and_die(asked, _left_out):
            self.west.dead = False
            selected = self.top.select(asked)
            self.west.dead = True
            return selected

        with self.assertRaisesRegex(ClaimLost, "lost 3 consecutive races, the last one: zone west"):
            claims = dataclasses.replace(self.top.claims_here, most_attempts=3)
            claims.claim(self.apart(), select_and_die)
        self.assertEqual({}, self.held())


class TestHarmful(TreeCase):
    """A zone that offers nodes it does not hold: its siblings serve the request."""

    def refuse(self, answer):
        """Let west refuse to hold with this error; return the number of attempts."""
        hold, asked = self.west.claims_here.hold_offers, []

        def hold_offers(body, *, key=None):
            asked.append(key)
            return answer(lambda: hold(body, key=key))

        self.west.__dict__["hold_offers"] = hold_offers
        return asked

    def raises(self, error):
        def answer(_hold):
            raise error("no")

        return answer

    def test_it_is_left_out_at_once_or_after_the_second_loss(self):
        only_two = request(owner="alice", exclude_podms=["top-p", "e1-p"], policy="chance")
        for answer, most in (
            (self.raises(StaleOffer), 2),
            (self.raises(ClaimLost), 2),
            (self.raises(NameTaken), 1),
            (lambda hold: replace(hold(), id="../" * 100), 1),
            (lambda hold: replace(hold(), id=""), 1),
            (lambda hold: replace(hold(), parts=()), 1),
            (lambda hold: replace(hold(), parts=hold().parts * 20_000), 1),
        ):
            asked = self.refuse(answer)
            for seed in range(4):
                claim = self.top.claim(replace(only_two, seed=seed)).claim
                self.assertEqual(("east/east-p",), claim.podms)
                self.assertLessEqual(len(asked), most)
                asked.clear()
                self.assertEqual([], list(self.top.release([claim.id])))

    def test_its_error_is_raised_where_no_other_zone_serves(self):
        self.refuse(self.raises(QuotaExceeded))
        with self.assertRaisesRegex(QuotaExceeded, "zone west: no"):
            self.top.claim(self.apart())
        with self.assertRaisesRegex(QuotaExceeded, "zone west: no"):
            self.top.claim(request(owner="alice", podms=["west/west-p"]))
        with self.assertRaisesRegex(QuotaExceeded, "zone west: no"):
            self.top.hold_offers(self.body())
        self.assertEqual({}, self.held())

    def test_one_that_lost_twice_is_asked_again_where_no_other_serves(self):
        hold, losses = self.west.claims_here.hold_offers, []

        def lose_thrice(body, *, key=None):
            losses.append(key)
            if len(losses) <= 3:
                raise ClaimLost("taken")
            return hold(body, key=key)

        self.west.__dict__["hold_offers"] = lose_thrice
        outcome = self.top.claim(self.apart())
        self.assertEqual((3, 4), (outcome.retries, outcome.claim.nodes))


class TestDeaths(TreeCase):
    """The remains of a claim during which a zone died."""

    def test_what_was_prepared_expires_by_itself_where_the_parent_dies(self):
        body = self.body(ttl_s=600.0)
        for child in (self.east, self.west):
            self.breaks(child, "renew", KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            self.top.hold_offers(body, key="k")
        for zone in (self.east, self.e1, self.west):
            for claim in zone.store.claims.list(("HELD",)):
                self.assertLess(claim.expires_at - claim.created_at, 300.0)
        for zone in self.zones:
            zone.__dict__.pop("renew", None)
            self.pass_time(zone)
        self.assertEqual({}, {name: held for name, held in self.held().items() if name != "top"})
        self.assertEqual("HELD", self.top.claim(self.apart(), key="k").claim.state)

    def test_reaping_frees_what_was_prepared_and_never_answered(self):
        """The row of the intent suffices: parts are found by their key."""
        self.breaks(self.west, "hold_offers", KeyboardInterrupt(), after=True)
        with self.assertRaises(KeyboardInterrupt):
            self.top.hold_offers(self.body())
        self.assertIn("west", self.held())
        self.assertEqual([], list(self.top.nodes_here.reap()))
        self.pass_time_of_rows(self.top)
        (action,) = self.top.nodes_here.reap(dry_run=True)
        self.assertEqual("would be ended in these zones", action.done)
        self.assertIn("west", self.held())
        (action,) = self.top.nodes_here.reap()
        self.assertEqual("freed its holds: not composed in time", action.done)
        self.assertEqual({}, self.held())
        self.assertEqual([], list(self.top.nodes_here.reap()))

    def test_a_dry_run_ends_no_claim_whose_time_is_over(self):
        self.top.hold_offers(self.body())
        self.pass_time(self.top)
        for dry_run, state in ((True, "HELD"), (False, "EXPIRED")):
            self.assertEqual([], list(self.top.nodes_here.reap(dry_run=dry_run)))
            self.assertEqual([state], [row.state for row in self.rows(self.top)])

    def test_a_zone_that_hangs_costs_its_deadline_and_is_reaped_later(self):
        hold, go, done = self.west.claims_here.hold_offers, threading.Event(), threading.Event()

        def hold_late(body, *, key=None):
            go.wait(30)
            try:
                return hold(body, key=key)
            finally:
                done.set()

        self.west.__dict__["hold_offers"] = hold_late
        with self.assertRaisesRegex(ClaimLost, "zone west: it did not answer in time"):
            self.top.hold_offers(self.body(deadline_s=4.0))
        go.set()
        done.wait(30)
        self.assertEqual({"west"}, self.held().keys())
        (action,) = self.top.nodes_here.reap()
        self.assertEqual("freed its holds: some parts could not be claimed", action.done)
        self.assertEqual({}, self.held())


class TestVerbs(TreeCase):
    """Renew, release, list and show, by id and by path."""

    def test_a_claim_is_renewed_in_all_zones(self):
        claim = self.top.claim(self.apart(), ttl_s=60).claim
        renewed = self.top.renew(claim.id, 6000)
        self.assertEqual(claim.parts, renewed.parts)
        for zone in self.zones:
            for own in zone.store.claims.list():
                self.assertAlmostEqual(6000, own.expires_at - time.time(), delta=60)
        self.west.dead = True
        with self.assertRaisesRegex(SchedulerError, "zone west: west: does not answer"):
            self.top.renew(claim.id, 60)

    def test_a_claim_is_released_in_all_zones(self):
        claim = self.top.claim(self.apart()).claim
        self.assertEqual([], list(self.top.release([claim.id])))
        self.assertEqual({}, self.held())
        self.assertEqual([], list(self.top.release([claim.id])))
        self.assertEqual("RELEASED", self.top.claim_record(claim.id).claim.state)

    def test_a_release_that_a_zone_does_not_hear_is_named_and_finished_later(self):
        claim = self.top.claim(self.apart()).claim
        self.west.dead = True
        (error,) = self.top.release([claim.id])
        self.assertIn("zone west: west: does not answer", str(error))
        self.assertEqual({"west"}, self.held().keys())
        (action,) = self.top.nodes_here.reap()
        self.assertIn("unchanged: zone west", action.done)
        self.west.dead = False
        (action,) = self.top.nodes_here.reap()
        self.assertIn("freed its holds", action.done)
        self.assertEqual({}, self.held())

    def test_claims_are_listed_once_and_those_of_below_by_their_path(self):
        ours = self.top.claim(self.apart()).claim
        theirs = self.e1.own.claim(request(owner="bob")).claim
        listed = self.top.claims()
        self.assertEqual([ours.id, f"east/e1/{theirs.id}"], [one.id for one in listed])
        self.assertEqual(ours.parts, listed[0].parts)
        self.assertEqual([listed[1]], list(self.top.claims(owner="bob")))
        self.assertEqual([ours.id], [one.id for one in self.top.claims(podm="west/west-p")])
        self.assertEqual(listed[1], self.top.claim_record(listed[1].id).claim)
        self.assertEqual(([], ()), (self.top.silent, self.top.claims().silent))
        self.assertEqual([], list(self.top.release([listed[1].id])))
        self.assertEqual([ours.id], [one.id for one in self.top.claims()])

    def test_a_zone_that_does_not_answer_is_named_in_a_list(self):
        claim = self.top.claim(self.apart()).claim
        self.west.dead = True
        found = self.top.claims()
        (listed,) = found
        self.assertNotIn("west/west-p", listed.podms)
        reason = "west: does not answer"
        self.assertEqual((SilentZone(zone="west", reason=reason),), found.silent)
        self.assertEqual(["west"], [one.zone for one in self.top.silent])
        record = self.top.claim_record(claim.id)
        self.assertEqual("zone west: west: does not answer", record.claim.note)

    def test_a_list_names_silent_zones_of_every_level(self):
        self.e1.dead = True
        reason = "e1: does not answer"
        for found in (self.top.claims(), self.top.nodes(), self.top.claims(podm="nothing")):
            self.assertEqual((SilentZone(zone="east/e1", reason=reason),), found.silent)
        self.assertEqual((), self.top.nodes(podm="west/west-p").silent)

    def test_what_nobody_has_is_unknown(self):
        for name in ("nothing", "west/nothing", "east/e1/nothing"):
            with self.assertRaises(UnknownName):
                self.top.claim_record(name)
            (error,) = self.top.release([name])
            self.assertIsInstance(error, UnknownName)
