# SPDX-License-Identifier: Apache-2.0
"""Every fault rule, over a socket; and invalid rules."""

import json
import re
import unittest
from pathlib import Path

import requests

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import PCIE
from tests.unit.simulator.server import test_change_faults
from tests.unit.simulator.server.test_podm import SESSIONS, Case
from tests.unit.simulator.site import (
    BLOCKS,
    ROOT,
    SERVICE,
    SYSTEMS,
    ZONES,
    Client,
    documents,
    link,
    links,
    message_key,
)
from tests.unit.trees import tree
from valence_sched.errors import UnknownName, UsageError
from valence_sched.simulator.server.faults import RULES, faults_of
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

RECORDED = Path(__file__).parents[3] / "recorded"


def rack(name):
    return json.loads((RECORDED / name).read_text())


class TestRules(unittest.TestCase):
    def test_an_unknown_rule_or_pod_manager_is_told_with_the_nearest(self):
        with self.assertRaisesRegex(UnknownName, "did you mean 'double-book'"):
            faults_of(["double-bok"], ["p"])
        with self.assertRaisesRegex(UnknownName, "did you mean 'north'"):
            faults_of(["refuse@nrth"], ["north", "west"])

    def test_a_rule_that_says_too_little_or_too_much_is_told_with_its_form(self):
        for rule in ("hang", "hang:x", "delay:fast:/", "status:99:/a", "status:503:/a:often",
                     "refuse:now", "steal", "die-after", "die-after:-1", "hang:/a:b",
                     "status:503:/a:0", "page-missing:0", "omit", "null"):  # fmt: skip
            with self.subTest(rule), self.assertRaisesRegex(UsageError, "expected "):
                faults_of([rule], ["p"])

    def test_a_rule_is_for_all_pod_managers_or_for_one(self):
        faults = faults_of(["ghost", "double-book@b"], ["a", "b"])
        self.assertTrue("ghost" in faults["a"] and "ghost" in faults["b"])
        self.assertEqual([False, True], ["double-book" in faults[name] for name in "ab"])

    def test_each_pod_manager_counts_for_itself(self):
        faults = faults_of(["status:503:/x:1"], ["a", "b"])
        for one in faults.values():
            found = [one.take("status", "GET", "/x", "/x") is not None for _ in range(2)]
            self.assertEqual([True, False], found)

    def test_a_path_with_a_query_is_compared_with_the_query(self):
        (fault,) = faults_of(["hang:/x?$skip=*"], ["p"])["p"]._faults
        self.assertFalse(fault.hits("GET", "/x", "/x"))
        self.assertTrue(fault.hits("GET", "/x", "/x?$skip=4"))

    def test_every_rule_has_a_test(self):
        tests = (*dir(TestFaults), *dir(test_change_faults.TestFaults))
        names = {name.removeprefix("test_") for name in tests}
        missing = {
            rule.name
            for rule in RULES
            if not any(name.startswith(rule.name.replace("-", "_")) for name in names)
        }
        self.assertEqual(set(), missing)


