# SPDX-License-Identifier: Apache-2.0
"""A bad answer near the root is an outage: all kinds of answers, at all levels of all dialects.

Each level gets some of the answers, or all of them with ``VALENCE_SCHED_SOAK``.
"""

import msgspec

from tests.recipes import lease_server
from tests.recipes.sled_lease.sled_lease import sled_lease
from tests.unit.drivers.live import LOGIN, NOON, TREES, LiveTest, sampled, status
from tests.unit.drivers.redfish.stored import link
from tests.unit.drivers.served import DIALECTS, PASSWORD, USER
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.links import ROOT, path_of
from valence_sched.model.reading import PreviousReading
from valence_sched.model.registration import Registration

CS = f"{ROOT}/CompositionService"
DEVICES = f"{ROOT}/Chassis/1/Processors"
MORE = "Members@odata.nextLink"


def collection(*uris, **more):
    return {"Members": [link(uri) for uri in uris], **more}


def block(number):
    return {
        "@odata.type": "#ResourceBlock.v1_4_3.ResourceBlock",
        "ResourceBlockType": ["Processor"],
        "CompositionStatus": {"CompositionState": "Unused"},
        "Processors": [link(f"{DEVICES}/{number}")],
    }


def encoded(documents):
    named = {uri: {"@odata.id": uri, **json} for uri, json in documents.items()}
    return {uri: msgspec.json.encode(json) for uri, json in named.items()}


BLOCKS = [f"{CS}/ResourceBlocks/{number}" for number in (1, 2, 3, 4)]
REDFISH = encoded({
    ROOT: {"CompositionService": link(CS), "Systems": link(f"{ROOT}/Systems"),
           "UUID": "0b6ffe0a-3f7c-4a35-9f9e-6d2cf2a6a1b1"},
    CS: {"ResourceBlocks": link(f"{CS}/ResourceBlocks"), "ResourceZones": link(f"{CS}/Zones")},
    f"{CS}/ResourceBlocks": collection(*BLOCKS[:3], **{MORE: f"{CS}/ResourceBlocks/page-2"}),
    f"{CS}/ResourceBlocks/page-2": collection(*BLOCKS[3:]),
    f"{CS}/Zones": collection(f"{CS}/Zones/1", f"{CS}/Zones/2"),
    **{f"{CS}/Zones/{number}": {"Links": {"ResourceBlocks": [link(uri) for uri in BLOCKS]}}
       for number in (1, 2)},
    f"{ROOT}/Systems": collection(f"{ROOT}/Systems/1"),
    f"{ROOT}/Systems/1": {"SystemType": "Physical"},
    **{uri: block(number) for number, uri in enumerate(BLOCKS, 1)},
    **{f"{DEVICES}/{number}": {"TotalCores": 8} for number in (1, 2, 3, 4)},
})  # fmt: skip
SLED = lease_server.documents()
SLEDS = "/redfish/v1/Oem/SledLease"

#: The documents of each dialect, the levels at which any failure is an outage, and the others.
SERVICES = {
    "redfish": (REDFISH, (
        ROOT, CS, f"{CS}/ResourceBlocks", f"{CS}/ResourceBlocks/page-2", f"{CS}/Zones",
        f"{ROOT}/Systems",
    ), (BLOCKS[0], BLOCKS[3], f"{CS}/Zones/1", f"{DEVICES}/1")),
    "rsd": (TREES["rsd-pcie"], (
        ROOT, f"{ROOT}/Nodes", f"{ROOT}/Systems", f"{ROOT}/Fabrics", f"{ROOT}/Fabrics/PCIe/Zones",
        f"{ROOT}/Services/rss/LogicalDrives",
    ), (f"{ROOT}/Systems/sled-1", f"{ROOT}/Systems/sled-1/Processors/CPU1",
        f"{ROOT}/Fabrics/PCIe/Endpoints/drive-1")),
    "sled_lease": (SLED, (ROOT, f"{SLEDS}/Sleds", f"{SLEDS}/Leases"), (f"{SLEDS}/Sleds/1",)),
}  # fmt: skip

#: The blocks below such a member.
BEHIND = {f"{ROOT}/Fabrics/PCIe/Endpoints/drive-1": f"{ROOT}/Chassis/pcie-1/Drives/bay-1"}

