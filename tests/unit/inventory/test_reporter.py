# SPDX-License-Identifier: Apache-2.0
"""Reports at their own interval, by a simulated clock."""

import itertools
from unittest import mock

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import podm
from valence_sched.core.policy import fields_read
from valence_sched.errors import ServiceError, StoreError
from valence_sched.inventory.reporter import Reporter, needed, stats_of
from valence_sched.model.policy import FilterUse, PodmReads, Policy
from valence_sched.model.reading import ReadFailure
from valence_sched.model.scheduler import Scheduler
from valence_sched.store import tables

HOUR_S = 3600.0


class Clock:
    """Seconds that pass only during sleeps and requests."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def pass_time(self, seconds):
        self.now += seconds


class TestReporter(StoreCase):
    """S78: an agent beside a pod manager, and the scheduler that it reports to."""

    def setUp(self):
        super().setUp()
        self.here, self.there = self.store(), self.store(self.fresh_url())
        self.clock, self.told, self.came = Clock(), [], []
        self.here.remember(podm("p", 3, facts={"rack": "8"}, capabilities={"os": ["linux"]}))

    def report(self, name, stats):
        self.came.append((self.clock.now, name))
        self.there.update_stats(name, stats)

    def reporter(self, report=None, interval_s=20.0, names=("p",)):
        return Reporter(self.here, lambda: list(names), {"there": report or self.report},
                        interval_s, self.told.append, self.clock, self.clock.pass_time)  # fmt: skip

    def test_for_an_hour_no_report_is_older_than_its_interval(self):
        """Each report takes time; the polls of a parent do not affect it."""

        def slow(name, stats):
            self.clock.pass_time(3.0)
            self.report(name, stats)

        self.reporter(slow).run(lambda: self.clock.now >= HOUR_S)
        times = [at for at, _ in self.came]
        self.assertEqual(180, len(times))
        self.assertEqual({20.0}, {b - a for a, b in itertools.pairwise(times)})

    def test_the_stats_of_a_zone_are_there_again_with_the_next_report(self):
        """Two settings: the interval of reports here, and the interval of polls in the zone."""
        self.here.update_stats("p", {"compute": {"cpu": 0.7}})
        reporter = self.reporter()
        reporter.report()
        of = tables.podms.c
        for _ in range(3):
            self.assertLess(self.there.reports()["p"].age_s, 60)
            engine = self.there._database.writer
            with engine.begin() as connection:
                old = b'{"stats":{"status":"Online"},"at":1.0,"alone":true}'
                connection.execute(sa.update(tables.podms).values({of.stats: old}))
            self.assertGreater(self.there.reports()["p"].age_s, HOUR_S)
            reporter.report()

    def test_what_is_reported_is_what_was_read_and_nothing_of_the_operator(self):
        self.reporter().report()
        (found,) = self.there.load_podms().values()
        read = self.here.load_podms()["p"]
        self.assertEqual((read.blocks, read.pools, read.facts, read.capabilities),
                         (found.blocks, found.pools, found.facts, found.capabilities))  # fmt: skip
        self.assertNotIn("url", stats_of(podm("p", url="https://h")))
        self.assertNotIn("enabled", stats_of(podm("p", enabled=False)))

    def test_only_what_the_policies_there_read_is_reported(self):
        """S65: without the filter, reports lack the health of GPUs."""
        health = FilterUse("health", {"fact": "gpu_health"})
        podms = [podm("p", 3, facts={"rack": "8", "gpu_health": "OK"})]
        self.here.remember(*podms)
        for filters, facts in (((health,), {"gpu_health": "OK"}), ((), {})):
            policy = Policy(name="ours", filters=(FilterUse("capacity"), *filters))
            there = mock.create_autospec(Scheduler, instance=True)
            there.podm_reads.side_effect = lambda _name, policy=policy: PodmReads(
                policy="ours", fields=fields_read(policy)
            )
            self.reporter(needed(there, ["ours"])).report()
            ((name, stats),) = (call.args for call in there.update_resource_stats.mock_calls)
            self.assertEqual(("p", facts), (name, stats["facts"]))
            self.assertEqual(3, len(stats["blocks"]))
            self.assertEqual("Online", stats["status"])

    def test_what_is_gone_is_gone_there_too(self):
        self.reporter().report()
        self.here.remember(podm("p", 0))
        self.reporter().report()
        self.assertEqual((), self.there.load_podms()["p"].blocks)

    def test_one_that_cannot_be_read_is_reported_as_offline_until_it_can(self):
        reporter = self.reporter()
        self.here.record_failures({"p": (podm("p"), ReadFailure(reason="away"))})
        for status, remember in (("Offline", True), ("Online", False)):
            reporter.report()
            self.assertEqual(status, self.there.load_podms()["p"].status)
            if remember:
                self.here.remember(podm("p", 3))

    def test_a_scheduler_that_does_not_answer_is_told_of_once_and_told_again(self):
        errors = [ServiceError("refused"), ServiceError("refused"), None]

        def fail(name, stats):
            if (error := errors.pop(0)) is not None:
                raise error
            self.report(name, stats)

        reporter = self.reporter(fail)
        for _ in range(3):
            reporter.report()
        self.assertEqual(["there: not reported: p: refused", "there: reports are accepted again"],
                         self.told)  # fmt: skip

    def test_a_state_that_is_away_ends_no_reporter(self):
        def away():
            raise StoreError("away")

        Reporter(self.here, away, {}, 1.0, self.told.append).report()
        self.assertEqual(["the state: not reported: away"], self.told)
