# SPDX-License-Identifier: Apache-2.0
"""Plans, and the differences between two readings."""

import json
import unittest

import msgspec
from msgspec import ValidationError
from msgspec.structs import replace

from tests.schemas import json_schema
from tests.unit.core.deciders import built_in
from tests.unit.store.site import CORES, podm
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import DuplicateId, InputError, NewerSchema
from valence_sched.model.codec import document_digest
from valence_sched.model.diff import Difference, PodmDocument, differences
from valence_sched.model.inventory import (
    Devices,
    Drive,
    FullBlock,
    FullPodm,
    LeanPodm,
    Limit,
    Node,
    Pool,
    Status,
    Stock,
    to_json,
)
from valence_sched.model.need import NodeRequest
from valence_sched.model.plan import (
    Plan,
    make_plan,
    parse_plan,
    plan_drift,
    podm_digest,
    same_placement,
)
from valence_sched.testing import generate, request
from valence_sched.view.builder import ViewBuilder


def make_test_plan(*podms, count: int = 1):
    builder = ViewBuilder()
    for one in podms:
        builder.add(msgspec.json.decode(to_json(one), type=LeanPodm), "test")
    decision = Decider(builder.view(), built_in()).select_destinations(request(CORES, count=count))
    return make_plan(decision_report(decision), podms, "2030-01-01T00:00:00Z")


class TestPlan(unittest.TestCase):
    """From a decision to a file and back."""

    def setUp(self):
        self.podm = podm("p", url="https://op:canary@h/", facts={"x": 1.0})
        self.plan = make_test_plan(self.podm, podm("other", 0))
        self.text = to_json(self.plan)

    def changed(self, **fields) -> bytes:
        return json.dumps({**json.loads(self.text), **fields}).encode()

    def test_it_comes_back_as_it_was(self):
        plan, warnings = parse_plan(msgspec.json.format(self.text, indent=4), "f")
        self.assertEqual((self.plan, []), (plan, warnings))

    def test_only_those_that_take_a_node_are_in_it_and_no_credentials(self):
        (basis,) = self.plan.podms
        self.assertEqual("p", basis.podm.id)
        self.assertEqual(podm_digest(self.podm), basis.digest)
        self.assertNotIn(b"canary", self.text)

    def test_every_change_is_noticed(self):
        document = json.loads(self.text)
        document["podms"][0]["podm"]["facts"]["x"] = 2.0
        for text in (json.dumps(document).encode(), self.changed(digest="0" * 32),
                     self.changed(more=1), self.changed(decided_at=None)):  # fmt: skip
            with self.assertRaisesRegex(InputError, "was changed"):
                parse_plan(text, "f")

    def test_what_no_pod_manager_of_it_has_is_refused(self):
        whole = json.loads(self.text)
        for name, value in (("podm", "q"), ("blocks", [{"uri": "/gone", "type": []}])):
            document = json.loads(self.text)
            document["decision"]["placements"][0]["chosen"][name] = value
            with self.subTest(name), self.assertRaisesRegex(ValidationError, "Expected .*(q|gone)"):
                msgspec.convert(document, Plan)
        with self.assertRaisesRegex(ValidationError, "each pod manager once"):
            msgspec.convert({**whole, "podms": whole["podms"] * 2}, Plan)

    def test_a_newer_major_version_is_refused_before_anything_else(self):
        with self.assertRaisesRegex(NewerSchema, "found 2.0, expected at most 1.x"):
            parse_plan(self.changed(version="2.0"), "f")

    def test_a_newer_minor_version_is_read_without_what_is_unknown(self):
        newer = self.changed(version="1.7", mood="fine")
        newer = json.dumps({**json.loads(newer), "digest": document_digest(newer)}).encode()
        plan, (warning,) = parse_plan(newer, "f")
        self.assertEqual(self.plan.decision, plan.decision)
        self.assertIn("ignored unknown fields: $.mood", warning)

    def test_one_of_an_older_version_is_read(self):
        older = self.changed(version="1.0")
        older = json.dumps({**json.loads(older), "digest": document_digest(older)}).encode()
        plan, warnings = parse_plan(older, "f")
        self.assertEqual(("1.0", "", []), (plan.version, plan.signature, warnings))

    def test_what_moved_is_named_and_when_it_was_read_is_not(self):
        later = replace(self.podm, generation=9, read_at="2031-01-01T00:00:00Z", url="http://new")
        self.assertEqual([], list(plan_drift(self.plan, {"p": later})))
        (one,) = plan_drift(self.plan, {"p": replace(later, facts={"x": 2.0})})
        self.assertEqual(("facts", {"x": 1.0}, {"x": 2.0}), (one.change, one.before, one.after))
        (one,) = plan_drift(self.plan, {})
        self.assertEqual(("p", "removed"), (one.podm, one.change))

    def test_the_same_is_the_same_place_and_blocks(self):
        first, second = make_test_plan(podm("p"), count=2).decision.placements
        self.assertTrue(same_placement(first, first))
        self.assertFalse(same_placement(first, second))
        self.assertFalse(same_placement(first, None))

    def test_it_is_what_its_schema_says(self):
        import jsonschema

        jsonschema.validate(json.loads(self.text), json.loads(json_schema("plan")))


