# SPDX-License-Identifier: Apache-2.0
"""The decision report does not change by a byte; documents follow the shipped schemas.

After an intended change, run ``python -m tests.functional.renew_golden`` and review the difference.
"""

import functools
import json
import unittest
from pathlib import Path

import jsonschema
import yaml

import valence_sched
from tests import schemas
from tests.functional.programs import FLAVORS, ROOT, SITE, Case, run
from tests.functional.renew_golden import (
    CHECKED,
    CHECKED_QUESTION,
    DIGESTS,
    GOLDEN,
    QUESTION,
    answers,
    decisions,
)

DATA = Path(valence_sched.__path__[0]) / "data"
NAMES = ("check", "decision", "decisions", "drain", "flavor", "inventory", "ironic", "node-change",
         "plan", "podms", "policy", "replay", "requests", "scenario", "trace", "workload",
         "zone-settings", "zones")  # fmt: skip


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((DATA / f"{name}.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class TestGolden(Case):
    """Two decisions, compared byte for byte."""

    def test_the_reports_are_the_golden_file_and_the_example(self):
        for golden, question in ((GOLDEN, QUESTION), (CHECKED, CHECKED_QUESTION)):
            with self.subTest(golden.parent.name):
                file = self.folder / "decision.json"
                done = run("valence-sched", "podm", "schedule", *question, "--report", file)
                self.assertEqual(0, done.code, done.err)
                self.assertEqual(json.loads(golden.read_bytes()), json.loads(file.read_bytes()))
                self.assertEqual(golden.read_bytes(), file.read_bytes())

    def test_it_does_not_depend_on_where_it_was_made(self):
        file = self.folder / "elsewhere.json"
        copy = self.folder / "site-copy.json"
        copy.write_bytes(Path(SITE).read_bytes())
        words = [str(copy) if word == SITE else word for word in QUESTION]
        run("valence-sched", "podm", "schedule", *words, "--report", file, PYTHONHASHSEED="7")
        self.assertEqual(GOLDEN.read_bytes(), file.read_bytes())


class TestDigests(Case):
    """Decisions, exit codes, outputs and help texts do not change."""

    known = json.loads(DIGESTS.read_bytes())

    def test_decisions_of_300_questions(self):
        self._compare(decisions(), 300)

    def test_answers_helps_and_the_document_of_the_interface(self):
        self._compare(answers(), len(self.known) - 300)

    def _compare(self, digests: dict[str, str], count: int) -> None:
        self.assertEqual(count, len(digests))
        changed = [words for words, digest in digests.items() if self.known.get(words) != digest]
        self.assertEqual([], changed)


class TestSchemas(Case):
    """Documents are valid by the schemas."""

    def test_there_is_a_schema_of_every_document_and_it_is_made_from_the_nouns(self):
        self.assertEqual(set(NAMES), set(schemas.NOUNS))
        for name in NAMES:
            with self.subTest(name=name):
                shipped = (DATA / f"{name}.schema.json").read_bytes()
                self.assertEqual(schemas.json_schema(name), shipped)

    def test_reports_of_every_outcome_keep_to_theirs(self):
        words = ("--inventory", SITE, "--flavor-file", FLAVORS)
        many = ("--flavor", "in-memory", "--count", "30")
        for outcome, more in (
            ("placed", ("--flavor", "gpu-large", "--alternates", "2")),
            ("placed", ("--flavor", "web", "--policy", "chance")),
            ("placed_in_part", (*many, "--min-count", "1")),
            ("nothing_fits", many),
            ("nothing_fits", ("--flavor", "training", "--zone", "nowhere")),
        ):
            with self.subTest(words=more):
                file = self.folder / "report.json"
                run("valence-sched", "podm", "schedule", *words, *more, "--report", file)
                report = json.loads(file.read_bytes())
                self.assertEqual(outcome, report["outcome"])
                validator("decision").validate(report)
                file.unlink()

    def test_the_example_site_keeps_to_its_schema_in_every_form(self):
        validator("inventory").validate(json.loads(Path(SITE).read_bytes()))
        file = self.folder / "site.json"
        run("valence-sched", "podm", "inventory", "convert", "--inventory", SITE, "-o", file)
        validator("inventory").validate(json.loads(file.read_bytes()))

    def test_the_example_of_pod_managers_keeps_to_its_schema_and_a_password_does_not(self):
        document = yaml.safe_load((ROOT / "examples" / "podms.yaml").read_text())
        validator("podms").validate(document)
        document["podms"]["gpu-east"]["password"] = "a-password"
        self.assertFalse(validator("podms").is_valid(document))

    def test_a_wrong_inventory_does_not_keep_to_it(self):
        site = json.loads(Path(SITE).read_bytes())
        site["podms"][0]["blocks"][0]["devices"] = {"processors": [{"cores": -1}]}
        self.assertFalse(validator("inventory").is_valid(site))

    def test_memory_in_gib_keeps_to_the_schemas_and_counts_as_in_mib(self):
        site = json.loads(Path(SITE).read_bytes())
        modules = [module for podm in site["podms"] for block in podm["blocks"]
                   for module in block.get("devices", {}).get("memory", ())
                   if "capacity_mib" in module]  # fmt: skip
        for module in modules:
            module["capacity_gib"] = module.pop("capacity_mib") / 1024
        validator("inventory").validate(site)
        file = self.folder / "site.json"
        file.write_text(json.dumps(site))
        known, found = (run("valence-sched", "podm", "list", "--inventory", one, "-f", "json")
                        for one in (SITE, file))  # fmt: skip
        self.assertEqual(known.data, found.data)
        modules[0]["capacity_mib"] = 1024
        self.assertFalse(validator("inventory").is_valid(site), "two capacities")
        flavor = {"name": "a", "properties": {"memory": {"capacity_gib": "64GiB"}}}
        validator("flavor").validate(flavor)
        for memory in ({}, {"capacity_gib": 64, "capacity_mib": 65536}):
            wrong = {"name": "a", "properties": {"memory": memory}}
            self.assertFalse(validator("flavor").is_valid(wrong), memory)

    def test_every_flavor_and_policy_there_is_keeps_to_its_schema(self):
        examples = ROOT / "doc" / "source" / "examples"
        for name, files in (
            ("flavor", [DATA / "flavors.json", Path(FLAVORS), *examples.glob("flavor*.yaml")]),
            ("policy", [DATA / "policies.json", *examples.glob("polic*.yaml")]),
        ):
            many = {"flavor": "flavors", "policy": "policies"}[name]
            for file in files:
                document = yaml.safe_load(file.read_text())
                validator(name).validate(document)
                for one in document.get(many, [document]):
                    with self.subTest(file=file.name, name=one["name"]):
                        validator(name).validate(one)
                        validator(name).validate([one])
                        self.assertFalse(validator(name).is_valid({many: [one], "more": 1}))
                        self.assertFalse(validator(name).is_valid({many: []}))

    def test_the_example_of_scenarios_keeps_to_its_schema(self):
        document = yaml.safe_load((ROOT / "examples" / "scenarios.yaml").read_text())
        validator("scenario").validate(document)
        for one in document["scenarios"]:
            validator("scenario").validate(one)
        self.assertFalse(validator("scenario").is_valid({"scenarios": []}))

    def test_the_example_of_zones_keeps_to_its_schema(self):
        document = yaml.safe_load((ROOT / "examples" / "zones.yaml").read_text())
        validator("zones").validate(document)
        document["zone"]["children"][0]["kids"] = []
        self.assertFalse(validator("zones").is_valid(document))
        settings = {"name": "dallas", "poll_interval_s": 30, "secrets": [{"env": "SECRET"}]}
        validator("zone-settings").validate(settings)
        self.assertFalse(validator("zone-settings").is_valid({**settings, "poll_interval_s": 0}))

    def test_a_file_of_one_request_and_of_several_keeps_to_its_schema(self):
        files = sorted((ROOT / "doc" / "source" / "examples").glob("request*.yaml"))
        self.assertGreater(len(files), 2)
        for file in files:
            with self.subTest(file=file.name):
                validator("requests").validate(yaml.safe_load(file.read_text()))


if __name__ == "__main__":
    unittest.main()
