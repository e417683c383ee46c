# SPDX-License-Identifier: Apache-2.0
"""Groups, owners and their counts, from the inventory to whole batches."""

import unittest
from collections import Counter

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from tests.unit.core.deciders import bound, cpus, engine, engine_of, lean
from tests.unit.core.sites import quietly, sized
from valence_sched.core.batch import place
from valence_sched.core.evaluation import EvaluationContext, evaluate
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.group_state import NodeCounts, affects_own_podm_only, with_group_state
from valence_sched.core.policy import bind
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import RequestError
from valence_sched.filters.capacity import capacity
from valence_sched.filters.spread import spread
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import FilterUse, Policy, WeigherUse
from valence_sched.model.request import Group, GroupState, Request, Spread
from valence_sched.planning.batches import decide_all
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request, view
from valence_sched.view.terms import reads
from valence_sched.view.view import domain_values
from valence_sched.weighers.owner import owner
from valence_sched.weighers.room import room

CORES = {"processor": {"total_cores": 8}}
DOMAINS = ("podm", "zone", "location", "aggregate", "facts.rack")


def chosen(decision) -> list[str]:
    return [placed.chosen.podm for placed in decision.placements]


def node(uri: str, **words) -> dict:
    return {"uri": uri, **words}


class TestCompany(unittest.TestCase):
    """Facts that are computed once per decision."""

    SITE = view(
        {"id": "a", "zone": "x", "aggregates": ["s", "t"],
         "nodes": [node("1", group="web", owner="me"), node("2", group="web"), node("3")]},
        {"id": "b", "zone": "y", "nodes": [node("1", group="web", owner="me")]},
        {"id": "c", "zone": "y", "nodes": [node("1", group="db", owner="me")]},
        {"id": "d"},
    )  # fmt: skip

    def test_members_and_owned_are_counted_from_the_nodes(self):
        group = Group(name="web", anti_affinity=("podm", "zone"), soft_affinity=("aggregate",))
        asked = with_group_state(self.SITE, Request(group=group, owner="me"), self.fail)
        expected = {
            "podm": {"a": 2, "b": 1},
            "zone": {"x": 2, "y": 1},
            "aggregate": {"s": 2, "t": 2},
        }
        self.assertEqual(expected, asked.group_state.members)
        self.assertEqual({"a": 1, "b": 1, "c": 1}, asked.group_state.owned)
        self.assertEqual({}, asked.group_state.open)

    def test_nodes_placed_just_before_count_by_group_and_by_owner(self):
        web = Group(name="web", anti_affinity=("podm",))
        earlier = NodeCounts()
        for name, who, podm in (("web", "me", 0), ("other", "me", 1), ("web", None, 2),
                                   (None, None, 2)):  # fmt: skip
            earlier.add(name, who, podm)
        asked = with_group_state(self.SITE, Request(group=web, owner="me"), self.fail, earlier)
        self.assertEqual({"podm": {"a": 3, "b": 1, "c": 1}}, asked.group_state.members)
        self.assertEqual({"a": 2, "b": 2, "c": 1}, asked.group_state.owned)
        asked = with_group_state(self.SITE, Request(group=web), self.fail, earlier)
        self.assertEqual(({"podm": {"a": 3, "b": 1, "c": 1}}, {}),
                         (asked.group_state.members, asked.group_state.owned))  # fmt: skip
        asked = with_group_state(self.SITE, Request(owner="me"), self.fail, earlier)
        self.assertEqual(({}, {"a": 2, "b": 2, "c": 1}),
                         (asked.group_state.members, asked.group_state.owned))  # fmt: skip

    def test_nodes_on_podms_without_rows_count_for_the_group(self):
        found = engine(view({"id": "e", "zone": "x", "blocks": cpus(2)}))
        found.other_podms = [*self.SITE.podms]
        group = Group(name="web", soft_anti_affinity=("zone",))
        asked = msgspec.structs.replace(request(CORES), group=group, owner="me")
        state = found.select_destinations(asked).context.request.group_state
        self.assertEqual(({"zone": {"x": 2, "y": 1}}, {}), (state.members, state.owned))

    def test_a_group_of_another_owner_that_has_the_same_name_is_another_group(self):
        web = Group(name="web", anti_affinity=("podm",))
        earlier = NodeCounts()
        for who, podm in (("me", 0), ("you", 1), (None, 2)):
            earlier.add("web", who, podm)
        for who, expected in (
            ("me", {"a": 1, "c": 1}),
            ("you", {"b": 1, "c": 1}),
            ("new", {"c": 1}),
            (None, {"a": 1, "b": 1, "c": 1}),
        ):
            with self.subTest(who):
                site = view({"id": "a"}, {"id": "b"}, {"id": "c"})
                asked = with_group_state(site, Request(group=web, owner=who), self.fail, earlier)
                self.assertEqual({"podm": expected}, asked.group_state.members)

    def test_only_what_is_counted_by_podm_matters_there_alone(self):
        there = (Group(name="g", anti_affinity=("podm",), at_most={"podm": 2}), None)
        all_over = (
            Group(name="g", anti_affinity=("podm", "zone")),
            Group(name="g", affinity=("podm",)),
            Group(name="g", spread=(Spread("podm"),)),
        )
        counting = bind(Policy(name="p", filters=(FilterUse("spread"),)))
        for expected, groups in ((True, there), (False, all_over)):
            for group in groups:
                with self.subTest(group):
                    self.assertEqual(
                        expected, affects_own_podm_only(Request(group=group), counting, ["spread"])
                    )

    def test_a_plugin_that_does_not_declare_how_it_counts_may_look_anywhere(self):
        def sociable(view, request):
            return view.constant(float(len(request.group_state.owned)))

        plain = bound(sociable)
        self.assertFalse(affects_own_podm_only(Request(owner="o"), plain, ["sociable"]))
        self.assertFalse(affects_own_podm_only(Request(), bound(reads("zone")(sociable)),
                                               ["sociable"]))  # fmt: skip
        counting = bound(reads("owner", counts_by="podm")(sociable))
        all_over = Request(owner="o", group=Group(name="g", affinity=("zone",)))
        self.assertTrue(affects_own_podm_only(all_over, counting, ["sociable"]))

    def test_neither_group_nor_owner_has_no_group_state(self):
        asked = Request()
        self.assertIs(asked, with_group_state(self.SITE, asked, self.fail))
        claimed = Request(group_state=GroupState(owned={"a": 3}))
        self.assertEqual(asked, with_group_state(self.SITE, claimed, self.fail))

    def test_open_are_the_values_of_the_rows_that_pass(self):
        asked = Request(group=Group(name="web", spread=(Spread("zone"), Spread("podm", 2, True))))
        rows = np.array([True, False, True, True])
        found = with_group_state(self.SITE, asked, lambda: rows).group_state.open
        self.assertEqual({"zone": ("x", "y"), "podm": ("a", "c", "d")}, found)

    def test_a_full_value_is_open_and_an_offline_or_excluded_one_is_not(self):
        site = [
            {"id": "roomy", "zone": "a", "blocks": cpus(9)},
            {"id": "full", "zone": "b"},
            {"id": "off", "zone": "c", "status": "Offline", "blocks": cpus(9)},
            {"id": "unwanted", "zone": "d", "blocks": cpus(9)},
        ]
        group = {"name": "g", "spread": [{"over": "zone", "max_skew": 2}]}
        asked = request(CORES, count=5, min_count=0, exclude_podms=["unwanted"], group=group)
        decision = engine_of(*site).select_destinations(asked)
        self.assertEqual(["roomy", "roomy"], chosen(decision))
        self.assertEqual(("a", "b"), decision.request.group_state.open["zone"])
        reason = Verdicts(decision).stop_reason(0).text
        words = "spread: group g: spread over zone, skew 2: needs fewer than 2, has "
        self.assertTrue(reason.startswith(words), reason)

    def test_the_identity_of_a_request_does_not_depend_on_its_group_state(self):
        group = Group(name="web", anti_affinity=("podm",))
        asked = Request(needs=request(CORES).needs, group=group)
        site = {"id": "a", "blocks": cpus(2)}
        before = engine_of(site).select_destinations(asked)
        held = {**site, "nodes": [node("1", group="web")]}
        after = engine_of(held, {"id": "b", "blocks": cpus(1)}).select_destinations(asked)
        self.assertEqual(before.request.id, after.request.id)
        self.assertEqual(["b"], chosen(after))

    def test_a_podm_that_is_replaced_changes_the_group_state(self):
        group = {"name": "web", "anti_affinity": ["podm"]}
        asked = request(CORES, group=group)
        found = engine_of({"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": cpus(1)})
        self.assertEqual(["a"], chosen(found.select_destinations(asked)))
        found.replace(lean({"id": "a", "blocks": cpus(2), "nodes": [node("1", group="web")]}))
        self.assertEqual(["b"], chosen(found.select_destinations(asked)))
        found.replace(lean({"id": "a", "blocks": cpus(2)}))
        self.assertEqual(["a"], chosen(found.select_destinations(asked)))


