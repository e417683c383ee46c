# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm create, check, set, unset, delete`` and ``podm stats`` of the registry."""

from collections.abc import Sequence

from valence_sched import errors
from valence_sched_cli import base
from valence_sched_cli.late import model, msgspec, words
from valence_sched_cli.options import inventory, registration
from valence_sched_cli.options.parser import nonempty_name
from valence_sched_cli.output import cells

UNSET_NAMES = (("aggregate", "aggregates"), ("capability", "capabilities"), ("trait", "traits"))
COLUMNS = ("URL", "Identity", "Driver", "Enabled", "Zone", "Aggregates", "Capabilities", "Traits")
CONNECTION_COLUMNS = ("Username", "Password", "Auth", "CA Cert", "Client Cert", "TLS Verified")


class UnsetPodm(base.Command):
    """Unset properties of a registered pod manager."""

    examples = ("rack-7 --zone", "rack-7 --aggregate gold --fact year")
    arguments = """
        <podm>: registered pod manager
        what --driver: detect the driver again
        what --identity: accept the next service that answers at the URL
        what --username: log in without a user name and password
        what --password: remove the password reference, and a stored password
        what --auth: choose the authentication automatically
        what --cacert: trust the system's certificates
        what --cert: present no certificate and no key
        what --insecure: verify the certificate of the pod manager again
        where --zone: remove the pod manager from its availability zone
        where --location: remove the location
        where --aggregate <aggregate>...: aggregate to remove
        decide --max-blocks: use only the reported limit of blocks in a node
        decide --parallel-composes: compose two nodes of a request at a time, the default
        decide --capability <key>...: capability to remove
        decide --trait <trait>...: trait to remove
        decide --fact <key>...: fact to remove"""
    option_settings = {"trait": None}

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
            raise errors.UsageError("nothing to unset: name a property")
        scheduler.change_registration(old.name, change)


class CreatePodm(base.ShowOne):
    """Register a pod manager.

    It is read once: fails if it does not answer or rejects the login. The registry stores a
    reference to the password, not the password.
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
    option_groups = (registration.add_registration_options, inventory.STATE)

    def column_names(self, args: base.Args) -> Sequence[str]:
        return ("Podm", *COLUMNS, "Facts", *CONNECTION_COLUMNS,
                *(["Max Blocks"] if args.max_blocks else []), "Registered In")  # fmt: skip

    def take_action(self, args: base.Args) -> base.Table:
        name = args.name
        if not name:
            raise errors.UsageError("an empty name")
        url = registration.service_root("url", args.url)
        plain = model.registration.Registration(name=name, url=url)
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        wanted = registration.with_options(plain, args, here=here)
        if args.password_prompt and here:  # before a password is typed
            self.scheduler_app.registry(args.state).check_new(wanted)
        result = scheduler.register(
            wanted,
            password=registration.prompt_password(args, name, here=here),
            check=not args.no_check,
            timeout_s=args.request_timeout,
        )
        self.scheduler_app.diagnostics.extend(result.diagnostics)
        if (podm := result.reading) is not None:
            numbers = ((podm.blocks, "block"), (podm.pools, "pool"), (podm.nodes, "node"))
            counts = ", ".join(cells.format_count(*number) for number in numbers)
            driver = podm.driver or "unknown"
            self.closing.append(f"{name} is {podm.status}: {counts}, driver {driver}")
        self.closing += words.phrases.unencrypted_lines(result.registration)
        row = {"Podm": result.registration.name}
        row |= cells.fields(
            result.registration, *COLUMNS, "Facts", lists=cells.Words, maps=cells.Pairs
        )
        row |= registration.connection_cells(result.registration, result.source)
        return self.column_names(args), row


PROBLEM_WIDTH = 35  # to leave room for the other columns


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
            raise errors.UsageError("name the pod managers to check, or give --all")
        live = self.live(args, names)
        sources = self.scheduler_app.sources
        reader = sources.live_reader(live)
        if not reader.members:
            raise errors.UsageError(sources.no_podm_message(live))
        rows = []
        for reading in reader:
            podm, failure = reading.podm, reading.failure
            if podm.id in reader.reporting_names:
                continue  # it reports to the scheduler: there is no URL to read
            self.scheduler_app.diagnostics.extend(reading.diagnostics)
            if failure is not None:
                self.exit_code = 5
                failure = errors.one_line(failure.removeprefix(f"{podm.id}: "))
            blocks = None if failure else len(podm.blocks)
            problem = cells.Sentence(failure or "", width=PROBLEM_WIDTH)
            rows.append((podm.id, podm.status, podm.driver, blocks, problem))
        self.progress.end_count()
        self.scheduler_app.config.remarks += reader.remarks
        read, podms = sum(1 for row in rows if not str(row[4])), len(rows)
        self.closing.append(f"{read:,} of {cells.format_count(podms, 'pod manager')} could be read")
        return ("Podm", "Status", "Driver", "Blocks", "Problem"), rows


class SetPodm(base.Command):
    """Set properties of a registered pod manager.

    Aggregates, traits, capabilities and facts are added to the existing ones.
    """

    examples = ("rack-7 --zone east-1 --disable", "rack-7 --aggregate gold --capability os=linux")
    arguments = """
        <podm>: registered pod manager
        what --url <url>: new URL of the pod manager"""
    option_settings = {"url": nonempty_name}
    option_groups = (registration.add_registration_options, inventory.STATE)

    def take_action(self, args: base.Args) -> None:
        url = args.url and registration.service_root("--url", args.url)
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        old = scheduler.registration(args.podm).registration
        new = registration.with_options(old, args, here=here)
        if url is not None:
            new = msgspec.structs.replace(new, url=url)
        if new == old and not args.password_prompt:
            raise errors.UsageError("nothing to set: name a property")
        password = registration.prompt_password(args, old.name, here=here)
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

    The next decision uses it. A key that is reported again replaces its earlier value. Keys that
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
            except errors.SchedulerError as error:  # the other reports are deleted nevertheless
                self.log_errors([error])


class ShowStats(base.ShowOne):
    """Show the report of a pod manager."""

    arguments = "<podm>: pod manager (ID, or host/node)"

    def take_action(self, args: base.Args) -> base.Table:
        report = self.scheduler(args).reported_stats(args.podm)
        row = (args.podm, cells.time_cell(report.at, report.age_s), cells.PairLines(report.stats))
        return ("Podm", "Reported At", "Stats"), row
