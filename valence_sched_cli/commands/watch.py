# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm watch, serve``: read or serve pod managers until a signal."""

import logging

from valence_sched.errors import escape
from valence_sched_cli import base
from valence_sched_cli.late import app, model
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import natural, number
from valence_sched_cli.output.cells import format_time


class WatchPodm(base.Command):
    """Keep the readings of pod managers fresh.

    Reads each registered pod manager repeatedly into the state, until Ctrl-C or SIGTERM ends the
    command with exit code 0. An event of a pod manager causes an earlier reading. A line on
    standard error reports when a pod manager becomes unreachable, becomes reachable again, or has
    changed, and what caused the reading. If several watches share a state, one of them reads; when
    it ends, another takes over. With --report, the readings are also sent to schedulers with
    another state. Child zones are not polled: the service of a zone does that.
    """

    examples = (
        "--interval 30 --readers 8",
        "--report https://scheduler.example.org:8790 --report-interval 30",
    )
    arguments = """
        what --once: read each pod manager once, and exit; exit code 5 if all readings failed
        what --interval <seconds>=60: time between readings of a pod manager
        what --max-interval <seconds>=900: longest interval after failures; the interval doubles
            with each failure
        what --open-after <failures>=5: after this many consecutive failures, try the failing pod
            managers one at a time
        what --event-pause <seconds>=5: shortest time between readings that events cause
        what --no-events: ignore events; read only at the interval
        what --full: read every resource again, not only those that may have changed since the last
            reading
        then --messaging <file>: YAML file with the message broker that announces changes to other
            processes
        then --report <url>...: URL of a service to report the readings to, or the word messaging to
            report them to all subscribers of the --messaging broker
        then --report-interval <seconds>=30: time between reports of a pod manager
        then --report-policy <policy>...: report only the fields that this policy of the service
            uses"""
    through_service = False
    option_settings = {"report_policy": None}
    option_groups = (
        inventory.STATE,
        f"""
        inventory --readers <n>=32: maximum number of concurrent readings
        inventory --request-timeout <seconds>=30: how long to wait for each pod manager
        {inventory.PARALLEL}""",
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
        """Log a line that starts with the present time."""
        self.log_line(f"{format_time(self.scheduler_app.now().timestamp())} {text}", level)


class ServePodm(base.Command):
    """Serve an inventory as live Redfish services.

    Each pod manager listens on its own port of 127.0.0.1. When all listen, the command prints a
    line with the ID and the URL of each. Composed nodes remain until Ctrl-C or SIGTERM ends the
    command with exit code 0. Fault rules, listed below, inject faults.
    """

    arguments = """
        <inventory>...: file, directory or archive of recorded pod managers, or - for standard input
        --podm <id>...: serve only this pod manager (repeat for several, in the order of their
            ports)
        --port <port>=8000: port of the first pod manager, the others follow; 0 for free ports
        --latency-ms <ms>: delay each answer by this time
        --fail <rule>...: inject a fault (repeat for several); the rules are listed below
        --page-size <n>=0: split collections into pages of this many members (default: no pages)
        --strict: exit 5 without serving if any document was skipped
        --username <name>: require a login as this user (default: no login)
        | --password-env <variable>: environment variable with the password
        | --password-file <file>: file with the password, of mode 0600
        --session-limit <n>=64: maximum number of concurrent sessions
        --session-timeout <s>=300: seconds until an unused session ends"""
    through_service, option_groups = False, ()
    option_settings = {
        "inventory": {"dest": "source"},
        "port": natural,
        "latency_ms": {"type": number("a number from 0 to 3,600,000", 0, 3_600_000), "default": 0},
        "page_size": natural,
        "session_limit": natural,
        "session_timeout": number("a number from 0 to 86,400", 0, 86_400),
    }

    def get_epilog(self) -> str:
        rules = app.fault_rules()
        width = max(len(form) for form, _ in rules)
        rows = "\n".join(f"  {form:{width}}  {what}" for form, what in rules)
        where = "WHERE is [METHOD:]PATH, in which * matches any text"
        text = f"fault rules:\n\n{rows}\n\n{where}. RULE@ID applies to one pod manager."
        return f"{text} {super().get_epilog()}".rstrip()

    def take_action(self, args: base.Args) -> None:
        env, file = args.password_env, args.password_file
        reference = model.registration.PasswordReference
        names = ("port", "latency_ms", "fail", "page_size", "session_limit")
        self.scheduler_app.serve(
            model.reading.Selection(sources=tuple(args.source), strict=args.strict),
            self._ready,
            username=args.username,
            password=reference(env=env, file=file) if env or file else None,
            podms=args.podm,
            session_timeout_s=args.session_timeout,
            **{name: getattr(args, name) for name in names},
        )

    def _ready(self, podms: list[tuple[str, str]]) -> None:
        self._log_problems()
        for id_, url in podms:
            self.app.stdout.write(f"{escape(id_)} {escape(url)}\n")
        self.app.stdout.flush()
        if self.app.stderr.isatty():
            self.log_line("Ctrl-C ends it")
