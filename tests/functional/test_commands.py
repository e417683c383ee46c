# SPDX-License-Identifier: Apache-2.0
"""All other commands in both programs: formats, columns, help and completion."""

import csv
import importlib.metadata
import io
import json
import re
import tempfile
import unittest
from typing import Any

import yaml

from tests.functional.programs import FLAVORS, PROGRAMS, ROOT, SITE, Case, asked, run

INVENTORY = ("--inventory", SITE)
LISTS = {
    "podm list": INVENTORY,
    "podm schedule": (*INVENTORY, "--flavor", "gpu-large"),
    "podm fit": (*INVENTORY, "--flavor", "gpu-large", "--flavor", "small"),
    "podm block list": (*INVENTORY, "--podm", "mem-1", "--free"),
    "podm pool list": INVENTORY,
    "podm device list": (*INVENTORY, "--model", "A100"),
    "podm flavor list": (),
    "podm flavor validate": (FLAVORS,),
    "podm inventory validate": (SITE,),
    "podm inventory edit": (),  # see setUpModule
    "scheduler check": (*INVENTORY, "examples/check.yaml"),
    "scheduler config show": (),
    "scheduler policy list": (),
    "scheduler policy validate": ("doc/source/examples/policy-minimal.yaml",),
    "scheduler filter list": (),
    "scheduler zone info": (),
    "scheduler zone tree": (),
    "scheduler weigher list": (),
    "scheduler whatif drain": (*INVENTORY, "gpu-west", "--clone", "gpu-west"),
    "scheduler whatif fail": (*INVENTORY, "gpu-east", "--clone", "gpu-east"),
    "scheduler whatif need": (
        *INVENTORY,
        "--flavor",
        "gpu-large",
        "--count",
        "8",
        "--buy",
        "GPU-03@gpu-east",
        "--buy",
        "Compute-02@gpu-east",
        "--buy",
        "NVMe-02@gpu-east",
    ),
    "scheduler whatif run": (*INVENTORY, "--workload", "examples/workload.csv"),
    "scheduler whatif sweep": (*INVENTORY, "--workload", "examples/workload.csv", "--jobs", "1"),
    "scheduler policy tune": (
        *INVENTORY,
        "--workload",
        "examples/workload.csv",
        "--samples",
        "2",
        "--jobs",
        "1",
    ),
}
SHOWS = {
    "podm show": (*INVENTORY, "mem-1"),
    "podm block show": (*INVENTORY, "Host1"),
    "podm flavor show": ("large",),
    "podm inventory convert": (),  # see setUpModule
    "scheduler explain": (),  # see setUpModule
    "scheduler policy show": ("balanced",),
}
#: These commands change the registry, need claims, or may print no rows; they have their own tests.
CHANGES = ("podm block set", "podm block unset",
           "podm create", "podm delete", "podm set", "podm unset", "podm capture", "podm serve",
           "podm inventory diff", "podm node delete", "podm node list", "podm node show",
           "podm node attach", "podm node detach", "podm node history", "podm node resize",
           "podm node set", "podm node unset",
           "podm check", "podm claim compose", "podm claim list", "podm claim show",
           "podm claim release", "podm claim renew",
           "podm claim reap", "podm node list", "podm node show", "podm node delete", "podm apply",
           "podm stats set", "podm stats show", "podm stats unset", "podm serve", "podm watch",
           "podm capture", "podm inventory diff",
           "scheduler audit list", "scheduler quota list", "scheduler quota set",
           "scheduler quota show", "scheduler quota unset",
           "scheduler whatif rebalance", "scheduler zone add", "scheduler zone delete",
           "scheduler zone list", "scheduler zone set", "scheduler zone show")  # fmt: skip
# A word of a heading: capitalised, a unit, or a linking word.
TITLE = re.compile(r"(?:[A-Z][A-Za-z]*|MiB|GPUs|NICs)(?: (?:[A-Z][A-Za-z]*|MiB|GPUs|NICs|of|At))*")


def words_of(command: str) -> tuple[str, ...]:
    """Return a complete command line of a command."""
    last = SHOWS if command in SHOWS else LISTS
    return (*command.split(), *last[command])


def _ageless(rows: Any) -> Any:
    """Return rows, or one row, without ages, which differ between two commands."""
    if isinstance(rows, dict):
        return _ageless([rows])
    return [{name: cell for name, cell in row.items() if name != "Read At"} for row in rows]


