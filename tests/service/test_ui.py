# SPDX-License-Identifier: Apache-2.0
"""The pages of the service without a browser: pages of long lists, queries, and their size."""

import html
import json
import re
from types import MappingProxyType

import sqlalchemy as sa

from tests.service.application import SMALL, ApplicationCase, LivePodmsCase
from tests.unit.store.site import part, podm
from valence_sched.model.claim import ComposedNode
from valence_sched.pages.render import POLICY, SCRIPT
from valence_sched.store import tables
from valence_sched.store.store import Store

PODMS = 2000
BLOCK = {
    "uri": "/b/1",
    "type": ["Compute"],
    "pools": ["p"],
    "devices": {"processors": [{"cores": 8}]},
}


def backdate_all(store, seconds):
    """Backdate all claims, so that the next one is the newest."""
    of = tables.claims.c
    with store._database.writer.begin() as connection:
        connection.execute(sa.update(tables.claims).values(created_at=of.created_at - seconds))


class TestSite(ApplicationCase):
    """A site of many pod managers."""

    settings = MappingProxyType({})

    def setUp(self):
        super().setUp()
        self.client = self.new_client(inventories=(self.site(PODMS),))

    def site(self, count):
        podms = [{"id": f"p{number:04}", "zone": f"z{number % 7}", "pools": [{"id": "p"}],
                  "blocks": [BLOCK]} for number in range(count)]  # fmt: skip
        path = self.folder / f"{count}.json"
        path.write_text(json.dumps({"schema": "valence-sched/inventory", "podms": podms}))
        return str(path)

    def page(self, path):
        result = self.call("GET", path)
        self.assertEqual(200, result.status_code, result.text)
        return result.text

    def shown(self, text):
        return re.findall(r"<h3>(p\d+)</h3>", text)

    def test_a_page_is_not_larger_for_a_larger_site(self):
        """The size of a page is limited."""
        large = len(self.page("/ui"))
        self.client = self.new_client(inventories=(self.site(100),))
        self.assertLess(large, 1.1 * len(self.page("/ui")))

    def test_a_site_without_pod_managers_names_the_next_step(self):
        self.client = self.new_client()
        step = "No pod manager is registered: podm create NAME URL registers one"
        self.assertIn(step, self.page("/ui"))
        asked = self.call("GET", "/ui/fit?flavor=small")
        self.assertEqual(400, asked.status_code)
        self.assertIn(step, asked.text)
        self.assertNotIn("--inventory", asked.text)

    def test_every_pod_manager_is_on_one_of_the_parts(self):
        found, path = [], "/ui?search=z3"
        while path:
            text = self.page(path)
            found += self.shown(text)
            after = re.search(r'rel="next" href="([^"]*)"', text)
            path = after and "/ui" + after[1].replace("&amp;", "&")
        self.assertEqual([f"p{number:04}" for number in range(PODMS) if number % 7 == 3], found)

    def test_a_part_names_its_range_and_the_one_before_it(self):
        text = self.page("/ui?page=2")
        self.assertIn("<li>25 to 48 of 2,000</li>", text)
        self.assertIn('rel="prev" href="?"', text)
        self.assertIn('rel="prev" href="?page=2"', self.page("/ui?page=3"))
        self.assertIn("past the end of 2,000", self.page("/ui?page=9999"))

    def test_claims_and_nodes_are_listed_the_newest_first_in_parts(self):
        """The database pages them: other rows are not read."""
        with Store(self.state) as store:
            generation = store.remember(podm("p", blocks=250))
            store.remember(podm('q"é'))
            for number in range(230):
                claim = store.claims.create([part("p", generation, f"c{number}")], owner="ann")
                backdate_all(store, seconds=1.0)
                if number < 120:
                    store.claims.start_composing(claim.id)
                    node = ComposedNode(id=f"n{number}", podm="p", uri=f"/S/{number}", owner="ann",
                                        claim=claim.id, blocks=(f"c{number}",))  # fmt: skip
                    store.claims.finish_composing(claim.id, [node])
            other = store.claims.create([part('q"é', 1, "c0")])
            store.claims.release(other.id)
        for path, rows, words in (
            ("claims", 100, "<li>1 to 100 of 230</li>"), ("claims?page=3", 30, "201 to 230 of 230"),
            ("claims?page=4", 0, "past the end of 230"), ("claims?owner=ann&page=2", 100, "of 230"),
            ("claims?podm=p&page=3", 30, "201 to 230"), ("claims?owner=eve", 0, ""),
            ("claims?ended=true", 100, "1 to 100 of 231"), ("claims?podm=q%22%C3%A9", 0, ""),
            ("claims?podm=q%22%C3%A9&ended=true", 1, "RELEASED"), ("claims?podm=P", 0, ""),
            ("nodes", 100, "<li>1 to 100 of 120</li>"), ("nodes?page=2", 20, "101 to 120 of 120"),
            ("nodes?podm=p&owner=ann&page=2", 20, "101 to 120"), ("nodes?podm=q", 0, ""),
            ("nodes?owner=eve", 0, ""),
        ):  # fmt: skip
            with self.subTest(path):
                text = self.page(f"/ui/{path}")
                self.assertEqual(rows, text.count("<tr>") - bool(text.count("<thead")), path)
                self.assertIn(words, text)
        names = re.findall(r">(n\d+)<", self.page("/ui/nodes"))
        self.assertEqual([f"n{number}" for number in range(119, 19, -1)], names)

    def test_a_query_that_is_none_is_a_page_that_says_so(self):
        for query in ("page=0", "page=x", "pge=1", "page=10001"):
            result = self.call("GET", f"/ui?{query}")
            self.assertEqual(400, result.status_code)
            self.assertIn("text/html", result.headers["content-type"])

    def test_decisions_are_listed_the_newest_first_in_parts(self):
        for number in range(3):
            body = {"request": {**SMALL["request"], "id": f"r{number}"}, "keep": True}
            self.call("POST", "/v1/select_destinations", body)
        listed = self.call("GET", "/v1/decisions?limit=2").json
        self.assertEqual(["r2: 8 cores", "r1: 8 cores"], [one["request"] for one in listed])
        (last,) = self.call("GET", "/v1/decisions?skip=2").json
        self.assertEqual((1, "placed"), (last["placed"], last["outcome"]))
        self.check_problem(self.call("GET", "/v1/decisions?limit=0"), 400, "input_invalid")
        text = self.page("/ui/decisions")
        self.assertEqual(["r2", "r1", "r0"], re.findall(r">(r\d): 8 cores", text))


