# SPDX-License-Identifier: Apache-2.0
"""The documentation matches the programs: every example is run.

After an intended change, run ``python -m tests.functional.renew_golden`` and review the difference.
"""

import ast
import contextlib
import io
import itertools
import json
import re
import shlex
import unittest
import xml.etree.ElementTree as ElementTree
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import yaml

import valence_sched
from tests.functional.programs import ROOT, SITE, Done, asked
from tests.functional.renew_golden import EXAMPLES, README, SCREEN, replayed, screen, transcripts
from valence_sched import errors
from valence_sched.core import plugins
from valence_sched.model.dispatch import Receipt
from valence_sched.model.need import NodeRequest
from valence_sched.model.reading import Sign
from valence_sched.model.request_spec import Place, Resolver
from valence_sched.model.scenario import EDITS

DOC = ROOT / "doc" / "source"
PAGES = sorted(DOC.rglob("*.rst"))
COMMANDS = entry_points(group="openstack.podm.v1")
#: A command in a literal block of a page.
COMMAND_LINE = re.compile(
    r"^ {2,}(?:[$#] )?(?:\w+=\S+ )*(?:valence-sched|openstack) ((?:podm|scheduler) [a-z].*)", re.M
)
INCLUDED = re.compile(r"literalinclude:: /(examples/\S+)")
DATA = ROOT / "valence_sched" / "data"
NEAR = ("--near-map", str(EXAMPLES / "near.yaml"))
SURROUNDINGS = (*NEAR, "--resource-file", str(EXAMPLES / "resources.yaml"))
CARDS = ROOT / "examples" / "policy-cards.yaml"
#: Flavor files that are placed on their own inventory.
INVENTORIES = {"flavors-places.yaml": str(EXAMPLES / "places.json")}


def named(pattern: str) -> list[Path]:
    return sorted(EXAMPLES.glob(pattern))


def warnings(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("warning:")]


