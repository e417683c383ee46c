# SPDX-License-Identifier: Apache-2.0
"""A served pod manager, over a socket: reading, sessions, composing, reserving."""

import unittest

from tests.unit.simulator.site import (
    BLOCKS,
    COMPOSE,
    ROOT,
    SERVICE,
    SYSTEMS,
    ZONES,
    Client,
    Clock,
    documents,
    link,
    links,
    message_key,
)
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

SESSIONS = f"{ROOT}/SessionService/Sessions"
RESERVATIONS = f"{SERVICE}/CompositionReservations"


class Case(unittest.TestCase):
    def serve(self, *fail, documents=documents, **settings):
        podms = self.enterContext(
            served(documents={"p": documents()}, fail=fail, settings=SimulatorSettings(**settings))
        )
        self.podm = podms["p"]
        self.client = Client(self.podm)
        return self.client


class TestReading(Case):
    def test_a_document_is_served_as_it_is(self):
        client = self.serve()
        self.assertEqual(documents()[f"{BLOCKS}/C1"], client.get(f"{BLOCKS}/C1").json())
        self.assertEqual(documents()[f"{BLOCKS}/C1"], client.get(f"{BLOCKS}/C1/").json())
        self.assertEqual(404, client.get(f"{BLOCKS}/C9").status_code)

    def test_expand_replaces_links_as_deep_as_asked_and_leaves_links_properties(self):
        client = self.serve()
        one = client.get(f"{BLOCKS}?$expand=.($levels=1)").json()["Members"]
        self.assertEqual([documents()[f"{BLOCKS}/C1"]], one[:1])
        two = client.get(f"{BLOCKS}?$expand=.($levels=2)").json()["Members"][0]
        self.assertEqual(8, two["Processors"][0]["TotalCores"])
        self.assertEqual(links(f"{ZONES}/A"), two["Links"]["Zones"])
        only = client.get(f"{BLOCKS}/C1?$expand=~").json()
        self.assertEqual("A", only["Links"]["Zones"][0]["Id"])
        self.assertEqual(links(f"{BLOCKS}/C1/Processors/1"), only["Processors"])
        both = client.get(f"{BLOCKS}/C1?$expand=*($levels=6)").json()
        self.assertEqual("A", both["Links"]["Zones"][0]["Id"])
        self.assertEqual(8, both["Processors"][0]["TotalCores"])

    def test_expand_that_is_not_offered_is_refused(self):
        client = self.serve()
        self.assertEqual(400, client.get(f"{BLOCKS}?$expand=.($levels=7)").status_code)
        self.assertEqual(400, client.get(f"{BLOCKS}?$expand=all").status_code)
        self.assertEqual(501, client.get(f"{BLOCKS}?$filter=x").status_code)

        def modest():
            offered = {"ExpandQuery": {"NoLinks": True}}
            root = {**documents()[ROOT], "ProtocolFeaturesSupported": offered}
            return {**documents(), ROOT: root}

        client = self.serve(documents=modest)
        self.assertEqual(200, client.get(f"{BLOCKS}?$expand=.").status_code)
        self.assertEqual(501, client.get(f"{BLOCKS}?$expand=*").status_code)
        self.assertEqual(400, client.get(f"{BLOCKS}?$expand=.($levels=2)").status_code)

    def test_pages_hold_every_member_once(self):
        client = self.serve(page_size=4)
        first = client.get(f"{BLOCKS}?$expand=.").json()
        self.assertEqual(4, len(first["Members"]))
        second = client.get(first["Members@odata.nextLink"]).json()
        names = [member["Id"] for member in first["Members"] + second["Members"]]
        self.assertEqual(["C1", "C2", "D1", "G1", "X1", "R1"], names)
        self.assertNotIn("Members@odata.nextLink", second)
        self.assertEqual(400, client.get(f"{BLOCKS}?$skip=6").status_code)

    def test_an_unchanged_document_is_304_and_a_changed_one_is_not(self):
        client = self.serve()
        tag = client.get(f"{BLOCKS}/C1").headers["ETag"]
        same = client.get(f"{BLOCKS}/C1", **{"If-None-Match": tag})
        self.assertEqual((304, b""), (same.status_code, same.content))
        self.assertEqual(201, client.compose("C1").status_code)
        self.assertEqual(200, client.get(f"{BLOCKS}/C1", **{"If-None-Match": tag}).status_code)

    def test_requests_are_counted_and_remembered(self):
        client = self.serve()
        client.get(f"{BLOCKS}/C1")
        client.get(f"{BLOCKS}?$expand=.")
        self.assertEqual(2, self.podm.traffic.requests)
        self.assertEqual([("GET", f"{BLOCKS}/C1", 200), ("GET", f"{BLOCKS}?$expand=.", 200)],
                         self.podm.requests)  # fmt: skip