#: Answers without the document: an outage at any level.
OUTAGES = {
    "500": status(500), "501": status(501), "502": status(502), "503": status(503, Retry_After="0"),
    "503 for long": status(503, Retry_After="3600"), "504": status(504), "507": status(507),
    "429": status(429, Retry_After="0"), "403": status(403), "408": status(408),
    "403 page": status(403, b"<html>"),
}  # fmt: skip
#: Answers that are not documents.
FAILURES = {
    "404": status(404), "410": status(410), "400": status(400), "418": status(418),
    "empty": status(200, b""), "no content": status(204), "{}": status(200, b"{}"),
    "[]": status(200, b"[]"), "text": status(200, b'"no"'), "null": status(200, b"null"),
    "login page": status(200, b"<!DOCTYPE html><title>Log in</title>"),
    "half": status(200, b'{"@odata.id": "/redfish/v1", "Mem'),
    "error": status(200, b'{"error": {"code": "Base.1.8.GeneralError"}}'),
    "error with a URI": status(200, b'{"@odata.id": "/e", "error": {"code": "Base.1.8.Failed"}}'),
    "error of a type": status(200, b'{"@odata.id": "/e", "@odata.type": "#Error.v1.Error"}'),
    "typed error": status(200, b'{"@odata.id": "/e", "@odata.type": "#Zone.v1_6_3.Zone", '
                               b'"Name": "e", "error": {"@Message.ExtendedInfo": [{}]}}'),
    "message": status(200, b'{"@odata.type": "#Message.v1_1_1.Message", "MessageId": "X"}'),
    "notice with a URI": status(200, b'{"@odata.id": "/e", "@Message.ExtendedInfo": [{}]}'),
    "elsewhere": status(302, Location="https://elsewhere.invalid/login"),
    "to a page": status(302, Location="/login.html"),
    "nowhere": status(302),
    "notice": status(200, b'{"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.NotReady"}]}'),
    "no list": status(200, b'{"Members": {}}'), "text list": status(200, b'{"Members": "none"}'),
    "the root": lambda it: it.reply(200, it.podm.document(ROOT)),
}  # fmt: skip
#: Answers of another class, neither list nor service, which could be a member.
OTHERS = {
    "another": status(200, b'{"@odata.id": "/e", "@odata.type": "#Fan.v1_5_0.Fan", "Name": "e"}'),
    "starting": status(200, b'{"Name": "s", "Status": {"State": "Starting"}}'),
}  # fmt: skip


def again(handler):
    """Answer first that the session has expired, then as usual."""
    handler.podm.sessions.clear()
    handler.podm.rules.clear()
    return handler.reply(401)


def moved(handler):
    """Redirect to the same document with a trailing slash."""
    there = handler.path.endswith("/")
    return not there and handler.reply(302, b"", {"Location": f"{handler.path}/"})


def as_text(handler):
    """Answer with the document as another content type."""
    body = handler.podm.document(handler.path) or b"{}"
    return handler.reply(200, b"\xef\xbb\xbf" + body, {"Content-Type": "text/html"})


class ServicesTest(LiveTest):
    def setUp(self):
        self.servers = {
            name: (self.serve(tree), self.serve(tree, login=LOGIN))
            for name, (tree, _, _) in SERVICES.items()
        }

    def ask(self, dialect, uri=None, act=None, *, login=False, previous=None):
        server = self.servers[dialect][login]
        server.rules[:] = [lambda it: path_of(it.path) == uri and act(it)] if act else []
        user = {"username": USER} if login else {}
        known = Registration(name="podm", url=server.url, driver=dialect, **user)
        target = ReadTarget(known, PASSWORD, previous or PreviousReading())
        dialects = {**DIALECTS, "sled_lease": sled_lease}
        (found,) = read([target], dialects, ReadSettings(raw=False, parallel=1), clock=lambda: NOON)
        return found

    def assert_outage(self, found, uri):
        self.assertIsNotNone(found.failure)
        self.assertEqual(("Offline", ()), (found.podm.status, found.podm.blocks), found.failure)
        self.assertIn(uri, found.failure)