def setUpModule():
    """Create a temporary file for commands that write one, and a report for ``explain``."""
    folder = tempfile.TemporaryDirectory(prefix="functional-")
    unittest.addModuleCleanup(folder.cleanup)
    file = f"{folder.name}/converted.jsonl"
    SHOWS["podm inventory convert"] = (*INVENTORY, "--output", file)
    LISTS["podm inventory edit"] = (*INVENTORY, "--drain", "mem-1", "--output", file)
    report = f"{folder.name}/report.json"
    done = run("valence-sched", *words_of("podm schedule"), "--report", report)
    if done.code:
        raise AssertionError(done.err)
    SHOWS["scheduler explain"] = (report,)


UNUSABLE = "free, but not usable: dark-1 (Offline)\n"  # the field of a table of fits


class TestCommands(unittest.TestCase):
    """All commands in both programs."""

    def test_these_tests_know_every_command(self):
        names = importlib.metadata.entry_points(group="openstack.podm.v1").names
        self.assertEqual({*LISTS, *SHOWS, *CHANGES}, {name.replace("_", " ") for name in names})

    def test_every_option_of_a_command_has_a_name_that_its_program_does_not_take(self):
        """A program takes its own options, also abbreviated, wherever they are in the line."""
        from openstackclient.shell import OpenStackShell

        from valence_sched_cli.shell import Shell

        points = importlib.metadata.entry_points(group="openstack.podm.v1")
        parsers = [point.load()(None, None).get_parser(point.name) for point in points]
        for program in (OpenStackShell(), Shell()):
            taken = [name for action in program.parser._actions for name in action.option_strings]
            for action in (action for parser in parsers for action in parser._actions):
                names = [name for name in action.option_strings if name.startswith("--")]
                free = [one for one in names if not any(name.startswith(one) for name in taken)]
                self.assertTrue(free or not names or action.dest == "help", names)

    def test_both_programs_print_the_same_json(self):
        for command in (*LISTS, *SHOWS):
            with self.subTest(command=command):
                ours, theirs = (asked(p, *words_of(command), "-f", "json") for p in PROGRAMS)
                self.assertEqual((0, 0), (ours.code, theirs.code), ours.err)
                self.assertEqual(_ageless(ours.data), _ageless(theirs.data))
                self.assertIsInstance(ours.data, dict if command in SHOWS else list)
                self.assertTrue(ours.data)

    def test_columns_are_in_title_case(self):
        for command in (*LISTS, *SHOWS):
            data = asked("valence-sched", *words_of(command), "-f", "json").data
            for name in data if command in SHOWS else data[0]:
                with self.subTest(command=command, column=name):
                    self.assertRegex(name, f"^{TITLE.pattern}$")

    def test_a_table_never_says_none_or_shows_what_python_would(self):
        for command in (*LISTS, *SHOWS):
            for format_ in ("table", "value"):
                with self.subTest(command=command, format=format_):
                    out = asked("valence-sched", *words_of(command), "-f", format_).out
                    self.assertNotRegex(out, r"\bNone\b|\{'|\['|<[a-z_]+\.")
                    self.assertNotRegex(out, r"\d\.\d+e\+?\d")

    def test_help_of_every_command_says_what_it_is_for(self):
        for command in (*LISTS, *SHOWS, *CHANGES):
            with self.subTest(command=command):
                done = asked("valence-sched", *command.split(), "--help")
                self.assertEqual((0, ""), (done.code, done.err))
                self.assertIn(f"usage: valence-sched {command} [-h]", done.out)
        done = asked("valence-sched", "help", "podm", "schedule")
        self.assertIn("usage: valence-sched podm schedule [-h]", done.out)

    def test_help_in_openstack_names_the_plug_in(self):
        for command in ("podm show", "scheduler policy show"):
            done = asked("openstack", *command.split(), "--help")
            self.assertIn(f"usage: openstack {command} [-h]", done.out)
            self.assertIn("valence-sched plugin", done.out)

    def test_the_words_of_valence_sched_are_listed_in_its_help(self):
        for command in (*LISTS, *SHOWS, *CHANGES):
            noun, _, verb = command.rpartition(" ")
            out = asked("valence-sched", "--help", COLUMNS="200").out
            self.assertRegex(out, rf"\n  {noun} .*\b{verb}\b")

    def test_every_command_can_be_completed_in_a_shell(self):
        done = asked("openstack", "complete")
        self.assertEqual(0, done.code, done.err)
        for command in (*LISTS, *SHOWS, *CHANGES):
            self.assertIn(f"cmds_{command.replace(' ', '_')}='", done.out)
        self.assertIn("--exclude-podm", done.out)

    def test_an_unknown_command_exits_2_and_names_those_that_are_near(self):
        done = asked("valence-sched", "podm", "shedule")
        self.assertEqual((2, ""), done[:2])
        text = "no command named 'podm shedule' (did you mean 'podm schedule'?)\n"
        self.assertEqual(text, done.err)

    def test_no_command_and_no_terminal_exits_2(self):
        done = run("valence-sched")
        self.assertEqual((2, "", "no command: see 'valence-sched --help'\n"), done)

    def test_the_version_is_that_of_the_package(self):
        version = importlib.metadata.version("valence-sched")
        self.assertEqual(f"valence-sched {version}\n", asked("valence-sched", "--version").out)