class TestOwner(unittest.TestCase):
    """S33: avoid pod managers with nodes of the same owner."""

    def test_the_owners_second_node_lands_elsewhere_where_there_is_a_tie(self):
        """S33: with every policy that weighs owners, for any seed."""
        site = [{"id": str(n), "blocks": cpus(2)} for n in range(3)]
        for policy in ("default", "pack", "balanced"):
            for seed in range(10):
                held = [{**podm, "nodes": [node("n", owner="me")] if podm["id"] != "1" else []}
                        for podm in site]  # fmt: skip
                asked = request(CORES, owner="me", policy=policy, seed=seed)
                self.assertEqual(["1"], chosen(engine_of(*held).select_destinations(asked)))

    def test_a_request_of_several_goes_to_several(self):
        """S33: nodes of the same request count too."""
        site = [{"id": str(n), "blocks": cpus(40)} for n in range(4)]
        asked = request(CORES, owner="me", count=4, min_count=0)
        self.assertEqual(4, len(set(chosen(engine_of(*site).select_destinations(asked)))))

    def test_without_an_owner_scores_are_as_if_there_were_no_such_weigher(self):
        site = [{"id": str(n), "blocks": cpus(2 + n), "nodes": [node("n", owner="me")]}
                for n in range(4)]  # fmt: skip
        plain = Policy(
            name="plain", filters=(FilterUse("capacity"),), weighers=(WeigherUse("room"),)
        )
        with_both = msgspec.structs.replace(
            plain,
            name="both",
            weighers=(WeigherUse("owner"), *plain.weighers, WeigherUse("affinity")),
        )
        found = engine(view(*site), plain, with_both)
        one, other = (
            found.select_destinations(request(CORES, count=6, min_count=0, policy=name))
            for name in ("plain", "both")
        )
        self.assertEqual(*([p.chosen for p in d.placements] for d in (one, other)))
        self.assertEqual(one.batch.evaluation.cost.tolist(), other.batch.evaluation.cost.tolist())

    def test_a_policy_without_a_weigher_for_owners_keeps_to_reservations(self):
        reserved = {"capabilities": {"reserved_for": ["them"]}}
        found = engine(
            view({"id": "a", "blocks": cpus(1)}, {"id": "b", "blocks": cpus(9), **reserved}),
            Policy(name="none", filters=(FilterUse("capacity"),)),
        )
        asked = request(CORES, owner="me", policy="none", count=2, min_count=1)
        self.assertEqual(["a"], chosen(found.select_destinations(asked)))

    def test_soft_and_hard_rules_that_nobody_reads_are_refused(self):
        found = engine_of({"id": "a", "blocks": cpus(1)})
        for rule, words in (
            ({"affinity": ["podm"]}, "no filter 'spread'"),
            ({"soft_affinity": ["podm"]}, "no weigher 'affinity'"),
            ({"spread": [{"over": "zone"}]}, "no filter 'spread'"),
            ({"spread": [{"over": "zone", "soft": True}]}, "no weigher 'affinity'"),
        ):
            with self.subTest(rule), self.assertRaisesRegex(RequestError, words):
                group = {"name": "g", **rule}
                found.select_destinations(request(CORES, policy="chance", group=group))
        group = {"name": "g"}
        asked = request(CORES, policy="chance", group=group)
        self.assertEqual(["a"], chosen(found.select_destinations(asked)))


