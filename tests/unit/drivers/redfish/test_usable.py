# SPDX-License-Identifier: Apache-2.0
"""Which hardware counts: the status of devices, of blocks, and of the systems behind them."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.test_device_identity import BLOCKS, Case, V, links
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import explain_decision as explain
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.drivers.fields import Json
from valence_sched.drivers.redfish.schema import STATES
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.phrases import ReasonPhrases
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.testing import request
from valence_sched.view.builder import ViewBuilder

GPU = {"ProcessorType": "GPU", "Model": "A100"}
#: A status, and the word for what is wrong; none where nothing is.
CONDITIONS: tuple[tuple[Json | None, str | None], ...] = (
    (None, None),
    ({}, None),
    ({"State": None, "Health": None}, None),
    ({"State": "enabled", "Health": "ok"}, None),
    ({"State": "Qualified"}, None),
    ({"State": "Degraded"}, "Warning"),
    ({"State": "Degraded", "Health": "Critical"}, "Critical"),
    ({"Health": "Warning"}, "Warning"),
    ({"Health": "OK", "HealthRollup": "Warning"}, "Warning"),
    ({"Health": "Fatal"}, "Warning"),
    ({"State": "Enabled", "Health": "Critical"}, "Critical"),
    ({"State": "Enabled", "Health": "OK", "HealthRollup": "Critical"}, "Critical"),
    ({"State": "Quiesced", "Health": "Critical"}, "Critical"),
    ({"State": "Hibernating", "Health": "OK"}, "Hibernating"),
    *(({"State": word.upper(), "Health": "OK"}, word) for word in STATES
      if word not in ("Enabled", "Qualified", "Degraded", "Absent")),
)  # fmt: skip


class TestConditions(Case):
    """One rule for a device, a block, and the system that a block is."""

    def gpus(self, *statuses: Json | None, **json: Any) -> None:
        """Put a block of a GPU with each of these statuses."""
        uris = [self.put(f"{V}/G/{at}", **GPU, Status=it) for at, it in enumerate(statuses)]
        self.block("g", ResourceBlockType=["Processor"], Processors=links(*uris), **json)

    def test_a_device_counts_unless_its_state_or_its_health_forbids_it(self) -> None:
        for status, word in CONDITIONS:
            with self.subTest(status):
                self.setUp()
                self.gpus(None, None, None, status)
                found = {
                    it.condition: it.count for it in self.read().blocks[0].devices.accelerators
                }
                self.assertEqual({None: 3, word: 1} if word else {None: 4}, found)
                self.assertEqual(word is not None, self.noted("/G/3: Status: found"))

    def test_a_block_and_the_system_that_it_is_count_by_the_same_rule(self) -> None:
        for status, word in (*CONDITIONS, ({"State": "Absent"}, "Absent")):
            for at in ("block", "system"):
                with self.subTest(status, at=at):
                    self.setUp()
                    system = self.put(f"{V}/S/1", Status=status if at == "system" else None)
                    self.gpus({}, ComputerSystems=links(system),
                              Status=status if at == "block" else None)  # fmt: skip
                    found = self.read().blocks[0].status
                    self.assertEqual(word, found.condition)
                    self.assertEqual(word in (None, "Warning"), found.slots == 1)
                    self.assertEqual(word is not None, self.noted("Status: found"))

    def test_what_awaits_the_failure_of_another_drive_does_not_count(self) -> None:
        for told, word in (
            ({"HotspareType": "Global"}, "StandbySpare"),
            ({"HotspareType": "Dedicated", "Status": {"Health": "Warning"}}, "StandbySpare"),
            ({"HotspareType": "None"}, None),
            ({"StatusIndicator": "Hotspare"}, "StandbySpare"),
            ({"StatusIndicator": "Fail"}, "Critical"),
            ({"StatusIndicator": "OK", "FailurePredicted": False}, None),
            ({"FailurePredicted": True}, "Warning"),
        ):
            with self.subTest(told):
                self.setUp()
                self.block("b", Drives=links(self.drive("/D/1", **told)))
                (drive,) = self.read().blocks[0].devices.drives
                self.assertEqual(word, drive.condition)

    def test_drives_behind_a_storage_are_in_its_condition(self) -> None:
        for status, word in (
            ({"Health": "Critical"}, "Critical"),
            ({"State": "Starting"}, "Starting"),
            ({"Health": "Warning"}, "Warning"),
            ({"State": "Degraded"}, "Warning"),
            ({"Health": "OK", "HealthRollup": "Critical"}, None),
            ({"Health": "Warning", "HealthRollup": "Critical"}, "Warning"),
        ):
            with self.subTest(status):
                self.setUp()
                storage = self.storage("/St", self.drive("/D/1"))
                self.documents[f"{V}/St"]["Status"] = status
                self.block("b", Storage=storage)
                (drive,) = self.read().blocks[0].devices.drives
                self.assertEqual(word, drive.condition)
                self.assertEqual(word is not None, self.noted("/St: Status: found"))

    def test_a_device_that_tells_that_it_is_critical_does_not_take_its_block_with_it(self) -> None:
        rolled_up = {"Health": "OK", "HealthRollup": "Critical"}
        system = self.put(f"{V}/S/1", Status=rolled_up)
        self.gpus({}, {"Health": "Critical"}, Status=rolled_up, ComputerSystems=links(system))
        status = self.read().blocks[0].status
        self.assertEqual((1, "Warning"), (status.slots, status.condition))

    def test_a_compute_block_counts_by_the_free_system_that_it_links(self) -> None:
        system = self.put(f"{V}/S/1", SystemType="Physical", Status={"State": "Updating"})
        self.documents[f"{V}/S"]["Members"] += links(system)
        for kind, slots in (("Compute", 0), ("Storage", 1)):
            self.documents[BLOCKS]["Members"].clear()
            self.block("b", ResourceBlockType=[kind], Links={"ComputerSystems": links(system)})
            self.assertEqual(slots, self.read().blocks[0].status.slots)


class TestDecisions(Case):
    """What does not count is not handed out, and the explanation says why."""

    def decide(self, worst: str = "Warning", **gpus: Any) -> tuple[str, list[str], str]:
        """Ask for four GPUs of one block; return the outcome, the notes and the reasons."""
        wanted = request({"accelerators": [{"kind": "GPU", "model": "A100", "count": 4}]},
                         policy="p")  # fmt: skip
        builder = ViewBuilder()
        builder.add(decode(to_json(self.read()), LeanPodm, "t.json", "$"), "t.json")
        policy = Policy(
            name="p", filters=(FilterUse("health", {"worst": worst}), FilterUse("devices"))
        )
        decision = Decider(builder.view(), [policy]).select_destinations(wanted)
        reasons = Verdicts(decision).podm_verdict(0).pool_reasons
        words = ReasonPhrases().of_pool(reasons[0].reasons) if reasons else ""
        return decision.outcome, list(explain(decision).notes), words

    def site(self, *statuses: Json, block: Json | None = None) -> None:
        self.setUp()
        uris = [self.put(f"{V}/G/{at}", **GPU, Status=it) for at, it in enumerate(statuses)]
        self.block("g", ResourceBlockType=["Processor"], Processors=links(*uris), Status=block)

    def test_the_reason_counts_what_does_not_count_by_its_condition(self) -> None:
        critical, quiesced = {"Health": "Critical"}, {"State": "Quiesced"}
        for statuses, block, words in (
            ([{}, {}, {}, critical], None, "3 of 4 A100 (1 of 4 A100 is Critical)"),
            ([{}, critical, critical, quiesced], None,
             "1 of 4 A100 (2 of 4 A100 are Critical, 1 is Quiesced)"),
            ([critical] * 4, None, "no A100 (4 of 4 A100 are Critical)"),
            ([{}] * 4, {"State": "UnavailableOffline"},
             "no A100 (4 of 4 A100 are UnavailableOffline)"),
            ([{}, {}, {}, critical], {"State": "Updating"},
             "no A100 (1 of 4 A100 is Critical, 3 are Updating)"),
        ):  # fmt: skip
            with self.subTest(statuses, block=block):
                self.site(*statuses, block=block)
                self.assertEqual(("nothing_fits", [], words), self.decide())

    def test_warning_counts_and_is_told_unless_the_policy_is_stricter(self) -> None:
        warning = {"Health": "Warning"}
        for statuses, block, note, words in (
            ([{}, {}, {}, warning], None, "1 GPU A100", "3 of 4 A100 (1 of 4 A100 is Warning)"),
            ([{}] * 4, warning, "the block", "no A100 (4 of 4 A100 are Warning)"),
        ):
            with self.subTest(statuses, block=block):
                self.site(*statuses, block=block)
                told = [f"health Warning: {note} (in g of t)"]
                self.assertEqual(("placed", told, ""), self.decide())
                self.assertEqual(("nothing_fits", [], words), self.decide("OK"))
