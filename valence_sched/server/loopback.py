# SPDX-License-Identifier: Apache-2.0
"""Loopback: an application without authentication answers this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.errors import AccessDenied
from valence_sched.model.inventory import to_json
from valence_sched.model.problem import MEDIA_TYPE, problem_of
from valence_sched.service.settings import is_loopback

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

REFUSAL = "this service authenticates nobody and answers its own machine alone: set auth to basic"


def loopback_only(application: Application) -> Application:
    """Return an application that refuses requests of other machines.

    Another server listens for it, at an address that its own settings do not say.
    """

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if is_loopback(environ.get("REMOTE_ADDR", "")):
            return application(environ, start_response)
        body = to_json(problem_of(AccessDenied(REFUSAL)))
        headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body)))]
        start_response("403 Forbidden", headers)
        return [body]

    return answer
