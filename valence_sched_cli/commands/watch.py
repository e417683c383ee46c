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

    Reads each registered pod manager repeatedly into the state, until Ctrl-C or SIGTERM ends it,
    which exits 0. An event of a pod manager causes an earlier reading. Standard error gets a line
    when a pod manager becomes unreachable, becomes reachable again, or has changed: the time, and
    the event or interval that caused the reading. If several watches share a state, one of
    them reads; when it ends, another takes over. With --report the readings are also sent to
    schedulers of another state. Child zones are not polled: the service of a zone does that.
    """

    examples = (
        "--interval 30 --readers 8",
        "--report https://scheduler.example.org:8790 --report-interval 30",
    )
    arguments = """
        what --once: read each pod manager once, and exit; exit code 5 if all readings failed
        what --interval <seconds>=60: time between readings of a pod manager (default: 60)
        what --max-interval <seconds>=900: longest interval after failures; the interval doubles
            with each failure (default: 900)
        what --open-after <failures>=5: after this many consecutive failures, try the failing pod
            managers one at a time (default: 5)
        what --event-pause <seconds>=5: shortest time between readings that events cause (default:
            5)
        what --no-events: ignore events; read only at the interval
        what --full: read every resource again, not only those that may have changed since the last
            reading
        then --messaging <file>: YAML file of a message broker that announces changes to other
            processes
        then --report <url>...: report the readings to the service at this URL, or with messaging to
            all subscribers of the broker of --messaging (repeat for several)
        then --report-interval <seconds>=30: time between reports of a pod manager (default: 30)
        then --report-policy <policy>...: report only the fields that this policy of the service
            uses (repeat for several)"""
    through_service = False
    option_settings = {"report_policy": None}
    option_groups = (
        inventory.STATE,
        """
        inventory --readers <n>=32: maximum number of concurrent readings (default: 32)
        inventory --request-timeout <seconds>=30: how long to wait for each pod manager (default:
            30)
        inventory --parallel <requests>=4: maximum number of concurrent requests to each pod manager
            (default: 4)""",
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
        """Log a line with the time at which the change was seen."""
        self.log_line(f"{format_time(self.scheduler_app.now().timestamp())} {text}", level)
