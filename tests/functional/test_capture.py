# SPDX-License-Identifier: Apache-2.0
"""``podm capture`` and ``podm inventory diff``, as users and scripts run them."""

import json
import os
import stat
from pathlib import Path

from tests.functional.programs import PROGRAMS, SITE, Case, run
from tests.functional.test_live import RACK, TREE, Live
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

KEY = "a key that nobody guesses"


class TestCapture(Case):
    def test_a_captured_inventory_has_no_difference_from_its_source(self):
        for program in PROGRAMS:
            file = str(self.folder / f"{program}.jsonl.gz")
            done = run(program, "podm", "capture", "--inventory", SITE, "-o", file, "-f", "json")
            self.assertEqual((0, ""), (done.code, done.err))
            self.assertEqual({"File": file, "Podms": 8, "Blocks": 203, "Failed": {}}, done.data)
            done = run(program, "podm", "inventory", "diff", SITE, file, "--detailed-exitcode")
            self.assertEqual((0, "", "no difference\n"), done)

    def test_a_tree_has_the_blocks_of_its_source(self):
        tree = str(self.folder / "tree")
        done = run("valence-sched", "podm", "capture", "--inventory", SITE, "--tree", tree,
                   "-f", "json")  # fmt: skip
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertEqual((8, 203), (done.data["Podms"], done.data["Blocks"]))
        self.assertTrue(os.path.isfile(f"{tree}/gpu-east/redfish/v1/index.json"))
        done = run("valence-sched", "podm", "inventory", "diff", SITE, tree, "-f", "json")
        told = {(row["Kind"], row["Change"]) for row in done.data}
        self.assertFalse(told & {("block", "added"), ("block", "removed"), ("block", "state")})
        self.assertFalse({row["Change"] for row in done.data if row["Kind"] == "node"}
                         - {"owner", "group"})  # fmt: skip

    def test_a_folder_that_is_there_is_not_replaced(self):
        self.write("full/mine", "x")
        full = str(self.folder / "full")
        done = run("valence-sched", "podm", "capture", "--inventory", SITE, "--tree", full)
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertEqual(1, done.err.count("\n"))
        self.assertIn("name a new folder", done.err)
        self.assertEqual(["mine"], os.listdir(full))

    def test_only_those_that_are_named_are_captured(self):
        file = str(self.folder / "two.json")
        words = ("podm", "capture", "mem-1", "gpu-east", "--inventory", SITE, "-o", file)
        self.assertEqual(2, run("valence-sched", *words, "-f", "json").data["Podms"])
        done = run("valence-sched", "podm", "capture", "gpu-eats", "--inventory", SITE, "-o", file)
        self.assertEqual(1, done.code)
        self.assertIn("did you mean 'gpu-east'?", done.err)

    def test_a_capture_under_one_key_is_the_same_each_time(self):
        files = [str(self.folder / f"{number}.json") for number in range(3)]
        for file, key in zip(files, (KEY, KEY, KEY[::-1]), strict=True):
            done = run("valence-sched", "podm", "capture", "--inventory", SITE, "-o", file,
                       "--anonymize-key-env", "ALIASES", ALIASES=key)  # fmt: skip
            self.assertEqual(0, done.code, done)
        first, second, third = ((self.folder / f"{n}.json").read_bytes() for n in range(3))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        for name in (b"east", b"example.org", b"Northwind", KEY.encode()):
            self.assertNotIn(name, first)

    def test_words_that_contradict_each_other_are_refused(self):
        file = str(self.folder / "never.json")
        for words, code, told in (
            (("-o", file), 2, "give --all"),
            (("a", "--all", "-o", file), 2, "not both"),
            (("--all",), 2, "--output"),
            (("--all", "-o", file, "--tree", "x"), 2, "not allowed with"),
            (("--inventory", SITE, "-o", str(self.folder / "x.txt")), 1, "end it in .json"),
            (("--inventory", SITE, "-o", file, "--anonymize-key-env", "NOPE"), 1, "found nothing"),
            (("--inventory", SITE, "-o", file, "--anonymize-key-env", "HOME"), 1, "at least 16"),
        ):
            with self.subTest(words=words):
                done = run("valence-sched", "podm", "capture", *words, HOME="/x")
                self.assertEqual((code, ""), (done.code, done.out), done)
                self.assertIn(told, done.err)
        self.assertFalse(os.path.exists(file))

    def test_what_had_to_be_skipped_is_told_and_strict_about(self):
        broken = self.write("broken.jsonl", b'{"schema":"valence-sched/inventory"}\n'
                            b'{"id":"a"}\n{"id":1}\n')  # fmt: skip
        for words, code in (((), 0), (("--strict",), 5)):
            file = str(self.folder / f"sound{code}.json")
            done = run(
                "valence-sched", "podm", "capture", "--inventory", broken, "-o", file, *words
            )
            self.assertEqual(code, done.code, done)
            self.assertIn("skipped: ", done.err)
            self.assertEqual(
                ["a"], [one["id"] for one in json.loads(Path(file).read_bytes())["podms"]]
            )


