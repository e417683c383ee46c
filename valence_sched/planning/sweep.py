# SPDX-License-Identifier: Apache-2.0
"""Sweep: replays one workload on scenarios, under policies and with seeds, as independent runs.

Joblib starts the runs, in processes of this machine or on a Dask cluster. A journal stores finished
runs; the output is JSON Lines, CSV or Parquet.
"""

import contextlib
import csv
import fcntl
import hashlib
import importlib
import io
import itertools
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple, Self

from msgspec.json import encode

from valence_sched.errors import (
    InputError,
    SchedulerError,
    UsageError,
    describe_error,
    needing,
    one_line,
)
from valence_sched.model.codec import decode
from valence_sched.model.inventory import to_json
from valence_sched.model.replay import SweepKey, SweepRun, sweep_run_of
from valence_sched.planning import workload as workloads
from valence_sched.planning.replay import check_runs, replay_one
from valence_sched.planning.site import Site

DASK = "dask:"
CONNECT_S = 10.0

#: A workload that another process can replay.
PortableWorkload = workloads.CompiledWorkload | workloads.SyntheticWorkload


class SweepTask(NamedTuple):
    """One run to make, with all data that another process needs for it."""

    site: Site
    policy: str | None
    seed: int
    workload: PortableWorkload
    question: str
    strict: bool


Run = Callable[[SweepTask], SweepRun]
#: Runs tasks, and yields their results in the order in which they finish.
Workers = Callable[[Run, Iterable[SweepTask]], Iterator[SweepRun]]


class Sweep:
    """The runs of a workload on sites, under policies and with seeds.

    Without ``policies``, each request has its own policy, by default the policy of the site. A seed
    draws the requests of a synthetic workload; for a file it is the seed of each request. Same
    errors as the workload and ``check_runs``.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        policies: Sequence[str],
        seeds: Sequence[int],
        workload: workloads.Workload,
        *,
        strict: bool = False,
    ) -> None:
        check_runs(sites, policies)
        self._sites = {site.name: site for site in sites}
        self._strict = strict
        self._workloads = _portable(workload, sites)
        triples = itertools.product(self._sites, policies or (None,), seeds)
        keys = {SweepKey(*one) for one in triples}
        self.keys = sorted(keys, key=lambda key: (key.scenario, key.policy or "", key.seed))
        #: The digest of the sites and the workload. Policies and seeds are in the key of each run,
        #: so that a sweep can be continued with more of them.
        digest = hashlib.sha256(b"strict" if strict else b"")
        for name in sorted(self._sites):
            site = self._sites[name]
            policy_list, flavors = list(site.policies.values()), list(site.flavors.values())
            digest.update(to_json([name, site.policy, policy_list, flavors, site.skipped]))
            for podm in site.podms:
                digest.update(to_json(podm))
            digest.update(self._workloads[name].digest())
        self.question = digest.hexdigest()[:32]

    def run(
        self, workers: Workers, finished: Iterable[SweepRun], record: Callable[[SweepRun], None]
    ) -> list[SweepRun]:
        """Make and ``record`` the runs that are not ``finished``; return all in order of keys."""
        wanted = set(self.keys)
        runs = {one.key: one for one in finished if one.key in wanted}
        tasks = map(self._task, [key for key in self.keys if key not in runs])
        for one in workers(sweep_run, tasks):
            runs[one.key] = one
            record(one)
        if left := len(self.keys) - len(runs):
            raise SchedulerError(f"{left:,} runs did not finish: repeat the sweep")
        return [runs[key] for key in self.keys]

    def _task(self, key: SweepKey) -> SweepTask:
        site, seeded = self._sites[key.scenario], self._workloads[key.scenario].with_seed(key.seed)
        return SweepTask(site, key.policy, key.seed, seeded, self.question, self._strict)


def sweep_run(task: SweepTask) -> SweepRun:
    result = replay_one(task.site, task.policy, task.workload, strict=task.strict)
    return sweep_run_of(result, task.question, task.seed)


def _portable(workload: workloads.Workload, sites: Sequence[Site]) -> dict[str, PortableWorkload]:
    """Return the workload by site name; sites with the same flavors share a workload."""
    if isinstance(workload, workloads.SyntheticWorkload):
        return {site.name: workload for site in sites}
    keys = {site.name: to_json(list(site.flavors.values())) for site in sites}
    flavors = {keys[site.name]: site.flavors for site in sites}
    compiled = {key: workloads.compile_workload(workload, one) for key, one in flavors.items()}
    return {name: compiled[key] for name, key in keys.items()}


Encode = Callable[[Sequence[SweepRun]], bytes]


def encoder(file: str) -> Encode:
    """Return the encoder for a suffix. UsageError: it is unknown. SchedulerError: no pyarrow."""
    suffix = PurePath(file).suffix
    if suffix == ".jsonl":
        return lambda runs: b"".join(encode(run) + b"\n" for run in runs)
    if suffix == ".csv":
        return _csv
    if suffix == ".parquet":
        return _parquet_encoder()
    raise UsageError(f"--output: {file[:60]!r} does not end in .jsonl, .csv or .parquet")


def _csv(runs: Sequence[SweepRun]) -> bytes:
    text, columns = io.StringIO(newline=""), _columns(runs)
    rows = zip(*columns.values(), strict=True)
    csv.writer(text, lineterminator="\n").writerows(itertools.chain([columns], rows))
    return text.getvalue().encode()


def _parquet_encoder() -> Encode:
    pyarrow = _required("pyarrow", "a .parquet file", "parquet")
    parquet = importlib.import_module("pyarrow.parquet")

    def encode(runs: Sequence[SweepRun]) -> bytes:
        types: dict[tuple[type, ...], Any] = {(str,): pyarrow.string(), (int,): pyarrow.int64()}
        columns = {}
        for name, cells in _columns(runs).items():
            kinds = tuple({type(cell) for cell in cells if cell is not None})
            columns[name] = pyarrow.array(cells, types.get(kinds, pyarrow.float64()))
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), stream)
        return stream.getvalue()

    return encode


def _columns(runs: Sequence[SweepRun]) -> dict[str, list[Any]]:
    rows = [run.cells() for run in runs]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


class SweepJournal:
    """A file of finished runs, open for appending, and locked against other sweeps.

    InputError: the file cannot be read or written, or another sweep has it.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            self._stream: BinaryIO = open(file, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._unwritable(error) from None
        # a special file cannot be truncated after an incomplete last line
        if not stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):
            self._stream.close()
            raise InputError(file, "", "a special file", "a file of JSON Lines to add runs to")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._stream.close()
            hint = "wait for its end, or use another file"
            raise InputError(file, "", "another sweep", "an unused file", hint) from None
        self._whole = 0  # the size up to the last whole line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def finished(self, question: str) -> list[SweepRun]:
        """Return the runs in the file, each once; InputError for a run of a different sweep."""
        try:
            self._stream.seek(0)
            *lines, cut = self._stream.read().split(b"\n")
            self._whole = self._stream.tell() - len(cut)
        except OSError as error:
            raise self._unwritable(error) from None
        runs = {}
        for number, line in enumerate(lines, 1):
            place = f"{self._file}: line {number}"
            run = decode(line, SweepRun, place)
            if run.question != question:
                hint = "another inventory, scenario, policy, flavor or workload: use another file"
                found, expected = f"a run of sweep {run.question[:12]}", f"of {question[:12]}"
                raise InputError(place, "", found, expected, hint)
            runs[run.key] = run
        return list(runs.values())

    def add(self, run: SweepRun) -> None:
        """Add a finished run; SchedulerError if it cannot be written."""
        line = encode(run) + b"\n"
        try:
            if os.fstat(self._stream.fileno()).st_size != self._whole:
                self._stream.truncate(self._whole)
            self._whole += len(line)
            if self._stream.write(line) != len(line):
                raise SchedulerError(f"{self._file}: a run was written in part: is the disk full?")
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        reason = (error.strerror or str(error)).lower()
        return InputError(self._file, "", reason, "a file of JSON Lines to add runs to")


