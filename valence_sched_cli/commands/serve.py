# SPDX-License-Identifier: Apache-2.0
"""The command ``podm serve``: serves recorded pod managers as live Redfish services."""

from __future__ import annotations

from valence_sched.errors import escape
from valence_sched_cli import base
from valence_sched_cli.late import app, model
from valence_sched_cli.options.parser import natural, number

#: Options with the same name in the service.
_SAME_NAMES = ("port", "latency_ms", "fail", "page_size", "session_limit")


class ServePodm(base.Command):
    """Serve an inventory as live Redfish services.

    Each pod manager keeps state and listens on its own port of 127.0.0.1. When all listen, a line
    with the ID and the URL of each is printed. Composed nodes last until SIGTERM or Ctrl-C ends the
    service, which exits 0. Fault rules, listed below, inject faults.
    """

    arguments = """
        <inventory>...: file, directory or archive of recorded pod managers, or - for standard input
        --podm <id>...: serve only this pod manager (repeat for several, in the order of their
            ports)
        --port <port>=8000: port of the first pod manager, the others follow; 0 for free ports
            (default: 8000)
        --latency-ms <ms>=0: delay each answer by this time
        --fail <rule>...: inject a fault (repeat for several); the rules are listed below
        --page-size <n>=0: split collections into pages of this many members (default: no pages)
        --strict: exit 5 without serving if any document was skipped
        --username <name>: require a login as this user (default: no login)
        | --password-env <variable>: environment variable with the password
        | --password-file <file>: file with the password, of mode 0600
        --session-limit <n>=64: maximum number of concurrent sessions (default: 64)
        --session-timeout <s>=300: seconds until an unused session ends (default: 300)"""
    through_service, option_groups = False, ()
    option_settings = {
        "inventory": {"dest": "source"},
        "port": natural,
        "latency_ms": number("a number from 0 to 3,600,000", 0, 3_600_000),
        "page_size": natural,
        "session_limit": natural,
        "session_timeout": number("a number from 0 to 86,400", 0, 86_400),
    }

    def get_epilog(self) -> str:
        rules = app.fault_rules()
        width = max(len(form) for form, _ in rules)
        rows = "\n".join(f"  {form:{width}}  {what}" for form, what in rules)
        where = "WHERE is [METHOD:]PATH, and * in it matches any text"
        text = f"fault rules:\n\n{rows}\n\n{where}. RULE@ID applies to one pod manager."
        return f"{text} {super().get_epilog()}".rstrip()

    def take_action(self, args: base.Args) -> None:
        env, file = args.password_env, args.password_file
        reference = model.registration.PasswordReference
        self.scheduler_app.serve(
            model.reading.Selection(sources=tuple(args.source), strict=args.strict),
            self._ready,
            username=args.username,
            password=reference(env=env, file=file) if env or file else None,
            podms=args.podm,
            session_timeout_s=args.session_timeout,
            **{name: getattr(args, name) for name in _SAME_NAMES},
        )

    def _ready(self, podms: list[tuple[str, str]]) -> None:
        self._log_problems()
        for id_, url in podms:
            self.app.stdout.write(f"{escape(id_)} {escape(url)}\n")
        self.app.stdout.flush()
        if self.app.stderr.isatty():
            self.log_line("Ctrl-C ends it")
