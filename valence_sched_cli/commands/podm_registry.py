# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm create, check, set, unset, delete`` and ``podm stats`` of the registry."""

from __future__ import annotations

import argparse
import getpass
import itertools
import os
import warnings
from collections.abc import Sequence
from typing import Any

from valence_sched.errors import SchedulerError, UsageError, one_line
from valence_sched_cli import base
from valence_sched_cli.late import model, msgspec, words
from valence_sched_cli.options import inventory, parser as parsing
from valence_sched_cli.output import cells

UNSET_NAMES = (("aggregate", "aggregates"), ("capability", "capabilities"), ("trait", "traits"))
COLUMNS = ("URL", "Identity", "Driver", "Enabled", "Zone", "Aggregates", "Capabilities", "Traits")
CONNECTION_COLUMNS = ("Username", "Password", "Auth", "CA Cert", "Client Cert", "TLS Verified")


def connection_cells(registration: model.registration.Registration, file: str) -> dict[str, Any]:
    password = registration.password
    return {
        "Username": registration.username,
        "Password": password and password.text,
        "Auth": registration.auth,
        "CA Cert": registration.cacert,
        "Client Cert": registration.cert,
        "TLS Verified": not registration.insecure,
        "Max Blocks": cells.Pairs(dict(registration.max_blocks.items())),
        "Parallel Composes": registration.parallel_composes,
        "Hosts": registration.hosts,
        "Reserved Blocks": cells.PairLines(registration.reserved),
        "Tainted Blocks": cells.PairLines(
            {name: ", ".join(taints) for name, taints in registration.taints.items()}
        ),
        "Registered In": file,
    }


class _RefusePassword(argparse.Action):
    """Refuses a password on the command line, which other users can read; does not print it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        hint = "use --password-env, --password-file or --password-prompt"
        parser.error(f"--password: other users of this machine can read a command line: {hint}")


#: The options for the connection to a service of a pod manager or of a zone.
LOGIN = """\
what | --password-env <variable>: environment variable with the password
what | --password-file <file>: file with the password, readable by its owner only"""
CERTIFICATE = """\
what --cert <file>: client certificate, in PEM
what --key <file>: key of the client certificate, in PEM (default: in the file of --cert)"""
_OPTIONS = f"""\
what --driver <driver>: driver (default: auto)
what --username <name>: user name
{LOGIN}
what | --password-prompt: ask for the password, and store it in a file next to the state, readable
    by you only
what --auth: authentication method (default: auto, a session if supported)
what | --cacert <file>: certificates to trust, in PEM
what | --no-verify,--insecure: do not verify the certificate of the pod manager
{CERTIFICATE}
where --zone <zone>: availability zone of the pod manager
where --aggregate <aggregate>...: aggregate of the pod manager
where --location <location>...: location, such as dc1/row-3/rack-7
decide --trait <trait>...: trait of all pools of the pod manager
decide --capability <key=value;value>...: capability, with its values
decide --fact <key=value>...: fact about the pod manager: a number, a text, or a ;-separated list
decide --max-blocks <n|type=n>...: maximum number of compute blocks in one node, or of blocks of a
    type; a stricter reported limit still applies
decide --parallel-composes <n>: maximum number of nodes of a request to compose at a time, 1 to 32
decide --hosts <free|unmanaged|free:pattern,...>: hosts without attached blocks that are free:
    all, none (default: all are in use), or those whose URI, or its last part, matches a pattern