@contextlib.contextmanager
def opened_workers(jobs: int | None = None, backend: str | None = None) -> Iterator[Workers]:
    """Yield ``jobs`` processes of this machine, by default one per core, or the Dask cluster.

    UsageError: a ``backend`` that is not ``dask:ADDRESS``, or one with ``jobs``. SchedulerError: a
    library is not installed, or the cluster does not answer.
    """
    if backend is not None and (not backend.startswith(DASK) or backend == DASK):
        text = f"--backend: {backend[:60]!r} is not dask:ADDRESS, as in dask:tcp://127.0.0.1:8786"
        raise UsageError(text)
    if backend is not None and jobs is not None:
        raise UsageError("--jobs: not allowed with --backend, which uses all its workers")
    joblib = _required("joblib")
    if backend is None:
        count, hint = jobs or joblib.cpu_count(), "lower --jobs to use less memory"
        with joblib.parallel_config(backend="loky", n_jobs=count):
            try:
                yield _parallel_runs(joblib, (BrokenProcessPool,), hint)
            finally:
                if count > 1:
                    joblib.externals.loky.get_reusable_executor().shutdown(kill_workers=True)
        return
    distributed, address = _required("distributed"), backend.removeprefix(DASK)
    failures = (distributed.KilledWorker, CancelledError, ImportError, OSError)
    with _connected(distributed, address), joblib.parallel_config(backend="dask", n_jobs=-1):
        yield _parallel_runs(joblib, failures, f"check the workers of {address}")


def _parallel_runs(joblib: Any, failures: tuple[type[Exception], ...], advice: str) -> Workers:
    """Return workers of joblib; ``failures`` are their error classes, reported with ``advice``."""

    def make(run: Run, tasks: Iterable[SweepTask]) -> Iterator[SweepRun]:
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        delayed = joblib.delayed(run)
        # workers start with Ctrl-C blocked, which a terminal sends to them as well
        resource_tracker.ensure_running()  # its start would unblock Ctrl-C
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            try:
                started = parallel(delayed(task) for task in tasks)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            with contextlib.closing(started) as runs:
                yield from runs
        except failures as error:
            text = one_line(describe_error(error), 200)
            raise SchedulerError(f"the workers ended: {text}; {advice}") from None

    return make


@contextlib.contextmanager
def _connected(distributed: Any, address: str) -> Iterator[None]:
    try:
        client = distributed.Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        text = one_line(describe_error(error), 200)
        hint = "start dask scheduler and dask worker there, and give the address that it prints"
        found = f"--backend: no Dask scheduler at {address}: {text}"
        raise SchedulerError(f"{found}; {hint}") from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise SchedulerError(f"--backend: {address} has no worker: start dask worker {address}")
        yield


def _required(library: str, user: str = "a sweep", extra: str = "sweep") -> Any:
    with needing(library, user, extra):
        return importlib.import_module(library)
