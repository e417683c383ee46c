# SPDX-License-Identifier: Apache-2.0
"""Flavors of Nova: from a cloud, with the real ``openstack``, and from a file."""

import json
import unittest

from tests.functional.compute import PASSWORD, TOKEN, Cloud
from tests.functional.programs import SITE, Case, Done, run

SCHEDULE = ("podm", "schedule", "--inventory", SITE)


def flavor(number: str, name: str, **more):
    return {
        "id": number,
        "name": name,
        "description": None,
        "vcpus": 8,
        "ram": 16384,
        "disk": 100,
        "swap": "",
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "rxtx_factor": 1.0,
        "links": [],
        "extra_specs": {},
    } | more


FLAVORS = [
    flavor("1", "m1.large"),
    flavor("2", "g1.large", extra_specs={
        "resources:PGPU": "1",
        "trait:HW_GPU_RTX": "required",
        "hw:numa_nodes": "1",
    }),
    flavor("3", "odd", extra_specs={"rack_colour": "blue"}),
    flavor("4", "metal", vcpus=0, ram=0, disk=0, extra_specs={
        "resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0",
        "resources:CUSTOM_BAREMETAL_SITE_GPU": "1",
    }),
    flavor("5", "threads", extra_specs={"hw:cpu_thread_policy": "require"}),
]  # fmt: skip


