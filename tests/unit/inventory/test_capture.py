# SPDX-License-Identifier: Apache-2.0
"""Captures, and their anonymisation."""

import base64
import io
import json
import os
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
from hypothesis import given, strategies as st

from tests.unit.drivers.redfish.rendered import read_back
from valence_sched.app import App
from valence_sched.drivers.crawl.reading import Reading
from valence_sched.drivers.dialect import root_identity
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.errors import InputError, PodmError
from valence_sched.inventory import capture
from valence_sched.inventory.capture import Aliases
from valence_sched.model.inventory import (
    Devices,
    Drive,
    FullBlock,
    FullPodm,
    Inventory,
    Node,
    Pool,
    Status,
    Stock,
    to_json,
)
from valence_sched.model.reading import Selection
from valence_sched.model.request_spec import RequestSpec
from valence_sched.testing import generate

CANARY = "kAn4ry-Wellensittich"
ROOT = "/redfish/v1"


def podm(id_: str) -> FullPodm:
    block = FullBlock(uri=f"{ROOT}/ResourceBlocks/{id_}-drive", type=("Storage",), pools=("z",),
                      status=Status(), devices=Devices(drives=(Drive(count=2),)))  # fmt: skip
    return FullPodm(id=id_, driver="redfish", pools=(Pool(id="z", name="z"),), blocks=(block,),
                    url=f"https://root:{CANARY}@{id_}.example.org{ROOT}")  # fmt: skip


def reading(id_: str) -> Reading:
    """Return a live reading with many credentials."""
    live = podm(id_)
    documents = documents_of(live)
    documents[ROOT] |= {"Oem": {"Vendor": {"AdminPassword": CANARY, "Note": f"x{CANARY}y"}}}
    documents |= {
        f"{ROOT}/SessionService/Sessions/1": {"Id": CANARY},
        f"{ROOT}/AccountService": {"x": CANARY},
    }
    return Reading(live, documents=documents)


def failed(id_: str, reason: str = f"login refused: password {CANARY}") -> Reading:
    """Return a failed reading, with the last known state."""
    return Reading(msgspec.structs.replace(podm(id_), status="Offline"), reason)


