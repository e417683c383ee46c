# SPDX-License-Identifier: Apache-2.0
"""Near a volume: options, maps, and a cloud that is queried only when needed (S16)."""

import json
import unittest
from pathlib import Path

from tests.functional.cloud import PASSWORD, TOKEN, VOLUME, Cloud
from tests.functional.programs import PROGRAMS, SITE, Case, Done, run
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.documents import DocumentTree

SMALL = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--report", "-")
MAP = "volume:\n  db-1: {zone: west-1, aggregates: [bulk]}\n  far: {zone: nowhere}\n"


def verdicts(done: Done) -> dict[str, str]:
    return {row["Podm"]: row["Outcome"] for row in done.verdicts}


class TestMaps(Case):
    """Both programs, without a cloud."""

    def test_s16_near_a_volume_picks_a_pod_manager_of_its_domain(self):
        path = self.write("near.yaml", MAP)
        for program in PROGRAMS:
            with self.subTest(program):
                done = run(program, *SMALL, "--near", "volume=db-1", "--near-map", path)
                self.assertEqual(0, done.code, done.err)
                found = verdicts(done)
                self.assertEqual("chosen", found["store-1"])
                self.assertEqual({"rejected"}, {found[name] for name in found if name != "store-1"})

    def test_a_wish_moves_the_choice_and_rejects_nobody(self):
        path = self.write("near.yaml", MAP)
        plain = verdicts(run("valence-sched", *SMALL))
        words = ("--prefer-near", "volume=db-1", "--near-map", path)
        wished = verdicts(run("valence-sched", *SMALL, *words))
        self.assertEqual(("fits", "chosen"), (plain["store-1"], wished["store-1"]))
        self.assertEqual("fits", wished["gpu-west"])
        far = run("valence-sched", *SMALL, "--near", "volume=far", "--near-map", path)
        self.assertEqual(3, far.code)

    def test_a_persons_own_map_is_looked_in_last(self):
        own = self.write(
            "valence-sched/near.yaml", "volume: {db-1: {zone: east-2}, mine: {zone: east-2}}"
        )
        home = {"XDG_CONFIG_HOME": str(self.folder)}
        done = run("valence-sched", *SMALL, "--near", "volume=mine", **home)
        self.assertEqual("chosen", verdicts(done)["general-1"])
        words = ("--near", "volume=db-1", "--near-map", self.write("near.yaml", MAP))
        self.assertEqual(
            "chosen", verdicts(run("valence-sched", *SMALL, *words, **home))["store-1"]
        )
        lost = run("valence-sched", *SMALL, "--near", "volume=minne", **home)
        line = f"looked in {own}: no volume named 'minne' (did you mean 'mine'?)\n"
        self.assertEqual((1, "", line), lost)

    def test_the_cloud_is_no_map_to_name(self):
        words = ("--near", "volume=v", "--near-map", "openstack:")
        done = run("valence-sched", *SMALL, *words)
        line = "openstack is not a map: the openstack client always uses its cloud\n"
        self.assertEqual((2, "", line), done)

    def test_without_anybody_to_ask_the_person_is_told_what_to_do(self):
        done = run("valence-sched", *SMALL, "--near", "volume=v")
        line = "cannot locate volume v: give a map with --near-map\n"
        self.assertEqual((1, "", line), done)
        done = run("openstack", *SMALL, "--near", "volume=v")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertRegex(done.err, r"\Ano cloud: .*auth-url.*: name one with --os-cloud .*\n\Z")

    def test_an_unknown_resolver_or_a_bad_word_is_refused(self):
        done = run("valence-sched", *SMALL, "--near", "volume=v", "--near-map", "mapp:x")
        self.assertEqual((1, "", "no resolver named 'mapp' (did you mean 'map'?)\n"), done)
        for word in ("volume", "=v", "volume="):
            done = run("valence-sched", *SMALL, "--near", word)
            self.assertEqual((2, ""), (done.code, done.out))
            self.assertIn("is not KIND=NAME, as in volume=db-1", done.err)

    def test_a_policy_that_cannot_read_it_refuses(self):
        path = self.write("near.yaml", MAP)
        for option, word in (("--near", "filter"), ("--prefer-near", "weigher")):
            words = (option, "volume=db-1", "--near-map", path, "--policy", "chance")
            done = run("valence-sched", *SMALL, *words)
            self.assertEqual(1, done.code)
            self.assertIn(f"policy 'chance' has no {word} 'near'", done.err)