class TestNovaFlavor(Case):
    """``--nova-flavor``."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cloud = Cloud(FLAVORS)
        cls.addClassCleanup(cls.cloud.close)
        cls.clouds = cls.cloud.configure(cls.folder / "clouds.yaml")

    def ask(self, *words: str, clouds: str | None = None) -> Done:
        done = run(
            "openstack", *SCHEDULE, *words,
            OS_CLIENT_CONFIG_FILE=clouds or self.clouds, OS_CLOUD="loopback",
        )  # fmt: skip
        for secret in (PASSWORD, TOKEN):
            self.assertNotIn(secret, done.out + done.err)
        return done

    def test_a_name_and_an_id_are_looked_up_and_placed(self):
        for word in ("m1.large", "1"):
            with self.subTest(word):
                done = self.ask("--nova-flavor", word, "-f", "json")
                self.assertEqual(0, done.code, done.err)
                self.assertEqual(1, done.data[0]["Rank"])

    def test_extra_specs_decide_and_those_of_virtual_machines_are_remarked_on(self):
        done = self.ask("--nova-flavor", "g1.large", "-f", "json")
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(["gpu-west"], [row["Podm"] for row in done.data])
        place = "Nova flavor 'g1.large': $.extra_specs['hw:numa_nodes']"
        self.assertIn(f"remark: {place}: not used: it tunes a virtual machine\n", done.err)

    def test_an_extra_spec_that_nova_would_pass_over_is_refused(self):
        done = self.ask("--nova-flavor", "odd")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertIn("$.extra_specs.rack_colour: found an extra spec without a scope", done.err)

    def test_fit_counts_several_beside_those_of_ours(self):
        words = ("--nova-flavor", "m1.large", "--nova-flavor", "2", "--flavor", "small")
        done = run("openstack", "podm", "fit", "--inventory", SITE, *words, "-f", "json",
                   OS_CLIENT_CONFIG_FILE=self.clouds, OS_CLOUD="loopback")  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        named = dict.fromkeys(row["Flavor"] for row in done.data)
        self.assertEqual(["small", "m1.large", "g1.large"], [*named])

    def test_lists_of_flavors_are_read_from_files(self):
        clean = [FLAVORS[0], FLAVORS[1]]
        rows = [
            {"ID": one["id"], "Name": one["name"], "RAM": one["ram"], "Disk": one["disk"],
             "Ephemeral": 0, "VCPUs": one["vcpus"], "Is Public": True, "Swap": 0,
             "RXTX Factor": 1.0, "Properties": one["extra_specs"]}
            for one in clean
        ]  # fmt: skip
        shown = []
        for name, document in (("client", rows), ("api", {"flavors": clean})):
            file = self.write(f"{name}.json", json.dumps(document))
            words = ("podm", "flavor", "list", "--flavor-file", file, "--long", "-f", "json")
            done = run("valence-sched", *words)
            self.assertEqual(0, done.code, done.err)
            shown.append([row for row in done.data if row["Name"] in ("m1.large", "g1.large")])
        self.assertEqual(2, len(shown[0]))
        self.assertEqual(shown[0], shown[1])
        for row in rows:
            del row["Properties"]
        file = self.write("short.json", json.dumps(rows))
        done = run("valence-sched", "podm", "flavor", "list", "--flavor-file", file)
        self.assertEqual(1, done.code)
        self.assertIn("$[0]: found no 'Properties'", done.err)
        self.assertIn("openstack flavor list --long", done.err)

    def test_an_option_names_extra_specs_to_pass_over(self):
        done = self.ask("--nova-flavor", "odd", "--ignore-extra-spec", "rack_colour", "-f", "json")
        self.assertEqual((0, 1), (done.code, done.data[0]["Rank"]), done.err)
        self.assertIn("$.extra_specs.rack_colour: not used: --ignore-extra-spec", done.err)
        document = self.write("odd.json", json.dumps(FLAVORS[2]))
        for words in (
            ("podm", "flavor", "show", document),
            ("podm", "flavor", "validate", document),
            ("podm", "flavor", "list", "--flavor-file", document),
            (*SCHEDULE, "--flavor", document),
        ):
            with self.subTest(words):
                self.assertEqual(1, run("valence-sched", *words).code)
                done = run("valence-sched", *words, "--ignore-extra-spec", "rack_colour")
                self.assertEqual(0, done.code, done.err)

    def needs(self, done):
        pools = [pool for one in done.data["podms"] for pool in one["pool_reasons"]]
        return [
            reason
            for pool in pools
            for reason in pool["reasons"]
            if isinstance(reason["need"], str)
        ]

    def test_a_key_that_restricts_placement_is_a_trait_and_no_remark(self):
        done = self.ask("--nova-flavor", "threads", "--report", "-")
        self.assertEqual(3, done.code, done.err)
        self.assertIn("HW_CPU_HYPERTHREADING", {it["need"] for it in self.needs(done)})
        self.assertNotIn("remark: Nova flavor", done.err)

    def test_a_flavor_of_bare_metal_is_the_flavor_of_ours_of_that_name(self):
        ours = {"name": "baremetal-site-gpu", "properties": {"accelerators": [{"kind": "GPU"}]}}
        file = self.write("ours.json", json.dumps(ours))
        done = self.ask("--nova-flavor", "metal", "--flavor-file", file, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        self.assertIn("read as flavor 'baremetal-site-gpu'", done.err)
        self.assertIn("GPU", str(done.data[0]["Blocks"]))
        done = self.ask("--nova-flavor", "metal")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertIn("found no flavor of that name", done.err)

    def test_an_unknown_name_gets_the_nearest(self):
        done = self.ask("--nova-flavor", "m1.lage")
        line = "no Nova flavor named 'm1.lage' (did you mean 'm1.large'?)\n"
        self.assertEqual((1, "", line), done)

    def test_a_token_and_an_endpoint_are_a_cloud(self):
        for more in ((), ("--os-auth-type", "admin_token")):
            words = ("--os-endpoint", f"{self.cloud.url}/compute/v2.1", "--os-token", TOKEN, *more)
            done = run("openstack", *words, *SCHEDULE, "--nova-flavor", "m1.large", "-f", "json")
            self.assertEqual((0, 1), (done.code, done.data[0]["Rank"]), done.err)

    def test_a_token_that_no_header_can_have_is_not_shown(self):
        for character in ("\n", "€"):
            words = ("--os-endpoint", f"{self.cloud.url}/compute/v2.1", "--os-auth-type",
                     "admin_token", "--os-token", f"{TOKEN}{character}")  # fmt: skip
            done = run("openstack", *words, *SCHEDULE, "--nova-flavor", "m1.large")
            self.assertEqual((1, ""), (done.code, done.out))
            self.assertNotIn(TOKEN, done.err)
            line = done.err.splitlines()[-1]
            self.assertTrue(line.startswith("cloud at http://127.0.0.1"), done.err)
            self.assertTrue(line.endswith(
                ": header X-Auth-Token: the token has a line break or a character outside Latin-1: "
                "check the token"
            ), done.err)  # fmt: skip

    def test_the_project_that_asked_nova_owns_what_is_asked_for(self):
        report = self.folder / "report.json"
        for words, owner in ((("--nova-flavor", "m1.large"), "p"), (("--flavor", "small"), None)):
            self.assertEqual(0, self.ask(*words, "--report", str(report)).code)
            self.assertEqual(owner, json.loads(report.read_bytes())["request"].get("owner"))

    def test_nobody_logs_in_without_the_option(self):
        before = len(self.cloud.asked)
        self.assertEqual(0, self.ask("--flavor", "small").code)
        self.assertEqual(before, len(self.cloud.asked))

    def test_a_wrong_password_and_no_cloud_are_one_line_each(self):
        wrong = self.cloud.configure(self.folder / "wrong.yaml", "another-secret")
        done = self.ask("--nova-flavor", "m1.large", clouds=wrong)
        self.assertEqual((1, "", 1), (done.code, done.out, done.err.count("\n")), done.err)
        self.assertTrue(done.err.startswith("cloud 'loopback': "), done.err)
        self.assertNotIn("OS_CLOUD", done.err)  # it is already named
        self.assertNotIn("another-secret", done.err)
        done = run("openstack", *SCHEDULE, "--nova-flavor", "m1.large", OS_CLOUD="nowhere")
        self.assertEqual((1, ""), (done.code, done.out), done.err)
        done = run("openstack", *SCHEDULE, "--nova-flavor", "m1.large")
        self.assertEqual((1, "", 1), (done.code, done.out, done.err.count("\n")), done.err)
        self.assertTrue(done.err.startswith("no cloud: "), done.err)

    def test_a_malformed_answer_is_one_line_that_names_the_cloud(self):
        other = Cloud([])
        self.addCleanup(other.close)
        clouds, usual = other.configure(self.folder / "other.yaml"), other.read
        for document in (None, [1, 2], {"flavors": [5]}):
            answer = 200, document
            other.read = lambda at, it=answer: it if at.endswith("/detail") else usual(at)
            with self.subTest(document):
                done = self.ask("--nova-flavor", "m1.large", clouds=clouds)
                self.assertEqual((1, "", 1), (done.code, done.out, done.err.count("\n")), done.err)
                self.assertIn("cloud 'loopback': its configuration or its answer is mal", done.err)

    def test_our_own_program_has_no_cloud_and_two_flavors_are_one_too_many(self):
        done = run("valence-sched", *SCHEDULE, "--nova-flavor", "m1.large")
        line = "--nova-flavor: only inside openstack, which has a cloud\n"
        self.assertEqual((2, "", line), done)
        done = run("valence-sched", *SCHEDULE, "--nova-flavor", "m1.large", "--flavor", "small")
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("--flavor excludes --nova-flavor", done.err)


if __name__ == "__main__":
    unittest.main()