class TestCapture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="capture-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def everything(self) -> bytes:
        """Return all names and all bytes below the folder."""
        data = b""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder) / name
                data += str(path.relative_to(self.folder)).encode() + path.read_bytes()
        return data

    def test_one_that_is_down_does_not_keep_the_others_from_being_written(self) -> None:
        readings = [reading("a"), failed("b"), reading("c")]
        result = capture.write_file(
            readings, self.path("x.json"), capture.Redactor(secrets=[CANARY])
        )
        self.assertEqual((3, 2, ["b"]), (result.podms, result.blocks, list(result.failures)))
        podms = msgspec.json.decode((self.folder / "x.json").read_bytes(), type=Inventory).podms
        self.assertEqual([("a", "Online", 1), ("b", "Offline", 0), ("c", "Online", 1)],
                         [(one.id, one.status, len(one.blocks)) for one in podms])  # fmt: skip

    def test_a_reading_that_failed_is_never_online(self) -> None:
        odd = Reading(podm("a"), "no answer")
        capture.write_file([odd], self.path("x.json"), capture.Redactor())
        (down,) = msgspec.json.decode((self.folder / "x.json").read_bytes(), type=Inventory).podms
        self.assertEqual(("Unknown", (), ()), (down.status, down.blocks, down.pools))

    def test_no_credential_is_written_or_reported(self) -> None:
        for number, aliases in enumerate((None, Aliases(b"k"))):
            readings = [reading("a"), failed("b")]
            for write, name in ((capture.write_file, "x.jsonl"), (capture.write_trees, "tree")):
                redactor = capture.Redactor(aliases, [CANARY])
                result = write(readings, self.path(f"{number}{name}"), redactor)
                self.assertNotIn(CANARY, str(result))
        written = self.everything()
        self.assertIn(b"redfish/v1/index.json", written)
        for trace in (CANARY, CANARY.casefold(), "SessionService", "AccountService"):
            self.assertNotIn(trace.encode(), written)

    def test_a_tree_is_read_as_the_pod_manager_it_was_written_from(self) -> None:
        readings = [reading("a"), failed("b"), reading("c")]
        result = capture.write_trees(readings, self.path("tree"), capture.Redactor())
        self.assertEqual((2, 2, ["b"], []), (result.podms, result.blocks, list(result.failures),
                                             result.left_out))  # fmt: skip
        by_id = {
            one.id: one for one in App({}).loader.podms(Selection(sources=(self.path("tree"),)))
        }
        self.assertEqual({"a", "c"}, set(by_id))
        self.assertEqual(2, by_id["a"].blocks[0].devices.drives[0].count)

    def test_a_tree_of_nobody_is_refused_and_leaves_nothing(self) -> None:
        with self.assertRaisesRegex(PodmError, "b: down, and 1 more"):
            capture.write_trees(
                [failed("b", "down"), failed("c", "down")], self.path("tree"), capture.Redactor()
            )
        with self.assertRaises(InputError):
            capture.write_trees([], self.path("tree"), capture.Redactor())
        self.assertEqual([], os.listdir(self.folder))

    def test_a_pod_manager_whose_id_cannot_be_a_folder_is_left_out_and_noted(self) -> None:
        readings = [reading("a"), reading("A"), reading("../b"), reading(".."), reading("c/d")]
        result = capture.write_trees(readings, self.path("tree"), capture.Redactor())
        self.assertEqual((1, 4), (result.podms, len(result.left_out)))
        self.assertEqual(["tree"], os.listdir(self.folder))
        self.assertEqual(["a"], os.listdir(self.folder / "tree"))

    def test_two_captures_under_one_key_have_the_same_names(self) -> None:
        for name, key in (("1.json", b"k"), ("2.json", b"k"), ("3.json", b"l")):
            capture.write_file([reading("a")], self.path(name), capture.Redactor(Aliases(key)))
        first, second, third = ((self.folder / f"{n}.json").read_bytes() for n in (1, 2, 3))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        self.assertNotIn(b"example.org", first)

    def test_a_recorded_inventory_loses_its_credentials_before_it_is_rendered(self) -> None:
        (captured,) = capture.recorded_readings(
            [(podm("a"), Record(b"", "file", "$"))], [], documents=True
        )
        self.assertEqual("https://a.example.org/redfish/v1", captured.podm.url)
        self.assertNotIn(CANARY, str(captured.documents))


SITE = Path(__file__).parents[3] / "examples" / "site.json"

SECRETS = {
    "SerialNumber": "SN-7QX-99812", "UUID": "1f3b9a52-77aa-4c11-9e7e-3a5b6c7d8e9f",
    "MACAddress": "b0:7b:25:aa:01:fe", "PermanentMACAddress": "B07B25AA01FE",
    "HostName": "wolfsburg-bmc17", "FQDN": "wolfsburg-bmc17.factory.example",
    "AssetTag": "Inventar 4711/b", "SKU": "5XYZ123", "PartNumber": "0PN77-A01",
    "Name": "Röntgenraum Süd", "Description": "the one behind the door", "Id": "Rack_Keller2",
    "Address": "10.47.11.202", "IPv6": "fd00:47:11::202", "Location": "Halle 9 bei Ingeborg",
    "DurableName": "naa.5000C500DEADBEEF", "VendorThing": "unknown-ship-name",
    "UserName": "ingeborg", "Client": "dept-astro", "LocationIndicator": "behind-tesla-coil",
}  # fmt: skip


def traces(text: str) -> Iterator[str]:
    """Yield the forms of a text: unchanged, in other case, in URLs, in JSON, in base64."""
    for one in (text, text.strip("-_ ")):
        yield from (one, quote(one), quote(one, safe=""), json.dumps(one)[1:-1])
        yield base64.b64encode(one.encode()).decode()