class TestFormats(unittest.TestCase):
    """All formatters, on lists and on single objects."""

    def formats(self, kind):
        groups = (f"cliff.formatter.{kind}", f"valence_sched.formatter.{kind}")
        return sorted(
            name for group in groups for name in importlib.metadata.entry_points(group=group).names
        )

    def test_every_formatter_prints_a_list(self):
        for format_ in self.formats("list"):
            with self.subTest(format=format_):
                done = asked("valence-sched", "podm", "schedule", *LISTS["podm schedule"],
                             "-f", format_)  # fmt: skip
                self.assertEqual(0, done.code, done.err)
                for text in ("gpu-east", "Compute-02", "row-a", "0.69"):
                    self.assertIn(text, done.out)

    def test_every_formatter_prints_a_single_object(self):
        for format_ in self.formats("show"):
            with self.subTest(format=format_):
                done = asked("valence-sched", *words_of("podm show"), "-f", format_)
                self.assertEqual(0, done.code, done.err)
                text = done.out.replace("\\", "").replace("&#95;", "_")
                for word in ("CXL memory pod", "5767168", "mem-1"):
                    self.assertIn(word, text)

    def test_no_other_command_of_openstack_has_them(self):
        for words in (("flavor", "list"), ("flavor", "show"), ("token", "issue")):
            with self.subTest(words):
                text = asked("openstack", *words, "--help").out
                self.assertIn("--format", text)
                self.assertNotIn("markdown", text)
        self.assertIn("markdown", asked("openstack", "podm", "list", "--help-all").out)

    def test_openstack_has_the_styles_of_tabulate_too(self):
        done = asked("openstack", *words_of("scheduler policy list"), "-f", "markdown")
        self.assertTrue(done.out.startswith("| Name"), done)

    def test_in_json_and_yaml_numbers_are_numbers_and_structures_are_structures(self):
        done = asked("valence-sched", *words_of("podm show"), "-f", "json")
        shown = done.data
        self.assertEqual(224 * 1024, shown["Free Memory MiB"])
        self.assertEqual({"fabric": ["cxl", "ethernet"], "os": ["linux"]}, shown["Capabilities"])
        self.assertEqual({"cxl_memory_mib": 5767168.0}, shown["Free Stocks"])
        self.assertEqual(["drawer-1", "drawer-2"], [pool["pool"] for pool in shown["Pools"]])
        self.assertEqual(5, shown["Pools"][0]["free_blocks"])
        self.assertIs(True, shown["Enabled"])
        text = asked("valence-sched", *words_of("podm show"), "-f", "yaml").out
        self.assertEqual(shown, yaml.safe_load(text))

    def test_needs_and_options_are_structures_too(self):
        flavor = asked("valence-sched", *words_of("podm flavor show"), "-f", "json").data
        self.assertEqual(
            {"kind": "processor", "measure": "cores", "amount": 32}, flavor["Needs"][0]
        )
        self.assertEqual({"total_cores": 32}, flavor["Properties"]["processor"])
        filters = asked("valence-sched", "scheduler", "filter", "list", "-f", "json").data
        self.assertIn({"headroom": 0.0}, [row["Options"] for row in filters])
        policy = asked("valence-sched", *words_of("scheduler policy show"), "-f", "json").data
        self.assertIn({"name": "balance", "weight": 0.4}, policy["Weighers"])

    def test_in_csv_a_structure_is_json_and_nothing_is_empty(self):
        out = asked("valence-sched", *words_of("podm schedule"), "-f", "csv").out
        (first,) = csv.DictReader(io.StringIO(out))
        self.assertEqual(("1", "0.695767"), (first["Node"], first["Score"]))
        self.assertEqual(3, len(json.loads(first["Blocks"])))
        self.assertEqual("[]", first["Amounts"])

    def test_a_single_value_can_be_taken_into_a_shell_variable(self):
        words = ("-f", "value", "-c", "Free Cores", "-c", "Zone")
        self.assertEqual("64\neast-1\n", asked("valence-sched", *words_of("podm show"), *words).out)
        words = ("-f", "shell", "-c", "Free Stocks", "-c", "URL")
        shown = asked("valence-sched", *words_of("podm show"), *words).out
        self.assertIn('free_stocks="{\\"cxl_memory_mib\\": 5767168.0}"', shown)

    def test_every_list_can_be_sorted_by_every_column_and_cut_to_some(self):
        for command in LISTS:
            data = asked("valence-sched", *words_of(command), "-f", "json").data
            names = list(data[0])
            by_all = [word for name in reversed(names) for word in ("--sort-column", name)]
            with self.subTest(command=command):
                done = asked("valence-sched", *words_of(command), *by_all, "-c", names[0],
                             "-f", "json")  # fmt: skip
                self.assertEqual(0, done.code, done.err)
                self.assertNotIn("Could not sort", done.err)
                self.assertEqual([[names[0]]] * len(data), [list(row) for row in done.data])

    def test_sorting_puts_what_is_unknown_last(self):
        words = ("podm", "device", "list", *INVENTORY, "-f", "json", "--sort-column", "model")
        found = [row["Model"] for row in asked("valence-sched", *words, "-c", "model").data]
        unknown = found.count(None)
        self.assertGreater(unknown, 0)
        self.assertEqual([None] * unknown, found[-unknown:])

    def test_a_column_that_is_not_there_exits_2_and_says_which_are(self):
        for columns in (("-c", "Nonsense"), ("-c", "Podm", "-c", "Nonsense")):
            done = asked("valence-sched", *words_of("podm list"), *columns)
            self.assertEqual((2, ""), (done.code, done.out))
            self.assertRegex(done.err, r"no column named 'Nonsense' \(did you mean 'Nodes'\?\)")


