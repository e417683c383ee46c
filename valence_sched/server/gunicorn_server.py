# SPDX-License-Identifier: Apache-2.0
"""Serves the application with gunicorn: worker processes of several threads each."""

from __future__ import annotations

import time
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from prometheus_client import multiprocess

from valence_sched.server.logs import configure_logs
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import ServiceSettings

GRACEFUL_S = 30  # how long a worker that is to end finishes what it answers
HEAD_BYTES = 8190  # of the first line, and of each of the other lines of a request


class JsonLogger(Logger):  # type: ignore[misc]
    """Gunicorn's log as that of the service."""

    def setup(self, cfg: Any) -> None:
        """Send both logs to standard error."""
        super().setup(cfg)
        configure_logs()


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """Gunicorn over the settings of the service."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._process: ServiceProcess | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set what gunicorn is told; its own files and variables are not read."""
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        for name, value in {
            "bind": f"{host}:{settings.port}",
            "workers": settings.workers,
            "worker_class": "gthread",
            "threads": settings.threads,
            "timeout": 60,
            "graceful_timeout": GRACEFUL_S,
            "keepalive": 5,
            "limit_request_line": HEAD_BYTES,
            "limit_request_field_size": HEAD_BYTES,
            "certfile": settings.certificate,
            "keyfile": settings.private_key,
            "proc_name": "valence-scheduler",
            "logger_class": JsonLogger,
            "control_socket_disable": True,
            "worker_exit": lambda _server, _worker: self._finish(),
            "child_exit": lambda _server, worker: _forget_process(worker.pid),
        }.items():
            if name in self.cfg.settings:  # an older gunicorn has no control socket
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the application of a worker, made in that worker."""
        self._process = ServiceProcess(self._settings, time.monotonic)
        return self._process.application

    def _finish(self) -> None:
        if self._process is not None:
            self._process.operations.wait(GRACEFUL_S)


def _forget_process(pid: int) -> None:
    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def serve(settings: ServiceSettings) -> None:
    """Serve until a signal ends the process."""
    GunicornServer(settings).run()