class TestRecords(LivePodmsCase):
    """The pages of a block and a node, and the form, for an admin and for tenants."""

    users = ("ann:admin", "mo", "eve")
    names = ("gpu-east", "mem-1", "dark-1")

    def page(self, path, user="ann", status=200):
        result = self.call("GET", path, user=user)
        self.assertEqual(status, result.status_code, result.text)
        return result.text

    def hold(self, user="mo"):
        """Hold one block of gpu-east; return the claim and the link to its block."""
        body = {"request": {**SMALL["request"], "podms": ["gpu-east"]}}
        claim = self.call("POST", "/v1/claims", body, user=user).json["claim"]
        (part,) = claim["parts"]
        uri = part["shares"][0]["blocks"][0]
        return claim["id"], f"/ui/blocks/{uri.rpartition('/')[2]}?podm=gpu-east"

    def links(self, text):
        """Return the paths of all links of a page two steps below the first one."""
        found = (html.unescape(one) for one in re.findall(r' href="([^"#]+)"', text))
        return {"/" + one.replace("../", "") for one in found}

    def test_a_block_says_who_holds_it_and_to_others_nothing(self):
        claim, path = self.hold()
        text = self.page(path)
        self.assertIn("16 cores", text)
        self.assertIn(f">{claim}</a>", text)
        self.assertIn(claim, self.page(path, "mo"))
        self.assertNotIn(claim, self.page(path, "eve"))
        self.page("/ui/blocks/none?podm=gpu-east", status=404)

    def test_what_is_free_on_a_disabled_pod_manager_is_not_usable(self):
        done = self.call("PATCH", "/v1/podms/dark-1", {"enabled": False}, user="ann")
        self.assertEqual(200, done.status_code, done.text)
        text = self.page("/ui/blocks/GPU-01?podm=dark-1")
        self.assertIn("Free, but dark-1 is disabled: 4 GPU", text)
        self.assertIn("disabled: takes no nodes; 13 of 13", self.page("/ui/podms/dark-1").lower())
        site = self.page("/ui")
        self.assertIn("13 more are free on pod managers that take no nodes (1 disabled)", site)
        self.assertIn("0 of 13 usable, 13 more free", site)

    def test_every_link_of_a_page_leads_to_a_page(self):
        claim, _ = self.hold()
        text = self.page("/ui/podms/gpu-east")
        paths = self.links(text)
        blocks = [one for one in paths if re.match("/ui/blocks/[^-]", one)]
        self.assertEqual(37, len(blocks))
        self.assertEqual(4, len({one for one in paths if "/ui/nodes/" in one}), paths)
        self.assertIn(f"/ui/claims/{claim}", paths)
        for path in paths:
            self.page(path)

    def test_the_counts_of_the_site_are_those_of_its_pages(self):
        self.hold()

        def counts(text):
            found = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
            words = ("Pools", "Blocks", "Nodes", "Nodes with claimed blocks")
            return [int(found.get(word, "0")) for word in words]

        pages = [self.page(f"/ui/podms/{name}") for name in self.names]
        site = counts(self.page("/ui"))
        self.assertEqual(site, [sum(each) for each in zip(*map(counts, pages), strict=True)])
        squares = [{*re.findall('href="([^"]*)" aria-label', text)} for text in pages]
        self.assertEqual(site[1], sum(map(len, squares)))
        nodes = [set(re.findall(r'"[^"]*ui/nodes/[^"]*"', text)) for text in pages]
        self.assertEqual(site[2], sum(map(len, nodes)))
        self.assertEqual((4 + 4, 1), (site[2], site[3]))

    def test_a_node_that_no_claim_has_is_a_page_without_the_names_of_others(self):
        (path,) = [one for one in self.links(self.page("/ui/podms/gpu-east"))
                   if "notebook-7" in self.page(one) and "/nodes/" in one]  # fmt: skip
        text = self.page(path)
        self.assertIn("Unmanaged", text)
        self.assertIn("Compute-", text)
        self.assertNotIn("notebook-7", self.page("/ui/podms/gpu-east", "eve"))
        self.page(path, "eve", status=404)

    def test_the_form_decides_and_changes_nothing(self):
        form = self.page("/ui/fit")
        self.assertIn("<option>gpu-large</option>", form)
        text = self.page("/ui/fit?flavor=gpu-large&count=2")
        self.assertIn("Placed: 2 of 2 nodes", text)
        self.assertIn("<option selected>gpu-large</option>", text)
        empty = "flavor=&cores=64&memory_gib=&gpus=2&gpu_model=A100&drive_gib=&zone=&count=1"
        self.assertIn("Placed: 1 of 1 node", self.page(f"/ui/fit?{empty}", "eve"))
        refused = self.page("/ui/fit?cores=100000")
        self.assertIn("Nothing fits", refused)
        self.assertIn("Not chosen", refused)
        self.assertEqual(refused, self.page("/ui/fit?cores=100000"), "a reload decides the same")
        self.assertEqual([], self.call("GET", "/v1/decisions", user="ann").json)
        self.assertEqual([], self.call("GET", "/v1/claims", user="ann").json)
        for query, status in (("flavor=nope", 404), ("cores=-1", 400), ("cores=x", 400),
                              ("flavor=small&cores=1", 400), ("count=2000000", 400),
                              ("what=1", 400)):  # fmt: skip
            with self.subTest(query):
                self.page(f"/ui/fit?{query}", status=status)
        evil = self.page("/ui/fit?zone=<script>alert(1)</script>&cores=1")
        self.assertNotIn("<script>alert", evil)

    def test_a_decision_names_no_node_of_others(self):
        full = {"request": {"flavor": "memory-large", "count": 3}, "keep": True}
        kept = self.call("POST", "/v1/select_destinations", full, user="eve")
        path = kept.headers["content-location"].replace("/v1/", "/ui/")
        fit = "/ui/fit?flavor=memory-large&count=3"
        for text in (self.page(path, "eve"), self.page(fit, "eve")):
            self.assertIn("removing a node of another owner", text)
            self.assertNotIn("removing node", text)
        self.assertIn("removing node", self.page(path))

    def test_the_map_of_a_decision_names_no_node_of_others(self):
        chosen = {"request": {**SMALL["request"], "podms": ["gpu-east"]}, "keep": True}
        kept = self.call("POST", "/v1/select_destinations", chosen, user="eve")
        path = kept.headers["content-location"].replace("/v1/", "/ui/")
        self.assertIn("notebook-7", self.page(path))
        self.assertNotIn("notebook-7", self.page(path, "eve"))

    def test_what_pages_run_is_named_by_their_policy(self):
        result = self.call("GET", "/ui", user="ann")
        policy = result.headers["content-security-policy"]
        self.assertIn(POLICY, policy)
        self.assertIn("frame-ancestors 'none'", policy)
        (script,) = re.findall("<script>(.*)</script>", result.text, re.DOTALL)
        self.assertEqual(SCRIPT, script)
        self.assertNotRegex(result.text, r"<[^>]* on[a-z]+=")
