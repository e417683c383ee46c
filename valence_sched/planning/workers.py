# SPDX-License-Identifier: Apache-2.0
"""Workers: the processes that make the runs of a sweep, here or on a Dask cluster, by joblib."""

from __future__ import annotations

import contextlib
import importlib
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import Any

from valence_sched.errors import SchedulerError, UsageError, describe_error, one_line
from valence_sched.model.sweep import SweepRun
from valence_sched.planning.sweep import SweepTask, Workers

DASK = "dask:"
INSTALL = "pip install 'valence-sched[sweep]'"
CONNECT_S = 10.0


@contextlib.contextmanager
def opened_workers(jobs: int | None = None, backend: str | None = None) -> Iterator[Workers]:
    """Yield so many processes of this machine, by default one for each core, or of a cluster.

    ``backend`` is ``dask:ADDRESS``, of the scheduler of a Dask cluster whose workers have
    valence-sched as well; all of them work.

    Raises:
        UsageError: another backend, or one together with ``jobs``.
        SchedulerError: a library is not installed, or the cluster is not reached.
    """
    if backend is not None and (not backend.startswith(DASK) or backend == DASK):
        text = f"--backend: {backend[:60]!r} is not dask:ADDRESS, as in dask:tcp://127.0.0.1:8786"
        raise UsageError(text)
    if backend is not None and jobs is not None:
        raise UsageError("--jobs: not with --backend, all of whose workers make runs")
    joblib = _required("joblib")
    if backend is None:
        with _local(joblib, jobs):
            yield _ParallelRuns(joblib, (BrokenProcessPool,), "fewer --jobs need less memory")
        return
    distributed, address = _required("distributed"), backend.removeprefix(DASK)
    failures = (distributed.KilledWorker, CancelledError, ImportError, OSError)
    with _connected(distributed, address), joblib.parallel_config(backend="dask", n_jobs=-1):
        yield _ParallelRuns(joblib, failures, f"check the workers of {address}")


class _ParallelRuns:
    """Makes runs by joblib, where it was told to; ``failures`` are errors of workers, not of runs.

    ``advice`` says what helps after one.
    """

    def __init__(self, joblib: Any, failures: tuple[type[Exception], ...], advice: str) -> None:
        self._joblib, self._failures, self._advice = joblib, failures, advice

    def __call__(
        self, run: Callable[[SweepTask], SweepRun], tasks: Iterable[SweepTask]
    ) -> Iterator[SweepRun]:
        parallel = self._joblib.Parallel(return_as="generator_unordered", batch_size=1)
        delayed = self._joblib.delayed(run)
        try:
            with _interrupts_held():  # what starts here leaves Ctrl-C to this process
                started = parallel(delayed(task) for task in tasks)
            with contextlib.closing(started) as runs:
                yield from runs
        except self._failures as error:
            text = one_line(describe_error(error), 200)
            raise SchedulerError(f"the workers ended: {text}; {self._advice}") from None


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait; threads and processes that start meanwhile never get it.

    A terminal sends it to all of them, and a worker would tell where it was interrupted.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # to start it would let Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _local(joblib: Any, jobs: int | None) -> Iterator[None]:
    """Make runs in processes of this machine, which end with the sweep."""
    count = jobs or joblib.cpu_count()
    with joblib.parallel_config(backend="loky", n_jobs=count):
        try:
            yield
        finally:
            if count > 1:
                joblib.externals.loky.get_reusable_executor().shutdown(kill_workers=True)


@contextlib.contextmanager
def _connected(distributed: Any, address: str) -> Iterator[None]:
    try:
        client = distributed.Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        text = one_line(describe_error(error), 200)
        raise SchedulerError(
            f"--backend: no Dask scheduler at {address}: {text}; start dask scheduler and "
            "dask worker there, and name the address that it tells"
        ) from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise SchedulerError(f"--backend: {address} has no worker: start dask worker {address}")
        yield


def _required(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise SchedulerError(f"a sweep needs {library}: {INSTALL}") from None