class TestDiff(Case):
    def changed(self) -> str:
        site = json.loads(Path(SITE).read_bytes())
        podms = {podm["id"]: podm for podm in site["podms"]}
        east = podms["gpu-east"]
        east["blocks"][1]["status"] = {"state": "Composed", "health": "OK"}
        del east["blocks"][2]
        east["zone"] = "east-2"
        site["podms"].remove(podms["mem-1"])
        return self.write("changed.json", json.dumps(site))

    def test_rows_say_what_came_went_and_changed(self):
        new = self.changed()
        for program in PROGRAMS:
            done = run(program, "podm", "inventory", "diff", SITE, new, "-f", "json")
            self.assertEqual((0, ""), (done.code, done.err))
            rows = [tuple(row.values()) for row in done.data]
            block = "/redfish/v1/CompositionService/ResourceBlocks/Compute-0"
            self.assertEqual(("gpu-east", "podm", "gpu-east", "zone", "east-1", "east-2"), rows[0])
            self.assertEqual(
                ("gpu-east", "block", f"{block}2", "state", "Unused", "Composed"), rows[1]
            )
            self.assertEqual(("gpu-east", "block", f"{block}3", "removed"), rows[2][:4])
            self.assertEqual(("Compute", None), (rows[2][4]["type"][0], rows[2][5]))
            self.assertEqual(("mem-1", "podm", "mem-1", "removed"), rows[3][:4])
            self.assertEqual(4, len(rows))

    def test_the_exit_code_tells_a_difference_if_asked(self):
        new = self.changed()
        for words, code in (((), 0), (("--detailed-exitcode",), 10)):
            for format_ in ("table", "json", "csv", "value"):
                done = run("valence-sched", "podm", "inventory", "diff", SITE, new, *words,
                           "-f", format_)  # fmt: skip
                self.assertEqual((code, ""), (done.code, done.err))
                self.assertIn("Compute-02", done.out)

    def test_standard_input_may_be_one_of_them(self):
        data = Path(SITE).read_bytes()
        words = ("podm", "inventory", "diff")
        for pair in (("-", SITE), (SITE, "-")):
            done = run("valence-sched", *words, *pair, stdin=data)
            self.assertEqual((0, "", "no difference\n"), done)
        done = run("valence-sched", *words, "-", "-", stdin=data)
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("only one may be standard input", done.err)

    def test_no_difference_is_an_empty_list_for_a_program(self):
        done = run("valence-sched", "podm", "inventory", "diff", SITE, SITE, "-f", "json")
        self.assertEqual((0, [], "no difference\n"), (done.code, done.data, done.err))

    def test_what_cannot_be_read_is_told_and_no_difference_is_claimed(self):
        for file in ("/nowhere.json", self.write("empty.json", b""), self.write("odd.json", "{}")):
            for pair in ((SITE, file), (file, SITE)):
                done = run("valence-sched", "podm", "inventory", "diff", *pair)
                self.assertEqual((1, ""), (done.code, done.out), done)
                self.assertNotIn("no difference", done.err)


TWO = ("gpu-east", "mem-1")


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def uris_of(json_) -> set[str]:
    """Return the targets of all links of a document."""
    if isinstance(json_, list):
        return set().union(*map(uris_of, json_))
    if not isinstance(json_, dict):
        return set()
    own = {json_["@odata.id"]} if len(json_) == 1 and "@odata.id" in json_ else set()
    return own.union(*map(uris_of, json_.values()))