class TestCloud(Case):
    """The openstack program and a fake cloud on loopback."""

    def setUp(self):
        self.cloud = Cloud()
        self.addCleanup(self.cloud.close)

    def near(self, *words: str, **more: str) -> Done:
        done = run("openstack", *SMALL, *words, **(self.cloud.environment | more))
        for secret in (PASSWORD, TOKEN):
            self.assertNotIn(secret, done.out + done.err)
        return done

    def test_s16_a_volume_is_found_by_id_and_by_name(self):
        for name in (VOLUME["id"], "db"):
            with self.subTest(name):
                done = self.near("--near", f"volume={name}")
                self.assertEqual(0, done.code, done.err)
                kept = {podm for podm, outcome in verdicts(done).items() if outcome != "rejected"}
                self.assertEqual({"gpu-west", "store-1"}, kept)
                text = f"near: zone of volume {name}: needs west-1, has east-1"
                self.assertIn(text, [row["Reason"] for row in done.verdicts])

    def test_a_port_is_where_its_network_is(self):
        for word, near in (
            ("port=eth", "gpu-east"), ("network=lan", "gpu-east"), ("network=wan", "store-1"),
        ):  # fmt: skip
            with self.subTest(word):
                done = self.near("--near", word)
                self.assertEqual(0, done.code, done.err)
                kept = {podm for podm, outcome in verdicts(done).items() if outcome != "rejected"}
                self.assertEqual({near}, kept)

    def test_nobody_logs_in_unless_a_thing_must_be_asked_for(self):
        self.assertEqual(0, self.near().code)
        path = self.write("near.yaml", MAP)
        self.assertEqual(0, self.near("--near", "volume=db-1", "--near-map", path).code)
        self.assertEqual([], self.cloud.asked)
        words = ("--near", "volume=db-1", "--prefer-near", "volume=db", "--near-map", path)
        self.assertEqual(0, self.near(*words).code)
        self.assertEqual(1, self.cloud.asked.count("POST /identity/v3/auth/tokens"))

    def test_a_thing_that_is_not_there_or_nowhere_exits_1_in_one_line(self):
        for word, line in (
            ("volume=none", "looked in OpenStack (volume, port, network): no volume named 'none'"),
            ("volum=db", "no kind of resource named 'volum' (did you mean 'volume'?)"),
            ("dataset=db", "looked in OpenStack (volume, port, network): no dataset named 'db'"),
            ("volume=lost", "has volume lost without its place"),
            ("volume=odd", "cannot query OpenStack for volume 'odd': a malformed answer"),
        ):
            with self.subTest(word):
                done = self.near("--near", word)
                self.assertEqual((1, "", 1), (done.code, done.out, done.err.count("\n")), done.err)
                self.assertIn(line, done.err)

    def test_a_wrong_password_and_a_cloud_that_is_gone_exit_1_and_show_no_secret(self):
        for more in ({"OS_PASSWORD": "wrong-horse"}, {"OS_AUTH_URL": "http://127.0.0.1:9/v3"}):
            with self.subTest(more):
                done = self.near("--near", "volume=db", **more)
                self.assertEqual((1, ""), (done.code, done.out), done.err)
                last = done.err.splitlines()[-1]  # keystoneauth may have warned before
                self.assertTrue(last.startswith("cloud at http://127.0.0.1:"), last)
                self.assertNotIn("wrong-horse", done.err)
                self.assertNotIn("Traceback", done.err)