class CanaryTest(unittest.TestCase):
    def assert_silent(self, data: bytes, names: list[str]) -> None:
        text = data.decode().casefold()
        for name in names:
            for trace in traces(name):
                self.assertNotIn(trace.casefold(), text)

    def test_no_document_names_anything_of_the_site(self) -> None:
        document: dict = {"@odata.id": f"{ROOT}/Systems/{SECRETS['Id']}", "Model": "X1"}
        document |= SECRETS
        keys = {SECRETS["SerialNumber"]: 1, SECRETS["HostName"]: "x"}
        document["Oem"] = {"V": {**keys, "Serial": 471147114711, "All": [*SECRETS.values()]}}
        document["Links"] = {"Chassis": [f"{ROOT}/Chassis/{quote(SECRETS['Name'])}"]}
        document["See"] = f"https://{SECRETS['FQDN']}:8443{ROOT}/Systems/{SECRETS['UUID']}?x=1#/a"
        document["Next"] = f"{ROOT}/Systems?$skiptoken={SECRETS['SerialNumber']}"
        documents = capture.anonymise_documents(Aliases(b"k"), {document["@odata.id"]: document})
        data = json.dumps(documents, ensure_ascii=False).encode()
        self.assert_silent(data, [*SECRETS.values(), "471147114711", "skiptoken"])
        self.assertEqual("X1", next(iter(documents.values()))["Model"])

    def test_no_pod_manager_names_anything_of_the_site(self) -> None:
        """Every text field of every noun is a canary, except for values of the standard."""
        names = [f"canary-{number:04d}-Ü" for number in range(60)]
        name = iter(names).__next__
        uri, pool = f"{ROOT}/Systems/{name()}", name()
        podm = FullPodm(
            id=name(), name=name(), url=f"https://{name()}:1/{name()}", zone=name(),
            identity=f"address:{name()}:443",
            aggregates=(name(),), generation=3,
            facts={"rack": name(), "location": f"{name()}/{name()}", "several": (name(), name()),
                   "address": f"https://{name()}/x"},
            pools=(Pool(id=pool, name=name()),),
            blocks=(FullBlock(uri=uri, name=name(), pools=(pool,),
                              status=Status(client=name(), taints=(f"{name()}={name()}:NoPlace",)),
                              places={"switch": name(), "chassis": f"/c/{name()}"}),),
            stocks=(Stock(uri=f"/s/{name()}", resource="watts", name=name(), pools=(pool,)),
                    Stock(uri=f"declared:power#{pool}", resource="power", pools=(pool,))),
            nodes=(Node(uri=f"/n/{name()}", name=name(), owner=name(), group=name(),
                        blocks=(uri,)),),
        )  # fmt: skip
        alias = capture.anonymise_podm(Aliases(b"k"), podm)
        self.assert_silent(to_json(alias), names)
        self.assertEqual(alias.blocks[0].uri, alias.nodes[0].blocks[0])
        self.assertEqual((alias.pools[0].id,), alias.blocks[0].pools)
        self.assertEqual(f"declared:power#{alias.pools[0].id}", alias.stocks[1].uri)
        self.assertRegex(alias.facts["location"], r"^x\w+/x\w+$")

    def test_the_example_site_is_not_to_be_recognised(self) -> None:
        site = msgspec.json.decode(SITE.read_bytes(), type=Inventory)
        aliases = Aliases(b"k")
        for podm in site.podms:
            names = [podm.id, podm.name, podm.zone, podm.url.split("/")[2], podm.facts["location"]]
            names += [block.name for block in podm.blocks] + [node.name for node in podm.nodes]
            names += [block.uri.rpartition("/")[2] for block in podm.blocks]
            names = [name for name in names if name and len(name) > 3]
            documents = capture.anonymise_documents(aliases, documents_of(podm))
            captures = [
                to_json(capture.anonymise_podm(aliases, podm)),
                json.dumps(documents).encode(),
            ]
            for data in captures:
                self.assert_silent(data, names)


