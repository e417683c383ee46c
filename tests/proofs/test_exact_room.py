# SPDX-License-Identifier: Apache-2.0
"""Many clients of many workers claim the exact room: each block once, until none is left."""

import contextlib
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.proofs.caller import Caller
from tests.proofs.load import REQUEST
from tests.proofs.scheduler_process import scheduler_process
from tests.proofs.served_site import served_site
from tests.unit.store.engines import on_each_engine

CLIENTS, WORKERS = 8, 4
PODMS, BLOCKS = 2, 10
BODY = {"request": REQUEST}


@on_each_engine
class TestExactRoom:
    """Clients that claim until nothing fits."""

    def setUp(self):
        super().setUp()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(served_site(folder, self.url, PODMS, BLOCKS))
        words = ("--state", self.url)
        self.service = self.enterContext(scheduler_process(folder, WORKERS, *words))

    def test_no_block_is_claimed_twice_and_none_is_left(self):
        """S26: each block is claimed once."""
        with contextlib.closing(Caller(self.service.url)) as caller:
            counts = caller.answered("POST", "/v1/fits", BODY).body["podms"]
            self.assertEqual(PODMS * BLOCKS, sum(count for _, count in counts))
            with ThreadPoolExecutor(CLIENTS) as pool:
                claims = [one for some in pool.map(self.claim_all, range(CLIENTS)) for one in some]
            listed = caller.answered("GET", "/v1/claims").body
            self.assertEqual({one["id"] for one in claims}, {one["id"] for one in listed})
            counts = caller.answered("POST", "/v1/fits", BODY).body["podms"]
        self.assertEqual(0, sum(count for _, count in counts))
        held = Counter(
            (part["podm"], uri)
            for claim in claims
            for part in claim["parts"]
            for share in part["shares"]
            for uri in share["blocks"]
        )
        self.assertEqual((PODMS * BLOCKS, {1}), (len(held), set(held.values())))

    def claim_all(self, number):
        """Return the claims of one client until nothing fits."""
        claims = []
        with contextlib.closing(Caller(self.service.url)) as caller:
            while len(claims) <= PODMS * BLOCKS:
                key = f"{number}-{len(claims)}"
                answer = caller.answered("POST", "/v1/claims", BODY, key, again=("claim_lost",))
                self.assertIn(answer.status, (200, 201), answer.body)
                if answer.body["claim"] is None:
                    break
                claims.append(answer.body["claim"])
        return claims