class TestSessions(Case):
    def setUp(self):
        super().setUp()
        self.clock = Clock()

    def login(self, password="sesame"):
        return self.client.post(SESSIONS, {"UserName": "ann", "Password": password})

    def test_a_session_opens_what_a_stranger_may_not_read_until_it_is_deleted(self):
        client = self.serve(login=Account("ann", "sesame"))
        self.assertEqual(200, client.get(ROOT).status_code)
        self.assertEqual(401, client.get(SYSTEMS).status_code)
        self.assertEqual(401, self.login("guess").status_code)
        answer = self.login()
        self.assertEqual(201, answer.status_code)
        token = {"X-Auth-Token": answer.headers["X-Auth-Token"]}
        self.assertEqual(200, client.get(SYSTEMS, **token).status_code)
        self.assertEqual(1, self.podm.open_sessions)
        where = answer.headers["Location"]
        self.assertEqual(links(where), client.get(SESSIONS, **token).json()["Members"])
        self.assertEqual(204, client.ask("DELETE", where, **token).status_code)
        self.assertEqual(401, client.get(SYSTEMS, **token).status_code)

    def test_basic_authentication_is_another_way(self):
        client = self.serve(login=Account("ann", "sesame"))
        client.session.auth = ("ann", "sesame")
        self.assertEqual(200, client.get(SYSTEMS).status_code)
        client.session.auth = ("ann", "guess")
        self.assertEqual(401, client.get(SYSTEMS).status_code)

    def test_a_session_ends_when_it_is_not_used(self):
        self.serve(login=Account("ann", "sesame"), session_timeout_s=60, clock=self.clock)
        token = {"X-Auth-Token": self.login().headers["X-Auth-Token"]}
        self.clock.now_s += 50
        self.assertEqual(200, self.client.get(SYSTEMS, **token).status_code)
        self.clock.now_s += 50
        self.assertEqual(200, self.client.get(SYSTEMS, **token).status_code)
        self.clock.now_s += 61
        self.assertEqual(401, self.client.get(SYSTEMS, **token).status_code)
        self.assertEqual(0, self.podm.open_sessions)

    def test_without_a_user_nobody_must_log_in_and_sessions_work(self):
        client = self.serve()
        self.assertEqual(200, client.get(SYSTEMS).status_code)
        self.assertEqual(201, self.login("anything").status_code)

    def test_what_shows_sessions_is_never_old_however_it_is_asked_for(self):
        client = self.serve()
        uris = (SESSIONS, f"{SESSIONS}?$expand=.", f"{ROOT}?$expand=*($levels=3)")
        for _ in range(2):
            where = self.login().headers["Location"]
            for uri in uris:
                self.assertIn(where, client.get(uri).text)
                self.assertEqual(200, client.get(BLOCKS).status_code)
        client.ask("DELETE", where)
        for uri in uris:
            self.assertNotIn(where, client.get(uri).text)

    def test_the_password_stands_in_no_repr(self):
        self.assertNotIn("sesame", repr(SimulatorSettings(login=Account("ann", "sesame"))))