RACKS = st.sampled_from([None, "r1", "r2", "r3"])
PODMS = st.lists(
    st.fixed_dictionaries(
        {"size": st.integers(0, 4), "held": st.integers(0, 2), "rack": RACKS, "hall": RACKS,
         "zone": st.sampled_from([None, "z1", "z2"]), "online": st.integers(0, 5),
         "aggregates": st.lists(st.sampled_from("xyz"), max_size=2, unique=True)}
    ),
    min_size=1, max_size=9,
)  # fmt: skip
DOMAIN = st.sampled_from(DOMAINS)
SOME = st.lists(DOMAIN, max_size=1)
RULES = st.fixed_dictionaries(
    {
        "affinity": SOME,
        "anti_affinity": SOME,
        "soft_affinity": SOME,
        "soft_anti_affinity": SOME,
        "at_most": st.dictionaries(DOMAIN, st.integers(1, 3), max_size=2),
        "spread": st.lists(
            st.builds(lambda *w: dict(zip(("over", "max_skew", "soft"), w, strict=True)),
                      DOMAIN, st.integers(1, 2), st.booleans()), max_size=2,
        ),
    }
)  # fmt: skip


def site_of(drawn: list[dict]) -> list[dict]:
    podms = []
    for number, podm in enumerate(drawn):
        facts = {"rack": podm["rack"], "location": podm["hall"]}
        podms.append({
            "id": str(number),
            "zone": podm["zone"],
            "status": "Online" if podm["online"] else "Offline",
            "aggregates": podm["aggregates"],
            "facts": {name: value for name, value in facts.items() if value},
            "blocks": cpus(podm["size"]),
            "nodes": [node(f"n{n}", group="g", owner="me") for n in range(podm["held"])],
        })  # fmt: skip
    return podms


