# SPDX-License-Identifier: Apache-2.0
"""Live pod managers from registration to capture and back, with bad ones among them."""

import json
import os
import stat
from pathlib import Path

from tests.functional.programs import PROGRAMS
from tests.functional.test_live import RACK, TREE, Live
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

TWO = ("gpu-east", "mem-1")


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def uris_of(json_) -> set[str]:
    """Return where all links of a document lead."""
    if isinstance(json_, list):
        return set().union(*map(uris_of, json_))
    if not isinstance(json_, dict):
        return set()
    own = {json_["@odata.id"]} if len(json_) == 1 and "@odata.id" in json_ else set()
    return own.union(*map(uris_of, json_.values()))


class TestRoundTrip(Live):
    """Registered, listed, scheduled, captured, served from the capture, and captured again."""

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
                if source == str(tree):  # a file lacks what Redfish has no word for
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
        broken = {name for name in old if "/sled-2/" in name}  # half a document
        self.assertEqual({"redfish/index.json"} | never | broken, set(old) - set(new))
        self.assertEqual(set(), set(new) - set(old))
        for name in set(new) - {"redfish/v1/index.json"}:  # links what is never recorded
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
    """One down, one hanging, one with bad TLS, one that refuses the login: the good one is read."""

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
            self.reasons(self.told(done.err, "unread"))
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
