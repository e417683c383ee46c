# SPDX-License-Identifier: Apache-2.0
"""Runs a program in the process of the tests, and restores the process afterwards."""

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from cliff.app import App

from tests.unit.store import dialects

MAINS = {"valence-sched": "valence_sched_cli.main", "openstack": "openstackclient.shell"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
WRITING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY  # two streams may share a file

dialects.register()


def run(
    script: Path, words: Sequence[str], environ: dict[str, str], folder: Path,
    streams: Sequence[Path],
) -> int:  # fmt: skip
    """Call the entry point of a script with arguments, variables, and files for its streams."""
    App.NAME = script.name  # cliff reads them from the process when it is imported
    main = importlib.import_module(MAINS[script.name]).main
    with _state(environ, folder), _logging(), _streams(streams):
        sys.argv = [str(script), *words]
        try:
            status = main(list(words))
        except SystemExit as done:
            status = done.code if isinstance(done.code, int) else int(done.code is not None)
            if isinstance(done.code, str):
                sys.stderr.write(f"{done.code}\n")
        except BaseException:
            traceback.print_exc()
            status = 1
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                status = status or 120
    return int(status or 0) & 0xFF


@contextlib.contextmanager
def _state(environ: dict[str, str], folder: Path) -> Iterator[None]:
    before, place, argv = dict(os.environ), os.getcwd(), sys.argv
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    threshold, umask = gc.get_threshold(), os.umask(0)
    os.umask(umask)
    try:
        _set_environ(environ)
        os.chdir(folder)
        with warnings.catch_warnings():
            yield
    finally:
        _set_environ(before)
        os.chdir(place)
        sys.argv = argv
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.umask(umask)
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _set_environ(environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Let the program configure logging as if it were alone; test servers run in other threads."""
    root, raises = logging.getLogger(), logging.raiseExceptions
    make_record, start = logging.getLogRecordFactory(), threading.Thread.start
    own = {threading.current_thread()}

    def start_own(thread: threading.Thread) -> None:
        if threading.current_thread() in own:
            own.add(thread)
        start(thread)

    def own_record(*words: Any, **more: Any) -> logging.LogRecord:
        record = make_record(*words, **more)
        if threading.current_thread() not in own:
            record.levelno = -1  # without a handler
        return record

    before = {name: _settings(logger) for name, logger in _loggers() if not _is_plain(logger)}
    root.handlers, root.level = [], logging.WARNING
    logging.setLogRecordFactory(own_record)
    try:
        with mock.patch.object(threading.Thread, "start", start_own):
            yield
    finally:
        logging.setLogRecordFactory(make_record)
        for name, logger in _loggers():
            if name in before or not _is_plain(logger):
                settings = before.get(name) or _settings(logging.Logger(name))
                for handler in logger.handlers:
                    if handler not in settings["handlers"]:
                        handler.close()
                vars(logger).update(settings)
        root.manager._clear_cache()  # type: ignore[attr-defined]
        logging.raiseExceptions = raises
        logging.captureWarnings(False)


def _loggers() -> Iterator[tuple[str, logging.Logger]]:
    yield "", logging.getLogger()
    for name, logger in logging.getLogger().manager.loggerDict.items():
        if isinstance(logger, logging.Logger):
            yield name, logger


def _is_plain(logger: logging.Logger) -> bool:
    """Return whether a logger is as it was made, as all but a few of a thousand are."""
    changed = logger.level or logger.handlers or logger.filters or logger.disabled
    return logger.propagate and not changed


def _settings(logger: logging.Logger) -> dict[str, Any]:
    return {"level": logger.level, "handlers": list(logger.handlers), "propagate": logger.propagate,
            "filters": list(logger.filters), "disabled": logger.disabled}  # fmt: skip


@contextlib.contextmanager
def _streams(paths: Sequence[Path]) -> Iterator[None]:
    """Redirect the three standard streams to files, for Python and for the system."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    before, saved = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in range(3)]
    try:
        for number, path in enumerate(paths):
            opened = os.open(path, WRITING if number else os.O_RDONLY, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