class TestExamples(unittest.TestCase):
    """Every file below ``doc/source/examples`` is used."""

    maxDiff = None

    def test_every_transcript_is_what_its_commands_print(self):
        self.assertTrue(transcripts())
        for path in transcripts():
            with self.subTest(path=path.name):
                self.assertEqual(path.read_text(), replayed(path.read_text()))

    def test_each_screen_in_the_readme_is_what_its_command_prints(self):
        screens = list(SCREEN.finditer(README.read_text()))
        self.assertEqual(2, len(screens))
        for found in screens:
            with self.subTest(found[1]):
                self.assertEqual(screen(found[1]), found[0])

    def test_every_line_of_the_readme_is_narrow(self):
        self.assertEqual([], [line for line in README.read_text().splitlines() if len(line) > 80])

    def test_every_command_has_an_example_that_its_parser_takes(self):
        lines = (DOC / "reference" / "commands.txt").read_text().splitlines()
        shown = {self.parse(line.removeprefix("$ valence-sched ")) for line in lines}
        self.assertEqual({point.name for point in COMMANDS}, shown)

    def test_every_command_on_a_page_is_one_that_its_parser_takes(self):
        lines = [
            (page.name, line)
            for page in (README, *PAGES)
            for line in COMMAND_LINE.findall(re.sub(r"\\\n +", " ", page.read_text()))
        ]
        self.assertGreater(len(lines), 50)
        for page, line in lines:
            with self.subTest(page=page, line=line):
                self.parse(line)

    def parse(self, line: str) -> str:
        """Return the name of the command of a shell line; its parser must accept the line."""
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command = list(itertools.takewhile(lambda word: set(word) - set("|&;()<>"), words))
        name = next(name for n in (3, 2) if (name := "_".join(command[:n])) in COMMANDS.names)
        parser = COMMANDS[name].load()(None, None).get_parser(name)
        with contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                parser.parse_args(command[name.count("_") + 1 :])
            except SystemExit:
                self.fail(err.getvalue())
        return name

    def test_every_picture_says_what_it_shows_and_has_colours_for_the_dark(self):
        pictures = sorted((DOC / "pictures").glob("*.svg"))
        self.assertGreater(len(pictures), 4)
        shown = "".join(page.read_text() for page in PAGES)
        for path in pictures:
            with self.subTest(path=path.name):
                root = ElementTree.parse(path).getroot()
                named = {one.get("id"): one.text for one in root if one.get("id")}
                self.assertEqual("title desc", root.get("aria-labelledby"))
                self.assertTrue(named["title"] and named["desc"])
                self.assertIn("prefers-color-scheme: dark", path.read_text())
                self.assertIn(f"image:: /pictures/{path.name}\n   :alt: ", shown)

    def test_every_schema_is_on_the_page_of_files(self):
        page = (DOC / "reference" / "files.rst").read_text()
        for path in DATA.glob("*.schema.json"):
            with self.subTest(path=path.name):
                self.assertIn(f"``{path.name}``", page)

    def test_every_public_name_is_on_the_page_of_the_python_api(self):
        page = (DOC / "reference" / "python-api.rst").read_text()
        pattern = r"^\.\. (?:autoclass|autofunction|py:data):: (\w+)$"
        self.assertEqual(valence_sched.__all__, sorted(re.findall(pattern, page, re.MULTILINE)))

    def test_every_message_to_look_up_is_one_of_the_code(self):
        code = "\n".join(
            node.value
            for package in ("valence_sched", "valence_sched_cli")
            for path in (ROOT / package).rglob("*.py")
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        page = (DOC / "howto" / "troubleshooting.rst").read_text()
        cells = re.findall(r"^   \* - (``.+)$", page, re.MULTILINE)
        self.assertGreater(len(cells), 20)
        for message in re.findall(r"``(.+?)``", "\n".join(cells)):
            for part in filter(None, map(str.strip, message.split("…"))):
                with self.subTest(message=message):
                    self.assertIn(part.removesuffix(":"), code)

    def test_every_error_has_its_exit_code_on_the_page(self):
        page = (DOC / "reference" / "exit-codes.rst").read_text()
        for error in vars(errors).values():
            if isinstance(error, type) and issubclass(error, errors.SchedulerError):
                with self.subTest(error=error.__name__):
                    self.assertIn(f"   * - {error.exit_code}\n", page)

    def test_every_flavor_is_placed_on_the_example_site(self):
        files = named("flavor-*")
        self.assertGreater(len(files), 8)
        for path in files:
            with self.subTest(path=path.name):
                words = (*SURROUNDINGS, "--inventory", SITE, "--flavor", str(path))
                done = asked("valence-sched", "podm", "schedule", *words, "-f", "json")
                self.assertEqual((0, []), (done.code, warnings(done)), done)

    def test_every_flavor_of_a_list_is_known_by_name_and_placed(self):
        fails = {"triple": 3}  # its page shows the reason
        for path in named("flavors-*"):
            site = INVENTORIES.get(path.name, SITE)
            for flavor in yaml.safe_load(path.read_text())["flavors"]:
                with self.subTest(path=path.name, name=flavor["name"]):
                    words = ("--inventory", site, "--flavor-file", str(path))
                    done = asked("valence-sched", "podm", "schedule", *words,
                                 "--flavor", flavor["name"], "-f", "json")  # fmt: skip
                    code = fails.get(flavor["name"], 0)
                    self.assertEqual((code, []), (done.code, warnings(done)), done)

    def test_every_request_file_is_placed_on_the_example_site(self):
        most = "warning: no placement has more than 4 of the 5 nodes"
        fails = {"request-too-many.yaml": (3, [most])}  # its page shows the reason
        files = named("request*.yaml")
        self.assertGreater(len(files), 2)
        for path in files:
            with self.subTest(path=path.name):
                words = ("--inventory", SITE, *NEAR, "--request-file", str(path))
                done = asked("valence-sched", "podm", "schedule", *words, "-f", "json")
                expected = fails.get(path.name, (0, []))
                self.assertEqual(expected, (done.code, warnings(done)), done)

    def test_one_request_file_shows_every_field(self):
        schema = json.loads((DATA / "requests.schema.json").read_bytes())["$defs"]
        text = "".join(path.read_text() for path in named("request*.yaml"))
        for noun in ("RequestSpec", "Group", "Spread"):
            for field in schema[noun]["properties"]:
                with self.subTest(noun=noun, field=field):
                    self.assertRegex(text, rf"\b{field}:")

    def test_every_old_form_is_placed_on_the_example_site(self):
        known = ("--flavor-file", str(EXAMPLES / "form-valence-list.json"))
        for path in named("form-*.json"):
            document = json.loads(path.read_text())
            names = [one["name"] for one in document] if isinstance(document, list) else [path]
            for name in names:
                with self.subTest(path=path.name, name=str(name)):
                    words = ("--inventory", SITE, *known, "--flavor", str(name))
                    done = asked("valence-sched", "podm", "schedule", *words, "-f", "json")
                    self.assertEqual(0, done.code, done)

    def test_every_example_inventory_is_read_without_a_remark(self):
        files = [*named("inventory-*.json"), EXAMPLES / "places.json"]
        self.assertGreater(len(files), 3)
        for path in files:
            with self.subTest(path=path.name):
                done = asked("valence-sched", "podm", "inventory", "validate", str(path), "--long",
                             "-f", "json")  # fmt: skip
                self.assertEqual(0, done.code, done)
                self.assertEqual([([], [])], [(r["Skipped"], r["Remarks"]) for r in done.data])

    def test_every_policy_is_valid_and_places_a_node(self):
        for path in (*named("polic*.yaml"), CARDS):
            done = asked(
                "valence-sched", "scheduler", "policy", "validate", str(path), "-f", "json"
            )
            self.assertEqual([True], [row["Valid"] for row in done.data])
            document = yaml.safe_load(path.read_text())
            for policy in document.get("policies", [document]):
                with self.subTest(path=path.name, name=policy["name"]):
                    words = ("--policy-file", str(path), "--policy", policy["name"])
                    done = asked("valence-sched", "podm", "schedule", "--inventory", SITE,
                                 "--flavor", "small", *words)  # fmt: skip
                    self.assertEqual(0, done.code, done.err)

    def test_the_inventory_shows_every_field_and_is_read_without_a_remark(self):
        path = EXAMPLES / "inventory-small.json"
        done = asked("valence-sched", "podm", "inventory", "validate", str(path), "--long",
                     "-f", "json")  # fmt: skip
        (row,) = done.data
        self.assertEqual((1, 2, 4), (row["Podms"], row["Pools"], row["Blocks"]))
        self.assertEqual(([], []), (row["Skipped"], row["Remarks"]))
        schema = DATA / "inventory.schema.json"
        page = (DOC / "reference" / "inventory.rst").read_text()
        nouns = json.loads(schema.read_bytes())["$defs"]
        asked_for = msgspec.json.schema(NodeRequest)["$defs"]  # requests have their own page
        own = [noun for name, noun in nouns.items() if name not in asked_for]
        fields = {name for noun in own for name in noun.get("properties", {})}
        self.assertEqual([], sorted(name for name in fields if f"``{name}" not in page))
        shown = set(re.findall(r'"(\w+)":', path.read_text()))
        rare = {
            "active",
            "capacity_gib",
            "client",
            "request",
            "reserved",
            "resource_state",
            "rpm",
            "stale",
            "taints",
        }
        self.assertEqual(set(), fields - shown - rare)

    def test_every_field_of_what_people_write_is_on_its_page(self):
        for name, page, examples in (
            ("flavor", "reference/requests.rst", "flavor*"),
            ("requests", "reference/requests.rst", "[fr][le]*"),
            ("policy", "reference/policies.rst", "polic*"),
            ("podms", "howto/live-racks.rst", "podms*"),
        ):
            text = (DOC / page).read_text()
            text += "".join(path.read_text() for path in named(examples))
            nouns = json.loads((DATA / f"{name}.schema.json").read_bytes())["$defs"]
            fields = {field for noun in nouns.values() for field in noun.get("properties", {})}
            for field in sorted(fields):
                with self.subTest(page=page, field=field):
                    self.assertRegex(text, rf"\b{field}\b")

    def test_every_field_of_a_scenario_is_on_its_page(self):
        text = (DOC / "reference" / "scenarios.rst").read_text()
        nouns = json.loads((DATA / "scenario.schema.json").read_bytes())["$defs"]
        edits = [noun.__name__ for noun in EDITS.values()]
        names = ("ScenarioFile", "SingleScenario", "Template", "Target", *edits)
        fields = {field for name in names for field in nouns[name]["properties"]}
        self.assertGreater(len(fields), 35)
        for field in sorted(fields):
            with self.subTest(field=field):
                self.assertRegex(text, rf"``{field}\b")

    def test_every_variable_that_is_read_is_on_its_page(self):
        page = (DOC / "reference" / "environment.rst").read_text()
        code = [path for name in ("valence_sched", "valence_sched_cli")
                for path in (ROOT / name).rglob("*.py")]  # fmt: skip
        text = "".join(path.read_text() for path in code)
        found = set(re.findall(r'"(VALENCE_SCHED_[A-Z]+|XDG_[A-Z_]+|NO_COLOR|TERM)"', text))
        self.assertGreater(len(found), 7)
        for name in sorted(found | {"HTTPS_PROXY", "CLIFF_FIT_WIDTH", "CLIFF_MAX_TERM_WIDTH"}):
            with self.subTest(name=name):
                self.assertIn(f"``{name}``", page)

    def test_every_option_of_output_is_on_its_page(self):
        page = (DOC / "reference" / "output.rst").read_text()
        for words in (("podm", "list"), ("podm", "show")):
            text = asked("valence-sched", *words, "--help-all").out
            text = re.split(r"\noutput(?: formatters)?:\n", text, maxsplit=1)[1]
            text = text.replace("--capabilities", "")  # columns of only one list
            for option in set(re.findall(r"^  (?:-\w \w+, )?(--[a-z-]+)", text, re.MULTILINE)):
                with self.subTest(option=option):
                    self.assertIn(f"``{option}``", page)

    def test_what_a_plug_in_has_to_have_is_on_its_page(self):
        for noun, page in (
            (Resolver, "howto/surroundings.rst"),
            (Place, "howto/surroundings.rst"),
            (Receipt, "howto/plans.rst"),
            (Sign, "howto/live-racks.rst"),
        ):
            text = (DOC / page).read_text()
            fields = getattr(noun, "__struct_fields__", None) or getattr(noun, "_fields", None)
            names = fields or [name for name in vars(noun) if not name.startswith("_")]
            for name in names:
                with self.subTest(noun=noun.__name__, name=name):
                    self.assertRegex(text, rf"``{name}\b")

    def test_every_option_of_a_request_is_on_the_page(self):
        page = (DOC / "reference" / "requests.rst").read_text()
        others = {"--format", "--column", "--quote", "--noindent", "--max-width", "--fit-width",
                  "--print-empty", "--sort-column", "--sort-ascending", "--sort-descending",
                  "--escape-formulas",
                  "--help", "--help-all", "--inventory", "--strict", "--podm-file", "--state",
                  "--from-catalog",
                  "--all-regions", "--request-timeout", "--parallel", "--full", "--max-age",
                  "--warn-age", "--no-cache"}  # fmt: skip
        words = asked("valence-sched", "podm", "schedule", "--help-all").out
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+[a-z]", words)) - others
        self.assertGreater(len(options), 30)
        self.assertEqual([], sorted(option for option in options if option not in page))

    def test_every_filter_and_weigher_and_option_is_in_the_catalogue(self):
        page = (DOC / "reference" / "policies.rst").read_text()
        for group in (plugins.FILTERS, plugins.WEIGHERS):
            points = [p for p in entry_points(group=group) if p.module.startswith("valence_sched.")]
            self.assertGreater(len(points), 10)
            for point in points:
                self.assertIn(f"   * - ``{point.name}``\n", page)
                for option in plugins.options(point.load()):
                    with self.subTest(name=point.name, option=option):
                        self.assertRegex(page, rf"``{option}(: [a-z]+)?``")

    def test_every_built_in_policy_is_on_its_page(self):
        page = (DOC / "reference" / "policies.rst").read_text()
        for policy in yaml.safe_load((DATA / "policies.json").read_text())["policies"]:
            self.assertIn(f"   * - ``{policy['name']}``\n", page)

    def test_every_example_is_on_a_page_or_in_a_transcript(self):
        shown = {name for page in PAGES for name in INCLUDED.findall(page.read_text())}
        spoken = "".join(path.read_text() for path in transcripts())
        for path in EXAMPLES.iterdir():
            with self.subTest(path=path.name):
                self.assertTrue(f"examples/{path.name}" in shown or path.name in spoken)


if __name__ == "__main__":
    unittest.main()