class TestRoundTrip(Live):
    """A site is registered, listed, scheduled, captured, served from it, and captured again."""

    def capture(self, *words: str, program: str = "valence-sched") -> dict:
        return self.podm("capture", *words, "-f", "json", program=program).data

    def test_a_capture_says_what_was_scheduled_on_and_what_changed_later(self):
        found = {name: one for name, one in self.serve().items() if name in TWO}
        self.register(found)
        live = self.podm("schedule", "--flavor", "gpu-large", "-f", "json").data
        for program in PROGRAMS:
            file = str(self.folder / f"{program}.json")
            told = self.capture("--all", "-o", file, program=program)
            self.assertEqual(({}, 2, 59), (told["Failed"], told["Podms"], told["Blocks"]))
            later = self.podm(
                "schedule", "--flavor", "gpu-large", "--inventory", file, "-f", "json"
            )
            self.assertEqual(live, later.data)
        (uri,) = [uri for uri in found["mem-1"].documents if uri.endswith("ResourceBlocks/Host2")]
        block = dict(found["mem-1"].documents.get(uri))
        found["mem-1"].documents.put(uri, block | {"CompositionStatus": {}})
        now = str(self.folder / "now.json")
        self.capture("--all", "-o", now)
        done = self.podm(
            "inventory", "diff", file, now, "--detailed-exitcode", "-f", "json", code=10
        )
        self.assertIn(("mem-1", "block", uri),
                      {(row["Podm"], row["Kind"], row["Name"]) for row in done.data})  # fmt: skip
        self.assertEqual({"mem-1"}, {row["Podm"] for row in done.data})
        self.assertEqual(0, sum(one.open_sessions for one in found.values()))

    def test_a_capture_that_is_served_is_captured_as_itself(self):
        found = {name: one for name, one in self.serve().items() if name in TWO}
        self.register(found)
        tree, file = self.folder / "tree", str(self.folder / "all.json")
        self.capture(*TWO, "--tree", str(tree))
        self.capture("--all", "-o", file)
        for source in (str(tree), file):
            with self.subTest(source), served(source) as again:
                named = self.file(self.urls(again))
                second = self.folder / f"{Path(source).name}.tree"
                self.capture("--podm-file", named, "--tree", str(second))
                old, new = files_of(tree), files_of(second)
                self.assertEqual(set(old), set(new))
                if source == str(tree):  # Redfish has no property for some facts of a file
                    self.assertEqual([], [name for name in old if old[name] != new[name]])
                third = str(self.folder / f"{Path(source).name}.json")
                self.capture("--podm-file", named, "-o", third)
                rows = self.podm("inventory", "diff", file, third, "-f", "json").data
                self.assertEqual({"url"}, {row["Change"] for row in rows})

    def test_a_tree_of_a_recorded_tree_has_the_documents_that_were_recorded(self):
        copy = self.folder / "copy"
        self.capture("--inventory", TREE, "--tree", str(copy))
        old, new = files_of(Path(TREE)), files_of(copy / RACK)
        never = {name for name in old if "Session" in name or "Account" in name}
        broken = {name for name in old if "/sled-2/" in name}  # an incomplete document
        self.assertEqual({"redfish/index.json"} | never | broken, set(old) - set(new))
        self.assertEqual(set(), set(new) - set(old))
        for name in set(new) - {"redfish/v1/index.json"}:  # links that are never recorded
            with self.subTest(name):
                self.assertEqual(json.loads(old[name]), json.loads(new[name]))

    def test_no_link_of_a_captured_tree_leads_to_what_is_never_recorded(self):
        for words in ((), ("--anonymize",)):
            file = self.file({"mem-1": self.serve()["mem-1"].url})
            tree = self.folder / f"tree{len(words)}"
            self.capture("--podm-file", file, "--tree", str(tree), *words)
            links = set().union(*(uris_of(json.loads(one)) for one in files_of(tree).values()))
            self.assertTrue(links)
            self.assertEqual(set(), {uri for uri in links if "Session" in uri or "Account" in uri})
            self.podm("list", "--inventory", str(tree), "--strict")

    def test_anonymous_captures_name_nobody_and_fit_the_same(self):
        file = self.file({name: one.url for name, one in self.serve().items() if name in TWO})
        tree, output = self.folder / "anonymous", self.folder / "anonymous.json"
        self.capture("--podm-file", file, "--tree", str(tree), "--anonymize")
        self.capture("--podm-file", file, "-o", str(output), "--anonymize")
        written = b"".join([output.read_bytes(), *map(str.encode, files_of(tree)),
                            *files_of(tree).values()])  # fmt: skip
        for name in (b"gpu-east", b"mem-1", b"127.0.0.1", b"Compute-02", b"row-a"):
            self.assertNotIn(name, written)
        words = ("fit", "--flavor", "gpu-large", "-f", "json")
        fits = [
            sorted(row["Nodes"] for row in self.podm(*words, *source).data)
            for source in (("--podm-file", file), ("--inventory", str(tree)),
                           ("--inventory", str(output)))
        ]  # fmt: skip
        self.assertEqual([fits[0]] * 3, fits)


