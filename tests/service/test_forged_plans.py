# SPDX-License-Identifier: Apache-2.0
"""Plans written by a client: refused without a signature, or with one if they are invalid."""

import contextlib
import copy
from typing import Any

import msgspec
from msgspec.structs import replace

from tests.service.application import LivePodmsCase
from valence_sched.app import App
from valence_sched.model.claim import ClaimPart, NodeAllocation
from valence_sched.model.inventory import to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.plan import Plan, PodmBasis, podm_digest, without_credentials
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.zone import ZoneSettings
from valence_sched.store.store import Store
from valence_sched.zones.tokens import PlanSignatures

GPU = {"request": {"properties": {"accelerators": [{"kind": "GPU", "count": 1}]},
                   "podms": ["gpu-east"]}}  # fmt: skip
POWER = {"uri": "/power", "resource": "power", "amount": 1, "unit": "W"}
LOST, REFUSED = 409, 403


def chosen(plan: Any) -> Any:
    return plan["decision"]["placements"][0]["chosen"]


def choose(**fields: Any) -> Any:
    """Return a function that changes fields of the candidate of the first node."""
    return lambda plan: chosen(plan).update(fields)


def ask(**fields: Any) -> Any:
    """Return a function that changes fields of the request."""
    return lambda plan: plan["decision"]["request"].update(fields)


def deep(lists: int) -> Any:
    expression: Any = ["=", "$zone", "a"]
    for _ in range(lists):
        expression = ["not", expression]
    return expression


def free(plan: Any, cards: int | None = None) -> list[dict[str, Any]]:
    """Return the other free blocks of the pool; with ``cards`` only blocks of this many cards."""
    node = chosen(plan)
    taken = {one["uri"] for one in node["blocks"]}
    return [
        {"uri": block["uri"], "type": []}
        for block in plan["podms"][0]["podm"]["blocks"]
        for lines in (block.get("devices", {}).get("accelerators", [{"count": 0}]),)
        if node["pool"] in block["pools"] and block["uri"] not in taken
        and block.get("status", {}).get("state", "Unused") == "Unused"
        and cards in (None, lines[0].get("count", 1))
    ]  # fmt: skip


def take_four(plan: Any) -> None:
    """Build the node from a host and a block of four accelerators, in the pool that has one."""
    node = chosen(plan)
    pools = sorted({name for one in plan["podms"][0]["podm"]["blocks"] for name in one["pools"]})
    for pool in pools:
        node["pool"] = pool
        if found := free(plan, 4):
            break
    (host, *_) = (one for one in free(plan, 0) if "Compute" in one["uri"])
    node["blocks"] = [host, found[0]]


def take_one_more(plan: Any) -> None:
    chosen(plan)["blocks"].append(free(plan, 0)[0])


def take_all(plan: Any) -> None:
    chosen(plan)["blocks"] += free(plan)


def repeat(plan: Any) -> None:
    """Repeat the first node."""
    first = plan["decision"]["placements"][0]
    plan["decision"]["placements"].append({**copy.deepcopy(first), "node": 2})


def repeat_as_asked(plan: Any) -> None:
    repeat(plan)
    plan["decision"]["request"]["count"] = 2


def let_every_pool_pass(plan: Any) -> None:
    plan["decision"]["policy"]["filters"] = []
    plan["decision"]["request"]["zone"] = "nowhere"