class TestSpecificComposition(Case):
    def test_a_node_is_made_of_its_blocks_and_goes_again(self):
        client = self.serve()
        answer = client.compose("C1", "D1")
        self.assertEqual(201, answer.status_code)
        where = answer.headers["Location"]
        node = client.get(where).json()
        self.assertEqual("Composed", node["SystemType"])
        self.assertEqual((1, 8), (node["ProcessorSummary"]["Count"],
                                  node["ProcessorSummary"]["CoreCount"]))  # fmt: skip
        self.assertEqual(4, node["MemorySummary"]["TotalSystemMemoryGiB"])
        self.assertEqual(links(f"{BLOCKS}/C1", f"{BLOCKS}/D1"), node["Links"]["ResourceBlocks"])
        cpus = client.get(node["Processors"]["@odata.id"]).json()
        self.assertEqual(links(f"{BLOCKS}/C1/Processors/1"), cpus["Members"])
        storage = client.get(node["Storage"]["@odata.id"]).json()["Members"][0]["@odata.id"]
        self.assertEqual(links(f"{BLOCKS}/D1/Drives/1"), client.get(storage).json()["Drives"])
        self.assertEqual(links(where), client.get(SYSTEMS).json()["Members"])
        self.assertEqual("Composed", client.state("C1"))
        block = client.get(f"{BLOCKS}/C1").json()
        self.assertEqual(links(where), block["Links"]["ComputerSystems"])

        self.assertEqual(204, client.ask("DELETE", where).status_code)
        self.assertEqual(404, client.get(where).status_code)
        self.assertEqual(404, client.get(f"{where}/Processors").status_code)
        self.assertEqual([], client.get(SYSTEMS).json()["Members"])
        self.assertEqual("Unused", client.state("C1"))
        self.assertEqual([], client.get(f"{BLOCKS}/C1").json()["Links"]["ComputerSystems"])

    def test_a_shared_block_counts_its_nodes_and_is_full_in_the_end(self):
        client = self.serve()
        one = client.compose("C1", "D1").headers["Location"]
        status = client.get(f"{BLOCKS}/D1").json()["CompositionStatus"]
        self.assertEqual(("ComposedAndAvailable", 1),
                         (status["CompositionState"], status["NumberOfCompositions"]))  # fmt: skip
        self.assertEqual(201, client.compose("C2", "D1").status_code)
        self.assertEqual("Composed", client.state("D1"))
        client.ask("DELETE", one)
        self.assertEqual("ComposedAndAvailable", client.state("D1"))

    def test_what_cannot_be_composed_is_refused_with_the_reason_and_nothing_changes(self):
        client = self.serve()
        client.compose("C1")
        before = self.podm.documents.copy()
        for status, reason, names in (
            (409, "ResourceBlockInUse", ["C1", "D1"]),
            (400, "ResourceBlockNotFound", ["C2", "C9"]),
            (400, "ResourceBlockInvalid", ["C2", "X1"]),
            (409, "ResourceBlockInUse", ["C2", "R1"]),
            (400, "PropertyValueError", ["D1"]),
            (400, "PropertyValueConflict", ["C2", "C2"]),
            (400, "CreateFailedMissingReqProperties", []),
        ):
            with self.subTest(names):
                answer = client.compose(*names)
                self.assertEqual((status, reason), (answer.status_code, message_key(answer)))
        self.assertEqual(before, self.podm.documents.copy())

    def test_blocks_without_a_zone_in_common_are_refused(self):
        client = self.serve()
        self.assertEqual("IncompatibleZone", message_key(client.compose("C1", "G1")))
        self.assertEqual(201, client.compose("C2", "G1").status_code)

    def test_blocks_join_and_leave_a_node(self):
        client = self.serve()
        where = client.compose("C2").headers["Location"]
        action = f"{where}/Actions/ComputerSystem."
        drive = {"ResourceBlock": link(f"{BLOCKS}/D1")}
        self.assertEqual(204, client.post(f"{action}AddResourceBlock", drive).status_code)
        self.assertEqual("ComposedAndAvailable", client.state("D1"))
        self.assertEqual(204, client.post(f"{action}RemoveResourceBlock", drive).status_code)
        self.assertEqual("Unused", client.state("D1"))
        self.assertEqual(400, client.post(f"{action}RemoveResourceBlock", drive).status_code)
        blocks = {"Links": {"ResourceBlocks": links(f"{BLOCKS}/C2", f"{BLOCKS}/G1")}}
        self.assertEqual(200, client.ask("PATCH", where, blocks).status_code)
        self.assertEqual("Composed", client.state("G1"))

    def test_asked_to_a_pod_manager_composes_later(self):
        clock = Clock()
        client = self.serve(clock=clock, task_s=5)
        answer = client.compose("C1", Prefer="respond-async")
        self.assertEqual((202, "1"), (answer.status_code, answer.headers["Retry-After"]))
        monitor = answer.headers["Location"]
        self.assertEqual("Composing", client.state("C1"))
        self.assertEqual("ResourceBlockInUse", message_key(client.compose("C1")))
        self.assertEqual(202, client.get(monitor).status_code)
        clock.now_s += 5
        done = client.get(monitor)
        self.assertEqual(201, done.status_code)
        self.assertEqual(200, client.get(done.headers["Location"]).status_code)
        self.assertEqual("Composed", client.state("C1"))
        task = client.get(f"{ROOT}/TaskService/Tasks/1").json()
        self.assertEqual("Completed", task["TaskState"])