class BadAnswersTest(ServicesTest):
    def test_an_outage_is_one_at_every_level(self):
        for dialect, (_, near, far) in SERVICES.items():
            for uri, (kind, act) in sampled((*near, *far), OUTAGES.items()):
                with self.subTest(dialect, uri=uri, kind=kind):
                    found = self.ask(dialect, uri, act)
                    refused = uri == ROOT and kind.startswith("403")
                    self.assert_outage(found, "requires a login" if refused else uri)

    def test_a_root_a_service_or_a_list_that_cannot_be_read_is_an_outage(self):
        for dialect, (_, near, _) in SERVICES.items():
            for uri, (kind, act) in sampled(near, (FAILURES | OTHERS).items()):
                if uri == ROOT and kind == "the root":
                    continue
                with self.subTest(dialect, uri=uri, kind=kind):
                    self.assert_outage(self.ask(dialect, uri, act), uri)

    def test_a_single_member_that_cannot_be_read_is_noted_and_the_others_are_read(self):
        for dialect, (_, _, far) in SERVICES.items():
            whole = {block.uri for block in self.ask(dialect).podm.blocks}
            for uri, (kind, act) in sampled(far, FAILURES.items()):
                with self.subTest(dialect, uri=uri, kind=kind):
                    found = self.ask(dialect, uri, act)
                    self.assertIsNone(found.failure)
                    left_out = {uri, BEHIND.get(uri, uri)}
                    self.assertEqual(whole - left_out, {it.uri for it in found.podm.blocks})
                    told = [one for one in found.diagnostics if f"podm: {uri}: " in one.text]
                    self.assertTrue(told, found.diagnostics)

    def test_what_only_looks_bad_is_read_as_usual(self):
        acts = {"401": (again, True), "redirect": (moved, False), "text": (as_text, False)}
        for dialect, (_, near, far) in SERVICES.items():
            usual = [self.ask(dialect, login=login) for login in (False, True)]
            for uri, (name, (act, login)) in sampled((*near[1:], *far), acts.items()):
                with self.subTest(dialect, uri=uri, kind=name):
                    found = self.ask(dialect, uri, act, login=login)
                    self.assertIsNone(found.failure)
                    self.assertEqual((usual[login].podm, usual[login].diagnostics),
                                     (found.podm, found.diagnostics))  # fmt: skip

    def test_a_node_that_cannot_be_read_is_an_outage_where_only_nodes_tell_what_is_in_use(self):
        for kind in ("login page", "{}", "notice", "another", "the root"):
            with self.subTest(kind):
                found = self.ask("rsd", f"{ROOT}/Nodes/1", (FAILURES | OTHERS)[kind])
                self.assert_outage(found, f"{ROOT}/Nodes/1")
        self.assertIsNone(self.ask("rsd", f"{ROOT}/Nodes/1", FAILURES["404"]).failure)

    def test_a_block_that_links_a_system_which_cannot_be_read_is_not_free(self):
        server, uri = self.servers["redfish"][False], f"{ROOT}/Systems/1"
        held = block(1) | {"@odata.id": BLOCKS[0], "Links": {"ComputerSystems": [link(uri)]}}
        server.documents[BLOCKS[0]] = msgspec.json.encode(held)
        for kind, act in FAILURES.items():
            gone = kind in ("404", "410", "to a page")
            with self.subTest(kind):
                found = self.ask("redfish", uri, act)
                self.assertEqual(
                    [int(gone), 1, 1, 1], [it.status.slots for it in found.podm.blocks]
                )
                told = [one for one in found.diagnostics if f"it is part of {uri}" in one.text]
                self.assertEqual(gone, not told)

    def test_a_list_in_place_of_a_service_has_the_service_or_is_an_outage(self):
        server = self.servers["redfish"][False]
        whole = self.ask("redfish").podm
        for members, fails in (([], True), ([f"{ROOT}/Systems/1"], True), ([f"{CS}/1"], False)):
            with self.subTest(members):
                server.documents[f"{CS}/1"] = REDFISH[CS]
                answer = msgspec.json.encode({"@odata.id": CS, **collection(*members)})
                found = self.ask("redfish", CS, status(200, answer))
                if fails:
                    self.assert_outage(found, CS)
                else:
                    self.assertEqual((None, whole), (found.failure, found.podm))

    def test_zones_that_are_listed_and_cannot_be_read_make_no_pool_of_the_whole(self):
        server = self.servers["redfish"][False]
        for uri in (f"{CS}/Zones/1", f"{CS}/Zones/2"):
            del server.documents[uri]
        found = self.ask("redfish")
        pools = [found.podm.pools, *(block.pools for block in found.podm.blocks)]
        self.assertEqual((None, [()] * 5), (found.failure, pools))