class TestOptions(Case):
    """Options of single commands."""

    def data(self, *words):
        done = asked("valence-sched", *words, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return done.data

    def test_podms_are_listed_by_zone_and_status(self):
        found = self.data("podm", "list", *INVENTORY, "--zone", "west-1")
        self.assertEqual(["gpu-west", "store-1", "full-1"], [row["Podm"] for row in found])
        found = self.data("podm", "list", *INVENTORY, "--status", "Offline")
        self.assertEqual(["dark-1"], [row["Podm"] for row in found])

    def test_long_and_capabilities_add_columns(self):
        short = self.data("podm", "list", *INVENTORY)[0]
        long = self.data("podm", "list", *INVENTORY, "--long", "--capabilities")[0]
        self.assertLess(set(short), set(long))
        self.assertEqual({"fabric": ["ib"], "os": ["linux", "windows"]}, long["Capabilities"])
        self.assertEqual(["E07", "E08", "E09"], long["Facts"]["racks"])
        for command in ("podm flavor list", "scheduler policy list", "scheduler filter list"):
            short, long = (self.data(*command.split(), *more) for more in ((), ("--long",)))
            self.assertLess(set(short[0]), set(long[0]))

    def test_a_podm_is_shown_by_name_too(self):
        by_id, by_name = (
            self.data("podm", "show", *INVENTORY, word) for word in ("mem-1", "CXL memory pod")
        )
        self.assertEqual(by_id, by_name)

    def test_an_unknown_podm_gets_the_nearest_id(self):
        done = asked("valence-sched", "podm", "show", *INVENTORY, "gpu-eas")
        self.assertEqual(1, done.code)
        self.assertEqual("no pod manager named 'gpu-eas' (did you mean 'gpu-east'?)\n", done.err)

    def test_fit_counts_what_scheduling_would_place(self):
        rows = self.data("podm", "fit", *INVENTORY, "--flavor", "gpu-large")
        counts = {row["Podm"]: row["Nodes"] for row in rows}
        self.assertEqual((3, 1, 4), (counts["gpu-east"], counts["gpu-north"], counts["total"]))
        placed = asked("valence-sched", "podm", "schedule", *INVENTORY, "--flavor", "gpu-large",
                       "--count", "9", "--min-count", "1", "-f", "json")  # fmt: skip
        chosen = [row for row in placed.data if row["Rank"] == 1]
        self.assertEqual(counts["total"], len(chosen))

    def test_a_table_of_fits_is_a_matrix_and_what_is_required_decides_the_exit_code(self):
        words = ("podm", "fit", *INVENTORY, "--flavor", "small")
        for required, code, told in (
            ("gpu-large=4", 0, UNUSABLE),
            ("gpu-large=5", 3, f"gpu-large fits 4 times, but 5 are required\n{UNUSABLE}"),
        ):
            with self.subTest(required):
                done = run("valence-sched", *words, "--require", required, COLUMNS="80")
                self.assertEqual((code, told), (done.code, done.err))
                rows = [line.split("|")[1:-1] for line in done.out.splitlines() if "|" in line]
                self.assertEqual("Flavor", rows[0][0].strip())
                self.assertEqual(["small", "gpu-large"], [row[0].strip() for row in rows[1:]])
                self.assertEqual(["24", "4"], [row[-1].strip() for row in rows[1:]])
                self.assertLess(len(done.out.splitlines()[0]), 80)

    def test_fit_says_when_it_stopped_counting(self):
        done = asked(
            "valence-sched", "podm", "fit", *INVENTORY, "--flavor", "small", "--limit", "2"
        )
        told = f"stopped counting at 2 per pod manager: see --limit\n{UNUSABLE}"
        self.assertEqual((0, told), done[::2])

    def test_fit_exits_3_when_nothing_fits(self):
        done = asked("valence-sched", "podm", "fit", *INVENTORY, "--flavor", "small",
                     "--podm", "full-1")  # fmt: skip
        self.assertEqual(3, done.code)

    def test_what_convert_writes_is_read_again_in_every_form(self):
        before = _ageless(self.data("podm", "list", *INVENTORY, "--long", "--capabilities"))
        for name in ("a.json", "a.jsonl", "a.json.gz", "a.jsonl.gz", "a.json.zst", "a.jsonl.zst"):
            with self.subTest(name=name):
                file = str(self.folder / name)
                shown = self.data("podm", "inventory", "convert", *INVENTORY, "--output", file)
                self.assertEqual({"File": file, "Podms": 8, "Blocks": 203}, shown)
                again = run("valence-sched", "podm", "list", "--inventory", file, "--long",
                            "--capabilities", "-f", "json")  # fmt: skip
                self.assertEqual(0, again.code, again.err)
                self.assertEqual(before, _ageless(again.data))

    def test_a_recorded_tree_is_converted_too(self):
        file = str(self.folder / "tree.jsonl")
        tree = str(ROOT / "tests" / "recorded" / "rack-mockup")
        shown = self.data("podm", "inventory", "convert", "--inventory", tree, "--output", file)
        self.assertEqual(1, shown["Podms"])
        before, after = (
            self.data("podm", "list", "--inventory", source, "--long") for source in (tree, file)
        )
        self.assertEqual(before, after)

    def test_validation_says_what_is_in_each_source(self):
        tree = str(ROOT / "tests" / "recorded" / "rack-mockup")
        first, second = self.data("podm", "inventory", "validate", SITE, tree, "--long")
        self.assertEqual((True, 8, 16, 203), tuple(first[n] for n in list(first)[1:5]))
        self.assertEqual(([], None, []), (first["Skipped"], first["Error"], first["Remarks"]))
        self.assertIs(True, second["Valid"])

    def test_validation_of_flavors_and_policies_exits_1_for_one_bad_file(self):
        bad = self.write("bad.yaml", "name: x\nproperties: {memry: {capacity_mib: 1}}\n")
        done = asked("valence-sched", "podm", "flavor", "validate", FLAVORS, bad, "-f", "json")
        self.assertEqual(1, done.code)
        self.assertEqual([True, False], [row["Valid"] for row in done.data])
        self.assertIn("did you mean 'memory'?", done.data[1]["Error"])
        bad = self.write("policy.yaml", "name: x\nfilters: [capasity]\n")
        done = asked("valence-sched", "scheduler", "policy", "validate", bad, "-f", "json")
        self.assertEqual(1, done.code)
        self.assertIn("did you mean 'capacity'?", done.data[0]["Error"])

    def test_a_persons_own_flavors_and_policies_are_found(self):
        self.write(
            "valence-sched/flavors.yaml", "name: mine\nproperties: {memory: {capacity_mib: 1}}\n"
        )
        self.write("valence-sched/policies.yaml", "name: mine\nweighers: [room]\n")
        home = {"XDG_CONFIG_HOME": str(self.folder)}
        for words in (("podm", "flavor"), ("scheduler", "policy")):
            done = run("valence-sched", *words, "list", "-f", "json", **home)
            self.assertIn("mine", [row["Name"] for row in done.data])


if __name__ == "__main__":
    unittest.main()
