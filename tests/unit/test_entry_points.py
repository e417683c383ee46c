# SPDX-License-Identifier: Apache-2.0
"""The entry points: their names, and that they take no name of another project."""

import argparse
import configparser
import importlib
import unittest
from importlib import metadata
from pathlib import Path

SETUP_CFG = Path(__file__).parents[2] / "setup.cfg"
COMMANDS = "openstack.podm.v1"


def declared() -> dict[str, dict[str, str]]:
    """Return the entry points of setup.cfg: group, then name, then object."""
    config = configparser.ConfigParser()
    config.read(SETUP_CFG, encoding="utf-8")
    return {
        group: dict(
            (word.strip() for word in line.split("=", 1)) for line in lines.strip().splitlines()
        )
        for group, lines in config["options.entry_points"].items()
    }


def installed(group: str) -> list[metadata.EntryPoint]:
    return list(metadata.entry_points(group=group))


def is_ours(point: metadata.EntryPoint) -> bool:
    return point.module.partition(".")[0] in ("valence_sched", "valence_sched_cli")


class TestEntryPoints(unittest.TestCase):
    """Rules of all entry points."""

    def test_what_setup_cfg_declares_is_what_is_installed(self):
        for group, points in declared().items():
            with self.subTest(group):
                ours = {point.name: point.value for point in installed(group) if is_ours(point)}
                self.assertEqual(points, ours)

    def test_every_one_loads(self):
        for group in declared():
            for point in installed(group):
                if is_ours(point):
                    with self.subTest(f"{group}: {point.name}"):
                        point.load()


class TestPlugins(unittest.TestCase):
    """Filters and weighers: entry point = function = file."""

    def test_a_filter_or_weigher_is_called_as_its_file_and_its_function(self):
        for room in ("filters", "weighers"):
            group = f"valence_sched.{room}"
            for name, value in declared()[group].items():
                self.assertEqual(f"{group}.{name}:{name}", value)

    def test_every_file_of_filters_and_weighers_has_its_entry_point(self):
        for room in ("filters", "weighers"):
            folder = SETUP_CFG.parent / "valence_sched" / room
            files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
            self.assertEqual(files, set(declared()[f"valence_sched.{room}"]))


class TestCommands(unittest.TestCase):
    """Our commands, with the commands of python-openstackclient and its other plug-ins."""

    def setUp(self):
        self.ours = [name.replace("_", " ") for name in declared()[COMMANDS]]
        groups = metadata.entry_points().groups
        self.others = [
            point.name.replace("_", " ")
            for group in groups
            if group.startswith("openstack.")
            for point in installed(group)
            if not is_ours(point)
        ]

    def test_a_command_starts_with_podm_or_scheduler(self):
        for name in declared()[COMMANDS]:
            self.assertIn(name.partition("_")[0], ("podm", "scheduler"), name)

    def test_a_command_has_the_words_of_its_entry_point_in_its_class(self):
        # podm_claim_list = valence_sched_cli.commands.claim:ListClaim; podm_fit is in fit.
        nouns = {"catalog": "config filter flavor policy weigher", "inventory": "podm",
                 "node_change": "node",
                 "podm": "block device pool", "podm_registry": "podm stats", "schedule": "podm",
                 "scheduler": "audit quota", "watch": "podm", "whatif": "policy"}  # fmt: skip
        for name, value in declared()[COMMANDS].items():
            *_, noun, verb = name.split("_")
            module, _, class_ = value.removeprefix("valence_sched_cli.commands.").partition(":")
            own = verb if noun == "podm" else f"{noun}_{verb}"
            self.assertTrue(module in (noun, own) or noun in nouns.get(module, "").split(), name)
            self.assertEqual(f"{verb.title()}{noun.title()}", class_, name)

    def test_no_command_takes_the_name_of_another_one(self):
        if "server list" not in self.others:
            self.skipTest("python-openstackclient is not installed")
        self.assertEqual(set(), set(self.ours) & set(self.others))

    def test_no_command_is_the_beginning_of_another_one(self):
        # cliff finds the shorter of two such names, and never the longer one.
        every = [*self.ours, *self.others]
        clashes = [
            (one, other)
            for one in self.ours
            for other in every
            if other.startswith(f"{one} ") or one.startswith(f"{other} ")
        ]
        self.assertEqual([], clashes)

    def test_the_group_of_the_commands_is_that_of_the_api_name_and_version(self):
        plugin = importlib.import_module("valence_sched_cli.plugin")
        version = plugin.DEFAULT_API_VERSION.partition(".")[0]
        self.assertEqual(COMMANDS, f"openstack.{plugin.API_NAME}.v{version}")


class TestPlugin(unittest.TestCase):
    """Requirements of OpenStackClient on a plug-in module; otherwise every ``openstack`` command
    fails.
    """

    def setUp(self):
        self.plugin = importlib.import_module("valence_sched_cli.plugin")

    def test_it_has_the_names_that_are_looked_up(self):
        self.assertEqual("podm", self.plugin.API_NAME)
        self.assertEqual("os_podm_api_version", self.plugin.API_VERSION_OPTION)
        self.assertIn(self.plugin.DEFAULT_API_VERSION, self.plugin.API_VERSIONS)
        self.assertTrue(callable(self.plugin.make_client))

    def test_a_version_has_no_leading_v(self):
        for version in self.plugin.API_VERSIONS:
            self.assertRegex(version, r"^\d")

    def test_its_options_are_added_to_the_parser_and_the_parser_is_returned(self):
        parser = argparse.ArgumentParser()
        self.assertIs(parser, self.plugin.build_option_parser(parser))
        options = vars(parser.parse_args([]))
        self.assertIn(self.plugin.API_VERSION_OPTION, options)

    def test_the_openstack_program_takes_its_options(self):
        try:
            shell = importlib.import_module("openstackclient.shell")
        except ImportError:
            self.skipTest("python-openstackclient is not installed")
        # It asks every plug-in, and argparse raises if two options have the same name.
        parser = shell.OpenStackShell().build_option_parser("", "")
        self.assertIn(self.plugin.API_VERSION_OPTION, {action.dest for action in parser._actions})
