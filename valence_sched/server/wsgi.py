# SPDX-License-Identifier: Apache-2.0
"""The application for another WSGI server, such as uWSGI or mod_wsgi.

``VALENCE_SCHEDULER_CONFIG`` names the file of its settings. A process starts its threads and its
log at its first request, because the server may fork before.
"""

import atexit
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.errors import AccessDenied, errors_at
from valence_sched.model.http import MEDIA_TYPE, problem_of
from valence_sched.model.inventory import to_json
from valence_sched.server.background import Application
from valence_sched.server.process import configure_logs
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service import settings

REFUSAL = "this service has no authentication and answers only local clients: set auth to basic"


def loopback_only(application: Application) -> Application:
    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if settings.is_loopback(environ.get("REMOTE_ADDR", "")):
            return application(environ, start_response)
        body = to_json(problem_of(AccessDenied(REFUSAL)))
        headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body)))]
        start_response("403 Forbidden", headers)
        return [body]

    return answer


LOG = logging.getLogger(__name__)

_path = os.environ.get(settings.CONFIG_VARIABLE)
with errors_at(settings.CONFIG_VARIABLE):
    _settings = settings.read_settings(_path) if _path else settings.DEFAULT_SETTINGS
_process = ServiceProcess(_settings, time.monotonic)
_answer = loopback_only(_process.application) if _settings.auth == "none" else _process.application
atexit.register(_process.stop, _settings.stop_s)


@functools.cache
def _begin() -> None:
    configure_logs()
    if not _path:
        LOG.warning("%s is not set: using the default settings", settings.CONFIG_VARIABLE)
    _process.start()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    _begin()
    return _answer(environ, start_response)