#: Changes by a client, and the refusal if the key of the service has signed them.
FORGED: tuple[tuple[str, Any, int, str], ...] = (
    ("a block of four", take_four, REFUSED, "accelerators: 0 in use and 4 more"),
    ("one block more", take_one_more, LOST, "do not match a node"),
    ("all free blocks", take_all, LOST, "do not match a node"),
    ("no blocks", choose(blocks=[]), LOST, "do not match a node"),
    ("a pool that is not there", choose(pool="nope"), LOST, "no pool 'nope'"),
    ("a pool named by a space", choose(pool=" "), LOST, "no pool ' '"),
    ("an amount", choose(grants=[POWER]), LOST, "no stock /power"),
    ("next to nothing", choose(grants=[{**POWER, "amount": 1e-9}]), LOST, "no stock /power"),
    ("a request for nothing", ask(needs=[]), 400, "has no needs"),
    ("a request for less than a need", ask(
        needs=[{"kind": "nic", "measure": "devices", "amount": 1}]), LOST, "do not match a node"),
    ("another policy's filters", let_every_pool_pass, LOST, "needs nowhere"),
    ("a policy that is not there", ask(policy="mine"), 404, "no policy named 'mine'"),
    ("another pod manager", ask(podms=["gpu-west"]), LOST, "not selected by --podm"),
    ("two nodes for one", repeat, LOST, "1 node requested, 2 chosen"),
    ("one block for two nodes", repeat_as_asked, LOST, "is not free in pool"),
    ("one node for five", ask(count=5), LOST, "5 nodes requested, 1 chosen"),
    ("more nodes than a service makes", ask(count=10**6), 400, "exceed the limit of 1,000"),
    ("another owner", ask(owner="eve"), REFUSED, "user 'mo' may only have nodes of its own"),
    ("no owner", ask(owner=None), REFUSED, "the plan has no owner"),
    ("an expression that is none", ask(where=["=", 1, 2]), 400, "no path"),
    ("an expression of 40 lists", ask(where=deep(40)), 400, "more than 16 nested lists"),
    ("an expression of 900 lists", ask(where=deep(900)), 400, "more than 64 nested lists"),
    ("a number of no size", ask(where=["=", "$facts.x", 2**63]), 400, "a finite number"),
    ("a version to come", ask(version="9.0"), 400, "expected at most 1.x"),
)  # fmt: skip


