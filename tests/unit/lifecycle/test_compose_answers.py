# SPDX-License-Identifier: Apache-2.0
"""Composing by what a pod manager answers: each error in its words, each step in its order."""

from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    COMPOSED,
    DOWN,
    LONG,
    PART,
    URI,
    ComposeCase,
    Watched,
)
from tests.unit.store.site import expire
from valence_sched.errors import ClaimLost, ClaimState, ComposeFailed, Unverified
from valence_sched.lifecycle.compose import RECONCILE_HINT
from valence_sched.model.composition import composition_request


class TestComposed(ComposeCase):
    """A node that is made."""

    def test_each_step_is_marked_and_each_state_told(self):
        node = self.composer(Watched()).compose(self.claim)
        self.assertEqual(["held", "intent", "checked", "reserved", "specific", "read back",
                          "confirmed"], self.points)  # fmt: skip
        subject = f"node vs-{self.claim.id} on p"
        self.assertEqual([(subject, "checking"), (subject, "specific")], self.states)
        self.assertEqual([node], [replace(one, created_at=0.0) for one in self.store.nodes.list()])
        name = f"vs-{self.claim.id}"
        self.assertEqual((name, name, "p", URI, ("c0",)),
                         (node.id, node.name, node.podm, node.uri, node.blocks))  # fmt: skip
        self.assertEqual([f"node {name} is composed on p: {URI}, claim {self.claim.id}"],
                         self.lines())  # fmt: skip

    def test_without_a_reservation_that_is_marked(self):
        self.composer(Watched(reserve=False)).compose(self.claim)
        self.assertEqual("not reserved", self.points[3])

    def test_every_question_is_about_the_very_node(self):
        known = self.store.load_podms()["p"]
        wanted = composition_request(self.claim, self.claim.parts[0].shares[0], known)
        self.assertTrue(wanted.devices.processors)
        scripted = Watched(compose=PART)
        self.error(ComposeFailed, scripted)
        verbs = ["refusal", "conflicts", "reserve", "compose", "remove", "unreserve"]
        self.assertEqual([(verb, wanted) for verb in verbs], scripted.requests)
        subject = f"node vs-{self.claim.id} on p"
        told = [(subject, "checking"), (subject, "specific"), (subject, "removing it")]
        self.assertEqual(told, self.states)
        self.assertEqual("taken back", self.points[-1])

    def test_after_an_error_the_very_node_is_read_back(self):
        scripted = Watched(compose=DOWN, read_node=COMPOSED)
        self.composer(scripted).compose(self.claim)
        requests = dict(scripted.requests)
        self.assertEqual(requests["compose"], requests["read_node"])

    def test_what_happens_is_in_the_history(self):
        self.composer(Watched()).compose(self.claim)
        kinds = [one.kind for one in self.store.events(self.claim.id)]
        self.assertEqual(["held", "composing", "reserving", "composed"], kinds)

    def test_the_intent_lasts_as_long_as_the_composer_says(self):
        def compose(_request, _watch):
            claim = self.store.claims.show(self.claim.id)
            self.assertAlmostEqual(77.0, claim.expires_at - claim.created_at, delta=5.0)
            line = f"claim {claim.id} is COMPOSING as vs-{claim.id} on p: {RECONCILE_HINT}"
            self.assertEqual([line], self.lines())
            return COMPOSED

        scripted = Watched()
        scripted.compose = compose
        self.composer(scripted, ttl_s=77.0).compose(self.claim)

    def test_what_is_not_held_is_not_begun(self):
        expire(self, self.claim)
        self.error(ClaimState, Watched())
        self.assertEqual(["held"], self.points)


class TestNotBegun(ComposeCase):
    """Nothing was written to the pod manager: the claim is given up, and the note says why."""

    def check(self, kind, scripted, line, note, points):
        error = self.error(kind, scripted)
        self.assertEqual((line, "p"), (str(error), error.podm))
        self.assertEqual(("FAILED", note), self.ended())
        self.assertEqual(points, self.points)
        self.assertEqual([], self.lines())

    def test_it_refuses(self):
        self.check(ComposeFailed, Watched(refusal="none of these"), "p: none of these",
                   "not begun: none of these", ["held", "intent", "checked"])  # fmt: skip

    def test_it_does_not_answer(self):
        for scripted in (DOWN, Watched(refusal=DOWN), Watched(conflicts=DOWN)):
            self.setUp()
            self.check(ComposeFailed, scripted, "p: connection refused",
                       "not begun: connection refused", ["held", "intent"])  # fmt: skip

    def test_a_refusal_is_enough(self):
        scripted = Watched(refusal="no", conflicts=DOWN)
        self.check(ComposeFailed, scripted, "p: no", "not begun: no", ["held", "intent", "checked"])

    def test_a_block_is_in_use_by_now(self):
        for conflicts, more in ((("c0: found Composed",), ""),
                                (("c0: found Composed", "c1"), ", and 1 more"),
                                (("c0: found Composed", "c1", "c2"), ", and 2 more")):  # fmt: skip
            self.setUp()
            line = f"p: c0: found Composed{more}, expected it free"
            note = "no longer free: c0: found Composed"
            points = ["held", "intent", "checked"]
            self.check(ClaimLost, Watched(conflicts=conflicts), line, note, points)

    def test_another_was_faster_to_reserve(self):
        self.check(ClaimLost, Watched(reserve=ClaimLost("c0: found reserved")),
                   "p: c0: found reserved, expected it free", "no longer free: c0: found reserved",
                   ["held", "intent", "checked"])  # fmt: skip

    def test_long_reasons_are_cut_in_the_note(self):
        self.error(ComposeFailed, Watched(refusal=LONG))
        self.assertEqual(200, len(self.ended()[1]))

    def test_what_cannot_be_given_up_is_said(self):
        lost = ClaimLost("taken")
        for scripted, point, why in (
            (Watched(refusal="no"), "checked", "not begun: no"),
            (DOWN, "intent", "not begun: connection refused"),
            (Watched(conflicts=("taken",)), "checked", "no longer free: taken"),
            (Watched(compose=lost), "reserved", "no longer free: taken"),
            (Watched(compose=ABSENT), "read back", "nothing is there"),
        ):
            with self.subTest(why, point=point):
                self.setUp()
                error = self.error(Unverified, scripted, checkpoint=self.break_at(point))
                start = "p: nothing is composed, and that could not be noted: "
                self.assertTrue(str(error).startswith(f"{start}{self.store.address}: "), error)
                end = f": claim {self.claim.id} stays COMPOSING ({RECONCILE_HINT}): {why}"
                self.assertTrue(str(error).endswith(end), error)
                self.assertEqual("COMPOSING", self.state())
