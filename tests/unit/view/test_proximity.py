# SPDX-License-Identifier: Apache-2.0
"""Being near to things outside: who is, how it is scored, how a rejection reads (S16)."""

import unittest

from tests.unit.core.deciders import built_in, cpus, engine_of
from valence_sched.core.decider import Decider
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError, UnknownName
from valence_sched.filters.near import near as keeps
from valence_sched.model.proximity import (
    ExternalResource,
    Place,
    external_resources,
    resolve_resource,
)
from valence_sched.model.request import Proximity
from valence_sched.testing import request, view
from valence_sched.weighers.near import near as scores

PODMS = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1", "labels": ["p", "q"]}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)
WORKING = tuple({**podm, "blocks": cpus(2)} for podm in PODMS)


def asked(*near: Proximity):
    return request({"processor": {"sockets": 1}}, near=near)


class Shelf:
    """Somebody who knows one volume, and another without its place."""

    where = "shelf"

    def find(self, kind, name):
        places = {"v-1": Place(zone="z1"), "v-2": Place()}
        return places.get(name) if kind == "volume" else None

    def known(self, kind):
        return ["v-1", "v-2"] if kind == "volume" else []

    def kinds(self):
        return ["volume"]


class TestNear(unittest.TestCase):
    """Filter and weigher."""

    def test_all_that_is_told_must_be_shared_and_of_aggregates_one(self):
        for place, verdicts in (
            (Place(zone="z1"), [True, False, False]),
            (Place(aggregates=("x",)), [True, True, False]),
            (Place(aggregates=("y", "w")), [False, True, False]),
            (Place(facts={"rack": "r1"}), [True, False, False]),
            (Place(facts={"rack": ("r1", "r2")}), [True, True, False]),
            (Place(facts={"labels": "q"}), [True, False, False]),
            (Place(zone="z2", aggregates=("x",), facts={"rack": "r1"}), [False, False, False]),
            (Place(zone="z2", aggregates=("x",), facts={"rack": "r2"}), [False, True, False]),
        ):
            with self.subTest(place):
                near = place.for_resource(ExternalResource("volume", "v"))
                self.assertEqual(verdicts, keeps(view(*PODMS), asked(near)).tolist())

    def test_each_of_several_things_must_be_near_and_a_soft_one_need_not(self):
        first, second = Proximity(thing="v", zone="z1"), Proximity(thing="w", aggregates=("y",))
        soft = Proximity(thing="w", aggregates=("y",), soft=True)
        self.assertEqual([False] * 3, keeps(view(*PODMS), asked(first, second)).tolist())
        self.assertEqual([True, False, False], keeps(view(*PODMS), asked(first, soft)).tolist())

    def test_the_score_is_the_mean_over_things_of_the_share_that_holds(self):
        first = Proximity(thing="v", zone="z1", aggregates=("x",), soft=True)
        second = Proximity(thing="w", facts={"rack": "r2"}, soft=True)
        must = Proximity(thing="u", zone="nowhere")
        self.assertEqual([1.0, 0.5, 0.0], scores(view(*PODMS), asked(first)).tolist())
        both = scores(view(*PODMS), asked(must, first, second)).tolist()
        self.assertEqual([0.5, 0.75, 0.0], both)
        self.assertEqual([1.0] * 3, scores(view(*PODMS), asked(must)).tolist())

    def test_s16_a_request_near_a_volume_picks_a_pod_manager_of_its_domain(self):
        volume = Proximity(thing="volume X", zone="z2")
        decision = engine_of(*WORKING).select_destinations(asked(volume))
        self.assertEqual("b", decision.placements[0].chosen.podm)
        reasons = [
            reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "near"
        ]
        self.assertEqual(["near: zone of volume X: needs z2, has z1"], reasons)

    def test_a_wish_moves_the_choice_and_nothing_wished_leaves_the_scores_alone(self):
        engine = engine_of(*WORKING)
        plain = engine.select_destinations(asked()).placements[0].chosen
        self.assertEqual({"room"}, set(plain.scores))
        for podm, zone in (("a", "z1"), ("b", "z2")):
            wish = asked(Proximity(thing="volume X", zone=zone, soft=True))
            chosen = engine.select_destinations(wish).placements[0].chosen
            self.assertEqual((podm, 1.0), (chosen.podm, chosen.scores["near"]))

    def test_two_questions_that_differ_only_in_what_is_near_are_not_confused(self):
        engine = engine_of(*WORKING)
        for podm, zone in (("a", "z1"), ("b", "z2"), ("a", "z1")):
            found = engine.select_destinations(asked(Proximity(thing="v", zone=zone)))
            self.assertEqual(podm, found.placements[0].chosen.podm)

    def test_a_policy_without_the_plugin_refuses(self):
        (chance,) = [policy for policy in built_in() if policy.name == "chance"]
        engine = Decider(view(*WORKING), [chance])
        for soft, word in ((False, "filter"), (True, "weigher")):
            wish = request({"processor": {"sockets": 1}}, policy="chance",
                           near=[{"thing": "v", "zone": "z1", "soft": soft}])  # fmt: skip
            with self.assertRaisesRegex(RequestError, f"has no {word} 'near'"):
                engine.select_destinations(wish)


class TestThings(unittest.TestCase):
    """From names to places."""

    def test_a_map_of_kinds_gives_things(self):
        said = {"volume": "v", "port": ["p", "q"]}
        found = external_resources(said, soft=True)
        self.assertEqual(["volume v", "port p", "port q"], [thing.text for thing in found])
        self.assertEqual({True}, {thing.soft for thing in found})
        for wrong in ({"volume": ""}, {"": "v"}, {"volume": ["v", ""]}):
            with self.assertRaisesRegex(RequestError, "a kind and a name"):
                external_resources(wrong)

    def test_the_first_who_knows_a_thing_tells_its_place(self):
        near = resolve_resource(ExternalResource("volume", "v-1", soft=True), [Shelf()])
        self.assertEqual(Proximity(thing="volume v-1", zone="z1", soft=True), near)

    def test_what_nobody_knows_is_refused_with_where_was_looked_and_the_nearest(self):
        with self.assertRaises(UnknownName) as caught:
            resolve_resource(ExternalResource("volume", "v-11"), [Shelf(), Shelf()])
        line = "looked in shelf, shelf: no volume named 'v-11' (did you mean 'v-1'?)"
        self.assertEqual(line, str(caught.exception))
        with self.assertRaisesRegex(RequestError, "shelf knows volume v-2 but does not tell where"):
            resolve_resource(ExternalResource("volume", "v-2"), [Shelf()])
        with self.assertRaisesRegex(RequestError, "nobody is there to ask .* --near-map"):
            resolve_resource(ExternalResource("volume", "v-1"), [])
