# SPDX-License-Identifier: Apache-2.0
"""The command ``podm watch``: keeps the readings of registered pod managers fresh."""

from __future__ import annotations

import logging

from valence_sched_cli import base
from valence_sched_cli.late import model
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import format_time


class WatchPodm(base.Command):
    """Keep the readings of pod managers fresh.

    Reads each registered pod manager again and again into the state, until Ctrl-C or SIGTERM ends
    it, which exits 0. One that sends events is read sooner for them. Each change is a line on
    standard error with its time: a pod manager that cannot be read, one that can again, and one
    that is not as it was, with the event or the interval for which it was read. Of several that
    share a state one reads; when it dies, another goes on. It can report what it reads to
    schedulers of another state, at an interval of its own. Zones below are polled by the service of
    a zone.
    """

    examples = (
        "--interval 30 --readers 8",
        "--report https://scheduler.example.org:8790 --report-interval 30",
    )
    arguments = """
        what --once: read each pod manager once, and exit; 5 when none could be read
        what --interval <seconds>=60: time between two readings of a pod manager (default: 60)
        what --max-interval <seconds>=900: longest time until one that fails is read again; it
            doubles with each failure (default: 900)
        what --open-after <failures>=5: failures in a row from which on one pod manager of all that
            fail is tried at a time (default: 5)
        what --event-pause <seconds>=5: shortest time between two readings of a pod manager that
            sends events (default: 5)
        what --no-events: read pod managers at their interval only
        what --full: read everything anew, not only what can have changed since the last time
        then --messaging <file>: YAML file of a message broker, over which processes hint at changes
        then --report <url>...: report what was read to the service at this URL, or with messaging
            to all that hear reports over the broker of --messaging (repeat for several)
        then --report-interval <seconds>=30: time between two reports of a pod manager (default: 30)
        then --report-policy <policy>...: report only the fields that this policy of the service
            reads (repeat for several)
        """
    through_service = False
    option_settings = {"report_policy": None}
    option_groups = (
        inventory.STATE,
        """
        inventory --readers <n>=32: how many pod managers are read at once at most (default: 32)
        inventory --request-timeout <seconds>=30: how long each pod manager may take to answer
            (default: 30)
        inventory --parallel <requests>=4: how many requests at once each pod manager gets at most
            (default: 4)
        """,
    )

    def take_action(self, args: base.Args) -> None:
        live = model.reading.ReadOptions(
            state=args.state, timeout_s=args.request_timeout, parallel=args.parallel, full=args.full
        )
        pace = model.reading.ReadPace(
            interval_s=args.interval,
            backoff_s=args.max_interval,
            open_after=args.open_after,
            events=not args.no_events,
            event_pause_s=args.event_pause,
        )
        try:
            self.scheduler_app.watch(
                live,
                self._log_at,
                pace=pace,
                threads=args.readers,
                once=args.once,
                messaging=args.messaging,
                report=args.report,
                report_interval_s=args.report_interval,
                report_policies=args.report_policy,
            )
        except KeyboardInterrupt:
            if args.once:
                raise

    def _log_at(self, text: str, level: int = logging.WARNING) -> None:
        """Log a line with the time, as nothing else says when a change was seen."""
        self.log_line(f"{format_time(self.scheduler_app.now().timestamp())} {text}", level)
