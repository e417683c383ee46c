# SPDX-License-Identifier: Apache-2.0
"""Live pod managers give the same result as their recorded trees, with minimal requests."""

import functools
import stat
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import msgspec

from tests.unit.drivers.crawl.test_habits import BLOCKS, PLAIN, SERVICE, V
from tests.unit.drivers.live import (
    NOON,
    TREES,
    LiveTest,
    dressed,
    hang,
    is_object,
    on,
    sampled,
    status,
)
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.cache import DocumentCache
from valence_sched.drivers.crawl.crawler import MAX_TRIALS, Crawler, ExpandReader
from valence_sched.drivers.crawl.pool import BUSY_PODMS, read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget, read_in_passes
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.drivers.links import MAX_PLACES, LinkedDocuments, fold_uri, path_of, places_below
from valence_sched.model.diagnostic import NoProgress
from valence_sched.model.registration import Registration


class IdentityTest(LiveTest):
    maxDiff = None

    def test_every_tree_says_the_same_live_and_recorded(self):
        for (name, documents), expand in sampled(TREES.items(), (0, 1, 2, 6)):
            with self.subTest(name, expand=expand):
                server = self.serve({}, expand=expand)
                home = self.at_home(documents, server)
                (reading,) = self.read(server)
                expected, diagnostics = self.recorded(home)
                self.same(expected, reading)
                self.assertEqual(diagnostics, reading.diagnostics)

    def test_no_document_is_asked_for_that_is_not_read_and_none_twice(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                (reading,) = self.read(server)
                requested = [path_of(path) for path in server.gets()]
                self.assertEqual(sorted(set(requested)), sorted(requested))
                readable = {fold_uri(uri) for uri in requested if is_object(server.document(uri))}
                self.assertEqual({fold_uri(uri) for uri in reading.documents}, readable)
                self.assertEqual(len(requested), reading.requests)

    def test_all_that_the_reader_wants_is_declared(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                known = Registration(name="podm", url=server.url)
                with Connection(known, None, Deadline(20)) as connection:
                    root = connection.get("/redfish/v1").json("/redfish/v1")
                    cache = DocumentCache(None, server.url, None, 0)
                    crawl = Crawler(
                        ExpandReader(connection.get), cache, connection.host, 1, lambda *_: False
                    )
                    linked = functools.partial(LinkedDocuments, host=connection.host)
                    read_in_passes(crawl, DIALECTS["redfish"](), root, "podm", linked)
                self.assertEqual(0, crawl.unplanned)


class SiteTest(LiveTest):
    def test_readings_come_in_the_order_of_the_targets_whoever_is_first(self):
        gate = threading.Event()

        def wait(handler):
            gate.wait(10)

        slow = self.serve(TREES["states"], rules=[wait])
        fast = [self.serve(TREES["shared-blocks"], rules=[lambda _: None]) for _ in range(3)]
        calls = []

        class Calls(NoProgress):
            def count_podms(self, done, total=None, awaited=()):
                calls.append((done, total, list(awaited)))
                if done == len(fast):
                    gate.set()

        targets = [
            ReadTarget(Registration(name=name, url=server.url))
            for name, server in zip("zyxw", [slow, *fast], strict=True)
        ]
        found = [r.podm.id for r in read(targets, DIALECTS, ReadSettings(), Calls())]
        self.assertEqual(list("zyxw"), found)
        self.assertEqual([(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)], [call[:2] for call in calls])
        first, *_, one, none = [names for *_, names in calls]
        self.assertEqual((["z", "y", "x"], ["z"], []), (first, one, none))

    def test_no_more_than_the_allowed_requests_are_under_way(self):
        for most in (1, 2, 4):
            now, lock, peak = [0], threading.Lock(), [0]

            def enter(handler, now=now, lock=lock, peak=peak):
                with lock:
                    now[0] += 1
                    peak[0] = max(peak[0], now[0])
                handler.podm.stop.wait(0.01)
                with lock:
                    now[0] -= 1

            server = self.serve(TREES["states"], rules=[enter])
            self.read(server, parallel=most)
            self.assertEqual(most, peak[0])

    def test_nothing_to_read_is_nothing_read(self):
        self.assertEqual([], self.read())

    def test_devices_that_are_alike_are_one_in_all_pod_managers_of_a_run(self):
        server = self.serve(TREES["no-zones"])
        first, second = (reading.podm.blocks for reading in self.read(server, server))
        self.assertEqual(first, second)
        self.assertTrue(first)
        for one, other in zip(first, second, strict=True):
            self.assertIs(one.devices, other.devices)

    def test_more_pod_managers_than_threads_are_all_read(self):
        root = b'{"RedfishVersion": "1.0.0", "Systems": {"@odata.id": "/redfish/v1/Systems"}}'
        server = self.serve({V: root, f"{V}/Systems": b'{"Members": []}'})
        found = self.read(*[server] * (pool.MAX_PODMS + 5), timeout_s=120)
        self.assertEqual({None}, {reading.failure for reading in found})
        self.assertEqual([f"podm-{i}" for i in range(len(found))], [r.podm.id for r in found])


TREE = TREES["rack-mockup"]


class ExpandTest(LiveTest):
    def both(self, documents, *rules, **more):
        """Read a tree expanded and plain; check that the results are equal; return the expanded
        server.
        """
        server = self.serve({}, expand=6, rules=rules)
        documents = dressed(documents)
        home = self.at_home(documents, server)
        (reading,) = self.read(server, **more)
        expected, diagnostics = self.recorded(home)
        self.same(expected, reading)
        self.assertEqual(diagnostics, reading.diagnostics)
        return server

    def test_whole_trees_come_in_few_answers(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.both(documents)
                plain = self.serve({})
                self.at_home(documents, plain)
                self.read(plain)
                self.assertLess(len(server.log), len(plain.log))
                if name.startswith("public-com"):
                    self.assertEqual(4, len(server.log))

    def test_answers_that_are_no_json_or_never_come_are_read_plain(self):
        for act in (status(200, b"<html>"), status(200, b'{"a":' * 100_000), hang):
            self.both(TREE, on("expand", act), timeout_s=4.0)

    def test_a_thread_more_for_few_requests_is_for_few_pod_managers_only(self):
        def peak(server):
            now, most, lock = [0], [0], threading.Lock()

            def enter(handler):
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                handler.podm.stop.wait(0.1)
                with lock:
                    now[0] -= 1

            server.rules.append(enter)
            return most

        servers = [self.serve(dressed(TREE), expand=6) for _ in range(2 * BUSY_PODMS)]
        peaks = [peak(server) for server in servers]
        self.read(servers[0])
        self.assertGreater(peaks[0][0], 1)
        peaks[0][0] = 0
        self.read(*servers)
        self.assertLess(len([most for (most,) in peaks if most > 1]), BUSY_PODMS)


class KeptTest(LiveTest):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())) / "cache"

    def twice(self, documents, expand=0, **more):
        server = self.serve({}, expand=expand)
        self.at_home(documents, server)
        (first,) = self.read(server, cache=self.folder)
        count = len(server.log)
        (second,) = self.read(server, cache=self.folder, **more)
        self.assertEqual(len(server.log) - count, second.requests)
        self.assertEqual(first.diagnostics, second.diagnostics)
        self.assertEqual(first.documents, second.documents)
        self.same(msgspec.structs.replace(first.podm, url=None, read_at=None), second)
        return first.requests, second.requests

    def test_a_repeated_read_says_the_same_with_fewer_requests(self):
        for (name, documents), expand in sampled(TREES.items(), (0, 6)):
            with self.subTest(name, expand=expand):
                first, second = self.twice(documents, expand)
                self.assertLessEqual(second, first + 2)
        first, second = self.twice(TREES["systems"])
        self.assertLess(second * 2, first)

    def test_the_state_of_blocks_is_always_read(self):
        server = self.serve(TREES["states"])
        self.read(server, cache=self.folder)
        uri = next(uri for uri, data in sorted(server.documents.items()) if b'"Unused"' in data)
        server.documents[uri] = server.documents[uri].replace(b'"Unused"', b'"Failed"')
        (reading,) = self.read(server, cache=self.folder)
        (block,) = [block for block in reading.podm.blocks if block.uri == uri]
        self.assertEqual("Failed", block.status.state)

    def test_a_full_read_and_a_day_later_all_is_read(self):
        day = timedelta(days=1, seconds=1)
        for more in ({"full": True}, {"at": NOON + day}, {"at": NOON - timedelta(seconds=5)}):
            server = self.serve(TREE)
            first = self.read(server, cache=self.folder)[0].requests
            self.assertEqual(first, self.read(server, cache=self.folder, **more)[0].requests)
            self.assertLess(
                self.read(server, cache=self.folder, **more | {"full": False})[0].requests, first
            )

    def test_the_file_is_ours_alone(self):
        self.twice(TREE)
        (file,) = self.folder.iterdir()
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(self.folder.stat().st_mode))

    def test_a_file_that_cannot_be_used_is_said_and_written_anew(self):
        server = self.serve(TREE)
        (first,) = self.read(server, cache=self.folder)
        (file,) = self.folder.iterdir()
        file.write_bytes(file.read_bytes()[:-9])
        (second,) = self.read(server, cache=self.folder)
        self.assertEqual(first.requests, second.requests)
        self.assertIn("could not be used", "".join(one.text for one in second.diagnostics))
        (third,) = self.read(server, cache=self.folder)
        self.assertEqual(first.diagnostics, third.diagnostics)
        self.assertLess(third.requests, first.requests)

    def test_a_folder_that_cannot_be_written_is_said(self):
        self.folder.write_bytes(b"")
        (reading,) = self.read(self.serve(TREE), cache=self.folder)
        self.assertIsNone(reading.failure)
        self.assertIn("could not be written", "".join(one.text for one in reading.diagnostics))


def hub(*agents):
    """Return a hub that serves agents below separate paths, with their links unchanged.

    Each has two blocks in a zone, of which one is composed. Each block has as many processors as
    the number of the agent, at most 3.
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
        lost = f"{V}/Blocks/1/Processors/0: found no such document, but {V}/Agents/a/"
        self.assertIn(lost, "".join(one.text for one in diagnostics))
        tried = [path for path in server.gets() if path.endswith("/Blocks/1/Processors/0")]
        self.assertEqual(len(set(tried)), len(tried))

    def test_the_links_of_very_many_agents_are_all_followed(self):
        documents = hub(*(f"agent-{number}" for number in range(MAX_TRIALS + 5)))
        server = self.serve(documents)
        with tempfile.TemporaryDirectory() as folder:
            for cache in (Path(folder), Path(folder)):
                (reading,) = self.read(server, cache=cache)
                self.same(self.recorded(documents)[0], reading)

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