class PreviousReadingTest(ServicesTest):
    """Documents of the previous reading that are now missing."""

    def previous(self, dialect):
        return PreviousReading.of(self.ask(dialect).podm)

    def test_a_root_that_has_lost_its_service_is_an_outage(self):
        lists = {f"{ROOT}/Systems": b'{"Members": []}', f"{ROOT}/Chassis": b'{"Members": []}'}
        for dialect, name in (
            ("redfish", "Systems"),
            ("rsd", "Systems"),
            ("sled_lease", "Chassis"),
        ):
            with self.subTest(dialect):
                server = self.servers[dialect][False]
                known = self.previous(dialect)
                root = {"@odata.id": ROOT, name: link(f"{ROOT}/{name}")}
                server.documents |= {**lists, **server.documents, ROOT: msgspec.json.encode(root)}
                self.assert_outage(
                    self.ask(dialect, previous=known), "no link to a composition service"
                )
                if dialect == "redfish":  # without an earlier reading its systems are hosts
                    server.documents[f"{ROOT}/Systems"] = lists[f"{ROOT}/Systems"]
                first = self.ask(dialect)
                self.assertEqual((None, "Online", ()),
                                 (first.failure, first.podm.status, first.podm.blocks))  # fmt: skip
                told = [
                    one
                    for one in first.diagnostics
                    if "no link to a composition service" in one.text
                ]
                self.assertEqual(["remark"], [one.kind for one in told])
                again_ = self.ask(dialect, previous=PreviousReading.of(first.podm))
                self.assertIsNone(again_.failure)

    def test_a_root_that_always_listed_blocks_without_a_service_is_read_again(self):
        server = self.servers["redfish"][False]
        root = msgspec.json.decode(server.documents[ROOT])
        root["ResourceBlocks"] = link(f"{CS}/ResourceBlocks")
        service = root.pop("CompositionService")
        server.documents[ROOT] = msgspec.json.encode(root)
        known = self.previous("redfish")
        found = self.ask("redfish", previous=known)
        self.assertEqual((None, 4), (found.failure, len(found.podm.blocks)))
        zoned = known._replace(pools=frozenset(["1", "2"]))  # it had a service then
        self.assert_outage(self.ask("redfish", previous=zoned), "no link to a composition service")
        server.documents[ROOT] = msgspec.json.encode(root | {"CompositionService": service})
        self.assertIsNone(self.ask("redfish", previous=zoned).failure)

    def compose(self, *, linked):
        """Give the service a composed system of blocks that report Unused; return its URI."""
        server, uri = self.servers["redfish"][False], f"{ROOT}/Systems/2"
        node = {"@odata.type": "#ComputerSystem.v1_27_0.ComputerSystem", "SystemType": "Composed",
                "Name": "theirs", "Links": {"ResourceBlocks": [link(BLOCKS[0])]}}  # fmt: skip
        blocks = {uri_: block(n) for n, uri_ in enumerate(BLOCKS, 1)}
        if linked:
            blocks[BLOCKS[0]]["Links"] = {"ComputerSystems": [link(uri)]}
        systems = collection(f"{ROOT}/Systems/1", uri)
        server.documents |= encoded({uri: node, f"{ROOT}/Systems": systems, **blocks})
        return uri

    def test_a_node_that_cannot_be_read_keeps_the_blocks_of_the_last_reading(self):
        cut = b'{"@odata.id": "/n", "@odata.type": "#ComputerSystem.v1_27_0.ComputerSystem"}'
        kinds = FAILURES | OTHERS | {"cut": status(200, cut)}
        for linked, (kind, act) in sampled((False, True), kinds.items()):
            if kind in ("no list", "text list"):  # lists, which have no member
                continue
            with self.subTest(kind, linked=linked):
                uri = self.compose(linked=linked)
                whole = self.ask("redfish")
                self.assertEqual([(uri, False)], [(it.uri, it.stale) for it in whole.podm.nodes])
                previous = PreviousReading.of(whole.podm)
                for _ in range(2):  # also after a reading that could not read it
                    found = self.ask("redfish", uri, act, previous=previous)
                    self.assertIsNone(found.failure)
                    stale = [msgspec.structs.replace(it, stale=True) for it in whole.podm.nodes]
                    self.assertEqual(stale, [*found.podm.nodes])
                    self.assertEqual([0, 1, 1, 1], [it.status.slots for it in found.podm.blocks])
                    self.assertIn(
                        ("remark", f"podm: {uri}: found no readable document, expected a "
                         "system (its blocks of the last reading stay in use)"),
                        found.diagnostics,
                    )  # fmt: skip
                    previous = PreviousReading.of(found.podm)
                again_ = self.ask("redfish", previous=previous)
                self.assertEqual(whole.podm, again_.podm)
                del self.servers["redfish"][False].documents[uri]
                server = self.servers["redfish"][False]
                server.documents[f"{ROOT}/Systems"] = encoded(
                    {f"{ROOT}/Systems": collection(f"{ROOT}/Systems/1")}
                )[f"{ROOT}/Systems"]
                gone = self.ask("redfish", previous=previous)
                self.assertEqual(
                    ((), [1] * 4), (gone.podm.nodes, [it.status.slots for it in gone.podm.blocks])
                )

    def test_a_node_that_was_never_read_has_unknown_blocks_and_that_is_noted(self):
        for kind, act in (FAILURES | OTHERS).items():
            if kind in ("no list", "text list"):
                continue
            with self.subTest(kind):
                uri = self.compose(linked=False)
                found = self.ask("redfish", uri, act)
                self.assertEqual([1] * 4, [it.status.slots for it in found.podm.blocks])
                told = [
                    one.text for one in found.diagnostics if "its blocks are unknown" in one.text
                ]
                self.assertEqual([True], [f"podm: {uri}: " in text for text in told])

    def test_blocks_behind_a_collection_or_of_an_unlisted_system_are_fetched_too(self):
        server, elsewhere = self.servers["redfish"][False], f"{ROOT}/Elsewhere/1"
        physical = {"SystemType": "Physical", "links": {"resourceBlocks": link(f"{ROOT}/own")}}
        server.documents |= encoded({
            f"{ROOT}/Systems/1": physical,
            f"{ROOT}/own": collection(BLOCKS[1]),
            elsewhere: {"SystemType": "Composed", "Links": {"ResourceBlocks": [link(BLOCKS[2])]}},
            BLOCKS[0]: {**block(1), "Links": {"ComputerSystems": [link(elsewhere)]}},
        })  # fmt: skip
        found = self.ask("redfish")
        self.assertEqual(
            (None, [1, 0, 0, 1]), (found.failure, [it.status.slots for it in found.podm.blocks])
        )

    def test_less_than_nine_of_ten_blocks_are_noted_with_the_difference(self):
        many = frozenset(f"/old/{number}" for number in range(40))
        blocks = frozenset(BLOCKS)
        words = "podm: found 4 of the 5 blocks of the last reading, without /old/7"
        for known, expected in (
            (blocks, None),
            (frozenset(), None),
            (blocks | {"/old/7"}, words),
            (many, "podm: found 0 of the 40 blocks of the last reading, without /old/0, /old/1, "
                   "/old/10 and 37 more"),
        ):  # fmt: skip
            found = self.ask("redfish", previous=PreviousReading(known))
            self.assertIsNone(found.failure)
            told = [one for one in found.diagnostics if "last reading" in one.text]
            self.assertEqual([] if expected is None else [("remark", expected)], told)
        ten = PreviousReading(frozenset(map(str, range(10))))
        podm = self.ask("redfish").podm
        nine = msgspec.structs.replace(
            podm, blocks=tuple(msgspec.structs.replace(podm.blocks[0], uri=str(n))
                               for n in range(9)))  # fmt: skip
        self.assertEqual("", ten.loss(nine))

    def test_half_of_the_blocks_that_fail_are_an_outage_or_noted_by_their_answer(self):
        server = self.servers["redfish"][False]
        known = self.previous("redfish")
        for act, fails in ((OUTAGES["500"], True), (FAILURES["login page"], False)):
            server.rules[:] = [lambda it, act=act: path_of(it.path) in BLOCKS[::2] and act(it)]
            target = ReadTarget(Registration(name="podm", url=server.url), None, known)
            (found,) = read([target], DIALECTS, ReadSettings(), clock=lambda: NOON)
            self.assertEqual(fails, found.failure is not None)
            if not fails:
                text = "found 2 of the 4 blocks of the last reading"
                self.assertTrue(any(text in one.text for one in found.diagnostics))
