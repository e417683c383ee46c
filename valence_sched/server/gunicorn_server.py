# SPDX-License-Identifier: Apache-2.0
"""Serves the application with gunicorn: worker processes of several threads each."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from prometheus_client import multiprocess

from valence_sched.errors import SchedulerError, UsageError
from valence_sched.model.redact import redact_text
from valence_sched.server.process import configure_logs, without_own_folder
from valence_sched.server.wiring import ServiceProcess
from valence_sched.server.worker import ServiceWorker
from valence_sched.service.app import count_failure
from valence_sched.service.settings import Limits, ServiceSettings, is_loopback

LOG = logging.getLogger("valence_sched.server")

HEAD_BYTES = 8190  # most bytes of a header line of a request


class JsonLogger(Logger):  # type: ignore[misc]
    """Sends gunicorn's log to the log of the service."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        configure_logs()


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """Gunicorn with the settings of the service; SIGHUP calls ``read`` to read them again."""

    def __init__(self, settings: ServiceSettings, read: Callable[[], ServiceSettings]) -> None:
        self._settings, self._read = settings, read
        self._process: ServiceProcess | None = None
        super().__init__()

    @property
    def limits(self) -> Limits:
        return self._settings.limits

    def load_config(self) -> None:
        """Set the options of gunicorn; its own configuration files and variables are ignored."""
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        for name, value in {
            "bind": f"{host}:{settings.port}",
            "workers": settings.workers,
            "worker_class": ServiceWorker,
            "threads": settings.threads,
            "timeout": max(60, 2 * settings.stop_s + 10),  # a worker that ends has no heartbeat
            "graceful_timeout": settings.stop_s,
            "keepalive": 5,
            "limit_request_line": HEAD_BYTES,
            "limit_request_field_size": HEAD_BYTES,
            "certfile": settings.certificate,
            "keyfile": settings.private_key,
            "proc_name": "valence-scheduler",
            "logger_class": JsonLogger,
            "control_socket_disable": True,
            "when_ready": lambda arbiter: self._check_listeners(arbiter.LISTENERS),
            "pre_exec": lambda arbiter: without_own_folder(arbiter.cfg.env_orig),
            "worker_exit": lambda _server, _worker: self._finish(),
            "child_exit": lambda _server, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
        }.items():
            if name in self.cfg.settings:  # old versions of gunicorn lack some options
                self.cfg.set(name, value)

    def reload(self) -> None:
        try:
            self._settings = self._read()
        except SchedulerError as error:
            LOG.error("invalid settings are not loaded: %s", redact_text(str(error)))
        super().reload()

    def load(self) -> Any:
        """Return the application of a worker; it is made in the worker."""
        self._process = ServiceProcess(self._settings, time.monotonic)
        self._process.start()
        return self._process.application

    def count_failure(self, host: str) -> None:
        if self._process is not None:
            count_failure(self._process.parts.rates, host)

    def _check_listeners(self, listeners: Sequence[Any]) -> None:
        """Refuse inherited sockets that other machines can reach without authentication."""
        if self._settings.auth != "none":
            return
        addresses = [listener.sock.getsockname() for listener in listeners]
        for host, port, *_ in (one for one in addresses if isinstance(one, tuple)):
            if not is_loopback(host):
                text = f"the socket {host}:{port} is reachable from other machines without"
                hint = "set auth to basic, or make the socket listen on 127.0.0.1"
                raise UsageError(f"{text} authentication: {hint}")

    def _finish(self) -> None:
        if self._process is not None:
            self._process.stop(self._settings.stop_s)