class TestBatch(unittest.TestCase):
    """Every node is placed as if the earlier nodes existed."""

    def allowed(self, group: Group, counts: dict[str, Counter], podm, online) -> bool:
        """Return whether one more node on a podm follows every hard rule, counted by hand."""
        for domain in DOMAINS:
            here = domain_values(podm, domain)
            count = [counts[domain][value] for value in here]
            most = [group.at_most.get(domain, 10**6)] + [1] * (domain in group.anti_affinity)
            rules = [rule for rule in group.spread if rule.over == domain and not rule.soft]
            asked = domain in (*group.at_most, *group.anti_affinity, *group.affinity) or rules
            if asked and not here:
                return False
            if any(number + 1 > min(most) for number in count):
                return False
            top = max(counts[domain].values(), default=0)
            if domain in group.affinity and top and top not in count:
                return False
            everywhere = {value for one in online for value in domain_values(one, domain)}
            least = min((counts[domain][value] for value in everywhere), default=0)
            if any(number + 1 - least > rule.max_skew for rule in rules for number in count):
                return False
        return True

    @quietly(sized(150))
    @given(PODMS, RULES, st.sampled_from(["default", "pack", "balanced"]), st.integers(0, 3))
    def test_no_rule_is_broken_and_nothing_is_left_undone(self, drawn, rules, policy, seed):
        """Every node follows every rule, and the batch ends only if no more node can be placed."""
        site = site_of(drawn)
        asked = request(CORES, count=8, min_count=0, policy=policy, seed=seed, owner="me",
                        group={"name": "g", **rules})  # fmt: skip
        seen = view(*site)
        decision = engine(seen).select_destinations(asked)
        podms = {podm.id: podm for podm in seen.podms}
        online = [podm for podm in seen.podms if podm.status == "Online"]
        counts = {domain: Counter() for domain in DOMAINS}
        free = Counter({podm["id"]: len(podm["blocks"]) for podm in site})
        for name in [podm["id"] for podm in site for _ in podm["nodes"]]:
            for domain in DOMAINS:
                counts[domain].update(domain_values(podms[name], domain))
        for name in chosen(decision):
            self.assertTrue(self.allowed(asked.group, counts, podms[name], online), name)
            free[name] -= 1
            self.assertGreaterEqual(free[name], 0)
            for domain in DOMAINS:
                counts[domain].update(domain_values(podms[name], domain))
        if len(decision.placements) < 8:
            left = [podm.id for podm in online if free[podm.id]
                    and self.allowed(asked.group, counts, podm, online)]  # fmt: skip
            self.assertEqual([], left)

    @quietly(sized(150))
    @given(PODMS, st.lists(st.tuples(RULES, st.integers(1, 4), st.booleans()), min_size=1,
                           max_size=3), st.sampled_from(["default", "pack"]))  # fmt: skip
    def test_no_rule_is_broken_by_several_requests_with_several_choices(self, drawn, asks, policy):
        """Nodes of earlier requests and alternatives are members; no block is used twice.

        An alternate follows the rules as its node does, on another pod manager.
        """
        site = site_of(drawn)
        seen = view(*site)
        large = {"processor": {"total_cores": 16}}
        requests = [
            request({}, first_of=[large, CORES] if choices else [CORES], count=count, min_count=0,
                    alternates=2, policy=policy, owner="me", group={"name": "g", **rules})
            for rules, count, choices in asks
        ]  # fmt: skip
        found = decide_all(engine(seen), requests)
        podms = {podm.id: podm for podm in seen.podms}
        online = [podm for podm in seen.podms if podm.status == "Online"]
        counts = {domain: Counter() for domain in DOMAINS}
        for name in [podm["id"] for podm in site for _ in podm["nodes"]]:
            for domain in DOMAINS:
                counts[domain].update(domain_values(podms[name], domain))
        taken: set[tuple[str, str]] = set()
        for asked, decision in zip(requests, found.decisions, strict=True):
            for placed in decision.placements:
                places = [placed.chosen, *placed.alternates]
                self.assertEqual(len(places), len({one.podm for one in places}))
                for one in places:
                    allowed = self.allowed(asked.group, counts, podms[one.podm], online)
                    self.assertTrue(allowed, one.podm)
                    blocks = {(one.podm, block.uri) for block in one.blocks}
                    self.assertEqual(set(), blocks & taken)
                taken |= {(placed.chosen.podm, block.uri) for block in placed.chosen.blocks}
                for domain in DOMAINS:
                    counts[domain].update(domain_values(podms[placed.chosen.podm], domain))

    @quietly(sized(180))
    @given(PODMS, RULES, st.sampled_from(["default", "pack", "balanced"]), st.integers(0, 1))
    def test_a_batch_equals_one_decision_after_another(self, drawn, rules, policy, alternates):
        """Groups, depletion and look-ahead together give the same result as single decisions."""
        site = site_of(drawn)
        asked = request(CORES, count=6, min_count=0, policy=policy, owner="me",
                        alternates=alternates,
                        group={"name": "g", **rules})  # fmt: skip
        batch = [(p.chosen.podm, p.chosen.cost)
                 for p in engine(view(*site)).select_destinations(asked).placements]  # fmt: skip
        single, one_by_one = msgspec.structs.replace(asked, count=1), []
        for number in range(6):
            decision = engine(view(*site)).select_destinations(single)
            if not decision.placements:
                break
            found = decision.placements[0].chosen
            one_by_one.append((found.podm, found.cost))
            podm = next(podm for podm in site if podm["id"] == found.podm)
            used = {block.uri for block in found.blocks}
            for block in podm["blocks"]:
                if block["uri"] in used:
                    block["status"] = {"state": "Composed"}
            podm["nodes"].append(node(f"m{number}", group="g", owner="me"))
        self.assertEqual(one_by_one, batch)

    def test_a_plugin_that_looks_at_the_group_state_and_at_what_is_free_is_asked_of_what_is_left(
        self,
    ):
        def near_full(view, request):
            """Prefers small pod managers, and among them pod managers of the owner."""
            free = view.free(request.needs[0])
            held = np.array([request.group_state.owned.get(view.podm(row).id, 0)
                             for row in range(len(view))])  # fmt: skip
            return np.clip((held + 1.0) / (free + 10.0), 0.0, 1.0)

        seen = view(*({"id": str(n), "blocks": cpus(2 + n % 3)} for n in range(12)))
        asked = request(CORES, count=20, min_count=0, owner="me")
        policy = bound(near_full, owner, filters=(capacity,))
        evaluation = evaluate(seen, asked, policy, strict=True)
        self.assertEqual({"near_full", "owner"}, evaluation.group_state_readers)
        batch = place(
            EvaluationContext(seen, asked, policy, evaluation, Fitter(asked.needs, seen.kinds)),
            rank_rows,
        )
        free = {str(n): 8 * (2 + n % 3) for n in range(12)}
        owned: Counter[str] = Counter()
        for placed in batch.nodes:
            score = {name: min(1.0, (owned[name] + 1) / (left + 10)) + 1 / (1 + owned[name])
                     for name, left in free.items() if left >= 8}  # fmt: skip
            name = seen.podm(placed.chosen.row).id
            self.assertAlmostEqual(max(score.values()), score[name], 5)
            free[name] -= 8
            owned[name] += 1
        self.assertEqual(20, len(batch.nodes))

    def test_who_reads_the_group_state_is_noticed_and_others_are_not(self):
        seen = view({"id": "a", "blocks": cpus(2)})
        group = {"name": "g", "anti_affinity": ["podm"]}
        policy = bound(owner, room, filters=(capacity, spread))
        found = evaluate(seen, request(CORES, owner="me", group=group), policy)
        self.assertEqual({"owner", "spread"}, found.group_state_readers)
        self.assertEqual({"room", "capacity"}, found.availability_readers)
        self.assertEqual(frozenset(), evaluate(seen, request(CORES), policy).group_state_readers)

    def test_a_long_batch_with_anti_affinity_over_many_podms(self):
        site = [{"id": str(n), "zone": f"z{n % 7}", "blocks": cpus(1 + n % 4)} for n in range(200)]
        group = {"name": "g", "anti_affinity": ["podm"], "at_most": {"zone": 20}}
        decision = engine_of(*site).select_destinations(
            request(CORES, count=190, min_count=0, group=group)
        )
        names = chosen(decision)
        self.assertEqual(140, len(set(names)))
        self.assertEqual(140, len(names))
        self.assertEqual({20}, set(Counter(int(name) % 7 for name in names).values()))
        self.assertEqual("placed_in_part", decision.outcome)

    def test_the_same_request_has_the_same_answer_to_the_byte(self):
        site = [{"id": str(n), "zone": f"z{n % 3}", "blocks": cpus(2)} for n in range(9)]
        group = {"name": "g", "spread": [{"over": "zone"}], "soft_anti_affinity": ["podm"]}
        asked = request(CORES, count=7, min_count=0, group=group, owner="me", alternates=1)
        reports = {
            to_json(decision_report(engine_of(*site).select_destinations(asked))) for _ in range(3)
        }
        self.assertEqual(1, len(reports))