class TestBadCompany(Live):
    """One pod manager is down, one hangs, one has bad TLS, one refuses the login; one is read."""

    def setUp(self):
        super().setUp()
        login = SimulatorSettings(login=Account("op", "word"))
        good = self.serve()["mem-1"]
        hang = self.open(TREE, fail=["hang:*"])[RACK].url
        locked = self.open(TREE, settings=login)[RACK]
        down = self.open(TREE, fail=["refuse"])[RACK].url
        self.locked = locked
        self.bad = {
            "down": ("Offline", "connection refused"),
            "hanging": ("Offline", "no complete answer within 2 s"),
            "locked": ("Unknown", "refused the login of 'op'"),
            "tls": ("Offline", "TLS: "),
        }
        urls = {
            "good": {"url": good.url},
            "down": {"url": down},
            "hanging": {"url": hang},
            "locked": {"url": locked.url, "username": "op", "password": {"env": "WRONG"}},
            "tls": {"url": good.url.replace("http:", "https:")},
        }
        self.podms = self.write("company.yaml", json.dumps({"podms": urls}))
        self.live = ("--podm-file", self.podms, "--request-timeout", "2")

    def open(self, *sources: str, **options):
        manager = served(*sources, **options)
        found = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return found

    def told(self, err: str, word: str) -> dict[str, str]:
        lines = [line.split(": ", 2) for line in err.splitlines() if line.startswith(f"{word}: ")]
        return {name: why for _, name, why in lines}

    def reasons(self, told: dict[str, str]) -> None:
        self.assertEqual(set(self.bad), set(told))
        for name, (_, why) in self.bad.items():
            self.assertIn(why, told[name])

    def test_it_is_listed_and_each_bad_one_named_with_its_reason(self):
        for program in PROGRAMS:
            done = self.podm("list", *self.live, "-f", "json", program=program, WRONG="guess")
            self.assertEqual({"good": "Online"} | {name: bad[0] for name, bad in self.bad.items()},
                             {row["Podm"]: row["Status"] for row in done.data})  # fmt: skip
            self.reasons(self.told(done.err, "not read"))
            self.assertNotIn("guess", done.err)
            done = self.podm("list", *self.live, "--strict", program=program, WRONG="guess", code=5)
            self.assertEqual("", done.out)
            self.assertIn("and 3 more", done.err)
        self.assertEqual(0, self.locked.open_sessions)

    def test_it_is_scheduled_and_the_report_says_who_was_not_heard(self):
        report = self.folder / "report.json"
        done = self.podm("schedule", "--flavor", "medium", *self.live, "--report", str(report),
                         "--max-age", "1m", "-f", "json", WRONG="guess")  # fmt: skip
        self.assertEqual("good", done.data[0]["Podm"])
        skipped = json.loads(report.read_bytes())["inventory"]["skipped"]
        self.reasons(dict(line.split(": ", 1) for line in skipped))

    def test_it_is_captured_and_the_bad_ones_keep_their_place_without_a_tree(self):
        file, tree = self.folder / "x.json", self.folder / "x"
        for words, code in ((("-o", str(file)), 0), (("--tree", str(tree), "--strict"), 5)):
            done = self.podm("capture", "--all", *self.live, *words, "-f", "json", code=code,
                             WRONG="guess")  # fmt: skip
            self.reasons(done.data["Failed"])
            self.reasons(self.told(done.err, "failed"))
        podms = json.loads(file.read_bytes())["podms"]
        status = {one["id"]: one.get("status", "Online") for one in podms}
        self.assertEqual(
            {"good": "Online"} | {name: bad[0] for name, bad in self.bad.items()}, status
        )
        self.assertEqual(["good"], os.listdir(tree))
        self.assertFalse(stat.S_IMODE(tree.stat().st_mode) & 0o022)

    def test_nobody_who_can_be_read_is_one_line_and_no_folder(self):
        tree = self.folder / "none"
        done = self.podm("capture", "down", "tls", *self.live, "--tree", str(tree), code=1)
        self.assertEqual(1, done.err.count("\n"), done.err)
        self.assertIn("no pod manager could be read: down: ", done.err)
        self.assertFalse(tree.exists())