class TestFaults(Case):
    def test_no_uuid_leaves_the_root_without_one(self):
        self.assertNotIn("UUID", self.serve("no-uuid").get(ROOT).json())
        self.assertIn("UUID", self.serve().get(ROOT).json())

    def stream(self, *fail, changes=1):
        """Return the bytes of an event stream until it ends, or pauses for half a second."""
        client = self.serve(*fail)
        uri = client.get(f"{ROOT}/EventService").json()["ServerSentEventUri"]
        url = self.podm.url.removesuffix(ROOT) + uri
        session = self.enterContext(requests.Session())
        session.trust_env = False
        answer = session.get(url, stream=True, timeout=0.8, allow_redirects=False)
        if answer.status_code != 200:
            return answer
        tree, found = self.podm.documents, b""
        try:
            for number, piece in enumerate(answer.iter_content(1 << 16)):
                if number == 0:  # the stream is open
                    for count in range(changes):
                        tree.put(SYSTEMS, {**tree.get(SYSTEMS), "Description": str(count)})
                found += piece
                if len(found) > 1 << 21 or b": keep-alive" in found:
                    break
        except requests.RequestException:
            found += b"CUT"
        answer.close()
        return found

    def test_without_a_fault_each_changed_resource_is_an_event(self):
        found = self.stream(changes=3)
        (data,) = re.findall(rb"(?m)^data: (.*)$", found)
        (record,) = json.loads(data)["Events"]
        self.assertEqual("ResourceEvent.1.3.ResourceChanged", record["MessageId"])
        self.assertEqual(link(SYSTEMS), record["OriginOfCondition"])

    def test_no_events_offers_no_stream(self):
        self.assertNotIn("EventService", self.serve("no-events").get(ROOT).json())

    def test_no_stream_takes_subscriptions(self):
        service = self.serve("no-stream").get(f"{ROOT}/EventService").json()
        self.assertNotIn("ServerSentEventUri", service)
        self.assertIn("Subscriptions", service)

    def test_stream_cut_ends_it_after_so_many_events(self):
        self.assertEqual(b": events follow\n\nCUT", self.stream("stream-cut:0"))
        found = self.stream("stream-cut:1")
        self.assertEqual((1, True), (found.count(b"data: "), found.endswith(b"CUT")))

    def test_stream_storm_sends_each_so_often(self):
        self.assertEqual(20, self.stream("stream-storm:20").count(b"data: "))

    def test_stream_endless_is_one_line(self):
        found = self.stream("stream-endless")
        self.assertGreater(len(found), 1 << 21)
        self.assertEqual(1, found.partition(b"data: ")[2].count(b"\n") + 1)

    def test_stream_redirect_leads_elsewhere(self):
        answer = self.stream("stream-redirect")
        self.assertEqual(307, answer.status_code)
        self.assertIn("//elsewhere.example.net/", answer.headers["Location"])

    def test_stream_older_has_types_and_origins_as_text(self):
        (data,) = re.findall(rb"(?m)^data: (.*)$", self.stream("stream-older"))
        (record,) = json.loads(data)["Events"]
        found = (record["EventType"], record["OriginOfCondition"])
        self.assertEqual(("ResourceUpdated", SYSTEMS), found)

    def cut(self, method, path, json=None):
        with self.assertRaises(requests.ConnectionError):
            self.client.ask(method, path, json)

    def test_refuse_takes_no_connection(self):
        self.serve("refuse")
        self.cut("GET", ROOT)

    def test_hang_never_answers_and_the_others_do(self):
        client = self.serve(f"hang:{SYSTEMS}")
        with self.assertRaises(requests.Timeout):
            client.ask("GET", SYSTEMS, timeout=0.2)
        self.assertEqual(200, client.get(BLOCKS).status_code)

    def test_delay_answers_later(self):
        client = self.serve(f"delay:300:{BLOCKS}*")
        with self.assertRaises(requests.Timeout):
            client.ask("GET", BLOCKS, timeout=0.1)
        self.assertEqual(200, client.get(BLOCKS).status_code)

    def test_status_answers_so_as_often_as_told(self):
        client = self.serve(f"status:503:GET:{BLOCKS}/C*:2", "status:401:POST:" + SESSIONS)
        found = [client.get(f"{BLOCKS}/{name}").status_code for name in ("C1", "D1", "C2", "C1")]
        self.assertEqual([503, 200, 503, 200], found)
        self.assertEqual(401, client.post(SESSIONS, {}).status_code)

    def test_busy_says_when_to_come_back(self):
        client = self.serve(f"busy:7:POST:{SYSTEMS}:1")
        answers = [client.compose("C1") for _ in range(2)]
        found = [(answer.status_code, answer.headers.get("Retry-After")) for answer in answers]
        self.assertEqual([(503, "7"), (201, None)], found)

    def test_malformed_ends_in_the_middle(self):
        answer = self.serve(f"malformed:{BLOCKS}").get(BLOCKS)
        self.assertEqual(200, answer.status_code)
        with self.assertRaises(ValueError):
            answer.json()

    def test_html_is_a_page(self):
        answer = self.serve("html:*").get(ROOT)
        self.assertEqual(200, answer.status_code)
        self.assertEqual("text/html; charset=utf-8", answer.headers["Content-Type"])

    def test_huge_goes_on_as_long_as_somebody_reads(self):
        client = self.serve(f"huge:{BLOCKS}")
        answer = client.session.get(client.base + BLOCKS, stream=True, timeout=20)
        self.addCleanup(answer.close)
        pieces = answer.iter_content(1 << 20)
        read = 0
        while read < 20 << 20:  # would end with StopIteration
            read += len(next(pieces))
        with self.assertNoLogs():
            answer.close()
            client.get(ROOT)

    def test_deep_is_nested_so_that_json_gives_up(self):
        answer = self.serve(f"deep:{BLOCKS}").get(BLOCKS)
        self.assertIn(b"[" * 100_000, answer.content)

    def test_drop_reply_does_it_and_cuts_the_connection(self):
        client = self.serve(f"drop-reply:POST:{SYSTEMS}")
        with self.assertRaises(requests.ConnectionError):
            client.compose("C1")
        self.assertEqual("Composed", client.state("C1"))
        self.assertEqual(0, self.podm.requests[0].status)

    def test_cut_body_sends_half_of_it(self):
        client = self.serve(f"cut-body:{BLOCKS}")
        with self.assertRaises(requests.exceptions.ChunkedEncodingError):
            client.get(BLOCKS)
        self.assertEqual(200, client.get(SYSTEMS).status_code)

    def test_cut_after_cuts_everything_after_so_many_requests(self):
        client = self.serve("cut-after:2")
        self.assertEqual([200, 200], [client.get(uri).status_code for uri in (ROOT, BLOCKS)])
        self.cut("GET", ROOT)

    def test_lie_is_200_with_an_error_and_nothing_done(self):
        client = self.serve(f"lie:POST:{SYSTEMS}")
        answer = client.compose("C1")
        self.assertEqual((200, "InternalError"), (answer.status_code, message_key(answer)))
        self.assertEqual("Unused", client.state("C1"))

    def test_die_after_cuts_everything_after_so_many_writes(self):
        client = self.serve("die-after:1")
        client.post(SESSIONS, {"UserName": "a", "Password": "b"})
        self.assertEqual(201, client.compose("C1").status_code)
        self.assertEqual(200, client.get(SYSTEMS).status_code)
        self.cut("DELETE", f"{SYSTEMS}/node")
        self.cut("GET", SYSTEMS)
        self.assertIn(f"{SYSTEMS}/node", self.podm.documents)

    def test_closed_root_asks_for_a_login_too(self):
        client = self.serve("closed-root", login=Account("ann", "sesame"))
        self.assertEqual(401, client.get(ROOT).status_code)
        client.session.auth = ("ann", "sesame")
        self.assertEqual(200, client.get(ROOT).status_code)

    def test_slash_root_answers_with_a_slash_only(self):
        client = self.serve("slash-root")
        self.assertEqual([200, 404], [client.get(ROOT + end).status_code for end in ("/", "")])

    def test_bare_root_answers_without_a_slash_only(self):
        client = self.serve("bare-root")
        self.assertEqual([404, 200], [client.get(ROOT + end).status_code for end in ("/", "")])

    def test_older_root_has_its_entries_below_links(self):
        root = self.serve("older-root").get(ROOT).json()
        self.assertEqual(link(SYSTEMS), root["Links"]["Systems"])
        self.assertNotIn("Systems", root)

    def test_older_collections_have_their_members_below_links(self):
        client = self.serve("older-collections")
        for query in ("", "?$expand=.($levels=1)"):
            found = client.get(BLOCKS + query).json()
            self.assertEqual(6, len(found["Links"]["Members"]))
            self.assertEqual(6, found["Links"]["Members@odata.count"])
            self.assertNotIn("Members", found)

    def test_no_members_sends_a_collection_without(self):
        client = self.serve(f"no-members:{BLOCKS}")
        self.assertEqual({"@odata.id", "Name"}, set(client.get(BLOCKS).json()))
        self.assertIn("Members", client.get(SYSTEMS).json())

    def test_short_links_lack_the_path_of_their_document(self):
        client = self.serve("short-links")
        self.assertIn(link(f"{ROOT}/C1"), client.get(BLOCKS).json()["Members"])
        block = client.get(f"{BLOCKS}/C1").json()
        self.assertEqual([link(f"{ROOT}/Processors/1")], block["Processors"])
        self.assertEqual([link(f"{ZONES}/A")], block["Links"]["Zones"])
        whole = client.get(f"{BLOCKS}?$expand=.($levels=1)").json()["Members"][0]
        self.assertEqual((f"{BLOCKS}/C1", block["Processors"]),
                         (whole["@odata.id"], whole["Processors"]))  # fmt: skip

    def test_session_basic_wants_it_to_make_a_session(self):
        client = self.serve("session-basic", login=Account("ann", "sesame"))
        body = {"UserName": "ann", "Password": "sesame"}
        refused = client.post(SESSIONS, body)
        self.assertEqual(401, refused.status_code)
        self.assertIn("Basic", refused.headers["WWW-Authenticate"])
        client.session.auth = ("ann", "sesame")
        self.assertEqual(201, client.post(SESSIONS, body).status_code)

    def test_session_limit_refuses_one_too_many(self):
        client = self.serve("session-limit:1")
        body = {"UserName": "a", "Password": "b"}
        first = client.post(SESSIONS, body)
        second = client.post(SESSIONS, body)
        self.assertEqual((503, "SessionLimitExceeded"), (second.status_code, message_key(second)))
        client.ask("DELETE", first.headers["Location"])
        self.assertEqual(201, client.post(SESSIONS, body).status_code)

    def test_no_expand_neither_offers_nor_knows_it(self):
        client = self.serve("no-expand")
        features = client.get(ROOT).json()["ProtocolFeaturesSupported"]
        self.assertNotIn("ExpandQuery", features)
        self.assertEqual(501, client.get(f"{BLOCKS}?$expand=.").status_code)

    def offered(self, rule):
        client = self.serve(rule)
        self.assertIn("ExpandQuery", client.get(ROOT).json()["ProtocolFeaturesSupported"])
        return client.get(f"{BLOCKS}?$expand=.")

    def test_expand_404_is_offered_and_not_there(self):
        self.assertEqual(404, self.offered("expand-404").status_code)

    def test_expand_ignored_is_offered_and_does_nothing(self):
        self.assertEqual({"@odata.id"}, set(self.offered("expand-ignored").json()["Members"][0]))

    def test_expand_drops_what_every_resource_has(self):
        member = self.offered("expand-drops").json()["Members"][0]
        self.assertIn("CompositionStatus", member)
        self.assertNotIn("Id", member)

    def test_page_missing_loses_one_page(self):
        client = self.serve("page-missing:2", page_size=4)
        first = client.get(BLOCKS)
        self.assertEqual(200, first.status_code)
        self.assertEqual(404, client.get(first.json()["Members@odata.nextLink"]).status_code)

    def test_foreign_link_is_a_member_on_another_host(self):
        members = self.serve("foreign-link").get(BLOCKS).json()["Members"]
        self.assertEqual(f"https://elsewhere.example.net{BLOCKS}/C1", members[-1]["@odata.id"])

    def test_dangle_is_a_member_that_is_not_there(self):
        members = self.serve("dangle").get(BLOCKS).json()["Members"]
        self.assertEqual(404, self.client.get(members[-1]["@odata.id"]).status_code)

    def test_async_answers_202_unasked(self):
        self.assertEqual(202, self.serve("async").compose("C1").status_code)

    def test_task_exception_ends_the_task_and_composes_nothing(self):
        client = self.serve("task-exception", task_s=0)
        monitor = client.compose("C1").headers["Location"]
        self.assertEqual(500, client.get(monitor).status_code)
        task = client.get(f"{ROOT}/TaskService/Tasks/1").json()
        self.assertEqual("Exception", task["TaskState"])
        self.assertEqual("Unused", client.state("C1"))

    def test_list_twice_lists_a_drive_in_three_ways(self):
        block = self.serve("list-twice").get(f"{BLOCKS}/D1").json()
        self.assertEqual(
            [1, 1, 1], [len(block[it]) for it in ("Drives", "Storage", "SimpleStorage")]
        )
        storage = self.client.get(block["Storage"][0]["@odata.id"]).json()
        self.assertNotEqual(block["Drives"], storage["Drives"])

    def test_physical_volumes_stand_beside_their_pools(self):
        client = self.serve("physical-volumes", documents=lambda: rack("rsd-network.json"))
        pools = client.get(f"{ROOT}/StorageServices/nvme-1/StoragePools").json()["Members"]
        self.assertEqual(["1", "2", "1-PV", "2-PV"],
                         [it["@odata.id"].rpartition("/")[2] for it in pools])  # fmt: skip

    def test_no_sizes_leaves_the_size_to_the_parts(self):
        client = self.serve("no-sizes", documents=lambda: rack("memory-domains.json"))
        domain = client.get(f"{ROOT}/Systems/host/MemoryDomains/own").json()
        self.assertNotIn("MemorySizeMiB", domain)
        (module,) = domain["InterleavableMemorySets"][0]["MemorySet"]
        self.assertEqual("8192", client.get(module["@odata.id"]).json()["CapacityMiB"])

    def test_no_limits_states_none_and_composes_what_it_is_asked_for(self):
        client = self.serve("no-limits")
        self.assertNotIn("@Redfish.CollectionCapabilities", client.get(SYSTEMS).json())
        self.assertEqual(201, client.compose("C1", "C2").status_code)

    def test_join_has_composed_two_compute_blocks(self):
        client = self.serve("join")
        (node,) = client.get(SYSTEMS).json()["Members"]
        links = client.get(node["@odata.id"]).json()["Links"]["ResourceBlocks"]
        self.assertEqual([f"{BLOCKS}/C1", f"{BLOCKS}/C2"], [it["@odata.id"] for it in links])
        self.assertEqual("Composed", client.state("C1"))

    def test_omit_and_null_are_about_a_property_wherever_it_stands(self):
        client = self.serve("omit:CompositionState", "null:Reserved")
        status = client.get(f"{BLOCKS}/C1").json()["CompositionStatus"]
        self.assertEqual({"Reserved": None}, status)

    def test_null_leaves_the_property_in_its_place(self):
        drive = self.serve("null:CapacityBytes").get(f"{BLOCKS}/D1/Drives/1").json()
        self.assertEqual({"CapacityBytes": None}, drive)

    def test_empty_create_is_201_and_nothing_is_there(self):
        client = self.serve("empty-create")
        answer = client.compose("C1")
        self.assertEqual(201, answer.status_code)
        self.assertEqual(404, client.get(answer.headers["Location"]).status_code)
        self.assertEqual("Unused", client.state("C1"))

    def test_stores_is_201_and_no_block_knows_of_it(self):
        client = self.serve("stores")
        where = client.compose("C1").headers["Location"]
        self.assertEqual(links(f"{BLOCKS}/C1"), client.get(where).json()["Links"]["ResourceBlocks"])
        self.assertEqual([link(where)], client.get(SYSTEMS).json()["Members"])
        self.assertEqual("Unused", client.state("C1"))
        self.assertEqual(204, client.ask("DELETE", where).status_code)

    def test_double_book_gives_a_busy_block_away_again(self):
        client = self.serve("double-book")
        self.assertEqual([201, 201], [client.compose("C1").status_code for _ in range(2)])
        self.assertEqual(2, len(client.get(SYSTEMS).json()["Members"]))

    def test_servers_replace_the_composition_service_and_the_nodes(self):
        client = self.serve("servers")
        root, systems = client.get(ROOT).json(), client.get(SYSTEMS).json()["Members"]
        self.assertNotIn("CompositionService", root)
        self.assertEqual(405, client.compose("C1", "D1").status_code)
        server = client.get(systems[0]["@odata.id"]).json()
        self.assertEqual(("Physical", "Off"), (server["SystemType"], server["PowerState"]))
        self.assertTrue(client.get(server["Processors"]["@odata.id"]).json()["Members"])

    def test_fixed_hosts_are_changed_by_the_list_of_their_blocks_alone(self):
        client = self.serve("fixed-hosts")
        host, own, drive = f"{SYSTEMS}/Host-C1", f"{BLOCKS}/C1", f"{BLOCKS}/D1"
        self.assertEqual(405, client.compose("C1", "D1").status_code)

        def patch(*uris, host=host):
            body = {"Links": {"ResourceBlocks": links(*uris)}}
            return client.ask("PATCH", host, body).status_code

        for code, uris in ((406, [drive]), (404, [own, f"{BLOCKS}/none"]), (200, [drive, own])):
            self.assertEqual(code, patch(*uris), uris)
        for wrong in (own, [1]):
            body = {"Links": {"ResourceBlocks": wrong}}
            self.assertEqual(400, client.ask("PATCH", host, body).status_code)
        self.assertEqual(links(own, drive), client.get(host).json()["Links"]["ResourceBlocks"])
        self.assertEqual(links(host), client.get(drive).json()["Links"]["ComputerSystems"])
        self.assertEqual("Unused", client.state("D1"))
        self.assertEqual(409, patch(f"{BLOCKS}/C2", drive, host=f"{SYSTEMS}/Host-C2"))
        self.assertEqual(200, patch(own))
        self.assertEqual([], client.get(drive).json()["Links"]["ComputerSystems"])
        self.assertEqual(405, client.ask("DELETE", host).status_code)

    def test_steal_takes_the_block_just_before_and_only_once(self):
        client = self.serve("steal:C1")
        self.assertEqual("Unused", client.state("C1"))
        self.assertEqual("ResourceBlockInUse", message_key(client.compose("C1", "D1")))
        (thief,) = client.get(SYSTEMS).json()["Members"]
        client.ask("DELETE", thief["@odata.id"])
        self.assertEqual(201, client.compose("C1").status_code)

    def test_failed_node_is_composed_and_failed(self):
        client = self.serve("failed-node")
        where = client.compose("C1").headers["Location"]
        self.assertEqual("Critical", client.get(where).json()["Status"]["Health"])
        self.assertEqual("Failed", client.state("C1"))

    def test_ghost_says_204_and_stays(self):
        client = self.serve("ghost")
        where = client.compose("C1").headers["Location"]
        self.assertEqual(204, client.ask("DELETE", where).status_code)
        self.assertEqual(200, client.get(where).status_code)
        self.assertEqual("Composed", client.state("C1"))

    def test_patch_replaces_loses_what_was_not_sent(self):
        client = self.serve("patch-replaces")
        body = {"CompositionStatus": {"Reserved": True}}
        client.ask("PATCH", f"{BLOCKS}/C1", body)
        self.assertEqual(body["CompositionStatus"],
                         client.get(f"{BLOCKS}/C1").json()["CompositionStatus"])  # fmt: skip

    def test_if_match_is_wanted(self):
        client = self.serve("if-match")
        answer = client.ask("PATCH", f"{BLOCKS}/C1", {"Name": "x"})
        self.assertEqual(428, answer.status_code)
        tag = {"If-Match": client.get(f"{BLOCKS}/C1").headers["ETag"]}
        answer = client.ask("PATCH", f"{BLOCKS}/C1", {"Name": "x"}, **tag)
        self.assertEqual(200, answer.status_code)

    def test_stale_tags_are_refused_whatever_they_are(self):
        client = self.serve("stale-tags")
        tag = {"If-Match": client.get(f"{BLOCKS}/C1").headers["ETag"]}
        answer = client.ask("PATCH", f"{BLOCKS}/C1", {"Name": "x"}, **tag)
        self.assertEqual(412, answer.status_code)
        self.assertEqual(200, client.ask("PATCH", f"{BLOCKS}/C1", {"Name": "x"}).status_code)

    def test_body_is_no_document_and_all_is_done(self):
        rules = [f"body:text:POST:{SYSTEMS}", f"status:500:GET:{ROOT}", f"body:number:GET:{ROOT}"]
        client = self.serve(*rules)
        answer = client.compose("C1")
        self.assertEqual((201, "It is done."), (answer.status_code, answer.text))
        self.assertEqual("Composed", client.state("C1"))
        answer = client.get(ROOT)
        self.assertEqual((500, "42"), (answer.status_code, answer.text))

    def test_own_names_are_the_name_and_the_uri(self):
        client = self.serve("own-names")
        where = client.compose("C1").headers["Location"]
        found = where, client.get(where).json()["Name"]
        self.assertEqual((f"{SYSTEMS}/Composed", "Composed System"), found)

    def test_uri_names_are_in_the_uri_alone(self):
        client = self.serve("uri-names")
        where = client.compose("C1").headers["Location"]
        found = where, client.get(where).json()["Name"]
        self.assertEqual((f"{SYSTEMS}/node", "Composed System"), found)

    def test_no_location_is_201_and_nothing_more(self):
        answer = self.serve("no-location").compose("C1")
        found = answer.status_code, answer.content, answer.headers.get("Location")
        self.assertEqual((201, b"", None), found)

    def test_stays_unused_whatever_it_is_part_of(self):
        client = self.serve("stays-unused:C*")
        where = client.compose("C1", "D1").headers["Location"]
        self.assertEqual("Unused", client.state("C1"))
        self.assertEqual("ComposedAndAvailable", client.state("D1"))
        self.assertEqual(2, len(client.get(where).json()["Links"]["ResourceBlocks"]))

    def test_equal_device_is_composed_in_place_of_the_named(self):
        twin = {**documents()[f"{BLOCKS}/C2"], "@odata.id": f"{BLOCKS}/C9", "Id": "C9"}
        tree = {**documents(), f"{BLOCKS}/C9": twin}
        for zone in "AB":
            inside = tree[f"{SERVICE}/ResourceZones/{zone}"]["Links"]
            inside["ResourceBlocks"].append({"@odata.id": f"{BLOCKS}/C9"})
        with served(documents={"p": tree}, fail=["equal-device"]) as podms:
            client = Client(podms["p"])
            body = {"Links": {"ResourceBlocks": [{"@odata.id": f"{BLOCKS}/C2"}]}}
            where = client.ask("POST", SYSTEMS, body).headers["Location"]
            (block,) = client.ask("GET", where).json()["Links"]["ResourceBlocks"]
        self.assertEqual(f"{BLOCKS}/C9", block["@odata.id"])

    def test_short_amounts_are_half_of_what_was_asked_for(self):
        client = self.serve("short-amounts", documents=lambda: tree("mem-1"))
        domain = f"{ROOT}/Chassis/Switch1/MemoryDomains/Shared"
        body = {"MemoryChunkSizeMiB": 262144, "AddressRangeType": "Volatile"}
        where = client.post(f"{domain}/MemoryChunks", body).headers["Location"]
        self.assertEqual(131072, client.get(where).json()["MemoryChunkSizeMiB"])

    def test_typed_posts_need_a_type(self):
        client = self.serve("typed-posts", documents=lambda: tree("mem-1"))
        chunks = f"{ROOT}/Chassis/Switch1/MemoryDomains/Shared/MemoryChunks"
        body = {"MemoryChunkSizeMiB": 262144, "AddressRangeType": "Volatile"}
        self.assertEqual(400, client.post(chunks, body).status_code)
        typed = {"@odata.type": "#MemoryChunks.v1_5_0.MemoryChunks", **body}
        self.assertEqual(201, client.post(chunks, typed).status_code)

    def deleted(self, rule):
        """Return the statuses of DELETE and GET, and whether the chunk is listed afterwards."""
        client = self.serve(rule, documents=lambda: tree("mem-1"))
        chunks = f"{ROOT}/Chassis/Switch1/MemoryDomains/Shared/MemoryChunks"
        body = {"MemoryChunkSizeMiB": 262144, "AddressRangeType": "Volatile"}
        where = client.post(chunks, body).headers["Location"]
        answers = client.ask("DELETE", where), client.get(where)
        listed = link(where) in client.get(chunks).json()["Members"]
        return (*(answer.status_code for answer in answers), listed)

    def test_lists_deleted_amounts_that_cannot_be_read(self):
        self.assertEqual((404, 404, True), self.deleted("lists-deleted"))

    def test_reads_deleted_amounts_that_are_not_listed(self):
        self.assertEqual((204, 200, False), self.deleted("reads-deleted"))

    def test_connections_join_amounts_with_compute_blocks_and_systems(self):
        client = self.serve("connections", documents=lambda: tree("mem-1"))
        fabric = f"{ROOT}/Fabrics/Amounts"
        ends = [one["@odata.id"] for one in client.get(f"{fabric}/Endpoints").json()["Members"]]
        chunks = f"{ROOT}/Chassis/Switch1/MemoryDomains/Shared/MemoryChunks"
        body = {"MemoryChunkSizeMiB": 262144, "AddressRangeType": "Volatile"}
        chunk = client.post(chunks, body).headers["Location"]
        linked = {"InitiatorEndpoints": links(ends[0]), "TargetEndpoints": links(ends[-1])}
        body = {"ConnectionType": "Memory", "Links": linked}
        for change in ({"ConnectionType": "x"}, {"MemoryChunkInfo": []}, {"Links": {}},
                       {"MemoryChunkInfo": [{"MemoryChunk": link(f"{chunk}x")}]}):  # fmt: skip
            info = {"MemoryChunkInfo": [{"MemoryChunk": link(chunk)}]}
            answer = client.post(f"{fabric}/Connections", {**body, **info, **change})
            self.assertEqual(400, answer.status_code, change)
        body |= {"MemoryChunkInfo": [{"MemoryChunk": link(chunk)}]}
        where = client.post(f"{fabric}/Connections", body).headers["Location"]
        self.assertEqual(linked, client.get(where).json()["Links"])
        self.assertEqual(409, client.post(f"{fabric}/Connections", body).status_code)
        self.assertEqual(409, client.ask("DELETE", chunk).status_code)
        self.assertEqual(204, client.ask("DELETE", where).status_code)
        self.assertEqual(204, client.ask("DELETE", chunk).status_code)

    def test_odd_actions_end_as_they_should(self):
        rack = {"rack": documents_of(PCIE)}
        with served(documents=rack, fail=["odd-actions"]) as podms:
            (name,) = Client(podms["rack"]).get(f"{ROOT}/Nodes").json()["Actions"]
            self.assertEqual("#Rack.Nodes.Allocate", name)


class TestAtOnce(unittest.TestCase):
    def test_a_fault_of_one_pod_manager_leaves_the_other_alone(self):
        both = {"a": documents(), "b": documents()}
        with served(documents=both, fail=[f"status:500:{SERVICE}*@a"]) as podms:
            found = {id_: Client(podm).get(SERVICE).status_code for id_, podm in podms.items()}
        self.assertEqual({"a": 500, "b": 200}, found)