class TestCountFits(unittest.TestCase):
    """The number of nodes that still fit, with a group."""

    SITE = (
        {"id": "a", "blocks": cpus(5), "nodes": [node("n", group="g")]},
        {"id": "b", "blocks": cpus(5)},
    )

    def test_rules_per_podm_are_counted(self):
        for rule, expected in (
            ({"anti_affinity": ["podm"]}, [("a", 0), ("b", 1)]),
            ({"at_most": {"podm": 3}}, [("a", 2), ("b", 3)]),
            ({"soft_anti_affinity": ["zone"]}, [("a", 5), ("b", 5)]),
        ):
            with self.subTest(rule):
                asked = request(CORES, group={"name": "g", **rule}, owner="me")
                counts = count_fits(engine_of(*self.SITE), asked, 9)
                self.assertEqual(expected, list(counts.podms))

    def test_rules_between_podms_are_refused(self):
        for rule in ({"affinity": ["podm"]}, {"anti_affinity": ["zone"]}, {"at_most": {"zone": 3}},
                     {"spread": [{"over": "podm"}]}):  # fmt: skip
            with self.subTest(rule), self.assertRaisesRegex(RequestError, "counts by pod manager"):
                asked = request(CORES, group={"name": "g", **rule})
                count_fits(engine_of(*self.SITE), asked, 9)