class TestForgedPlans(LivePodmsCase):
    users = ("ann:admin", "mo", "eve")

    def plan(self, body=GPU, user="mo"):
        return self.call("POST", "/v1/plans", body, user=user).json["plan"]

    def signed(self, plan):
        """Return a plan signed with the key of the service, which a client does not have."""
        key = (self.folder / "state.sqlite.zone-key").read_text()
        signed = PlanSignatures([key]).sign(msgspec.convert(plan, Plan))
        return msgspec.json.decode(to_json(signed))

    def claim(self, plan, user="mo", **words):
        return self.call("POST", "/v1/claims", {"plan": plan}, user=user, **words)

    def check_nothing_is_held(self):
        for user in ("ann", "mo", "eve"):
            for path in ("/v1/claims?ended=true", "/v1/nodes"):
                listed = self.call("GET", path, user=user)
                self.assertEqual((200, []), (listed.status_code, listed.json), path)

    def test_the_plan_as_it_was_made_is_held_whatever_the_form_of_its_numbers(self):
        plan = self.plan()
        whole = msgspec.json.encode(plan).replace(b".0,", b",").replace(b".0}", b"}")
        for text in (msgspec.json.encode(plan, order="sorted"), whole):
            claimed = self.claim(msgspec.json.decode(text))
            self.assertEqual(201, claimed.status_code, claimed.text)
            self.call("DELETE", f"/v1/claims/{claimed.json['claim']['id']}", user="mo")

    def test_nothing_that_was_changed_is_held_composed_or_decided_again(self):
        genuine = self.plan()
        for name, forge, *_ in FORGED:
            plan = copy.deepcopy(genuine)
            forge(plan)
            for path in ("/v1/claims", "/v1/nodes", "/v1/plans/refresh"):
                with self.subTest(name, path=path):
                    result = self.call("POST", path, {"plan": plan}, user="mo")
                    self.assertIn(result.status_code, (400, 403), result.text)
                    if "owner" not in name and result.status_code == 403:
                        words = "owner|changed after it was signed"
                        self.assertRegex(result.json["detail"], words)
        self.check_nothing_is_held()

    def test_every_other_part_of_the_document_is_signed_as_well(self):
        genuine = self.plan()
        other = "1" if genuine["signature"].startswith("0") else "0"
        for name, change, words in (
            ("the digest", {"digest": "0" * 32}, "was changed"),
            ("the time", {"decided_at": None}, "was changed"),
            ("no signature", {"signature": ""}, "is not signed"),
            ("a key of another", {"signature": f"{other}{genuine['signature'][1:]}"}, "by key '"),
            ("no key", {"signature": genuine["signature"].partition(".")[2]}, "by key '"),
            ("half of it", {"signature": genuine["signature"][:30]}, "was changed"),
            ("another one", {"signature": self.plan(user="eve")["signature"]}, "was changed"),
        ):
            with self.subTest(name):
                self.check_problem(self.claim({**genuine, **change}), 403, "access_denied", words)
        first = genuine["decision"]["placements"][0]
        negative = {**first["chosen"], "grants": [{**POWER, "amount": -0.0001}]}
        unnamed = {**first["chosen"], "pool": ""}
        for change, status in (
            ({"node": 5}, 403), ({"node": -5}, 400), ({"node": 2**70}, 400),
            ({"chosen": negative}, 400), ({"chosen": unnamed}, 400),
        ):  # fmt: skip
            with self.subTest(change):
                decision = {**genuine["decision"], "placements": [{**first, **change}]}
                result = self.claim({**genuine, "decision": decision})
                self.assertEqual(status, result.status_code, result.text)
        basis = {**genuine["podms"][0], "generation": 10**6}
        self.check_problem(self.claim({**genuine, "podms": [basis]}), 403, "access_denied")
        self.check_nothing_is_held()

    def test_nothing_that_does_not_hold_is_held_though_it_is_signed(self):
        self.call("PUT", "/v1/quotas/mo", {"limits": {"accelerators": 1}}, user="ann")
        genuine = self.plan()
        for name, forge, status, words in FORGED:
            with self.subTest(name):
                plan = copy.deepcopy(genuine)
                forge(plan)
                result = self.claim(self.signed(plan))
                self.assertEqual(status, result.status_code, result.text)
                self.assertIn(words, result.json["detail"])
        self.check_nothing_is_held()

    def test_what_an_older_service_stored_is_listed_however_deep_it_is(self):
        request = NodeRequest(where=deep(300))
        share = NodeAllocation(node=1, pool="row-a", blocks=("/old",))
        with Store(self.state) as store:
            generation = store.load_podms(["gpu-east"])["gpu-east"].generation
            part = ClaimPart(
                podm="gpu-east", generation=generation, shares=(share,), request=request
            )
            store.claims.create([part], owner="mo")
        listed = self.call("GET", "/v1/claims", user="mo")
        self.assertEqual((200, 1), (listed.status_code, len(listed.json)))

    def test_what_is_held_is_what_the_scheduler_knows_of_it(self):
        plan = self.plan()
        plan["decision"]["placements"][0]["node"] = 2**50
        chosen(plan)["blocks"] = [{**one, "type": ["Storage"]} for one in chosen(plan)["blocks"]]
        claimed = self.claim(self.signed(plan)).json["claim"]
        (share,) = claimed["parts"][0]["shares"]
        self.assertEqual((1, 1), (share["node"], share["charges"]["accelerators"]))
        self.assertEqual(200, self.call("GET", "/v1/claims", user="ann").status_code)

    def test_what_the_operator_says_of_a_pod_manager_holds_whatever_the_policy(self):
        file = self.folder / "bare.yaml"
        file.write_text("policies:\n- {name: bare, filters: [target], weighers: [owner]}\n")
        self.log_in(*self.users, policy_files=(str(file),))
        name, genuine = "gpu-east", msgspec.convert(self.plan(), Plan)
        for stats, words in (
            ({"enabled": False}, "not enabled"),
            ({"enabled": True, "status": "Offline"}, "status Offline"),
            ({"status": "Online", "capabilities": {"reserved_for": ["eve"]}}, "reserved for eve"),
        ):
            reported = self.call("POST", f"/v1/podms/{name}/stats", {"stats": stats}, user="ann")
            self.assertEqual(200, reported.status_code, reported.text)
            with Store(self.state) as store:
                podm = without_credentials(store.load_podms([name])[name])
            basis = PodmBasis(podm=podm, generation=podm.generation, digest=podm_digest(podm))
            for policy in ("default", "bare"):
                with self.subTest(stats, policy=policy):
                    request = replace(genuine.decision.request, policy=policy)
                    decision = replace(genuine.decision, request=request)
                    plan = replace(genuine, podms=(basis,), decision=decision)
                    result = self.claim(self.signed(msgspec.to_builtins(plan)))
                    self.check_problem(result, 409, "claim_lost", words)
                    direct = {"request": {**GPU["request"], "policy": policy}}
                    claimed = self.call("POST", "/v1/claims", direct, user="mo")
                    self.assertIn(claimed.status_code, (200, 404), claimed.text)
        self.check_nothing_is_held()

    def test_what_is_signed_and_does_not_hold_is_not_composed(self):
        plan = self.plan()
        take_all(plan)
        begun = self.call("POST", "/v1/nodes", {"plan": self.signed(plan)}, user="mo")
        self.assertTrue(self.process.operations.wait(60))
        operation = self.call("GET", begun.headers["location"], user="mo").json
        self.assertEqual("failed", operation["state"])
        self.assertEqual("claim_lost", operation["problem"]["code"])
        self.assertEqual({"GET"}, {one.method for one in self.served["gpu-east"].requests})
        self.check_nothing_is_held()

    def test_no_pod_manager_is_asked_for_a_preview_of_what_does_not_hold(self):
        decided = self.call("POST", "/v1/select_destinations", {**GPU, "detail": "report"},
                            user="mo").json["report"]  # fmt: skip
        asked = len(self.served["gpu-east"].requests)
        for forge in (take_all, choose(blocks=[{"uri": "/redfish/v1/Systems/1", "type": []}]),
                      choose(pool="nope"), choose(podm="gpu-west"), ask(needs=[])):  # fmt: skip
            forged = {"decision": copy.deepcopy(decided), "podms": self.plan()["podms"]}
            forge(forged)
            body = {"decision": forged["decision"]}
            result = self.call("POST", "/v1/previews", body, user="mo")
            self.assertIn(result.status_code, (400, 409), result.text)
        self.assertEqual(asked, len(self.served["gpu-east"].requests))
        result = self.call("POST", "/v1/previews", {"decision": decided}, user="mo")
        self.assertEqual(200, result.status_code, result.text)
        self.assertLess(asked, len(self.served["gpu-east"].requests))


