# SPDX-License-Identifier: Apache-2.0
"""A measurement, its probe, and their ratio."""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

#: Runs each benchmark in its smallest size: the figures mean nothing, but everything is run.
TINY = os.environ.get("VALENCE_SCHED_BENCH") == "tiny"


def sized(full: int, tiny: int) -> int:
    """Return a size or a number of repetitions: ``full``, or ``tiny`` for a trial run."""
    return tiny if TINY else full


PROBES = sized(9, 1)  # passes of the probe before and after each turn
SLICE_S, SLICE_PASSES = 0.5, sized(100, 1)  # of a program, then of the probe


class Measurement(msgspec.Struct, kw_only=True):
    """One line of output: ``ratio`` is ``value / probe`` and should not exceed ``target``."""

    name: str
    value: float
    unit: str
    probe: float
    ratio: float
    target: float

    def line(self) -> str:
        """Return the measurement as a JSON line with few digits."""
        rounded = {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in msgspec.to_builtins(self).items()
        }
        return msgspec.json.encode(rounded).decode()


def against(name: str, value: float, probe: float, target: float, unit: str = "ms") -> Measurement:
    """Return a measurement with its ratio to a probe."""
    return Measurement(
        name=name, value=value, unit=unit, probe=probe, ratio=value / probe, target=target
    )


def peak_mib() -> float:
    """Return the peak memory of this process, as Linux reports it.

    ``getrusage`` is not used: its peak includes the memory of the parent at the fork.
    """
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found, "no VmHWM in /proc/self/status"
    return int(found[1]) / 1024


def median_ms(
    run: Callable[[], Any],
    times: int,
    before: Callable[[], Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of a call in milliseconds by a clock; ``before`` is not timed."""
    found = []
    for _ in range(sized(times, 1)):
        if before is not None:
            before()
        started = clock()
        run()
        found.append((clock() - started) * 1000)
    return statistics.median(found)


def in_turns(
    name: str, run: Callable[[], Any], times: int, target: float, calls: int = 1
) -> Measurement:
    """Return a measurement in CPU ms; the probe, the numpy pass, runs before and after each turn.

    A turn is the median of some ``calls``. The ratio is the median of the ratios of all turns:
    changes of the processor's speed and other load change both.
    """
    probe, cpu = numpy_pass(), time.process_time
    median_ms(probe, 100, clock=cpu)
    values, probes, ratios = [], [], []
    before = median_ms(probe, PROBES, clock=cpu)
    for _ in range(sized(times, 1)):
        value, after = median_ms(run, calls, clock=cpu), median_ms(probe, PROBES, clock=cpu)
        values.append(value)
        probes.append((before + after) / 2)
        ratios.append(value / probes[-1])
        before = after
    middle = statistics.median
    return Measurement(
        name=name, value=middle(values), unit="ms", probe=middle(probes), ratio=middle(ratios),
        target=target,
    )  # fmt: skip


def program_in_slices(words: Sequence[str]) -> tuple[float, float, float, str]:
    """Run a program to its end; return its CPU ms, the probe's, their ratio, and its output.

    The program is stopped after each slice, the probe runs, and the program continues: the CPU time
    of each slice is divided by the time of the probe at that moment. The probe does not change the
    work of the program.
    """
    probe = numpy_pass()
    median_ms(probe, 100, clock=time.process_time)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.DEVNULL)
        try:
            passes, total, probes = _slices(process, probe)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            process.kill()  # an interrupted program may be stopped; no signal after its end
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(words), text)
    took = (usage.ru_utime + usage.ru_stime) * 1000
    return took, statistics.median(probes), passes * took / total, text


def _slices(
    process: subprocess.Popen[bytes], probe: Callable[[], Any]
) -> tuple[float, float, list[float]]:
    """Run a program to its end; return its CPU time in passes and ms, and each probe."""
    passes, total, probes = 0.0, 0.0, list[float]()
    while True:
        ended = _ends_within(process, SLICE_S)
        if not ended:
            os.kill(process.pid, signal.SIGSTOP)  # Popen would wait for an ended program
        probes.append(median_ms(probe, SLICE_PASSES, clock=time.process_time))
        now = cpu_ms(process.pid)
        passes += (now - total) / probes[-1]
        total = now
        if ended:
            return passes, total, probes
        os.kill(process.pid, signal.SIGCONT)


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether a program ends within some time; it is not reaped."""
    deadline = time.monotonic() + seconds
    flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, flags) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process until now, as Linux reports it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000.0 / os.sysconf("SC_CLK_TCK")


def numpy_pass(rows: int = 10_000, classes: int = 8) -> Callable[[], int]:
    """Return the probe: one preallocated pass over a table of float64 columns.

    The pass compares every column with a request, combines the results, weighs every column, and
    takes the best row.
    """
    random = np.random.default_rng(1)
    table = random.uniform(0.0, 1000.0, (classes, rows))
    asked = np.full(classes, 10.0)
    weights = np.full(classes, 1.0 / classes)
    mask, fits = np.empty(rows, dtype=bool), np.empty(rows, dtype=bool)
    score, term = np.empty(rows), np.empty(rows)

    def run() -> int:
        fits[:] = True
        score[:] = 0.0
        for column, need, weight in zip(table, asked, weights, strict=True):
            np.greater_equal(column, need, out=mask)
            np.logical_and(fits, mask, out=fits)
            np.multiply(column, weight, out=term)
            np.add(score, term, out=score)
        np.multiply(score, fits, out=score)
        return int(score.argmax())

    return run