class TestConstrainedComposition(Case):
    def shape(self, **more):
        cpu = {"@Redfish.RequestedCount": 1, "ProcessorType": "CPU", "TotalCores": 12}
        return {"Name": "node", "Processors": {"Members": [{**cpu, **more}]}}

    def test_the_first_zone_that_can_gives_its_first_blocks(self):
        client = self.serve()
        answer = client.post(SYSTEMS, self.shape(**{"@Redfish.AllowOverprovisioning": True}))
        self.assertEqual(201, answer.status_code)
        self.assertEqual(links(f"{BLOCKS}/C2"), answer.json()["Links"]["ResourceBlocks"])

    def test_more_than_asked_is_given_only_to_who_allows_it(self):
        self.assertEqual("NoResourceMatch", message_key(self.serve().post(SYSTEMS, self.shape())))

    def test_blocks_that_are_named_may_not_bring_more_either(self):
        client = self.serve()
        named = {"ResourceBlocks": links(f"{BLOCKS}/C2", f"{BLOCKS}/G1")}
        shape = {"@Redfish.RequestedCount": 1}
        body = {"Name": "node", "Links": named, "Processors": {"Members": [shape]}}
        self.assertEqual("NoResourceMatch", message_key(client.post(SYSTEMS, body)))
        shape["@Redfish.AllowOverprovisioning"] = True
        self.assertEqual(201, client.post(SYSTEMS, body).status_code)

    def test_a_zone_can_be_asked_for(self):
        client = self.serve()
        body = self.shape(TotalCores=8)
        wrong = client.post(SYSTEMS, {**body, "@Redfish.ZoneAffinity": "B"})
        self.assertEqual("NoResourceMatch", message_key(wrong))
        right = client.post(SYSTEMS, {**body, "@Redfish.ZoneAffinity": "A"})
        self.assertEqual(201, right.status_code)


class TestReserved(Case):
    def patch(self, name, body, **headers):
        return self.client.ask("PATCH", f"{BLOCKS}/{name}", body, **headers)

    def test_who_reserved_a_block_may_compose_it_and_nobody_else(self):
        client = self.serve()
        for name in ("ann", "bob"):
            client.session.auth = (name, "x")
            answer = self.patch("C1", {"CompositionStatus": {"Reserved": True}})
            self.assertEqual(200, answer.status_code)
        self.assertEqual("ResourceBlockInUse", message_key(client.compose("C1")))
        client.session.auth = ("ann", "x")
        where = client.compose("C1").headers["Location"]
        client.ask("DELETE", where)
        self.assertFalse(client.get(f"{BLOCKS}/C1").json()["CompositionStatus"]["Reserved"])

    def test_the_rest_of_a_status_stays_whether_it_was_sent_or_not(self):
        client = self.serve()
        status = client.get(f"{BLOCKS}/D1").json()["CompositionStatus"]
        self.patch("D1", {"CompositionStatus": {"Reserved": True}})
        found = client.get(f"{BLOCKS}/D1").json()["CompositionStatus"]
        self.assertEqual({**status, "Reserved": True}, found)
        whole = {"CompositionStatus": {**status, "Reserved": False}}
        self.assertEqual(200, self.patch("D1", whole).status_code)
        state = {"CompositionStatus": {"CompositionState": "Composed"}}
        self.assertEqual("PropertyNotWritable", message_key(self.patch("D1", state)))
        text = {"CompositionStatus": {"Reserved": "yes"}}
        self.assertEqual("PropertyValueTypeError", message_key(self.patch("D1", text)))

    def test_pool_client_and_name_can_be_written_and_a_type_cannot(self):
        client = self.serve()
        body = {"Pool": "Active", "Client": "ann", "Name": "mine"}
        self.assertEqual(200, self.patch("C1", body).status_code)
        found = client.get(f"{BLOCKS}/C1").json()
        self.assertEqual(body, {name: found[name] for name in body})
        self.assertEqual(400, self.patch("C1", {"ResourceBlockType": ["Memory"]}).status_code)
        self.assertEqual(400, self.patch("C1", {"Pool": "Mine"}).status_code)

    def test_a_tag_of_what_is_no_more_is_412(self):
        client = self.serve()
        tag = {"If-Match": client.get(f"{BLOCKS}/C1").headers["ETag"]}
        self.assertEqual(200, self.patch("C1", {"Name": "one"}, **tag).status_code)
        self.assertEqual(412, self.patch("C1", {"Name": "two"}, **tag).status_code)
        self.assertEqual("one", client.get(f"{BLOCKS}/C1").json()["Name"])