class TestKeys(LivePodmsCase):
    """The keys that sign plans, and the services that accept them."""

    users = ("mo",)

    def local_plan(self, home, **environ):
        """Return the plan of a program on another machine for the same pod managers."""
        app = App(environ={**dict.fromkeys(self.environ, str(home)), **environ})
        with app.registry().store() as store:
            for name, one in self.served.items():
                store.register(Registration(name=name, url=one.url))
        spec = msgspec.convert({**GPU["request"], "owner": "mo"}, RequestSpec)
        with contextlib.closing(app.engine()) as engine:
            return msgspec.to_builtins(engine.plan(engine.compile_request(spec)).plan)

    def claim(self, plan):
        return self.call("POST", "/v1/claims", {"plan": plan}, user="mo")

    def restart(self, **words):
        self.log_in(*self.users, **words)

    def test_a_program_that_has_the_key_signs_and_one_that_has_none_does_not(self):
        key = self.folder / "key"
        key.write_text("k" * 64)
        key.chmod(0o600)
        self.restart(zones=ZoneSettings(secrets=(PasswordReference(file=str(key)),)))
        alone, home = self.folder / "alone", self.folder / "home"
        unsigned = self.local_plan(alone)
        self.assertNotIn("signature", unsigned)
        self.check_problem(self.claim(unsigned), 403, "access_denied", "the plan is not signed")
        settings = home / "valence-sched" / "zones.yaml"
        settings.parent.mkdir(parents=True)
        settings.write_text("secrets: [{env: KEY}]\n")
        signed = self.local_plan(home, KEY="k" * 64)
        self.assertEqual(201, self.claim(signed).status_code)
        self.assertFalse(list(home.rglob("*.zone-key")))

    def test_a_key_is_replaced_while_plans_made_with_it_are_still_taken(self):
        plan = self.call("POST", "/v1/plans", GPU, user="mo").json["plan"]
        file = self.folder / "state.sqlite.zone-key"
        self.assertEqual(0o600, file.stat().st_mode & 0o777)
        old = PasswordReference(file=str(file))
        self.environ["NEW_KEY"] = "n" * 64
        new = PasswordReference(env="NEW_KEY")
        self.restart(zones=ZoneSettings(secrets=(new,)))
        self.check_problem(self.claim(plan), 403, "access_denied", "which this service does not")
        self.restart(zones=ZoneSettings(secrets=(old, new)))
        self.assertEqual(201, self.claim(plan).status_code)
        later = self.call("POST", "/v1/plans", GPU, user="mo").json["plan"]
        self.restart(zones=ZoneSettings(secrets=(new,)))
        self.assertEqual(201, self.claim(later).status_code)

    def test_a_service_that_can_have_no_key_makes_and_takes_no_plan_and_says_so(self):
        """As with a state on a database server, beside which there is no file."""
        plan = self.call("POST", "/v1/plans", GPU, user="mo").json["plan"]
        self.restart(state=f"{self.state}?timeout=9")
        for path, body in (("/v1/plans", GPU), ("/v1/claims", {"plan": plan}),
                           ("/v1/nodes", {"plan": plan})):  # fmt: skip
            with self.assertLogs("valence_sched.engine", "ERROR"):
                result = self.call("POST", path, body, user="mo")
            self.check_problem(result, 403, "access_denied", "no key that signs plans")
        self.assertEqual(201, self.call("POST", "/v1/claims", GPU, user="mo").status_code)