decide | --enable: place nodes on the pod manager
decide | --disable: place no nodes on the pod manager"""


#: openstack has an option --insecure, too, and takes it from the command.
_NO_VERIFY = {"action": "store_true", "dest": "insecure"}


def add_registration_options(parser: argparse.ArgumentParser) -> None:
    what = parsing.section(parser, "what")
    what.add_argument("--password", nargs="?", action=_RefusePassword, help=argparse.SUPPRESS)
    parsing.add_options(
        parser,
        _OPTIONS,
        auth={"choices": ("auto", "session", "basic")},
        no_verify=_NO_VERIFY,
        hosts=parsing.parsed_by("registration:parse_hosts"),
        max_blocks=parsing.parsed_by("registration:parse_max_blocks"),
        parallel_composes=lambda text: parsing.natural(
            text, 1, model.registration.MOST_PARALLEL_COMPOSES
        ),
        **dict.fromkeys(("username", "aggregate", "location"), parsing.nonempty_name),
        **dict.fromkeys(("capability", "fact"), parsing.key_and_value("KEY=VALUE")),
    )


def login_changes(args: argparse.Namespace, *, here: bool) -> dict[str, Any]:
    """Return the fields for TLS and the password from the options; UsageError if invalid.

    A certificate file without a key file includes the key. File names are paths on the host of the
    service, unless the pod manager is registered ``here``.
    """

    def path(name: str) -> str:
        return os.path.abspath(os.path.expanduser(name)) if here else name

    named = {name: getattr(args, name) for name in ("cacert", "cert", "key")}
    changes: dict[str, Any] = {name: path(file) for name, file in named.items() if file}
    if "cert" in changes:
        changes.setdefault("key", None)
    reference = model.registration.PasswordReference
    if args.password_env is not None:
        if not model.registration.is_variable(args.password_env):
            raise UsageError("--password-env: expected the name of an environment variable")
        changes["password"] = reference(env=args.password_env)
    elif args.password_file is not None:
        changes["password"] = reference(file=path(args.password_file))
    elif getattr(args, "password_prompt", False):
        changes["password"] = reference(stored=True)
    return changes


def with_options(
    registration: model.registration.Registration, args: argparse.Namespace, *, here: bool = True
) -> model.registration.Registration:
    """Return a pod manager with the properties of the options; UsageError for a contradiction."""
    nouns = model.registration
    max_blocks = parsing.by_name(
        "--max-blocks", itertools.chain(*(one.items() for one in args.max_blocks))
    )
    changes: dict[str, Any] = {
        "aggregates": (*dict.fromkeys((*registration.aggregates, *args.aggregate)),),
        "traits": (*dict.fromkeys((*registration.traits, *args.trait)),),
        "capabilities": registration.capabilities | nouns.merge_capabilities(args.capability),
        "facts": registration.facts | nouns.merge_facts(args.fact, args.location),
        "max_blocks": registration.max_blocks | max_blocks,
        **login_changes(args, here=here),
        **parsing.given(args, "driver", "username", "auth", "zone", "parallel_composes", "hosts"),
    }
    if args.cacert is not None:
        changes["insecure"] = False
    if args.insecure:
        changes |= {"cacert": None, "insecure": True}
    if args.enable or args.disable:
        changes["enabled"] = args.enable
    return msgspec.structs.replace(registration, **changes)


def service_root(option: str, url: str) -> str:
    """Return the URL of a pod manager without the path of its service; UsageError if invalid."""
    if wrong := model.podm_address.url_problem(url):
        raise UsageError(f"{option}: found {wrong}")
    return model.podm_address.strip_service_root(url)


def prompt_password(args: argparse.Namespace, name: str, *, here: bool = True) -> str | None:
    """Return the typed password, None without ``--password-prompt``; or raise UsageError."""
    if not args.password_prompt:
        return None
    if not here:
        hint = "use --password-env or --password-file, which the service reads"
        raise UsageError(f"--password-prompt: a typed password is not sent to a service: {hint}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            password = getpass.getpass(f"Password of {name}: ")
    except (EOFError, OSError, getpass.GetPassWarning):
        hint = "no terminal: use --password-file or --password-env"
        raise UsageError(f"--password-prompt: {hint}") from None
    if not password:
        raise UsageError("--password-prompt: the password is empty")
    return password


class UnsetPodm(base.Command):
    """Unset properties of a registered pod manager."""

    examples = ("rack-7 --zone", "rack-7 --aggregate gold --fact year")
    arguments = """
        <podm>: registered pod manager
        what --driver: detect the driver again
        what --identity: accept the next service that answers at the URL
        what --username: remove the user name and the password: the scheduler does not log in
        what --password: remove the password reference, and a stored password
        what --auth: choose the authentication automatically
        what --cacert: trust the system's certificates
        what --cert: present no certificate and no key
        what --no-verify,--insecure: verify the certificate of the pod manager again
        where --zone: remove the pod manager from its availability zone
        where --location: remove the location
        where --aggregate <aggregate>...: aggregate to remove
        decide --max-blocks: use only the reported limit of blocks in a node
        decide --parallel-composes: compose two nodes of a request at a time, the default
        decide --hosts: treat hosts without attached blocks as in use, the default
        decide --capability <key>...: capability to remove
        decide --trait <trait>...: trait to remove
        decide --fact <key>...: fact to remove"""
    option_settings = {"trait": None, "no_verify": _NO_VERIFY}

    def take_action(self, args: base.Args) -> None:
        scheduler = self.scheduler(args)
        old = scheduler.registration(args.podm).registration
        flags = [flag for flag, value in vars(args).items() if value is True and flag != "location"]
        flags += ["password"] if args.username else []
        flags += ["key"] if args.cert else []
        names = {field: getattr(args, option) for option, field in UNSET_NAMES}
        names["facts"] = [*args.fact, *(["location"] if args.location else [])]
        change = model.registration.without(old, flags, names)
        if not (flags or any(names.values())):
            raise UsageError("nothing to unset: name a property")
        scheduler.change_registration(old.name, change)


class CreatePodm(base.ShowOne):
    """Register a pod manager.

    Reads the pod manager once, and fails if it does not answer or rejects the login. The registry
    stores a reference to the password, not the password.
    """

    examples = (
        "rack-7 https://10.0.0.7 --username op --password-prompt",
        "rack-8 https://10.0.0.8 --zone east-1 --fact year=2024 --no-check",
    )
    arguments = """
        <name>: name of the pod manager, and its ID in every inventory
        <url>: URL of the pod manager: https://HOST[:PORT]
        then --no-check: register the pod manager without reading it
        then --request-timeout <seconds>=30: how long to wait for each answer"""
    is_live = True
    option_groups = (add_registration_options, inventory.STATE)

    def column_names(self, args: base.Args) -> Sequence[str]:
        return ("Podm", *COLUMNS, "Facts", *CONNECTION_COLUMNS,
                *(["Max Blocks"] if args.max_blocks else []), "Registered In")  # fmt: skip

    def take_action(self, args: base.Args) -> base.Table:
        name = args.name
        if not name:
            raise UsageError("an empty name")
        url = service_root("url", args.url)
        plain = model.registration.Registration(name=name, url=url)
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        wanted = with_options(plain, args, here=here)
        if args.password_prompt and here:  # check before the user types a password
            self.scheduler_app.registry(args.state).check_new(wanted)
        result = scheduler.register(
            wanted,
            password=prompt_password(args, name, here=here),
            check=not args.no_check,
            timeout_s=args.request_timeout,
        )
        self.scheduler_app.diagnostics.extend(result.diagnostics)
        if (podm := result.reading) is not None:
            numbers = ((podm.blocks, "block"), (podm.pools, "pool"), (podm.nodes, "node"))
            counts = ", ".join(model.quantity.format_count(*number) for number in numbers)
            driver = podm.driver or "unknown"
            self.closing.append(f"{name} is {podm.status}: {counts}, driver {driver}")
        made = result.registration
        self.closing += words.phrases.unencrypted_lines(made)
        row = cells.fields(made, *COLUMNS, "Facts", lists=cells.Words, maps=cells.Pairs)
        row |= {"Podm": made.name, **connection_cells(made, result.source)}
        return self.column_names(args), row


PROBLEM_WIDTH = 35  # characters, to leave room for the other columns


class CheckPodm(base.Lister):
    """Check that registered pod managers can be read.

    Logs in to each pod manager and reads it once. Exit codes: 0 all were read; 5 some could not be
    read.
    """

    arguments = """
        [<podm>...]: registered pod manager
        --all: check all that are registered"""
    is_live, through_service = True, False
    option_groups = (inventory.LIVE,)

    def take_action(self, args: base.Args) -> base.Table:
        names = tuple(dict.fromkeys(args.podm))
        if bool(names) == args.all:
            raise UsageError("name the pod managers to check, or give --all")
        live = self.live(args, names)
        sources = self.scheduler_app.sources
        reader = sources.live_reader(live)
        if not reader.members:
            raise UsageError(sources.no_podm_message(live))
        rows = []
        for reading in sources.live_readings(reader):
            podm, failure = reading.podm, reading.failure
            if podm.id in reader.reporting_names:
                continue  # the pod manager only reports: it has no URL to read
            if failure is not None:
                self.exit_code = 5
                failure = one_line(failure.removeprefix(f"{podm.id}: "))
            blocks = None if failure else len(podm.blocks)
            problem = cells.Sentence(failure or "", width=PROBLEM_WIDTH)
            rows.append((podm.id, podm.status, podm.driver, blocks, problem))
        read = sum(1 for row in rows if not str(row[4]))
        podms = model.quantity.format_count(len(rows), "pod manager")
        self.closing.append(f"{read:,} of {podms} could be read")
        return ("Podm", "Status", "Driver", "Blocks", "Problem"), rows


class SetPodm(base.Command):
    """Set properties of a registered pod manager.

    Aggregates, traits, capabilities and facts are added to the existing ones.
    """

    examples = ("rack-7 --zone east-1 --disable", "rack-7 --aggregate gold --capability os=linux")
    arguments = """
        <podm>: registered pod manager
        what --url <url>: new URL of the pod manager"""
    option_settings = {"url": parsing.nonempty_name}
    option_groups = (add_registration_options, inventory.STATE)

    def take_action(self, args: base.Args) -> None:
        url = args.url and service_root("--url", args.url)
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        old = scheduler.registration(args.podm).registration
        new = with_options(old, args, here=here)
        if url is not None:
            new = msgspec.structs.replace(new, url=url)
        if new == old and not args.password_prompt:
            raise UsageError("nothing to set: name a property")
        password = prompt_password(args, old.name, here=here)
        change = model.registration.RegistrationChange.between(old, new)
        scheduler.change_registration(old.name, change, password=password)
        self.closing += words.phrases.unencrypted_lines(new)


class DeletePodm(base.Command):
    """Remove pod managers from the registry.

    A pod manager with claims or nodes is not removed.
    """

    arguments = "<podm>...: registered pod manager (repeat for several)"

    def take_action(self, args: base.Args) -> None:
        self.log_errors(self.scheduler(args).unregister(args.podm))


class SetStats(base.ShowOne):
    """Store the report of a pod manager.

    The next decision uses the report. The new value of a key replaces the earlier one. Keys that
    are not fields of a pod manager become facts. An empty report only shows that the pod manager is
    alive.
    """

    arguments = """
        <podm>: pod manager (ID, or host/node)
        <file>: JSON or YAML object, or - for standard input"""
    known_columns = ("Podm", "Generation")

    def take_action(self, args: base.Args) -> base.Table:
        stats = self.scheduler_app.config.read_stats(args.file)
        generation = self.scheduler(args).update_resource_stats(args.podm, stats)
        return self.known_columns, (args.podm, generation)


class UnsetStats(base.Command):
    """Delete the reports of pod managers.

    A pod manager that was never read is deleted, too.
    """

    arguments = "<podm>...: pod manager (ID, or host/node; repeat for several)"

    def take_action(self, args: base.Args) -> None:
        scheduler = self.scheduler(args)
        for name in dict.fromkeys(args.podm):
            try:
                scheduler.forget_report(name)
            except SchedulerError as error:  # continue with the other reports
                self.log_errors([error])


class ShowStats(base.ShowOne):
    """Show the report of a pod manager."""

    arguments = "<podm>: pod manager (ID, or host/node)"

    def take_action(self, args: base.Args) -> base.Table:
        report = self.scheduler(args).reported_stats(args.podm)
        row = (args.podm, cells.time_cell(report.at, report.age_s), cells.PairLines(report.stats))
        return ("Podm", "Reported At", "Stats"), row
