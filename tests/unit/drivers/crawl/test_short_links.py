# SPDX-License-Identifier: Apache-2.0
"""Links that lack the path of their document, as behind a hub that aggregates agents."""

import tempfile
import unittest
from pathlib import Path

import msgspec

from tests.unit.drivers.crawl.test_habits import BLOCKS, PLAIN, SERVICE, V
from tests.unit.drivers.crawl.test_live import LiveTest
from valence_sched.drivers.crawl.crawler import MAX_TRIALS
from valence_sched.drivers.links import MAX_PLACES, places_below


def hub(*agents):
    """Return a hub that serves agents below paths of its own, with their links as they wrote them.

    Each has two blocks in a zone, one of them composed, each with as many processors as the number
    of the agent, at most 3.
    """

    def linked(*uris):
        return [{"@odata.id": uri} for uri in uris]

    service = {f"Resource{kind}": linked(f"{SERVICE}/Resource{kind}")[0]
               for kind in ("Blocks", "Zones")}  # fmt: skip
    found = {V: {"Name": "hub", "CompositionService": {"@odata.id": SERVICE},
                 "Systems": {"@odata.id": f"{V}/Systems"}},
             SERVICE: {"Name": "service", **service}}  # fmt: skip
    members = {"Systems": [], "CompositionService/ResourceBlocks": [],
               "CompositionService/ResourceZones": []}  # fmt: skip
    for number, agent in enumerate(agents, 1):
        at = f"{V}/Agents/{agent}"
        documents = {f"{V}/Zones/Z": {"Links": {"ResourceBlocks": linked(f"{V}/Blocks/1",
                                                                         f"{V}/Blocks/2")}},
                     f"{V}/Systems/N": {"SystemType": "Composed", "Links": {
                         "ResourceBlocks": linked(f"{V}/Blocks/2")}}}  # fmt: skip
        for block in "12":
            uri = f"{V}/Blocks/{block}"
            cpus = [f"{uri}/Processors/{index}" for index in range(min(number, 3))]
            documents |= {key: {"ProcessorType": "CPU", "TotalCores": 4} for key in cpus}
            documents[f"{uri}/Processors"] = {"Links": {"Members": linked(*cpus)}}
            documents[uri] = {**PLAIN, "Processors": linked(f"{uri}/Processors")}
            members["CompositionService/ResourceBlocks"] += linked(f"{at}/Blocks/{block}")
        members["CompositionService/ResourceZones"] += linked(f"{at}/Zones/Z")
        members["Systems"] += linked(f"{at}/Systems/N")
        found |= {uri.replace(V, at): {"Name": "?", **json} for uri, json in documents.items()}
    found |= {f"{V}/{name}": {"Name": name, "Members": links} for name, links in members.items()}
    return {uri: msgspec.json.encode({"@odata.id": uri, **json}) for uri, json in found.items()}


class ShortLinksTest(LiveTest):
    def test_the_links_of_each_agent_of_a_hub_lead_to_its_own_documents(self):
        documents = hub("a", "b", "c")
        (reading,) = self.read(self.serve(documents))
        podm, diagnostics = self.recorded(documents)
        self.same(podm, reading)
        self.assertEqual(diagnostics, reading.diagnostics)
        for number, agent in enumerate("abc", 1):
            blocks = [block for block in podm.blocks if f"/Agents/{agent}/" in block.uri]
            (zone,) = {block.pools for block in blocks}
            self.assertEqual((f"{V}/Agents/{agent}/Zones/Z",), zone)
            self.assertEqual(["Unused", "Composed"], [block.status.state for block in blocks])
            counts = [sum(cpu.count for cpu in block.devices.processors) for block in blocks]
            self.assertEqual([number] * 2, counts)

    def test_a_link_that_leads_nowhere_is_tried_below_its_document_and_noted_as_before(self):
        documents = hub("a")
        del documents[f"{V}/Agents/a/Blocks/1/Processors/0"]
        server = self.serve(documents)
        (reading,) = self.read(server)
        podm, diagnostics = self.recorded(documents)
        self.same(podm, reading)
        self.assertEqual(diagnostics, reading.diagnostics)
        lost = f"{V}/Blocks/1/Processors/0: found no such document, expected it: {V}/Agents/a/"
        self.assertIn(lost, "".join(one.text for one in diagnostics))
        tried = [path for path in server.gets() if path.endswith("/Blocks/1/Processors/0")]
        self.assertEqual(len(set(tried)), len(tried))

    def test_the_links_of_very_many_agents_are_all_followed(self):
        documents = hub(*(f"agent-{number}" for number in range(MAX_TRIALS + 5)))
        server = self.serve(documents)
        with tempfile.TemporaryDirectory() as folder:
            for cache in (None, Path(folder), Path(folder)):
                (reading,) = self.read(server, cache=cache)
                self.same(self.recorded(documents)[0], reading)

    def test_a_service_with_very_many_links_to_nothing_is_not_asked_for_each_elsewhere(self):
        gone = [{"@odata.id": f"{V}/Gone/{number}"} for number in range(3 * MAX_TRIALS)]
        documents = hub("a")
        block = f"{V}/Agents/a/Blocks/1"
        documents[block] = msgspec.json.encode({**PLAIN, "Drives": gone})
        del documents[f"{V}/Agents/a/Zones/Z"], documents[f"{V}/Agents/a/Systems/N"]
        documents[f"{V}/Agents/a/Blocks/2"] = msgspec.json.encode(PLAIN)
        server = self.serve(documents)
        (reading,) = self.read(server)
        self.assertEqual(self.recorded(documents)[1], reading.diagnostics)
        self.assertLess(len(server.gets()), len(gone) + MAX_PLACES * MAX_TRIALS + 50)

    def test_the_places_of_a_link_begin_with_the_likeliest(self):
        agent = f"{V}/Agents/a"
        cases = {
            (f"{agent}/Systems/1", f"{V}/Systems/1/Memory"): f"{agent}/Systems/1/Memory",
            (f"{agent}/Systems/1#/Part", "/Memory?page=2"): f"{agent}/Systems/1/Memory?page=2",
            (BLOCKS, "/C1"): f"{BLOCKS}/C1",
            (BLOCKS, f"{V}/resourceblocks/C1"): f"{BLOCKS}/C1",
            (V, "/Systems"): f"{V}/Systems",
            (V, f"{V}/Systems"): None,
            (BLOCKS, f"{BLOCKS}/C1"): None,
            (BLOCKS, V): None,
        }
        for (parent, link), expected in cases.items():
            places = places_below(parent, link)
            self.assertEqual(expected, places[0] if places else None, (parent, link))
            self.assertLessEqual(len(places), MAX_PLACES)


if __name__ == "__main__":
    unittest.main()
