# SPDX-License-Identifier: Apache-2.0
"""Request compiler: compiles the requests of one process, one that comes again only once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from valence_sched.app import App
from valence_sched.model.flavor import Flavor
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec

MOST_REQUESTS, MOST_BYTES = 256, 4096  # of all that are remembered, and of one of them


class RequestCompiler:
    """Compiles requests as an app does; ``near_maps`` locate what they are to be near to.

    Callers send few different requests, each many times. One that is near to nothing depends on
    itself and its flavor alone, so it is compiled once, and what deciding adds to it stays.
    """

    def __init__(self, app: App, near_maps: Sequence[str]) -> None:
        self._config, self._near_maps = app.config, near_maps
        self._compiled: dict[bytes, tuple[Flavor | None, Request]] = {}
        self.count = 0

    def compile(self, spec: RequestSpec, flavor: Flavor | None) -> Request:
        """Return a request compiled; errors as for a request of a scheduler."""
        if self._near_maps or spec.near or spec.prefer_near or self._config.default_owner:
            return self._compile(spec, flavor)
        key = msgspec.json.encode(spec)
        known = self._compiled.get(key)
        if known is not None and known[0] is flavor:
            return known[1]
        request = self._compile(spec, flavor)
        if len(key) <= MOST_BYTES:
            if len(self._compiled) >= MOST_REQUESTS:
                self._compiled.clear()  # no order of use to note where one is found
            self._compiled[key] = flavor, request
        return request

    def _compile(self, spec: RequestSpec, flavor: Flavor | None) -> Request:
        self.count += 1
        self._config.check_request(spec)
        try:
            return self._config.compile_request(spec, flavor, self._near_maps)
        finally:
            self._config.remarks.clear()