class TestComposeAction(Case):
    def stanza(self, name, *blocks):
        request = {"Links": {"ResourceBlocks": links(*(f"{BLOCKS}/{one}" for one in blocks))}}
        return {"StanzaType": "ComposeSystem", "StanzaId": name, "Request": request}

    def act(self, kind, *stanzas, **more):
        body = {"RequestFormat": "Manifest", "RequestType": kind,
                "Manifest": {"Expand": "None", "Stanzas": list(stanzas)}, **more}  # fmt: skip
        return self.client.post(COMPOSE, body)

    def responses(self, answer):
        return [one["Response"] for one in answer.json()["Manifest"]["Stanzas"]]

    def test_a_preview_says_what_would_be_and_changes_nothing(self):
        self.serve()
        before = self.podm.documents.copy()
        (node,) = self.responses(self.act("Preview", self.stanza("n1", "C1", "D1")))
        self.assertEqual(f"{SYSTEMS}/n1", node["@odata.id"])
        self.assertEqual(before, self.podm.documents.copy())

    def test_apply_does_all_stanzas(self):
        client = self.serve()
        answer = self.act("Apply", self.stanza("n1", "C1"), self.stanza("n2", "C2"))
        uris = [node["@odata.id"] for node in self.responses(answer)]
        self.assertEqual([200, 200], [client.get(uri).status_code for uri in uris])
        gone = {"StanzaType": "DecomposeSystem", "StanzaId": "d", "Request": link(uris[0])}
        (said_of_it,) = self.responses(self.act("Apply", gone))
        self.assertTrue(said_of_it["error"]["code"].endswith(".Success"))
        self.assertEqual(404, client.get(uris[0]).status_code)

    def test_one_bad_stanza_undoes_all_of_them_with_status_200(self):
        client = self.serve()
        answer = self.act("Apply", self.stanza("n1", "C1"), self.stanza("n2", "C1"))
        self.assertEqual(200, answer.status_code)
        codes = [one["error"]["code"].rpartition(".")[2] for one in self.responses(answer)]
        self.assertEqual(["UnableToProcessStanzaRequest", "ResourceBlockInUse"], codes)
        self.assertEqual("Unused", client.state("C1"))
        self.assertEqual([], client.get(SYSTEMS).json()["Members"])

    def test_a_reservation_keeps_others_away_until_it_is_applied(self):
        client = self.serve()
        id_ = self.act("PreviewReserve", self.stanza("n1", "C1")).json()["ReservationId"]
        self.assertEqual(links(f"{RESERVATIONS}/{id_}"), client.get(RESERVATIONS).json()["Members"])
        self.assertTrue(client.get(f"{BLOCKS}/C1").json()["CompositionStatus"]["Reserved"])
        self.assertEqual("SpecifiedResourceAlreadyReserved", message_key(client.compose("C1")))
        body = {"RequestFormat": "Manifest", "RequestType": "Apply", "ReservationId": id_}
        self.assertEqual(200, client.post(COMPOSE, body).status_code)
        self.assertEqual("Composed", client.state("C1"))
        self.assertEqual([], client.get(RESERVATIONS).json()["Members"])
        self.assertEqual(400, client.post(COMPOSE, body).status_code)

    def test_a_reservation_expires(self):
        clock = Clock()
        client = self.serve(clock=clock)
        self.act("PreviewReserve", self.stanza("n1", "C1"))
        clock.now_s += 3599
        self.assertEqual(409, client.compose("C1").status_code)
        clock.now_s += 1
        self.assertEqual(201, client.compose("C1").status_code)

    def test_requests_that_are_none_are_refused(self):
        self.serve()
        self.assertEqual("EmptyManifest", message_key(self.act("Apply")))
        self.assertEqual(400, self.act("Try", self.stanza("n1", "C1")).status_code)
        self.assertEqual(400, self.act("Apply", self.stanza("n1", "C1"), ReservationId="7")
                         .status_code)  # fmt: skip
        right = f"{SERVICE}/Actions/CompositionService.Compose"
        self.assertEqual(404, self.client.post(right, {}).status_code)

    def test_blocks_move_between_the_pools_of_the_service(self):
        def pooled():
            found = documents()
            pools = {name: f"{SERVICE}/{name}" for name in ("FreePool", "ActivePool")}
            found[SERVICE] |= {name: link(uri) for name, uri in pools.items()}
            found[pools["FreePool"]] = {"Members": links(f"{BLOCKS}/C1")}
            found[pools["ActivePool"]] = {"Members": []}
            return found

        client = self.serve(documents=pooled)
        where = client.compose("C1").headers["Location"]
        members = {name: client.get(f"{SERVICE}/{name}").json()["Members"]
                   for name in ("FreePool", "ActivePool")}  # fmt: skip
        self.assertEqual({"FreePool": [], "ActivePool": links(f"{BLOCKS}/C1")}, members)
        self.assertEqual("Active", client.get(f"{BLOCKS}/C1").json()["Pool"])
        client.ask("DELETE", where)
        self.assertEqual("Free", client.get(f"{BLOCKS}/C1").json()["Pool"])
