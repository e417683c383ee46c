# SPDX-License-Identifier: Apache-2.0
"""Bad input causes one line: the file, the place in it, found and expected, and a hint."""

import io
import json
import os
import tarfile
import unittest
import zipfile
from pathlib import Path

import zstandard

from tests.functional.programs import FLAVORS, PROGRAMS, ROOT, SITE, Case, run

SCHEMA = "valence-sched/inventory"
CPU = {"processors": [{"cores": 8}]}
GOOD = {"id": "good", "blocks": [{"uri": "/b/1", "devices": CPU}]}
TREE = ROOT / "tests" / "recorded" / "rack-mockup"
TINY = "name: tiny\nproperties: {processor: {total_cores: 4}}\n"


def inventory(*podms: object, **more: object) -> str:
    return json.dumps({"schema": SCHEMA, **more, "podms": podms})


class Bad(Case):
    """Helpers of all tests of bad input."""

    def refused(self, *words, code=1, stdin=b""):
        """Run a command, and return the one line on stderr."""
        done = run("valence-sched", *words, stdin=stdin)
        self.assertNotIn("Traceback", done.err)
        self.assertEqual(code, done.code, done.err)
        self.assertEqual("", done.out)
        (line,) = done.err.splitlines()
        return line

    def unread(self, file, stdin=b""):
        """Return the line about an inventory that cannot be read."""
        return self.refused("podm", "list", "--inventory", str(file), stdin=stdin)

    def flavor(self, text):
        """Return the line about a flavor file, and its path."""
        file = self.write("flavor.yaml", text)
        words = ("--inventory", SITE, "--flavor", file)
        return self.refused("podm", "schedule", *words).removeprefix(f"{file}: ")

    def policy(self, text):
        """Return the line about a policy file, and its path."""
        file = self.write("policy.yaml", text)
        words = ("--inventory", SITE, "--flavor", "small", "--policy-file", file)
        return self.refused("podm", "schedule", *words).removeprefix(f"{file}: ")

    def skipped(self, *podms):
        """Return the line about a pod manager that is skipped; another pod manager is valid."""
        file = self.write("part.json", inventory(GOOD, *podms))
        done = run("valence-sched", "podm", "list", "--inventory", file, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(["good"], [row["Podm"] for row in done.data])
        (line,) = done.err.splitlines()
        self.assertTrue(line.startswith(f"skipped: {file}: "), line)
        return line.removeprefix(f"skipped: {file}: ")


class TestInventory(Bad):
    """Invalid documents of a program."""

    def test_a_file_that_was_cut_off_is_refused_with_a_hint(self):
        file = self.write("cut.json", Path(SITE).read_bytes()[:-5])
        line = self.unread(file)
        self.assertTrue(line.startswith(f"{file}: "), line)
        self.assertIn("expected JSON (is the file complete?)", line)

    def test_a_file_of_something_else_and_one_in_utf_16_are_told_so(self):
        file = self.write("flavor.json", TINY)
        self.assertIn("expected JSON (is this the right file?)", self.unread(file))
        for encoding in ("utf-16-le", "utf-16-be"):
            file = self.write("wide.json", f"\ufeff{Path(SITE).read_text()}".encode(encoding))
            self.assertEqual(
                f"{file}: $: found text in UTF-16, expected JSON in UTF-8 (save it as UTF-8)",
                self.unread(file),
            )

    def test_a_comma_too_many_is_named_with_line_and_column(self):
        file = self.write("comma.json", '{"schema": "valence-sched/inventory",\n "podms": [1,, 2]}')
        line = self.unread(file)
        self.assertIn(f"{file}: line 2 column ", line)

    def test_a_whole_number_that_would_be_rounded_is_named_where_it_stands(self):
        most, least = 2**53 - 1, 2**53
        stock, drive = {"uri": "/s", "resource": "gib"}, {"uri": "/b", "devices": {}}
        for path, bound, made in (
            ("stocks[0].total", f"float < {least}.0", lambda n: {"stocks": [stock | {"total": n}]}),
            ("stocks[0].used", f"float < {least}.0", lambda n: {"stocks": [stock | {"used": n}]}),
            ("facts['serial']", f"float < {least}.0", lambda n: {"facts": {"serial": n}}),
            ("generation", f"int <= {most}", lambda n: {"generation": n}),
            ("blocks[0].devices.drives[0].capacity_bytes", f"int <= {most}", lambda n: {"blocks": [
                drive | {"devices": {"drives": [{"capacity_bytes": n}]}}]}),
        ):  # fmt: skip
            with self.subTest(path):
                for number in (least, least + 1, 10**18 + 1):
                    self.assertEqual(f"$.podms[1].{path}: found {number}, expected {bound}",
                                     self.skipped({"id": "bad", **made(number)}))  # fmt: skip
                file = self.write("large.json", inventory(GOOD, {"id": "large", **made(most)}))
                done = run("valence-sched", "podm", "list", "--inventory", file, "-f", "json")
                self.assertEqual((2, ""), (len(done.data), done.err))

    def test_an_empty_file_is_refused(self):
        file = self.write("empty.json", "")
        self.assertEqual(
            f"{file}: found an empty file, expected an inventory (check that the capture finished)",
            self.unread(file),
        )

    def test_an_empty_standard_input_is_refused(self):
        self.assertIn("stdin: found an empty file", self.unread("-"))

    def test_errors_in_every_file_of_standard_input_name_it_alike(self):
        schedule = ("podm", "schedule", "--inventory", str(ROOT / "examples" / "site.json"))
        for words in (
            (*schedule, "--flavor", "-"),
            (*schedule, "--flavor", "small", "--flavor-file", "-"),
            (*schedule, "--flavor", "small", "--policy-file", "-"),
            (*schedule, "--request-file", "-"),
            ("podm", "list", "--podm-file", "-"),
            ("podm", "apply", "-"),
            ("scheduler", "check", "-"),
            ("scheduler", "explain", "-"),
            ("scheduler", "whatif", "run", *schedule[2:], "--workload", "-"),
        ):
            with self.subTest(words):
                done = run("valence-sched", *words, stdin=b'{"x": 1')
                self.assertEqual(1, done.code)
                self.assertRegex(done.err, "(?m)^stdin: ")

    def test_an_inventory_without_pod_managers_is_refused(self):
        file = self.write("none.json", inventory())
        self.assertEqual(
            f"{file}: $: found no pod manager, expected at least one (is this the right file?)",
            self.unread(file),
        )

    def test_binary_garbage_is_refused(self):
        for name, data in (("high", bytes(range(256)) * 20), ("zeros", bytes(5000))):
            with self.subTest(name=name):
                file = self.write(f"{name}.json", data)
                self.assertTrue(self.unread(file).startswith(f"{file}: "))

    def test_a_damaged_gzip_is_refused(self):
        file = self.write("damaged.json.gz", b"\x1f\x8b\x08\x00" + bytes(range(256)))
        self.assertIn("expected a whole file", self.unread(file))

    def test_a_zstd_that_ends_early_is_refused(self):
        """The pod managers of the last frame were silently left out."""
        podm = json.dumps({"schema": "valence-sched/inventory", "version": "1.0",
                           "podms": [{"id": "p"}]}).encode()  # fmt: skip
        whole = zstandard.compress(podm + b"\n"), zstandard.compress(podm.replace(b'"p"', b'"q"'))
        for size in (1, len(whole[1]) // 2, len(whole[1]) - 1):
            file = self.write("cut.jsonl.zst", whole[0] + whole[1][:size])
            line = "found an end within a frame, expected a whole file (it may be truncated)"
            self.assertEqual(f"{file}: {line}", self.unread(file))

    def test_nesting_without_end_is_refused(self):
        for start in ("[", '{"a":', '{"schema":"valence-sched/inventory","podms":[[', '{"/a":['):
            with self.subTest(start=start):
                file = self.write("deep.json", start + "[" * 500_000)
                self.assertTrue(self.unread(file).startswith(f"{file}: "))

    def test_a_path_that_is_not_there_gets_a_hint(self):
        line = self.unread("no/such/file.json")
        self.assertEqual(
            "no/such/file.json: found no such file or directory, expected a file that can be read "
            "(check the path, or use - for standard input)",
            line,
        )

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_that_may_not_be_read_is_refused(self):
        file = self.write("secret.json", inventory(GOOD))
        os.chmod(file, 0)
        self.assertIn("permission denied", self.unread(file))

    def test_a_device_is_refused_instead_of_being_read_for_ever(self):
        self.assertIn("/dev/zero: found a special file", self.unread("/dev/zero"))

    def test_a_url_is_no_inventory(self):
        done = run("valence-sched", "podm", "list", "--inventory", "https://u:p@h.example/")
        told = "an inventory is a file or a folder, not a URL: register its pod manager with podm"
        self.assertEqual((2, f"{told} create NAME URL\n"), (done.code, done.err))

    def test_a_newer_major_version_is_refused_and_a_newer_minor_is_read_with_a_remark(self):
        file = self.write("major.json", inventory(GOOD, version="2.0"))
        self.assertEqual(
            f"{file}: $.version: found 2.0, expected at most 1.x "
            "(upgrade valence-sched, or convert the file with the program that wrote it)",
            self.unread(file),
        )
        file = self.write("minor.json", inventory(GOOD, version="1.7", weather="fine"))
        done = run("valence-sched", "podm", "list", "--inventory", file, "-f", "json")
        self.assertEqual((0, 1), (done.code, len(done.data)))
        self.assertIn("1 remark on the inventory", done.err)

    def test_a_time_that_is_none_is_named_where_it_stands(self):
        """An inventory without a valid time would have an unknown age, without a warning."""
        expected = "expected a time such as 2026-01-05T06:00:00Z"
        file = self.write("header.json", inventory(GOOD, captured_at="yesterday"))
        self.assertEqual(f"{file}: $.captured_at: found 'yesterday', {expected}", self.unread(file))
        self.assertEqual(f"$.podms[1].read_at: found 'yesterday', {expected}",
                         self.skipped({"id": "bad", "read_at": "yesterday"}))  # fmt: skip

    def test_a_stock_or_node_that_stands_there_twice_is_not_counted_twice(self):
        stock, node = {"uri": "/s", "resource": "gib", "total": 5}, {"uri": "/s"}
        for field, one in (("stocks", stock), ("nodes", node)):
            with self.subTest(field):
                line = self.skipped({"id": "bad", field: [one, one]})
                path = f"$.podms[1].{field}[1].uri"
                self.assertEqual(f"{path}: found '/s' again, expected a unique URI", line)
        line = self.skipped({"id": "bad", "nodes": [{"uri": "/n", "blocks": ["/b", "/b"]}]})
        self.assertEqual("$.podms[1].nodes[0].blocks: found a block twice, expected it once", line)

    def test_a_block_that_says_unused_and_is_part_of_a_node_is_doubtful(self):
        blocks = [{"uri": "/b/1", "devices": CPU}, {"uri": "/b/2", "devices": CPU},
                  {"uri": "/b/3", "status": {"state": "Composed"}},
                  {"uri": "/b/4", "status": {"shareable": True}}]  # fmt: skip
        nodes = [{"uri": "/n", "blocks": ["/b/2", "/b/3", "/b/4", "/gone"]}]
        file = self.write("use.json", inventory({"id": "a", "blocks": blocks, "nodes": nodes}))
        words = ("podm", "inventory", "validate", file, "--long", "-f", "json")
        (row,) = run("valence-sched", *words).data
        path = f"{file}: $.podms[0].blocks[1].status"
        self.assertEqual([f"{path}: found Unused, expected Composed: node /n has the block, and it "
                          "counts as in use"], row["Remarks"])  # fmt: skip
        done = run("valence-sched", "podm", "list", "--inventory", file)
        self.assertEqual(
            "1 remark on the inventory: see podm inventory validate --long\n", done.err
        )
        listed = run("valence-sched", "podm", "block", "list", "--inventory", file, "--free", "-f",
                     "value", "-c", "Block")  # fmt: skip
        self.assertEqual({"1", "4"}, {line.rpartition("/")[2] for line in listed.out.split()})
        copy = self.folder / "converted.jsonl"
        done = run("valence-sched", "podm", "inventory", "convert", "--inventory", file,
                   "--output", str(copy))  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        converted = json.loads(copy.read_bytes().splitlines()[-1])["blocks"]
        states = [(block.get("status") or {}).get("state") for block in converted]
        self.assertEqual([None, "Composed", "Composed", None], states)
        sound = inventory({"id": "a", "blocks": blocks[2:], "nodes": nodes})
        file = self.write("sound.json", sound)
        self.assertEqual("", run("valence-sched", "podm", "list", "--inventory", file).err)

    def test_a_least_number_above_the_largest_is_doubtful(self):
        """The remark is the only line which shows that no node fits in the pool."""
        pools = [
            {"id": "p", "limits": {"Processor": {"min": 2, "max": 2}}},
            {"id": "q", "limits": {"Memory": {"min": 4}, "Processor": {"min": 3, "max": 2}}},
        ]
        stock = {"resource": "gib", "total": 900}
        stocks = [{**stock, "uri": "/s", "min": 5, "max": 5},
                  {**stock, "uri": "/t", "min": 500, "max": 100.5}]  # fmt: skip
        file = self.write("limits.json", inventory({"id": "a", "pools": pools, "stocks": stocks}))
        words = ("podm", "inventory", "validate", file, "--long", "-f", "json")
        (row,) = run("valence-sched", *words).data
        self.assertEqual(
            [f"{file}: $.podms[0].pools[1].limits.Processor: found min 3 above max 2: no node of "
             "the pool meets both",
             f"{file}: $.podms[0].stocks[1]: found min 500 above max 100.5: the stock "
             "grants nothing"], row["Remarks"],
        )  # fmt: skip

    def test_another_schema_is_refused(self):
        file = self.write("other.json", json.dumps({"schema": "other/thing", "podms": []}))
        self.assertIn("$.schema: found 'other/thing', expected 'valence-sched/inventory'",
                      self.unread(file))  # fmt: skip

    def test_ids_that_two_inventories_share_are_refused(self):
        other = self.write("other.json", inventory(GOOD, {**GOOD, "id": "gpu-east"}))
        line = self.refused("podm", "list", "--inventory", SITE, "--inventory", other)
        self.assertIn(f"{other}: $.podms[1].id: found 'gpu-east' again, first in {SITE}", line)

    def test_a_word_that_no_pod_manager_has_is_told_with_the_nearest(self):
        for words, line in (
            (("--zone", "east1"), "is in the zone 'east1' (did you mean 'east-1'?)"),
            (("--driver", "redfsh"), "was read by the driver 'redfsh' (did you mean 'redfish'?)"),
            (("--trait", "HW_NIC"), "has the trait 'HW_NIC' (did you mean 'HW_NIC_SRIOV'?)"),
            (("--aggregate", "gol", "--aggregate", "gol"),
             "is in the aggregate 'gol' (did you mean 'gold'?)"),
        ):  # fmt: skip
            done = run("valence-sched", "podm", "list", "--inventory", SITE, *words)
            self.assertEqual((0, ""), (done.code, done.out.strip()))
            self.assertEqual(1, done.err.count(f"warning: no pod manager {line}\n"), done.err)
        done = run("valence-sched", "podm", "list", "--inventory", SITE, "--zone", "east-1")
        self.assertNotIn("no pod manager", done.err)

    def test_one_bad_document_of_a_tree_is_skipped_counted_and_named(self):
        tree = self.folder / "rack"
        for path in TREE.rglob("*.json"):
            copy = tree / path.relative_to(TREE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        place = "redfish/v1/CompositionService/ResourceBlocks/sled-2/index.json"
        (tree / place).write_text("{")
        words = ("podm", "inventory", "validate", str(tree), "-f", "json")
        done = run("valence-sched", *words)
        (row,) = done.data
        self.assertEqual((0, True), (done.code, row["Valid"]))
        mine = [line for line in row["Skipped"] if "sled-2" in line]
        self.assertEqual(1, len(mine), row)
        self.assertEqual(5, run("valence-sched", *words, "--strict").code)
        flavor = self.write("tiny.yaml", TINY)
        words = ("podm", "schedule", "--inventory", str(tree), "--flavor", flavor)
        done = run("valence-sched", *words)
        self.assertEqual(0, done.code, done.err)
        self.assertIn(f"skipped: {mine[0]}", done.err.splitlines())
        self.assertEqual(5, run("valence-sched", *words, "--strict").code)


class TestPodms(Bad):
    """One bad pod manager is skipped and named; the others are read."""

    def test_a_misspelt_field_gets_the_nearest_name(self):
        line = self.skipped({"id": "bad", "zoen": "x"})
        self.assertEqual("$.podms[1]: found unknown field 'zoen' (did you mean 'zone'?)", line)

    def test_a_misspelt_field_deep_inside_is_named_with_its_place(self):
        block = {"uri": "/b", "devices": {"memory": [{"capacity_mb": 4}]}}
        line = self.skipped({"id": "bad", "blocks": [block]})
        self.assertIn("$.podms[1].blocks[0].devices.memory[0]: found unknown field", line)
        self.assertIn("did you mean 'capacity_mib'?", line)

    def test_a_wrong_type_is_shown_with_what_was_expected(self):
        line = self.skipped({"id": "bad", "enabled": "perhaps"})
        self.assertEqual('$.podms[1].enabled: found "perhaps", expected bool', line)
        line = self.skipped({"id": "bad", "blocks": {"uri": "/b"}})
        self.assertIn("$.podms[1].blocks: found ", line)

    def test_a_pod_manager_that_is_no_object_is_skipped(self):
        self.assertEqual("$.podms[1]: found 7, expected object", self.skipped(7))

    def test_a_negative_amount_is_refused(self):
        block = {"uri": "/b", "devices": {"processors": [{"cores": -8}]}}
        line = self.skipped({"id": "bad", "blocks": [block]})
        self.assertIn("devices.processors[0].cores: found -8, expected int >= 0", line)
        stock = {"uri": "/s", "resource": "storage_gib", "total": -1}
        line = self.skipped({"id": "bad", "stocks": [stock]})
        self.assertIn("$.podms[1].stocks[0].total: found -1", line)

    def test_a_number_of_a_million_digits_is_refused_in_a_short_line(self):
        file = self.write(
            "digits.json",
            inventory(GOOD, {"id": "bad", "generation": 1}).replace(
                ": 1}", f": {'9' * 1_000_000}}}"
            ),
        )
        done = run("valence-sched", "podm", "list", "--inventory", file, "-f", "json")
        self.assertEqual(["good"], [row["Podm"] for row in done.data])
        (line,) = done.err.splitlines()
        self.assertIn("$.podms[1].generation: found ", line)
        self.assertLess(len(line), 700)

    def test_a_word_that_is_none_of_the_schema_gets_the_nearest(self):
        block = {"uri": "/b", "devices": CPU, "status": {"state": "unused"}}
        line = self.skipped({"id": "bad", "blocks": [block]})
        self.assertIn("status.state: found 'unused'", line)
        self.assertIn("did you mean 'Unused'?", line)

    def test_a_bad_status_of_a_block_that_a_node_has_is_named_where_it_stands(self):
        blocks = [{"uri": "/b", "devices": CPU}, {"uri": "/c", "status": {"state": "unused"}}]
        line = self.skipped(
            {"id": "bad", "blocks": blocks, "nodes": [{"uri": "/n", "blocks": ["/c"]}]}
        )
        self.assertIn("$.podms[1].blocks[1].status.state: found 'unused'", line)

    def test_a_block_in_a_pool_that_is_not_there_is_named(self):
        block = {"uri": "/b", "devices": CPU, "pools": ["b"]}
        line = self.skipped({"id": "bad", "pools": [{"id": "a"}], "blocks": [block]})
        self.assertIn("$.podms[1].blocks[0].pools", line)

    def test_a_block_that_stands_twice_is_named(self):
        block = {"uri": "/b", "devices": CPU}
        line = self.skipped({"id": "bad", "blocks": [block, block]})
        self.assertIn("$.podms[1].blocks[1].uri", line)

    def test_what_a_pod_manager_calls_itself_cannot_command_the_terminal(self):
        evil = "\x1b]0;mine\x07\x1b[31mpod\r"
        words = {"id": evil, "zone": evil, "facts": {evil: evil}, "zoen": 1}
        file = self.write("evil.json", inventory(GOOD, {**words, "traits": [evil]}))
        last = dict.fromkeys([*words][:3], evil) | {"facts": {evil: evil}, "traits": [evil]}
        other = self.write("other.json", inventory(last))
        for format_ in ("table", "markdown", "plain", "tsv"):
            done = run("valence-sched", "podm", "list", "--inventory", file, "--inventory", other,
                       "--long", "--capabilities", "-f", format_)  # fmt: skip
            self.assertEqual(0, done.code, done.err)
            self.assertNotRegex(done.out + done.err, r"[\x00-\x08\x0b-\x1f\x7f\x9b]")
            self.assertIn("[31mpod", done.out)

    def test_both_programs_say_the_same_and_exit_5_with_strict(self):
        file = self.write("part.json", inventory(GOOD, {"id": "bad", "zoen": "x"}))
        words = ("podm", "list", "--inventory", file, "-f", "json")
        done = [run(program, *words) for program in PROGRAMS]
        self.assertEqual(done[0], done[1])
        self.assertEqual(0, done[0].code)
        done = [run(program, *words, "--strict") for program in PROGRAMS]
        self.assertEqual(done[0], done[1])
        self.assertEqual((5, ""), done[0][:2])


class TestEnvironment(Bad):
    """Variables with invalid files or URLs."""

    def test_the_line_names_the_variable(self):
        junk, none = self.write("junk", "no database"), f"{self.folder}/none/none"
        listed = ("podm", "list")
        for variable, value, words, code, text in (
            ("INVENTORY", none, listed, 1, f"{none}: found no such file"),
            ("INVENTORY", junk, listed, 1, f"{junk}: found text, expected JSON"),
            ("STATE", junk, listed, 1, f"{junk}: "),
            ("STATE", "foo://bar", listed, 1, "unknown database 'foo'"),
            ("STATE", "sqlite://", listed, 2, "the state 'sqlite://' ends with this command"),
            ("STATE", "/dev/null/x", ("podm", "create", "a", "http://127.0.0.1:9", "--no-check"),
             1, "/dev/null/x: "),
            ("URL", "example.org", listed, 2, "'example.org': expected the http or https URL"),
            ("URL", "http://[::1", listed, 2, "'http://[::1': expected the http or https URL"),
            ("URL", "http://h:99999", listed, 2, "'http://h:99999': expected the http or https"),
            ("URL", "http://u:hunter2@h", listed, 2, "the URL of the service contains a password"),
            ("URL", "http://u:hunter2@[h", listed, 2, "the URL of the service contains a password"),
            ("URL", "http://127.0.0.1:9", listed, 1, "http://127.0.0.1:9: does not answer"),
            ("LIVENESS", "file:", (*listed, "--inventory", SITE), 2, "file: 'nothing' is not a"),
            ("LIVENESS", "reed", (*listed, "--inventory", SITE), 1, "no liveness named 'reed'"),
        ):  # fmt: skip
            with self.subTest(variable=variable, value=value):
                done = run("valence-sched", *words, **{f"VALENCE_SCHED_{variable}": value})
                self.assertEqual((code, ""), (done.code, done.out), done.err)
                (line,) = done.err.splitlines()
                self.assertTrue(line.startswith(f"VALENCE_SCHED_{variable}: {text}"), line)
                self.assertNotIn("hunter2", line)

    def test_so_does_that_of_the_authorities_of_a_service(self):
        variables = {"VALENCE_SCHED_URL": "https://127.0.0.1:9",
                     "VALENCE_SCHED_CACERT": f"{self.folder}/none"}  # fmt: skip
        done = run("valence-sched", "podm", "list", **variables)
        self.assertEqual(
            (2, f"VALENCE_SCHED_CACERT: {self.folder}/none is not a readable file: "
             "name the file of the authorities to trust\n"),
            (done.code, done.err),
        )  # fmt: skip


class TestOptions(Bad):
    """Arguments that are empty or probably a mistake."""

    def test_an_empty_name_is_no_name(self):
        for option in ("--zone", "--policy", "--owner"):
            with self.subTest(option=option):
                done = run("valence-sched", "podm", "schedule", "--inventory", SITE,
                           "--flavor", "small", option, "")  # fmt: skip
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(f"argument {option}: ", done.err)

    def test_bytes_that_are_no_text_are_a_name_of_a_file_only(self):
        name = os.fsdecode(b"a\xff")
        schedule = ("podm", "schedule", "--inventory", SITE, "--flavor", "small")
        for words in (
            (*schedule, "--owner"), (*schedule, "--capability"), ("podm", "node", "show"),
            ("scheduler", "quota", "set", "--resource", "nodes=1"), (*schedule[:-1],),
        ):  # fmt: skip
            with self.subTest(words):
                line = self.refused(*words, name, code=2)
                self.assertIn(r"'a\udcff' is not text in UTF-8", line)
        site = self.folder / f"{name}.json"
        site.write_bytes(Path(SITE).read_bytes())
        flavor = self.folder / f"{name}.yaml"
        flavor.write_text("{name: one, properties: {processor: {total_cores: 1}}}")
        done = run("valence-sched", *schedule[:2], "--inventory", site, "--flavor", flavor)
        self.assertEqual(0, done.code, done.err)

    def test_two_dashes_after_an_equals_sign_are_a_value(self):
        schedule = ("podm", "schedule", "--inventory", SITE, "--flavor", "small")
        for option, line in (
            ("--zone=--", "no pod manager is in the zone '--'"),
            ("--trait=--", "no pod manager has the trait '--'"),
            ("--count=--", "argument --count: must be 1 to 1,000,000, got '--'"),
            ("--format=--", "argument -f/--format: invalid choice: '--'"),
        ):
            with self.subTest(option):
                done = run("valence-sched", *schedule, option)
                self.assertIn(done.code, (2, 3))
                self.assertIn(line, done.err)

    def test_an_empty_filter_of_a_list_is_none(self):
        for words in (("list", "--zone"), ("list", "--driver"), ("list", "--trait"),
                      ("list", "--aggregate"), ("block", "list", "--model")):  # fmt: skip
            with self.subTest(words):
                line = self.refused("podm", *words, "", "--inventory", SITE, code=2)
                self.assertIn(f"argument {words[-1]}: an empty name", line)

    def test_a_column_to_sort_by_that_is_not_there_is_refused(self):
        for words in (("podm", "list", "--inventory", SITE), ("scheduler", "filter", "list")):
            line = self.refused(*words, "--sort-column", "Nmae", code=2)
            self.assertIn("--sort-column: no column named 'Nmae' (", line)
        words = ("podm", "list", "--inventory", SITE, "-f", "value", "-c", "Podm")
        done = run("valence-sched", *words, "--sort-column", "free_cores")
        self.assertEqual("full-1", done.out.splitlines()[0])

    def test_a_width_that_is_no_number_is_refused_with_its_variable(self):
        for variable in ("CLIFF_MAX_TERM_WIDTH", "CLIFF_FIT_WIDTH"):
            for value in ("yes", ""):
                done = run("valence-sched", "podm", "flavor", "list", **{variable: value})
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertEqual(
                    f"valence-sched podm flavor list: {variable}: must be a whole number, "
                    f"got {value!r}: change or unset it\n",
                    done.err,
                )

    def test_a_name_that_is_too_long_for_a_file_is_a_name(self):
        words = ("podm", "schedule", "--inventory", SITE, "--flavor")
        self.assertTrue(self.refused(*words, "a" * 5000).startswith("no flavor named 'aaa"))
        words = ("podm", "list", "--inventory", SITE, "--liveness")
        self.assertIn("file: 'aaa", self.refused(*words, f"file:{'a' * 5000}", code=2))

    def test_an_empty_name_of_a_file_is_no_default(self):
        for words in (
            ("podm", "list", "--inventory"), ("podm", "list", "--podm-file"),
            ("podm", "list", "--state"), ("podm", "list", "--html"),
            ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--report"),
            ("podm", "inventory", "convert", "--output"),
        ):  # fmt: skip
            with self.subTest(words):
                line = self.refused(*words, "", code=2)
                self.assertIn(f"argument {words[-1].replace('--output', '--output/-o')}: "
                              "an empty name: name a ", line)  # fmt: skip
        line = self.refused("scheduler", "check", "", code=2)
        self.assertIn("argument <file>: an empty name: name a file", line)

    def test_a_number_is_written_in_ascii_and_is_not_endless(self):
        for words in (("--count", "\u0663"), ("--at-most", "podm=\u0663"), ("--seed", "9" * 5000)):
            with self.subTest(option=words[0]):
                done = run("valence-sched", "podm", "schedule", "--inventory", SITE,
                           "--flavor", "small", *words)  # fmt: skip
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(f"argument {words[0]}: ", done.err)
                self.assertLess(len(done.err.splitlines()[-1]), 200)

    def test_a_map_is_read_though_nothing_is_to_be_near(self):
        words = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--near-map")
        self.assertIn("no/map.yaml: found no such file", self.refused(*words, "no/map.yaml"))
        self.assertIn("--near-map: cannot be read from", self.refused(*words, "-", code=2))

    def test_a_number_that_is_none_is_shown_as_it_was_written(self):
        for text, shown in ((".nan", "NaN"), (".inf", "Infinity")):
            line = self.flavor(f"name: x\nproperties: {{resources: {{watts: {text}}}}}")
            self.assertIn(f"['watts']: found {shown}", line)


class TestArchives(Bad):
    """Archives and folders with links to other places, or without an end."""

    def zipped(self, **files):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return packed.getvalue()

    def tarred(self, *members):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in members:
                info = tarfile.TarInfo(name)
                info.size = 2
                archive.addfile(info, io.BytesIO(b"{}"))
        return packed.getvalue()

    def test_names_that_lead_out_of_an_archive_refuse_all_of_it(self):
        for name in ("../index.json", "/etc/index.json", "a/../../index.json"):
            for form, data in (("zip", self.zipped(**{name: "{}"})), ("tar", self.tarred(name))):
                with self.subTest(name=name, form=form):
                    file = self.write(f"out.{form}", data)
                    self.assertEqual(
                        f"{file}: found a member named {name!r}, expected a path inside the "
                        "archive (do not trust this archive)",
                        self.unread(file),
                    )

    def test_an_archive_bomb_is_refused_by_the_bytes_that_really_come(self):
        # Nine GiB of zeros in a member that belongs to no tree; a few kilobytes on disk.
        pack = zstandard.ZstdCompressor().compress
        info = tarfile.TarInfo("core.dump")
        info.size = 9 << 30
        file = self.write("bomb.tar.zst", pack(info.tobuf()) + pack(bytes(64 << 20)) * (9 << 4))
        self.assertLess(Path(file).stat().st_size, 1 << 20)
        line = self.unread(file)
        self.assertIn(f"{file}: found a larger stream, expected at most 8589934592 bytes", line)
        self.assertIn("may be an archive bomb", line)

    def test_a_document_that_is_too_large_is_left_out_of_its_tree(self):
        bomb = self.zipped(**{"redfish/v1/index.json": b" " * (17 << 20)})
        file = self.write("large.zip", bomb)
        done = run("valence-sched", "podm", "list", "--inventory", file)
        self.assertNotIn("Traceback", done.err)
        self.assertEqual((1, ""), done[:2])
        self.assertIn("found more than 16777216 bytes", done.err)

    def test_a_loop_of_links_ends(self):
        tree = self.folder / "loop"
        (tree / "redfish" / "v1" / "Systems").mkdir(parents=True)
        (tree / "redfish" / "v1" / "index.json").write_text('{"@odata.id": "/redfish/v1"}')
        (tree / "redfish" / "v1" / "Systems" / "again").symlink_to(tree / "redfish")
        (tree / "redfish" / "v1" / "self").symlink_to("self")
        done = run("valence-sched", "podm", "list", "--inventory", str(tree), "-f", "json")
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(["loop"], [row["Podm"] for row in done.data])

    def test_a_link_that_is_its_own_target_is_refused(self):
        link = self.folder / "self.json"
        link.symlink_to(link)
        self.assertTrue(self.unread(link).startswith(f"{link}: found "))


class TestFlavors(Bad):
    """Invalid flavor files of a user."""

    def test_a_negative_or_absurd_amount_is_refused(self):
        self.assertEqual(
            "$.properties.memory.capacity_mib: found -5, expected int >= 1",
            self.flavor("name: x\nproperties: {memory: {capacity_mib: -5}}\n"),
        )
        for amount in ("0", "1.5", "many", "true", ".inf", "9" * 100_000):
            with self.subTest(amount=amount[:9]):
                line = self.flavor(f"name: x\nproperties: {{memory: {{capacity_mib: {amount}}}}}\n")
                self.assertLess(len(line), 700)

    def test_an_unknown_field_gets_the_nearest_name(self):
        self.assertEqual(
            "$.properties: found unknown field 'memry' (did you mean 'memory'?)",
            self.flavor("name: x\nproperties: {memry: {capacity_mib: 5}}\n"),
        )
        self.assertIn(
            "did you mean 'properties'?", self.flavor("name: x\nproprties: {}\nproperties: {}\n")
        )

    def test_a_flavor_that_asks_for_nothing_is_refused(self):
        self.assertEqual(
            "$.properties: found no requirement, expected at least one",
            self.flavor("name: x\nproperties: {}\n"),
        )

    def test_a_flavor_without_a_name_or_properties_is_refused(self):
        self.assertIn("no field 'name'", self.flavor("properties: {memory: {capacity_mib: 1}}"))
        self.assertIn("$.properties: found no requirement", self.flavor("name: x\n"))

    def test_capabilities_that_are_no_pairs_are_refused(self):
        text = TINY + "capabilities: fabric\n"
        self.assertIn("$.capabilities: found 'fabric', expected key=value", self.flavor(text))

    def test_an_alias_a_key_twice_and_a_tab_are_refused_with_their_line(self):
        for text, place, found in (
            ("name: &a x\ndescription: *a\n", "line 2 column 14", "an alias"),
            ("name: x\nname: y\n", "line 2 column 1", "the key 'name' twice"),
            ("name: x\n\tproperties: {}\n", "line 2 column 1", "'\\t'"),
            ("name: [x\n", "line 2 column 1", "expected"),
        ):
            with self.subTest(text=text):
                line = self.flavor(text)
                self.assertTrue(line.startswith(f"{place}: found "), line)
                self.assertIn(found, line)

    def test_a_python_object_in_yaml_is_refused(self):
        line = self.flavor("name: !!python/object/apply:os.system ['true']\nproperties: {}\n")
        self.assertIn("line 1 column 7: found ", line)

    def test_nothing_garbage_and_too_much_are_refused(self):
        for text in ("", "- 1\n", "7\n", b"\xff\xfe\x00", "[" * 5000, "a: " * 3, "x" * (1 << 21)):
            with self.subTest(text=text[:9]):
                self.assertLess(len(self.flavor(text)), 700)

    def test_a_file_of_several_flavors_is_not_one_flavor(self):
        line = self.refused("podm", "schedule", "--inventory", SITE, "--flavor", FLAVORS)
        self.assertEqual(
            f"{FLAVORS}: $: found 8 flavors, expected one "
            "(name the file with --flavor-file and one of its flavors with --flavor)",
            line,
        )

    def test_a_flavor_named_twice_in_a_file_is_refused(self):
        one = "{name: x, properties: {memory: {capacity_mib: 1}}}"
        line = self.flavor(f"flavors:\n- {one}\n- {one}\n")
        self.assertEqual("$.flavors[1].name: found 'x' again, expected a unique name", line)

    def test_a_file_that_is_not_there_is_refused(self):
        for option in ("--flavor-file", "--policy-file"):
            words = ("--inventory", SITE, "--flavor", "small", option, "nowhere.yaml")
            self.assertEqual(
                "nowhere.yaml: found no such file or directory, expected a readable file",
                self.refused("podm", "schedule", *words),
            )

    def test_a_folder_is_no_flavor(self):
        line = self.refused(
            "podm", "schedule", "--inventory", SITE, "--flavor", str(self.folder) + "/"
        )
        self.assertIn("found a directory", line)


class TestPolicies(Bad):
    """Invalid policies and unknown names."""

    def test_an_unknown_filter_weigher_scheduler_or_option_gets_the_nearest_name(self):
        for text, hint in (
            ("filters: [capasity]", "did you mean 'capacity'?"),
            ("weighers: [rooom]", "did you mean 'room'?"),
            ("scheduler: fliter", "did you mean 'filter'?"),
            ("filters: [{name: capacity, options: {hedroom: 1}}]", "did you mean 'headroom'?"),
            ("filters: [{name: capacity, options: {headroom: .nan}}]", "found NaN"),
            ("filters: [{name: capacity, options: {headroom: -1}}]", "expected float >= 0.0"),
            ("weighers: [{name: fragmentation, options: {power: .inf}}]", "expected float <= 2.0"),
            ("weighers: [{name: cost, options: {scale: .inf}}]", "found Infinity"),
            ("weighers: [{name: room, wieght: 2}]", "did you mean 'weight'?"),
            ("unknown: alow", "did you mean 'allow'?"),
        ):
            with self.subTest(text=text):
                self.assertIn(hint, self.policy(f"name: x\n{text}\n"))

    def test_an_option_or_weight_of_the_wrong_kind_is_refused(self):
        for text in (
            "filters: [{name: capacity, options: {headroom: much}}]",
            "weighers: [{name: room, options: {by: rack}}]",
            "weighers: [{name: room, weight: -1}]",
            "weighers: [{name: room, weight: 1001}]",
            "pick: {best_of: 0}",
            "filters: capacity",
        ):
            with self.subTest(text=text):
                self.assertIn("found ", self.policy(f"name: x\n{text}\n"))

    def test_unknown_names_on_the_command_line_get_the_nearest(self):
        site = ("podm", "schedule", "--inventory", SITE)
        for words, hint in (
            (("--flavor", "smal"), "no flavor named 'smal' (did you mean 'small'?)"),
            (
                ("--flavor", "small", "--policy", "pakc"),
                "no policy named 'pakc' (did you mean 'pack'?)",
            ),
            (
                ("--flavor", "small", "--podm", "store-2"),
                "no pod manager named 'store-2' (did you mean 'store-1'?)",
            ),
        ):
            with self.subTest(words=words):
                self.assertEqual(hint, self.refused(*site, *words))
        line = self.refused("scheduler", "policy", "show", "balancd")
        self.assertEqual("no policy named 'balancd' (did you mean 'balanced'?)", line)

    def test_a_file_in_place_of_a_policy_gets_the_option_for_files(self):
        file = self.write("fast.yaml", "name: fast\nweighers: [room]\n")
        told = "it is a file: name it with --policy-file, and one of its policies here"
        hint = f"no policy named {str(file)!r} ({told})"
        workload = ("--workload", str(Path(SITE).with_name("workload.csv")))
        for words in (
            ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--policy", file),
            ("scheduler", "whatif", "run", "--inventory", SITE, *workload, "--policy", file),
            ("scheduler", "policy", "show", file),
        ):
            with self.subTest(words=words[:3]):
                self.assertEqual(hint, self.refused(*words))
        shown = run("valence-sched", "scheduler", "policy", "show", "fast", "--policy-file", file)
        self.assertEqual(0, shown.code, shown.err)

    def test_a_misspelt_choice_gets_the_nearest_and_others_the_choices(self):
        for words, hint in (
            (("podm", "list", "-f", "jsn"), "invalid choice: 'jsn' (did you mean 'json'?); see"),
            (("podm", "list", "-f", "?"), "(known: asciidoc, csv, fancy_grid, github, grid, "),
            (("podm", "create", "a", "http://h", "--auth", "digest"),
             "argument --auth: invalid choice: 'digest' (known: auto, basic, session); see"),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.assertIn(hint, self.refused(*words, code=2))

    def test_a_wish_that_no_filter_of_the_policy_reads_is_refused(self):
        words = ("--inventory", SITE, "--flavor", "small", "--policy", "chance", "--trait", "X")
        self.assertIn(
            "policy 'chance' has no filter 'traits'", self.refused("podm", "schedule", *words)
        )

    def test_a_pod_manager_cannot_be_asked_for_and_excluded(self):
        words = ("--flavor", "small", "--podm", "mem-1", "--exclude-podm", "mem-1")
        line = self.refused("podm", "schedule", "--inventory", SITE, *words)
        self.assertEqual("pod manager 'mem-1' is both requested and excluded", line)

    def test_no_more_nodes_must_be_placed_than_are_asked_for(self):
        words = ("--inventory", SITE, "--flavor", "small", "--count", "2", "--min-count", "3")
        line = self.refused("podm", "schedule", *words, code=2)
        self.assertEqual("--min-count 3 exceeds --count 2", line)

    def test_standard_input_can_be_only_one_thing(self):
        words = ("podm", "schedule", "--inventory", "-", "--flavor", "-")
        self.assertEqual(
            "only one may be standard input (-): --inventory, --flavor",
            self.refused(*words, code=2),
        )

    def test_a_file_is_written_once(self):
        same = str(self.folder / "same")
        words = ("--inventory", SITE, "--flavor", "small", "--report", same)
        for option in ("--html", "--plan"):
            with self.subTest(option):
                line = self.refused("podm", "schedule", *words, option, f"{same}", code=2)
                self.assertIn(f"--report writes {same}, too: name another file", line)
        self.assertFalse((self.folder / "same").exists())

    def test_what_is_read_is_not_written_over(self):
        site = self.folder / "copy.json"
        site.write_bytes(Path(SITE).read_bytes())
        words = ("--inventory", str(site), "--flavor", "small")
        for option in ("--report", "--html", "--plan"):
            with self.subTest(option):
                line = self.refused("podm", "schedule", *words, option, str(site), code=2)
                self.assertEqual(f"{option}: --inventory reads {site}: name another file", line)
        self.assertEqual(Path(SITE).read_bytes(), site.read_bytes())

    def test_a_report_or_file_that_cannot_be_written_is_named(self):
        words = ("--inventory", SITE, "--flavor", "small", "--report", "no/such/folder/report.json")
        self.assertIn("no/such/folder/report.json: found no such file or directory",
                      self.refused("podm", "schedule", *words))  # fmt: skip
        words = ("--inventory", SITE, "--output", str(self.folder / "site.txt"))
        self.assertIn(
            "end it in .json or .jsonl", self.refused("podm", "inventory", "convert", *words)
        )


if __name__ == "__main__":
    unittest.main()
