# SPDX-License-Identifier: Apache-2.0
"""The pages of the service without a browser: parts of long lists, queries, and their size."""

import json
import re
from types import MappingProxyType

from tests.service.application import SMALL, ApplicationCase

PODMS = 2000
BLOCK = {
    "uri": "/b/1",
    "type": ["Compute"],
    "pools": ["p"],
    "devices": {"processors": [{"cores": 8}]},
}


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