RECORDED = Path(__file__).parents[1] / "recorded"
V = "/redfish/v1"
HOST_1, FPGA = f"{V}/Systems/host-1", f"{V}/Chassis/fpga-box/Processors/1"
SLED_1, SLED_4, BAY = (
    f"{V}/Systems/sled-1",
    f"{V}/Systems/sled-4",
    f"{V}/Chassis/pcie-1/Drives/bay-2",
)
POOL, GROUP = (
    f"{V}/StorageServices/nvme-1/StoragePools/1",
    f"{V}/Services/rss/LogicalDrives/group-1",
)

#: Rack, body, and the chosen blocks and amounts; None if nothing fits.
TABLE = (
    ("rsd-network", {"Processors": [{"ProcessorType": "FPGA"}] * 2}, ([FPGA, HOST_1], {})),
    ("rsd-network", {"Processors": [{"ProcessorType": "FPGA"}] * 3}, None),
    ("rsd-network", {"EthernetInterfaces": [{"SpeedMbps": 25000}] * 2,
                     "RemoteDrives": [{"CapacityGiB": 1000, "Protocol": "NVMeOverFabrics"}]},
     ([HOST_1], {POOL: 1000})),
    ("rsd-network", {"RemoteDrives": [{"CapacityGiB": 1537}]}, None),
    ("rsd-network", {"TotalSystemCoreCount": 41}, None),
    ("rsd-network", {"TotalSystemCoreCount": 40, "TotalSystemMemoryMiB": 393217}, None),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe", "CapacityGiB": 1000}]},
     ([BAY, SLED_1], {})),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe"}] * 2}, None),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe"}], "Processors": [{"TotalCores": 16}]},
     None),
    ("rsd-pcie", {"Processors": [{"TotalCores": 16}],
                  "RemoteDrives": [{"CapacityGiB": 600, "Protocol": "iSCSI"}] * 2},
     ([SLED_4], {GROUP: 1200})),
    ("rsd-pcie", {"RemoteDrives": [{"CapacityGiB": 1251}]}, None),
)  # fmt: skip


class TestAllocateBodies(Case):
    """From an Allocate body to the blocks."""

    def decided(self, rack, body):
        """Return the chosen blocks, and the amounts by stock; None if nothing fits."""
        file, source = self.write("body.json", json.dumps(body)), str(RECORDED / f"{rack}.json")
        words = ("--inventory", source, "--flavor", file, "-f", "json")
        done = run("valence-sched", "podm", "schedule", *words)
        self.assertIn(done.code, (0, 3), done.err)
        if done.code == 3:
            return None
        amounts = {}
        for grant in done.data[0]["Amounts"] or ():
            amounts[grant["uri"]] = amounts.get(grant["uri"], 0) + grant["amount"]
        return sorted(done.data[0]["Blocks"]), amounts

    def test_each_body_gets_what_fits_or_nothing(self):
        for rack, body, expected in TABLE:
            with self.subTest((rack, body)):
                self.assertEqual(expected, self.decided(rack, body))

    def test_a_rack_refuses_what_does_not_fit_and_takes_what_does(self):
        for rack, body, expected in TABLE:
            with self.subTest((rack, body)):
                documents = DocumentTree(json.loads((RECORDED / f"{rack}.json").read_bytes()))
                answer = NodesService(documents, lambda: 0.0).allocate(body)
                self.assertEqual(201 if expected else 409, answer.status)
                if expected:
                    links = str(documents.get(answer.headers["Location"])["Links"])
                    self.assertTrue(all(block in links for block in expected[0]), links)

    def test_a_folder_of_racks_is_listed_with_all_other_trees(self):
        done = run(
            "valence-sched", "podm", "list", "--long", "--inventory", str(RECORDED), "-f", "json"
        )
        self.assertEqual(0, done.code, done.err)
        found = {row["Podm"]: row["Free Blocks"] for row in done.data}
        self.assertEqual((3, 3), (found["rsd-network"], found["rsd-pcie"]))
        self.assertIn("no-zones", found)


if __name__ == "__main__":
    unittest.main()
