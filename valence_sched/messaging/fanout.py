# SPDX-License-Identifier: Apache-2.0
"""Fan-out: notifies all processes of a site through RabbitMQ when the state changes.

A lost, duplicate, late or forged hint changes no answer, since answers depend only on the state.
Sending never waits for the broker, and an unreachable broker causes no failure. Reports of pod
managers are sent the same way to the processes that store them.
"""

import contextlib
import logging
import os
import ssl
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg
from oslo_messaging import opts

from valence_sched.errors import ServiceError, UsageError, one_line
from valence_sched.model.dispatch import MessagingSettings
from valence_sched.model.http import default_authorities

LOG = logging.getLogger(__name__)

#: The largest number of names in a hint; a hint about more pod managers has no names.
MOST_NAMES = 1000
MAX_NAME = 1024
#: Seconds to wait for the end of sending and listening.
END_S = 3.0
#: Groups of options that the library reads but does not list.
_UNLISTED = ("oslo_messaging_metrics", "oslo_messaging_tracing")

Heard = Callable[[tuple[str, ...]], object]
Reported = Callable[[str, dict[str, Any]], object]


class HintFanout:
    """Sends hints, and calls ``heard`` with the names of each hint of another process.

    A hint without names only means that the state changed. ``reported`` is called with the name and
    the stats of each pod manager that reports. A background thread makes these calls. UsageError,
    without the URL, for an invalid URL.
    """

    def __init__(
        self, url: str, settings: MessagingSettings, heard: Heard, reported: Reported | None = None
    ) -> None:
        self._reported = reported
        self._heard, self._id = heard, uuid.uuid4().hex
        target = oslo_messaging.Target(exchange=settings.exchange, topic=settings.topic)
        self._transport = _transport(url, settings)
        endpoints = [_Endpoint(self._take, self._take_report)]
        self._server = oslo_messaging.get_rpc_server(
            self._transport, target(server=self._id), endpoints, executor="threading"
        )
        self._client = oslo_messaging.get_rpc_client(self._transport, target(fanout=True), retry=0)
        self._names: set[str] = set()
        self._wanted = self._ended = False
        self._change = threading.Condition()
        works = (self._listen, self._send_all)
        self._threads = [threading.Thread(target=it, daemon=True, name="hints") for it in works]
        self.listening = threading.Event()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, names: Iterable[str] = ()) -> None:
        """Send a hint that these pod managers changed; without names, that the state changed.

        Waiting hints are merged.
        """
        with self._change:
            self._names.update(names)
            self._wanted = True
            self._change.notify()

    def report(self, podm: str, stats: Mapping[str, Any]) -> None:
        """Send the stats of a pod manager to all receivers of reports; ServiceError on failure."""
        try:
            self._client.cast({}, "stats_reported", podm=podm, stats=stats, sender=self._id)
        except Exception as error:
            raise ServiceError(f"the broker does not accept the report: {_text(error)}") from None

    def close(self) -> None:
        """Send waiting hints if the broker accepts them, then stop."""
        with self._change:
            self._ended = True
            self._change.notify()
        for thread in self._threads:
            thread.join(END_S)
        end = threading.Thread(target=self._end, daemon=True, name="hints")
        end.start()
        end.join(END_S)

    def _end(self) -> None:
        if self.listening.is_set():
            self._server.stop()
            self._server.wait()
        self._transport.cleanup()

    def _listen(self) -> None:
        """Connect; the library retries while the broker is unreachable."""
        try:
            self._server.start()
        except Exception as error:
            LOG.warning("hints are not received: %s", _text(error))
        else:
            self.listening.set()

    def _send_all(self) -> None:
        failed = False
        while True:
            with self._change:
                self._change.wait_for(lambda: self._wanted or self._ended)
                if not self._wanted:
                    return
                names, self._names, self._wanted = sorted(self._names), set(), False
            if len(names) > MOST_NAMES:
                names = []
            try:
                self._client.cast({}, "state_changed", podms=names, sender=self._id)
                failed = False
            except Exception as error:
                if not failed:
                    LOG.warning("hints are not sent: %s", _text(error))
                failed = True

    def _take(self, names: object, sender: object) -> None:
        """Pass on the valid part of a hint: any client of the broker may send messages."""
        if sender == self._id:
            return
        given = names if isinstance(names, list) and len(names) <= MOST_NAMES else []
        names = (name for name in given if isinstance(name, str))
        self._heard(tuple(name for name in names if 0 < len(name) <= MAX_NAME))

    def _take_report(self, podm: object, stats: object, sender: object) -> None:
        if self._reported is None or sender == self._id:
            return
        if isinstance(podm, str) and 0 < len(podm) <= MAX_NAME and isinstance(stats, dict):
            self._reported(podm, stats)


@dataclass(frozen=True)
class _Endpoint:
    """The endpoint whose public methods the library calls for a message."""

    _take: Callable[[object, object], object]
    _take_report: Callable[[object, object, object], object]

    def stats_reported(self, _context: object, **arguments: object) -> None:
        self._take_report(arguments.get("podm"), arguments.get("stats"), arguments.get("sender"))

    def state_changed(self, _context: object, **arguments: object) -> None:
        self._take(arguments.get("podms"), arguments.get("sender"))


def _transport(url: str, settings: MessagingSettings) -> Any:
    with contextlib.suppress(ValueError, cfg.Error):  # a query sets options of the library
        parts = urlsplit(url)
        if parts.scheme == "rabbit" and parts.hostname:
            return oslo_messaging.get_rpc_transport(_options(settings), url)
    expected = "rabbit://USER:PASSWORD@HOST:5672/"
    raise UsageError(f"messaging: url: not the URL of a broker: expected {expected}")


def _options(settings: MessagingSettings) -> Any:
    conf = cfg.ConfigOpts()
    conf([], project="valence-sched", default_config_files=[], default_config_dirs=[])
    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)
    for name in _UNLISTED:
        if (known := getattr(cfg.CONF, name, None)) is not None and name not in conf:
            kind = cast(Any, lambda value: value)
            plain = [cfg.Opt(key, type=kind, default=known[key]) for key in known]
            conf.register_opts(plain, group=name)
    values: dict[str, Any] = {
        "amqp_auto_delete": True,
        "rabbit_transient_queues_ttl": 600,
        "heartbeat_timeout_threshold": 30,
        "rabbit_interval_max": 10,
    }
    if settings.tls:
        usual = default_authorities(os.environ)
        if usual is None or not os.path.isfile(usual):  # the library does not accept a folder
            usual = ssl.get_default_verify_paths().cafile
        authorities = settings.cacert or usual
        if authorities is None:  # without authorities the library does not verify
            raise UsageError("messaging: tls needs a cacert: the system has no authorities")
        values |= {"ssl": True, "ssl_ca_file": authorities}
    for key, value in values.items():
        conf.set_override(key, value, group="oslo_messaging_rabbit")
    return conf


def _text(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", 300)
