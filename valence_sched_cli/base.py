# SPDX-License-Identifier: Apache-2.0
"""PodmCommand: the base class of all commands: exit codes, one-line errors, and output."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from cliff import command, lister, show

from valence_sched import errors, streams
from valence_sched_cli import late, plugin as cloud
from valence_sched_cli.late import model, msgspec, pages, words
from valence_sched_cli.options import inventory, parser as parsing
from valence_sched_cli.output import table as tables
from valence_sched_cli.output.cells import supports_colour
from valence_sched_cli.plugin import URL_VARIABLE, Implied, make_client

if TYPE_CHECKING:
    import valence_sched_cli.output.decision
    import valence_sched_cli.output.hardware
    import valence_sched_cli.output.planning

    output = valence_sched_cli.output
else:
    output = late.Package("valence_sched_cli.output")  # its modules that import nouns

T = TypeVar("T")
Args = argparse.Namespace
Table = tables.Table
LOG = logging.getLogger(__name__)

#: Options that name the sources of a local scheduler.
_SOURCES = ("inventory", "zone_file", "podm_file", "state", "from_catalog")
_SOURCE_VARIABLES = ("VALENCE_SCHED_INVENTORY", "VALENCE_SCHED_STATE")
PACKAGE = "valence_sched_cli."
STYLES = "valence_sched.formatter"  # prefix of the entry point groups of this project's formatters
WIDTH_VARIABLES = ("CLIFF_MAX_TERM_WIDTH", "CLIFF_FIT_WIDTH")
#: Exit codes of commands without an error; UNTOLD: the output failed after an effect.
NOTHING_FITS, PLACED_IN_PART, UNDECIDED, UNTOLD, DIFFERENT = 3, 4, 5, 7, 10


class PodmCommand:
    """A command that works without a cloud; mixed into cliff's Lister and ShowOne."""

    auth_required = False
    app: Any
    cmd_name: str | None
    formatter: Any
    _formatter_plugins: Any
    formatter_namespace: str
    exit_code = 0
    through_service = True  # whether a service can run the command
    reads_files_only = False  # whether the command uses only files, so that it ignores a service
    effects: model.diagnostic.EffectLog  # each change that remains after the command
    closing: list[str]  # lines on standard error after all output
    before: Sequence[str] = ()  # lines around a table for people
    after: Sequence[str] = ()
    #: The error of an output that failed after an effect.
    untold: errors.SchedulerError | None = None
    lists_remarks = False  # whether to print each remark on the inventory, not only their number
    is_live = False  # whether the command always reads live pod managers
    arguments = ""  # usage texts of the options and arguments of this command, for add_options
    option_settings: Mapping[str, parsing.Setting] = {}  # settings of add_options
    #: Usage texts and functions that add shared options, listed after the command's own options.
    option_groups: Sequence[str | Callable[[argparse.ArgumentParser], None]] = (inventory.STATE,)
    known_columns: Sequence[str] = ()  # the column names, if they do not depend on options
    examples: Sequence[str] = ()  # arguments after the command's name
    _scheduler_app: late.app.App | None = None
    args: Args = Args()  # the arguments of this run

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        for name in WIDTH_VARIABLES:
            text = os.environ.get(name, "0")
            if not re.fullmatch(r"\s*[-+]?\d+\s*", text):
                wrong = f"{prog_name}: {name}: must be a whole number, got {text[:40]!r}"
                message = errors.one_line(f"{wrong}: change or unset it")
                argparse.ArgumentParser(prog_name).exit(2, message + "\n")
        parser: argparse.ArgumentParser = super().get_parser(prog_name)  # type: ignore[misc]
        parser.error = functools.partial(parsing.refuse, parser)  # type: ignore[method-assign]
        parsing.refuse_first_words(parser)
        parser._get_value = functools.partial(parsing.read_value, parser)  # type: ignore[method-assign]
        parser._get_values = functools.partial(parsing.read_values, parser)  # type: ignore[method-assign]
        parser._print_message = streams.print_message  # type: ignore[method-assign]
        parser.formatter_class = functools.partial(parsing.CommandHelp, examples=self.examples)
        for action in (None, "store"):
            parser.register("action", action, parsing.StoreOnce)
        if option := parser._option_string_actions.get("--format"):
            formats = [*map(str, option.choices or ())]
            option.metavar, option.help = "<format>", f"{option.help}: {', '.join(formats)}"
            option.default = Implied(option.default)
            if "csv" in formats:
                text = "with csv, put an apostrophe before text that a spreadsheet would evaluate"
                group = next(one for one in parser._action_groups if one.title == "CSV Formatter")
                group.add_argument("--escape-formulas", action="store_true", help=text)
        words = "show all options by group"
        parser.add_argument("--help-all", action=parsing.HelpAll, nargs=0, help=words)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for part in (self.arguments, *self.option_groups):
            if not isinstance(part, str):
                part(parser)
            elif part:
                parsing.add_options(parser, part, **self.option_settings)

    def for_people(self, args: Args) -> bool:
        """Return whether people read the output, and the user selected no columns."""
        return args.formatter not in tables.MACHINE and not args.columns

    def shows_all(self, args: Args) -> bool:
        """Return whether all columns are listed: for programs, or with --long."""
        return args.long or not self.for_people(args)

    def chosen(self, short: Sequence[str], long: Sequence[str]) -> Sequence[str]:
        """Return the ``long`` columns if all columns are listed, else the ``short`` columns."""
        return long if self.shows_all(self.args) else short

    def run(self, args: Args) -> int:
        """Run the command; return its exit code, that of its error, or 7 if output was lost."""
        self.closing, self.effects, self.args = [], model.diagnostic.EffectLog(), args
        streams.escape_logs()
        with streams.interrupt_on_signals(), streams.log_failures() as failures:
            try:
                code = self._run(args)
            except (Exception, KeyboardInterrupt) as raised:
                error = raised
                if isinstance(raised, MemoryError):  # which usually has no text
                    text = ": ".join(filter(None, ("out of memory", str(raised))))
                    error = errors.SchedulerError(f"{text}: use smaller files or fewer nodes")
                if not (isinstance(error, errors.SchedulerError) or self.effects):
                    raise
                error = parsing.with_file_hint(error, args)
                LOG.debug("%s", type(error).__name__, exc_info=True)  # a traceback for --debug
                self._log_problems(error)
                code = self._log_error(error)
            finally:
                self._close_progress()
            app, outcomes = self._scheduler_app, list(self.effects.outcomes())
            if app is not None and app.service is None and outcomes:
                try:
                    state = getattr(args, "state", None)
                    app.record_changes(state, self.cmd_name or "", outcomes)
                except errors.SchedulerError as failure:
                    self.log_line(f"not recorded in the audit: {failure}")
            return self._check_logs(failures, code)

    def _run(self, args: Args) -> int:
        self._apply_profile(args)
        parsing.check_file_names(args)
        if known := self.column_names(args):
            tables.name_columns(args, known)
        status: int = super().run(args)  # type: ignore[misc]
        if self.untold is not None:
            raise self.untold
        self._log_problems()
        for line in self.closing:
            self.log_line(line)
        return self.exit_code or status

    def produce_output(self, args: Args, column_names: Sequence[str], data: Any) -> int:
        """Print the rows; print no rows if this outcome has none of the selected columns."""
        column_names = list(column_names)
        known = self.column_names(args) or column_names
        tables.name_columns(args, known)
        named = {*map(tables.column_key, args.columns)}
        if named and named.isdisjoint(map(tables.column_key, column_names)):
            column_names, data = list(known), ()
        elif isinstance(self, lister.Lister):
            data = [tables.in_order(row, column_names) for row in data]
        else:
            data = tables.in_order(data, column_names)
        formatter, stdout = self.formatter, self.app.stdout
        colour = supports_colour(stdout)

        def emit(stream: Any) -> None:
            self.formatter = tables.PreparedFormatter(
                formatter, args.formatter, colour=colour, stream=stdout, target=stream
            )
            super(PodmCommand, self).produce_output(args, column_names, data)  # type: ignore[misc]

        people = args.formatter not in tables.MACHINE
        if people and self.before:
            self.print_lines(self.before)
        self.print(emit)
        if people and self.after:
            self.print_lines(self.after)
        return 0

    def print_object(self, fields: Mapping[str, Any]) -> int:
        formatter = tables.PreparedFormatter(self.formatter, self.args.formatter)
        emit, cells = formatter.emit_one, [*fields.values()]
        self.print(lambda stream: emit([*fields], cells, stream, self.args))
        return 0

    def print_lines(self, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        self.print(lambda stream: stream.write(text))

    def print(self, emit: Callable[[Any], object]) -> None:
        """Print what ``emit`` writes; after an effect, print all of it or raise OutputError."""
        self._close_progress()
        stdout = self.app.stdout
        if self.effects:
            text = io.StringIO()
            emit(text)
            streams.write(stdout, text.getvalue())
            self.effects.mark_named(text.getvalue())
            return
        with streams.printing(stdout), streams.escaping(stdout):
            emit(stdout)

    @contextlib.contextmanager
    def writing(self, kind: str, file: str) -> Iterator[None]:
        """Record the change of a file by a ``with`` block; an interrupt may leave it unchanged."""
        before = _file_version(file)
        try:
            with self.effects.change(kind, file, "may be written", "is written"):
                yield
        except KeyboardInterrupt:
            if _file_version(file) == before:
                self.effects.forget(kind, file)
            raise

    def page_writer(self, args: Args) -> contextlib.AbstractContextManager[Callable[..., None]]:
        """Open the file of --html before any effect; yield a function that writes the page."""
        return file_writer(self.scheduler_app.page_writer, args.html)

    def read_hardware(
        self, scheduler: model.scheduler.Scheduler, podms: Sequence[model.hardware.PodmOverview]
    ) -> pages.hardware.HardwareListing:
        """Return the hardware of pod managers for a page, with old readings marked."""
        limit_s = getattr(self.args, "max_age", None)
        old = pages.hardware.old_readings(podms, self.scheduler_app.now(), limit_s)
        return pages.hardware.read_hardware(scheduler, podms, old)

    def column_names(self, args: Args) -> Sequence[str]:
        """Return all columns that these options allow; empty if they depend on the result."""
        return self.known_columns

    def _load_formatter_plugins(self) -> Any:
        """Return cliff's formatters and those that only commands of this project have."""
        manager = super()._load_formatter_plugins()  # type: ignore[misc]
        kind = self.formatter_namespace.rpartition(".")[2]  # list, or show
        manager.extensions += type(manager)(f"{STYLES}.{kind}", invoke_on_load=True).extensions
        return manager

    def get_epilog(self) -> str:
        """Return the line that names the plug-in; cliff would search all distributions for it."""
        if type(self.app).__module__.startswith(PACKAGE):
            return ""
        if type(self).__module__.startswith(PACKAGE):
            return "This command is provided by the valence-sched plugin."
        return str(super().get_epilog())  # type: ignore[misc]

    @property
    def scheduler_app(self) -> late.app.App:
        """The application of this command, which other commands of a shell do not share."""
        if self._scheduler_app is not None:
            return self._scheduler_app
        app = self._scheduler_app = self._client
        args, manager, (name, profile) = self.args, self.app.client_manager, self.profile
        variables = profile.variables(os.environ)
        app.config.environ = os.environ | variables
        app.config.origins = dict.fromkeys(variables, f"profile {name}")
        self._choose_service(app)
        app.ask_ironic(functools.partial(cloud.baremetal_login, manager))
        if getattr(args, "no_ironic", False):
            if app.service is not None:
                raise errors.UsageError("--no-ironic: a service uses its own Ironic setting")
            app.config.baremetals = tuple
        if getattr(self.app.options, "verbose_level", 1) == 0:
            app.sources.progress = model.diagnostic.NoProgress()
        app.config.ignored_extra_specs = tuple(getattr(args, "ignore_extra_spec", ()))
        log_in = getattr(args, "from_catalog", False)
        app.config.default_owner = functools.partial(cloud.token_project, manager, log_in=log_in)
        return app

    def forget(self) -> None:
        """Forget the application, so that the next run reads everything again."""
        self._scheduler_app = None
        self.__dict__.pop("_client", None)

    @functools.cached_property
    def _client(self) -> late.app.App:
        return make_client(self.app.client_manager)

    @functools.cached_property
    def profile(self) -> tuple[str, model.profile.Profile]:
        """Return the name and the defaults of the profile; or raise an error of its file."""
        name = getattr(self.app.options, "scheduler_profile", None)
        return self._client.config.profile(name)

    def _apply_profile(self, args: Args) -> None:
        """Set each option that the user did not give and that has a default in the profile."""
        name, profile = self.profile
        if (style := profile.output) and isinstance(getattr(args, "formatter", None), Implied):
            if style in self._formatter_plugins:
                args.formatter = style
            else:  # a format that only other commands have, or an unknown one
                rooms = [f"{room}.{kind}" for room in ("cliff.formatter", STYLES)
                         for kind in ("list", "show")]  # fmt: skip
                known = {name for room in rooms for name in entry_points(group=room).names}
                if style not in known:
                    raise errors.UnknownName("output format", style, known, f"profile {name}")
        if getattr(args, "request_file", None):
            return  # the request file sets the options below for each request
        if profile.policy and getattr(args, "policy", "") in (None, []):
            args.policy = [profile.policy] if args.policy == [] else profile.policy
        if hasattr(args, "near"):  # the command has the options of a request
            args.zone = args.zone or profile.zone
            args.owner = args.owner or profile.owner

    @property
    def progress(self) -> model.diagnostic.Progress:
        return self.scheduler_app.sources.progress

    def _close_progress(self) -> None:
        if self._scheduler_app is not None:
            self._scheduler_app.sources.progress.close()

    def scheduler(
        self, args: Args, selection: model.reading.Selection | None = None
    ) -> model.scheduler.Scheduler:
        """Return the scheduler over the sources that the options name, or over a selection."""
        selection = selection or self.selection(args)
        return self.scheduler_app.scheduler(selection, effects=self.effects)

    def selection(self, args: Args, only: Sequence[str] = ()) -> model.reading.Selection:
        return model.reading.Selection(
            sources=tuple(getattr(args, "inventory", ())),
            strict=getattr(args, "strict", False),
            resource_files=tuple(getattr(args, "resource_file", ())),
            flavor_files=tuple(getattr(args, "flavor_file", ())),
            policy_files=tuple(getattr(args, "policy_file", ())),
            live=self.live(args, only),
            no_cache=getattr(args, "no_cache", False),
            drain=inventory.drain_settings(args),
        )

    def _choose_service(self, app: late.app.App) -> None:
        """Use a service if one is named, unless an option selects pod managers of this machine."""
        manager = self.app.client_manager
        asks_service = self.through_service and not self.reads_files_only
        endpoint = getattr(self.app.options, "os_scheduler_endpoint", None)
        here = [name for name in _SOURCES if getattr(self.args, name, None)]
        if endpoint and (here or not (asks_service or self.reads_files_only)):
            option = f"--{here[0].replace('_', '-')}" if here else "this command"
            hint = "is for a local scheduler, not for a service: omit one of them"
            raise errors.UsageError(f"--os-scheduler-endpoint: {option} {hint}")
        if here or not asks_service:
            return
        token = cloud.token_source(manager)
        if endpoint or os.environ.get(URL_VARIABLE):
            app.use_service(endpoint, token=token)
        elif not vars(self.args) or any(map(os.environ.get, _SOURCE_VARIABLES)):
            return
        elif found := cloud.scheduler_endpoint(manager):
            url, verify, certificate = found
            app.use_service(url, token=token, verify=verify, certificate=certificate)
        elif self.profile[1].service:
            app.use_service(self.profile[1].service, token=token)

    def live(self, args: Args, only: Sequence[str] = ()) -> model.reading.ReadOptions:
        """Return which live pod managers the options select, and how to read them."""
        if not hasattr(args, "podm_file"):  # the command reads no pod managers
            return model.reading.ReadOptions(state=getattr(args, "state", None))
        catalogue, every = None, args.all_regions
        if args.from_catalog:
            found = cloud.catalogue(self.app.client_manager, all_regions=every)
            catalogue = self.scheduler_app.registry(args.state).named_catalogue(found)
        elif every:
            raise errors.UsageError("--all-regions: only with --from-catalog")
        warn_age_s = getattr(args, "warn_age", None)
        if warn_age_s is None and hasattr(args, "warn_age"):
            warn_age_s = self.scheduler_app.config.warn_age_s()
        return model.reading.ReadOptions(
            podm_files=tuple(args.podm_file),
            state=args.state,
            catalogue=catalogue,
            only=tuple(only),
            timeout_s=args.request_timeout,
            parallel=args.parallel,
            full=args.full,
            max_age_s=args.max_age,
            warn_age_s=warn_age_s,
            liveness=getattr(args, "liveness", None),
        )

    def known_podms(self, args: Args) -> Iterable[str]:
        """Return the IDs of the pod managers in named inventories, else of registered ones."""
        selection = self.selection(args)
        if self.scheduler_app.service or self.scheduler_app.sources.named_sources(selection):
            return (one.podm.id for one in self.scheduler_app.scheduler(selection).podms())
        registry = self.scheduler_app.registry(getattr(args, "state", None))
        live = self.live(args)
        return (member.registration.name for member in registry.members(live))

    def log_errors(self, failures: Iterable[errors.SchedulerError]) -> None:
        """Log each error when it occurs; the command exits with their highest exit code."""
        for error in failures:
            self.log_line(str(error), logging.ERROR)
            self.exit_code = max(self.exit_code, error.exit_code)

    def log_line(self, text: str, level: int = logging.WARNING) -> None:
        """Log one line for people, at a level that ``openstack`` shows without ``-v``."""
        LOG.log(level, "%s", text)

    def _log_error(self, error: BaseException) -> int:
        """Log an error, and any changes that were not reported yet; return the exit code."""
        is_ours = isinstance(error, errors.SchedulerError)
        reason = str(error) if is_ours else errors.one_line(errors.describe_error(error))
        is_interrupt = isinstance(error, KeyboardInterrupt)
        self.log_line("interrupted" if is_interrupt else reason, logging.ERROR)
        if not self.effects:
            return error.exit_code if isinstance(error, errors.SchedulerError) else 1
        for line in self.effects.unnamed_lines():
            self.log_line(line, logging.ERROR)
        for line in self.closing:
            self.log_line(line)
        return UNTOLD

    def _check_logs(self, failures: streams.Failures, code: int) -> int:
        """Report failed log files; return the exit code, 7 if changes could not be reported."""
        self.log_line(f"exit code {code}", logging.DEBUG)  # detects a log that fails now
        for handler, reason in list(failures.items()):
            if isinstance(handler, logging.FileHandler):
                line = f"--log-file {handler.baseFilename}: {reason.lower()}: the log is incomplete"
                self.log_line(line, logging.ERROR)
        lost = any(not isinstance(handler, logging.FileHandler) for handler in failures)
        lines = self.effects.unnamed_lines() if lost else []
        if not lines:
            return code
        with contextlib.suppress(errors.OutputError):  # standard output fails, too
            streams.write(self.app.stdout, "".join(f"{line}\n" for line in lines))
        return UNTOLD

    def _log_problems(self, error: BaseException | None = None) -> None:
        if self._scheduler_app is None:
            return
        config = self._scheduler_app.config
        for line in dict.fromkeys(config.remarks):
            self.log_line(f"remark: {line}")
        config.remarks.clear()
        diagnostics, place = self._scheduler_app.diagnostics, None
        if not self.lists_remarks:
            live = self.is_live or bool(self._scheduler_app.sources.live_ids)
            place = "podm show <podm>" if live else "podm inventory validate --long"
        has_named = isinstance(error, errors.InventoryIncomplete)
        for line in words.phrases.diagnostic_lines(diagnostics, place, has_named=has_named):
            self.log_line(line)
        diagnostics.clear()


class Command(PodmCommand, command.Command):
    """A command that prints nothing."""


class Lister(PodmCommand, lister.Lister):
    """A command that prints rows; without rows, a line suggests to omit ``filters``, or a step."""

    nouns = next_step = ""
    filters: Sequence[str] = ()
    _lacks_zones = False  # whether a zone did not answer, so that the list may be incomplete

    def report_scheduler(
        self, args: Args, selection: model.reading.Selection | None = None, *, reads: bool = True
    ) -> model.scheduler.Scheduler:
        """Return the scheduler for a report; with --strict, every zone must answer."""
        selection = selection or self.selection(args)
        if self.scheduler_app.service or not reads:
            selection = msgspec.structs.replace(selection, strict=False)
        return self.scheduler(args, selection)

    def log_missing(self, found: T, noun: str = "") -> T:
        """Return a list; report the zones that are missing from it, with --strict as exit 5."""
        if silent := model.zone.silent_zones(found):
            strict, line = self.args.strict, words.phrases.missing_line(silent, noun or self.nouns)
            self.closing.append(line if strict else f"warning: {line}")
            self._lacks_zones = True
            self.exit_code = errors.InventoryIncomplete.exit_code if strict else self.exit_code
        return found

    def produce_output(self, args: Args, column_names: Sequence[str], data: Any) -> int:
        rows = list(data)
        if not rows and self.nouns and not self._lacks_zones:
            given = [parsing.option_name(name) for name in self.filters if getattr(args, name)]
            hint = f"omit {', '.join(given)}" if given else self.next_step
            self.closing.append(f"no {self.nouns}{' match' if given else ''}: {hint}")
        return super().produce_output(args, column_names, rows)


class ReasonLister(Lister):
    """A command that prints rows, else the reasons why nothing fits; for programs it logs them."""

    def produce_output(self, args: Args, column_names: Sequence[str], data: Any) -> int:
        rows = list(data)
        if rows or args.formatter in tables.MACHINE:
            super().produce_output(args, column_names, rows)
            self.closing[:0] = () if rows else filter(None, self.after)
        else:
            begin = 0 if getattr(args, "explain", False) else 1  # without the first empty line
            self.print_lines([*self.before, *self.after[begin:]])
        return 0


class PagedLister(Lister):
    """A command that prints rows; options sort them and divide them into pages."""

    marker_columns: tuple[str, ...] = ("Podm",)  # the columns that together identify a row

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        names = "/".join(f"<{name.lower()}>" for name in self.marker_columns)
        text = f"""
            output --sort <column[:desc]>...: sort by this column before --limit and --marker apply
                (repeat to sort equal rows by further columns)
            output --limit <n>: print at most this many rows
            output --marker <name>: start after this row, the last row of the previous page
                ({names})"""
        parsing.add_options(parser, text)

    def produce_output(self, args: Args, column_names: Sequence[str], data: Any) -> int:
        rows = [tables.in_order(row, column_names) for row in data]
        for word in reversed(args.sort):
            name, _, direction = word.partition(":")
            if direction not in ("", "asc", "desc"):
                raise errors.UsageError(f"--sort: {word!r}: the direction must be asc or desc")
            (title,) = tables.full_titles([name], column_names, "--sort")
            index = [*map(tables.column_key, column_names)].index(tables.column_key(title))
            rows.sort(key=lambda row: (row[index] is None, row[index]), reverse=direction == "desc")
        if args.marker is not None:
            picks = [column_names.index(name) for name in self.marker_columns]
            parts = ([tables.machine_value(row[pick]) for pick in picks] for row in rows)
            names = ["/".join(map(str, some)) for some in parts]
            if args.marker not in names:
                raise errors.UnknownName("row", args.marker, names, "--marker")
            rows = rows[names.index(args.marker) + 1 :]
        return super().produce_output(args, column_names, rows[: args.limit])


class ShowOne(PodmCommand, show.ShowOne):
    """A command that prints one object."""


def file_writer(
    writer: Callable[[str], contextlib.AbstractContextManager[Any]], file: str | None
) -> contextlib.AbstractContextManager[Callable[..., None]]:
    """Return ``writer(file)``, or a context that writes nothing if there is no file."""
    return writer(file) if file else contextlib.nullcontext(lambda _: None)


def _file_version(file: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(file)
        return found.st_ino, found.st_mtime_ns, found.st_size
    return None
