# SPDX-License-Identifier: Apache-2.0
"""Load: seeded clients that decide, claim, compose and release, and record every answer.

Each job has its own key, with which a client repeats it until it is answered.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from tests.proofs.caller import Caller

CORES = 8
REQUEST = {"properties": {"processor": {"total_cores": CORES}}}
POLLS = 150
Kind = Literal["decide", "keep", "release", "compose"]


@dataclass
class Job:
    """The requests of a client with one key, and their answers."""

    kind: Kind
    key: str
    claims: set[str] = field(default_factory=set)  # ids of all its claims
    is_refused: bool = False  # nothing fits
    is_released: bool = False
    operations: list[str] = field(default_factory=list)  # ids
    nodes: list[dict[str, Any]] = field(default_factory=list)  # answered as composed
    is_deleted: bool = False
    open: str = ""  # an operation whose end was not seen

    @property
    def claim(self) -> str | None:
        """Return the id of its claim."""
        return next(iter(self.claims), None)


class Load:
    """``clients`` in parallel, with this number of jobs each; the same seed gives the same jobs."""

    def __init__(self, url: str, clients: int, jobs: int, seed: int, *, mark: str = "job") -> None:
        self._url, self._seed, self._mark = url, seed, mark
        self._jobs = jobs
        self._lock = threading.Condition()
        self.jobs: list[Job] = []
        self.seen: Counter[int | str] = Counter()
        self.unexpected: list[str] = []
        self.errors: list[BaseException] = []
        self._ended = 0
        self._threads = [
            threading.Thread(target=self._client, args=(number,)) for number in range(clients)
        ]
        self.total = clients * jobs

    def start(self) -> None:
        """Start all clients."""
        for thread in self._threads:
            thread.start()

    def wait_for(self, share: float) -> None:
        """Wait until this share of all jobs has ended."""
        with self._lock:
            self._lock.wait_for(lambda: self.errors or self._ended >= share * self.total, 120)

    def finish(self) -> None:
        """Wait for all clients; raise the error that ended a client early."""
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _client(self, number: int) -> None:
        random = Random(f"{self._seed}/{number}")
        with contextlib.closing(Caller(self._url)) as caller:
            try:
                for turn in range(self._jobs):
                    kinds: list[Kind] = ["decide", "keep", "release", "release", "compose"]
                    job = Job(random.choice(kinds), f"{self._mark}-{number}-{turn}")
                    with self._lock:
                        self.jobs.append(job)
                    self._do(caller, job, random)
                    with self._lock:
                        self._ended += 1
                        self._lock.notify_all()
            except BaseException as error:
                with self._lock:
                    self.errors.append(error)
                    self._lock.notify_all()
            with self._lock:
                self.seen += caller.seen

    def _do(self, caller: Caller, job: Job, random: Random) -> None:
        if job.kind == "decide":
            self._expect(caller.answered("POST", "/v1/select_destinations", {"request": REQUEST}),
                         200)  # fmt: skip
            return
        for _ in range(random.choice((1, 1, 2))):  # some repeat a request that was answered
            answer = caller.answered("POST", "/v1/claims", {"request": REQUEST}, job.key,
                                     again=("claim_lost",))  # fmt: skip
            self._expect(answer, 200, 201)
            if answer.status == 200:
                job.is_refused = True
                return
            job.claims.add(answer.body["claim"]["id"])
        if job.kind == "release":
            self._expect(caller.answered("DELETE", f"/v1/claims/{job.claim}"), 204)
            job.is_released = True
        elif job.kind == "compose":
            self._compose(caller, job)

    def _compose(self, caller: Caller, job: Job) -> None:
        answer = caller.answered("POST", "/v1/nodes", {"claim": job.claim}, f"{job.key}-node")
        self._expect(answer, 202)
        ended = self._ended_operation(caller, job, answer.body)
        if ended is None or ended["state"] != "done":
            return
        job.nodes = ended["result"].get("nodes", [])
        for node in job.nodes:
            answer = caller.answered("DELETE", f"/v1/nodes/{node['id']}")
            if answer.status == 404:  # deleted before the connection was cut
                job.is_deleted = True
                return
            self._expect(answer, 202)
            ended = self._ended_operation(caller, job, answer.body)
            job.is_deleted = ended is not None and ended["state"] == "done"

    def _ended_operation(
        self, caller: Caller, job: Job, operation: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return an ended operation, None if it does not end because its process died."""
        job.operations.append(operation["id"])
        for _ in range(POLLS):
            if operation["state"] != "running":
                return operation
            time.sleep(0.02)
            answer = caller.answered("GET", f"/v1/operations/{operation['id']}")
            self._expect(answer, 200)
            operation = answer.body
        job.open = operation["id"]
        return None

    def _expect(self, answer: Any, *statuses: int) -> None:
        if answer.status not in statuses:
            raise AssertionError(f"{answer.status}, expected {statuses}: {answer.body}")
