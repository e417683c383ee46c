# SPDX-License-Identifier: Apache-2.0
"""A claim reads, stores and views each pod manager once; counted, not timed."""

import contextlib
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.unit.lifecycle.site import request
from valence_sched.app import App
from valence_sched.lifecycle.claim import ClaimOutcome
from valence_sched.lifecycle.intake import Intake
from valence_sched.model.lifecycle import ClaimResult
from valence_sched.model.read_options import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store import database
from valence_sched.store.database import WorkCounts
from valence_sched.store.store import Store
from valence_sched.testing import generate
from valence_sched.testing.served import served
from valence_sched.view.builder import ViewBuilder

PODMS = 500
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "site.json")


@contextlib.contextmanager
def counted() -> Iterator[tuple[WorkCounts, list[str]]]:
    """Count the work of all stores together, and note each podm that is added to a view."""
    counts, added = WorkCounts(), []
    add = ViewBuilder.add

    def noted(self: ViewBuilder, podm, *place: str) -> None:
        added.append(podm.id)
        add(self, podm, *place)

    with (
        mock.patch.object(database, "WorkCounts", lambda: counts),
        mock.patch.object(ViewBuilder, "add", noted),
    ):
        yield counts, added


class TestReadOnce(unittest.TestCase):
    """What a claim needs is read, stored and viewed once, in batches."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.state = f"sqlite:///{self.folder}/state.sqlite"

    def claim(self, *sources: str) -> ClaimResult | ClaimOutcome:
        """Claim on live pod managers, or on a recording, which only an intake does."""
        app = App(environ={"XDG_CONFIG_HOME": str(self.folder)})
        selection = Selection(sources=sources, live=ReadOptions(state=self.state))
        if not sources:
            return app.engine(selection).claim(request())
        with Store(self.state) as store:
            return (
                Intake(app.config, app.sources, app.loader, selection)
                .claimer(store)
                .claim(request())
            )

    def test_recorded_pod_managers_take_few_transactions_and_are_viewed_once(self):
        inventory = str(self.folder / "inventory.jsonl")
        generate.main(["--podms", str(PODMS), "--blocks", "4", "--output", inventory])
        with counted() as (counts, added):
            self.assertIsNotNone(self.claim(inventory).claim)
        self.assertLessEqual(counts.transactions, 20)
        self.assertEqual(PODMS, counts.podms_written)
        self.assertEqual(0, counts.podms_decoded)
        self.assertEqual((PODMS, PODMS), (len(added), len(set(added))))

    def test_unchanged_ones_are_not_written_again(self):
        first = self.claim(EXAMPLE)
        with counted() as (counts, added):
            second = self.claim(EXAMPLE)
        self.assertEqual(0, counts.podms_written)
        self.assertEqual(8, len(added))
        self.assertNotEqual(first.claim.parts[0].blocks, second.claim.parts[0].blocks)

    def test_live_ones_are_stored_once(self):
        with served(EXAMPLE) as podms:
            with Store(self.state) as store:
                for name, podm in podms.items():
                    store.register(Registration(name=name, url=podm.url))
            with counted() as (counts, added):
                self.assertIsNotNone(self.claim().claim)
        self.assertEqual(8, counts.podms_written)
        self.assertEqual((8, 8), (len(added), len(set(added))))

    def test_a_document_that_no_view_takes_is_skipped_and_not_stored(self):
        inventory = self.folder / "inventory.jsonl"
        block = '{"uri": "c", "devices": {"processors": [{"cores": 64}]}}'
        inventory.write_text(
            '{"schema": "valence-sched/inventory", "version": "1.0"}\n'
            f'{{"id": "twice", "blocks": [{block}, {block}]}}\n'
            f'{{"id": "sound", "blocks": [{block}]}}\n'
        )
        self.assertEqual(("sound",), self.claim(str(inventory)).claim.podms)
        with Store(self.state) as store:
            self.assertEqual(["sound"], list(store.load_podms()))
