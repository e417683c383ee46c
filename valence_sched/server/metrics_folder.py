# SPDX-License-Identifier: Apache-2.0
"""The folder in which the processes of one service add up their metrics."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # read when the library of metrics is imported
PREFIX = "valence-scheduler-"  # of a folder that is made here


@contextlib.contextmanager
def metrics_folder(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Have a folder for metrics, unless the environment names one.

    Worker processes leave this block as well when they end: only the first process removes it.
    """
    if VARIABLE in environ:
        yield
        return
    folder, process = tempfile.mkdtemp(prefix=PREFIX), os.getpid()
    environ[VARIABLE] = folder
    try:
        yield
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def without_own_folder(environ: MutableMapping[str, str]) -> None:
    """Let a program that takes over make a folder of its own: one that was made here ends first."""
    if os.path.basename(environ.get(VARIABLE, "")).startswith(PREFIX):
        del environ[VARIABLE]
