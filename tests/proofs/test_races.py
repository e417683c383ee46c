# SPDX-License-Identifier: Apache-2.0
"""Many processes and one pool: every block is claimed, and no block twice."""

import os
import sys
from collections import Counter

from tests.proofs import racing
from tests.unit.core.deciders import cpu, gpu
from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import podm

SOAK = os.environ.get("VALENCE_SCHED_SOAK")  # more processes that claim more often
PROCESSES, REQUESTS = (16, int(SOAK)) if SOAK else (4, 4)
MOST_RETRIES = 3.0  # per request, on average


@on_each_engine
class TestRaces:
    """Processes that start at the same time."""

    def test_exactly_the_room_is_claimed_and_every_loser_hears_why(self):
        """S26."""
        room = PROCESSES * REQUESTS // 2
        store = self.store()
        store.remember(podm(blocks=[cpu(f"c{number}", 8) for number in range(room)]))
        results = racing.race(self.url, PROCESSES, REQUESTS)
        blocks = Counter(uri for result in results for _, uris in result.won for uri in uris)
        self.assertEqual(room, len(blocks))
        self.assertEqual({1}, set(blocks.values()))
        claims = store.claims.list()
        self.assertEqual(blocks, Counter(b for claim in claims for b in claim.parts[0].blocks))
        reasons = [reason for result in results for reason in result.reasons]
        lost = [line for result in results for line in result.lost]
        self.assertEqual(PROCESSES * REQUESTS - room, len(reasons) + len(lost))
        self.assertEqual({"capacity: cores: needs 8, has 0"}, set(reasons))
        self.assertEqual([], lost)
        self.report(results)

    def report(self, results):
        retries = [number for result in results for number in result.retries]
        average = sum(retries) / len(retries)
        reruns = sum(result.again for result in results)
        sys.stderr.write(f"{self.engine}: {average:.2f} decisions again a request, most "
                         f"{max(retries)}; {reruns} transactions again\n")  # fmt: skip
        self.assertLess(average, MOST_RETRIES)

    def test_the_last_gpu_is_won_by_exactly_one(self):
        """S27."""
        self.store().remember(podm(blocks=[gpu("g")]))
        results = racing.race(self.url, PROCESSES, 1, {"accelerators": [{"model": "A100"}]})
        self.assertEqual(1, sum(len(result.won) for result in results))
        self.assertEqual(PROCESSES - 1, sum(len(result.reasons) for result in results))