class AliasesTest(unittest.TestCase):
    def test_one_name_has_one_alias_under_one_key_and_another_under_another(self) -> None:
        self.assertEqual(Aliases(b"k").of("x"), Aliases(b"k").of("x"))
        self.assertNotEqual(Aliases(b"k").of("x"), Aliases(b"l").of("x"))
        self.assertNotEqual(Aliases(b"k").of("x"), Aliases(b"k").of("X"))

    def test_an_identity_has_the_alias_of_its_document_in_every_spelling(self) -> None:
        uuid = SECRETS["UUID"]
        for text in (uuid, uuid.upper(), uuid.replace("-", ""), f"{{{uuid}}}"):
            aliases = Aliases(b"k")
            root = {"@odata.id": ROOT, "UUID": text}
            manager = {"@odata.id": f"{ROOT}/Managers/1", "ServiceEntryPointUUID": text}
            documents = capture.anonymise_documents(
                aliases, {ROOT: root, f"{ROOT}/Managers/1": manager}
            )
            podm = capture.anonymise_podm(aliases, FullPodm(id="p", identity=f"uuid:{uuid}"))
            self.assertEqual(podm.identity, root_identity(documents[ROOT]))
            self.assertEqual(
                documents[ROOT]["UUID"], documents[f"{ROOT}/Managers/1"]["ServiceEntryPointUUID"]
            )
            self.assertNotIn(uuid, f"{podm.identity}{documents}")
        alias = capture.anonymise_podm(aliases, FullPodm(id="p", identity="address:h-7:443"))
        self.assertRegex(alias.identity or "", r"^address:x\w+$")

    def test_structure_stays(self) -> None:
        aliases = Aliases(b"k")
        name = aliases.segment("CPU-Süd")
        for given_, expected in (
            (f"{ROOT}/Systems/1/Processors/CPU-Süd", f"{ROOT}/Systems/1/Processors/{name}"),
            (f"{ROOT}/Systems/CPU-S%C3%BCd", f"{ROOT}/Systems/{name}"),
            (f"{ROOT}/Systems?$skip=100", f"{ROOT}/Systems?$skip=100"),
            (f"{ROOT}/Systems/", f"{ROOT}/Systems/"),
            (f"{ROOT}/$metadata", f"{ROOT}/$metadata"),
        ):
            self.assertEqual(expected, aliases.uri(given_))

    @given(st.lists(st.text(max_size=12), min_size=2, max_size=2, unique=True))
    def test_two_texts_never_share_an_alias(self, texts: list[str]) -> None:
        aliases = Aliases(b"k")
        self.assertEqual(2, len(set(map(aliases.of, texts))))


class SameDecisionTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        site = msgspec.json.decode(SITE.read_bytes(), type=Inventory)
        self.podms = [*site.podms, *(
            msgspec.json.decode(line, type=FullPodm) for line in generate.podms(20, 30, 5, 3, 4)
        )]  # fmt: skip

    def test_reading_anonymous_documents_gives_the_anonymous_pod_manager(self) -> None:
        aliases = Aliases(b"k")
        for podm in self.podms:
            documents = documents_of(podm)
            self.assertEqual(
                capture.anonymise_podm(aliases, read_back(documents, podm.id)),
                read_back(
                    capture.anonymise_documents(aliases, documents), aliases.segment(podm.id)
                ),
            )

    def test_the_same_pod_manager_and_pool_are_chosen_and_blocks_that_cost_alike(self) -> None:
        # of equal blocks the first by URI is used, which differs by alias
        aliases = Aliases(b"k")
        plain = b"\n".join(map(to_json, self.podms))
        hidden = b"\n".join(to_json(capture.anonymise_podm(aliases, podm)) for podm in self.podms)
        for flavor in ("gpu-large", "medium", "storage-large"):
            with self.subTest(flavor):
                before, after = (self.ranked(data, flavor) for data in (plain, hidden))
                self.assertTrue(before)
                expected = {
                    (aliases.segment(podm), aliases.segment(pool)): (
                        *scores, len(blocks), sorted(map(aliases.uri, grants))
                    )
                    for (podm, pool), (*scores, blocks, grants) in before.items()
                }  # fmt: skip
                self.assertEqual(expected.keys(), after.keys())
                same = sum(expected[pool] == (*scores[:2], len(scores[2]), sorted(scores[3]))
                           for pool, scores in after.items())  # fmt: skip
                self.assertEqual(len(expected), same)
                best = min(cost for cost, *_ in before.values())
                top = {pool for pool, (cost, *_) in expected.items() if cost == best}
                self.assertEqual(top, {pool for pool, (cost, *_) in after.items() if cost == best})

    def ranked(self, data: bytes, flavor: str) -> dict:
        """Return the cost, blocks and grants of a flavor in each pool."""
        app = App({}, io.BytesIO(data))
        scheduler = app.engine(Selection(sources=("-",)))
        request = app.config.compile_request(
            RequestSpec(flavor=flavor), app.config.flavors()[flavor]
        )
        return {
            (candidate.podm, candidate.pool): (
                candidate.cost, candidate.waste,
                [block.uri for block in candidate.blocks],
                [grant.uri for grant in candidate.grants],
            )
            for candidate in scheduler.rank(request, 10_000).candidates
        }  # fmt: skip
