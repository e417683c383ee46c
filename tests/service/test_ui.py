# SPDX-License-Identifier: Apache-2.0
"""The pages of the service without a browser: parts of long lists, queries, and their size."""

import json
import re
from types import MappingProxyType

import sqlalchemy as sa

from tests.service.application import SMALL, ApplicationCase
from tests.unit.store.site import part, podm
from valence_sched.model.claim import ComposedNode
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
    """Let all claims have been created earlier, so that the next one is the newest."""
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
        """What is shown of a site is bounded."""
        large = len(self.page("/ui"))
        self.client = self.new_client(inventories=(self.site(100),))
        self.assertLess(large, 1.1 * len(self.page("/ui")))

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
        self.assertIn("none of 2,000 from", self.page("/ui?page=9999"))

    def test_claims_and_nodes_are_listed_the_newest_first_in_parts(self):
        """The database pages them: what is not shown is not read."""
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
            ("claims?page=4", 0, "none of 230 from"), ("claims?owner=ann&page=2", 100, "of 230"),
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
