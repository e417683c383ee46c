# SPDX-License-Identifier: Apache-2.0
"""Oracle: compares the answers to a load with the store and the pod managers."""

from __future__ import annotations

import time
import unittest
from collections import Counter, defaultdict
from collections.abc import Mapping

import sqlalchemy as sa

from tests.proofs.caller import PAUSE_S, Caller
from tests.proofs.load import Job, Load
from tests.unit.store.engines import raw_engine
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES, Claim, State
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm

AGES_S = 2 * 86_400.0
COMPOSED = ("COMPOSED", "SETTLED")
HOLDING: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED")


class Oracle:
    """Checks a load on a service over a store and served pod managers; made before the load."""

    def __init__(
        self, case: unittest.TestCase, state: str, podms: Mapping[str, ServedPodm], load: Load
    ) -> None:
        self._case, self._state, self._podms, self._load = case, state, podms, load
        self._earlier = set(self._every_claim())

    def check(self, caller: Caller) -> None:
        """Check the present state; then let all claims expire, reconcile, and check again."""
        case = self._case
        case.assertEqual(set(), {status for status in self._load.seen
                                 if isinstance(status, int) and status >= 500} - {503})  # fmt: skip
        self._check_claims()
        self._check_blocks()
        age(self._state)
        reconcile(case, caller)
        self._check_interrupted(caller)
        age(self._state)
        reconcile(case, caller)
        self._check_blocks()
        self._check_nodes()
        with Store(self._state) as store:
            left = Counter(claim.state for claim in store.claims.list(ACTIVE_STATES))
        case.assertEqual(set(), left.keys() - set(COMPOSED), "claims leak")

    def _check_claims(self) -> None:
        """Check that each answered claim exists exactly once."""
        case, claims = self._case, self._every_claim()
        for id_ in self._earlier:
            del claims[id_]
        by_key: dict[str | None, list[str]] = defaultdict(list)
        for claim in claims.values():
            by_key[claim.key].append(claim.id)
        jobs = {job.key: job for job in self._load.jobs}
        case.assertEqual(set(), by_key.keys() - jobs.keys(), "claims of nobody")
        for key, job in jobs.items():
            if job.kind == "decide":
                continue
            made = by_key.get(key, [])
            if job.is_refused:
                case.assertEqual([], made, key)
                continue
            case.assertEqual(1, len(job.claims), f"{key} was answered {job.claims}")
            case.assertEqual(list(job.claims), made, key)
            state = claims[made[0]].state
            if job.kind == "keep":
                case.assertEqual("HELD", state, key)
            elif job.is_released or job.is_deleted:
                case.assertEqual("RELEASED", state, key)
            elif job.nodes and not job.open:
                case.assertIn(state, (*COMPOSED, "RELEASED"), key)

    def _every_claim(self) -> dict[str, Claim]:
        with Store(self._state) as store:
            return {one.id: one for one in store.claims.list((*ACTIVE_STATES, *FINAL_STATES))}

    def _check_blocks(self) -> None:
        """Check that no block has two claims or two nodes; a settled claim holds no block."""
        with Store(self._state) as store:
            active = store.claims.list(HOLDING)
        held = Counter(
            (part.podm, uri) for claim in active for part in claim.parts for uri in part.blocks
        )
        self._case.assertEqual({}, {block: many for block, many in held.items() if many > 1})
        used = Counter(
            (name, uri) for name in self._podms for node in self._served_nodes(name) for uri in node
        )
        self._case.assertEqual({}, {block: many for block, many in used.items() if many > 1})

    def _check_interrupted(self, caller: Caller) -> None:
        """Check that an operation of a dead process is interrupted, and that its key can be
        repeated.
        """
        for job in self._load.jobs:
            if not job.open:
                continue
            answer = caller.answered("GET", f"/v1/operations/{job.open}")
            self._case.assertEqual(200, answer.status, answer.body)
            self._case.assertNotEqual("running", answer.body["state"], job)
            if not job.nodes:
                self._send_again(caller, job)

    def _send_again(self, caller: Caller, job: Job) -> None:
        body = {"claim": job.claim}
        answer = caller.answered("POST", "/v1/nodes", body, f"{job.key}-node")
        self._case.assertEqual((202, job.open), (answer.status, answer.body["id"]), answer.body)
        ended = operation_end(self._case, caller, answer.body["id"])
        self._case.assertIn(ended["state"], ("done", "failed"))

    def _check_nodes(self) -> None:
        """Check that the store has exactly the existing nodes."""
        with Store(self._state) as store:
            known = Counter((node.podm, frozenset(node.blocks)) for node in store.nodes.list())
        there = Counter(
            (name, frozenset(node)) for name in self._podms for node in self._served_nodes(name)
        )
        self._case.assertEqual(known, there)
        deleted = {node["id"] for job in self._load.jobs if job.is_deleted for node in job.nodes}
        with Store(self._state) as store:
            self._case.assertEqual(set(), deleted & {node.id for node in store.nodes.list()})

    def _served_nodes(self, name: str) -> list[list[str]]:
        documents = self._podms[name].documents
        return [
            [block["@odata.id"] for block in document["Links"]["ResourceBlocks"]]
            for document in map(documents.get, list(documents))
            if str(document.get("Name", "")).startswith("vs-")
        ]


def age(state: str) -> None:
    """Age everything in a store: claims that may expire, and signs of life of processes."""
    claims, records = tables.claims, tables.records
    engine = raw_engine(state)
    try:
        with engine.begin() as connection:
            connection.execute(sa.update(claims).values(
                expires_at=claims.c.expires_at - AGES_S, sweep_at=claims.c.sweep_at - AGES_S
            ).where(claims.c.state.in_(ACTIVE_STATES)))  # fmt: skip
            connection.execute(sa.update(records).values(at=records.c.at - AGES_S))
    finally:
        engine.dispose()


def reconcile(case: unittest.TestCase, caller: Caller) -> None:
    """Reconcile claims and nodes through the service."""
    answer = caller.answered("POST", "/v1/reconciliations", {"keep_s": 1e9})
    case.assertEqual(202, answer.status, answer.body)
    ended = operation_end(case, caller, answer.body["id"])
    case.assertEqual("done", ended["state"], ended)


def operation_end(case: unittest.TestCase, caller: Caller, id_: str) -> dict[str, object]:
    """Return an operation after it has ended."""
    for _ in range(3000):
        answer = caller.answered("GET", f"/v1/operations/{id_}")
        case.assertEqual(200, answer.status, answer.body)
        if answer.body["state"] != "running":
            found: dict[str, object] = answer.body
            return found
        time.sleep(PAUSE_S)
    raise AssertionError(f"operation {id_} does not end")