BLOCK = FullBlock(uri="/b/1", type=("Storage",), pools=("z",), status=Status(),
                  devices=Devices(drives=(Drive(count=2),)))  # fmt: skip
PODM = FullPodm(
    id="p", zone="east", aggregates=("gold",), capabilities={"os": ("linux",)}, generation=1,
    facts={"price": 1.0}, read_at="2026-01-01T00:00:00Z", pools=(Pool(id="z"), Pool(id="y")),
    blocks=(BLOCK, FullBlock(uri="/b/2", pools=("z",))),
    stocks=(Stock(uri="/s/1", resource="watts", total=9.0, used=3.0),),
    nodes=(Node(uri="/n/1", blocks=("/b/1",)),),
)  # fmt: skip


def texts(*podms: FullPodm) -> list[PodmDocument]:
    return [PodmDocument(to_json(podm), "f", f"$.podms[{n}]") for n, podm in enumerate(podms)]


def between(old: FullPodm, new: FullPodm) -> list[Difference]:
    return list(differences(texts(old), texts(new)))


def rows(old: FullPodm, new: FullPodm) -> list[tuple]:
    return [tuple(found)[1:] for found in between(old, new)]


class DifferencesTest(unittest.TestCase):
    maxDiff = None

    def test_an_inventory_and_itself_have_none(self) -> None:
        podms = [msgspec.json.decode(line, type=FullPodm) for line in generate.podms(5, 20, 3)]
        self.assertEqual([], list(differences(texts(*podms), texts(*reversed(podms)))))

    def test_when_and_how_often_it_was_read_is_none(self) -> None:
        self.assertEqual([], rows(PODM, replace(PODM, generation=7, read_at=None)))

    def test_the_order_of_fields_and_what_is_written_out_though_usual_is_none(self) -> None:
        plain = msgspec.to_builtins(PODM)
        plain["blocks"][0]["status"] = {"reserved": False, "state": "Unused"}
        plain["blocks"][0]["devices"]["nics"] = []
        plain["blocks"][1]["status"] = {}
        plain["blocks"][1]["devices"] = {"memory": []}
        turned = msgspec.json.encode(dict(reversed(plain.items())))
        self.assertEqual([], list(differences(texts(PODM), [PodmDocument(turned, "g", "$")])))

    def test_pod_managers_come_and_go(self) -> None:
        other = replace(PODM, id="q", stocks=())
        counts = {"pools": 2, "blocks": 2, "stocks": 1, "nodes": 1}
        self.assertEqual(
            [Difference("q", "podm", "q", "added", None, counts | {"stocks": 0}),
             Difference("p", "podm", "p", "removed", counts, None)],
            list(differences(texts(PODM), texts(other))),
        )  # fmt: skip

    def test_everything_that_a_pod_manager_says_of_itself_is_compared(self) -> None:
        new = replace(PODM, status="Offline", enabled=False, zone=None, aggregates=(),
                      capabilities={"os": ("esxi",)}, facts={"price": 2.0}, name="P",
                      url="https://p", driver="rsd", traits=("T",))  # fmt: skip
        self.assertEqual(
            [("podm", "p", "name", None, "P"), ("podm", "p", "url", None, "https://p"),
             ("podm", "p", "driver", None, "rsd"),
             ("podm", "p", "status", "Online", "Offline"), ("podm", "p", "enabled", True, False),
             ("podm", "p", "zone", "east", None), ("podm", "p", "aggregates", ["gold"], []),
             ("podm", "p", "capabilities", {"os": ["linux"]}, {"os": ["esxi"]}),
             ("podm", "p", "traits", [], ["T"]),
             ("podm", "p", "facts", {"price": 1.0}, {"price": 2.0})],
            rows(PODM, new),
        )  # fmt: skip

    def test_no_field_of_any_noun_can_change_unseen(self) -> None:
        """A new field of a noun is compared, or is in the list of exceptions."""
        ignored = {FullPodm: {"id", "generation", "read_at"}, FullBlock: {"uri"}, Pool: {"id"},
                   Stock: {"uri"}, Node: {"uri"}}  # fmt: skip
        values = {"pools": ("y",), "status": Status(state="Failed"), "places": {"switch": "s"},
                  "devices": Devices(), "type": ("Network",), "limits": {"Compute": Limit(1, 1)},
                  "blocks": (), "traits": ("X",), "max": 8.0,
                  "request": NodeRequest(zone="z"), "stale": True}  # fmt: skip
        things = {FullBlock: "blocks", Pool: "pools", Stock: "stocks", Node: "nodes"}
        for noun, where in things.items():
            have = getattr(PODM, where)[0]
            for field in set(have.__struct_fields__) - ignored[noun]:
                now = getattr(have, field)
                other = values.get(field, "x" if isinstance(now, str | None) else 8.0)
                changed = replace(have, **{field: other})
                podm = replace(PODM, **{where: (changed, *getattr(PODM, where)[1:])})
                with self.subTest(noun=noun, field=field):
                    self.assertTrue(rows(PODM, podm))

    def test_pools_and_their_limits_are_compared(self) -> None:
        new = replace(PODM, pools=(Pool(id="z", limits={"Compute": Limit(1, 2)}), Pool(id="x")))
        self.assertEqual(
            [("pool", "z", "limits", {}, {"Compute": {"min": 1, "max": 2}}),
             ("pool", "x", "added", None, {"id": "x"}),
             ("pool", "y", "removed", {"id": "y"}, None)],
            rows(PODM, new),
        )  # fmt: skip

    def test_a_block_that_is_composed_says_so_and_one_that_changes_says_how(self) -> None:
        block = replace(BLOCK, status=Status(state="Composed"),
                        devices=Devices(drives=(Drive(count=3),)))  # fmt: skip
        new = replace(PODM, blocks=(block, FullBlock(uri="/b/3")))
        self.assertEqual(
            [("block", "/b/1", "state", "Unused", "Composed"),
             ("block", "/b/1", "drives", [{"count": 2}], [{"count": 3}]),
             ("block", "/b/3", "added", None, {"uri": "/b/3", "status": {}, "devices": {}}),
             ("block", "/b/2", "removed",
              {"uri": "/b/2", "pools": ["z"], "status": {}, "devices": {}}, None)],
            rows(PODM, new),
        )  # fmt: skip

    def test_stocks_and_nodes_are_compared(self) -> None:
        new = replace(PODM, stocks=(replace(PODM.stocks[0], used=4.0, total=None),),
                      nodes=(replace(PODM.nodes[0], owner="o", blocks=()),))  # fmt: skip
        self.assertEqual(
            [("stock", "/s/1", "total", 9.0, None), ("stock", "/s/1", "used", 3.0, 4.0),
             ("node", "/n/1", "owner", None, "o"), ("node", "/n/1", "blocks", ["/b/1"], [])],
            rows(PODM, new),
        )  # fmt: skip

    def test_what_is_no_pod_manager_is_refused_with_its_place(self) -> None:
        with self.assertRaisesRegex(InputError, r"f: \$\.podms\[0\]"):
            list(differences([PodmDocument(b'{"nope": 1}', "f", "$.podms[0]")], []))
        with self.assertRaisesRegex(InputError, "status"):
            bad = to_json(PODM).replace(b'"generation"', b'"status":"Odd","generation"')
            list(differences(texts(PODM), [PodmDocument(bad, "f", "$")]))
        with self.assertRaises(DuplicateId):
            list(differences(texts(PODM, PODM), []))

    def test_a_pod_manager_that_is_the_same_to_the_byte_is_not_decoded(self) -> None:
        """The pod manager may even be invalid: only compared pod managers are decoded."""
        odd = PodmDocument(b'{"id": "p", "odd": 1}', "f", "$")
        self.assertEqual([], list(differences([odd], [odd])))
