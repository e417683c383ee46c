# SPDX-License-Identifier: Apache-2.0
"""App: wires configuration, sources, inventory loader, captures and engine."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib
import os
import platform
import pwd
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec.structs import replace

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.credentials import read_password
from valence_sched.config.settings import Cloud, Configuration
from valence_sched.core.explain.report import inventory_source
from valence_sched.engine import Engine
from valence_sched.errors import (
    BaremetalUnavailable,
    CloudError,
    CredentialError,
    InventoryIncomplete,
    NothingMatches,
    SchedulerError,
    UsageError,
    one_line,
    suggest,
)
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.sources import Now, SourceReader
from valence_sched.lifecycle.dispatch import DispatchSender, bind_target, with_recording
from valence_sched.model.baremetal import WITHOUT
from valence_sched.model.decision import parse_report
from valence_sched.model.diagnostic import Diagnostics, Progress
from valence_sched.model.effect import AuditLine
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.reading import DEFAULT_SELECTION, ReadOptions, Selection
from valence_sched.model.zone_registry import parse_zone_file
from valence_sched.planning.site import load_site, site_of
from valence_sched.view import hardware

if TYPE_CHECKING:
    from valence_sched.inventory.capture import Captures
    from valence_sched.inventory.registry import Registry
    from valence_sched.messaging.fanout import HintFanout
    from valence_sched.model.baremetal import Baremetal, CloudLogin, IronicSettings
    from valence_sched.model.check import Check
    from valence_sched.model.decision import Report, Reports
    from valence_sched.model.dispatch import Dispatch, DispatchSettings, MessagingSettings, Receipt
    from valence_sched.model.effect import EffectLog
    from valence_sched.model.page import Page
    from valence_sched.model.plan import Plan
    from valence_sched.model.reading import ReadPace
    from valence_sched.model.registration import PasswordReference
    from valence_sched.model.relocation import Relocation, Survival
    from valence_sched.model.replay import Replay, SweepRun
    from valence_sched.model.request import Request
    from valence_sched.model.scenario import Edit
    from valence_sched.model.scheduler import Scheduler
    from valence_sched.model.tls import ClientCertificate
    from valence_sched.model.workload import SyntheticSpec, TraceColumn
    from valence_sched.model.zone_registry import RecordedZone
    from valence_sched.planning.checks import Checker
    from valence_sched.planning.site import Site as Site
    from valence_sched.planning.sweep import Sweep as Sweep
    from valence_sched.planning.sweep import SweepJournal, Workers
    from valence_sched.planning.whatif import WhatIf
    from valence_sched.planning.workload import Workload as Workload
    from valence_sched.store.document import Quarantine
    from valence_sched.store.store import Store


#: Imported late, by what needs them; they define, or import, what a scheduler here decodes.
LATE_MODULES = ("drivers.crawl.cache", "lifecycle.access", "store.store")


def import_late_modules() -> None:
    """Import what is imported late otherwise: where threads decide, in one of them."""
    for name in LATE_MODULES:
        importlib.import_module(f"valence_sched.{name}")


class App:
    """Holds the scheduler's parts, made from files, the environment and standard input.

    ``config`` reads the files of a user, ``sources`` the records of pod managers, ``loader``
    builds views of them, ``captures`` records them, ``diagnostics`` are about what was read.
    ``service`` is the scheduler behind HTTP that decides in place of one here, if there is one.
    The stores that are opened share a ``quarantine``, if one is given.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
        cloud: Cloud | None = None,
        now: Now | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine
        self.diagnostics = Diagnostics()
        self.config = Configuration(environ, stdin, cloud)
        self.sources = SourceReader(self.config, self.diagnostics, self.registry, progress, now)
        self.loader = InventoryLoader(self.sources)
        self.now = self.sources.now
        self.service: Scheduler | None = None
        self.ask_ironic()

    @functools.cached_property
    def captures(self) -> Captures:
        """Return the part that records pod managers."""
        from valence_sched.inventory.capture import Captures  # the renderer: only to record

        return Captures(self.sources, self.loader)

    def registry(self, state: str | None = None) -> Registry:
        """Return the registry whose state is at a URL, None for the usual one."""
        from valence_sched.inventory.registry import Registry  # only where a state is looked at

        return Registry(self.config, state, self._quarantine)

    def record_changes(
        self, state: str | None, verb: str, outcomes: Iterable[tuple[str, str]]
    ) -> None:
        """Record in the state, if there is one, what a command changed; errors as of a state."""
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:  # of a user without a name
            user = str(os.getuid())
        request_id = f"{platform.node()}-{os.getpid()}"
        line = AuditLine(user=user, request_id=request_id, verb=verb, object="", outcome="")
        lines = [replace(line, object=name, outcome=outcome) for name, outcome in outcomes]
        if lines and not (registry := self.registry(state)).empty:
            with registry.store() as store:
                store.audit.add(lines)

    def engine(
        self, selection: Selection = DEFAULT_SELECTION, *, effects: EffectLog | None = None
    ) -> Engine:
        """Return the scheduler over a selection; ``effects`` as of an engine."""
        return Engine(self.config, self.sources, self.loader, selection, effects=effects)

    def controller(self, settings: DispatchSettings) -> Callable[[Dispatch], Sequence[Receipt]]:
        """Return what posts a decision to the controller of a service; errors as to send one.

        Raises:
            CredentialError: the key or the password cannot be had.
            UnknownName: there is no such dispatcher.
        """
        key, password = (
            self.secret(reference, f"dispatch: {what}") if reference is not None else None
            for what, reference in (("key", settings.key), ("password", settings.password))
        )
        return bind_target(settings, key.encode() if key else None, password)

    def dispatch_sender(
        self,
        store: Store,
        settings: DispatchSettings,
        tell: Callable[[str], object],
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> DispatchSender:
        """Return what posts the decisions that wait in a store; errors as of the controller."""
        return DispatchSender(store.dispatches, self.controller(settings), settings, tell, sleep)

    def watch(
        self,
        live: ReadOptions,
        tell: Callable[[str], object],
        *,
        pace: ReadPace,
        threads: int,
        once: bool = False,
        messaging: str | None = None,
        report: Sequence[str] = (),
        report_interval_s: float = 30.0,
        report_policies: Sequence[str] = (),
    ) -> None:
        """Keep the registered pod managers fresh until interrupted, or read them ``once``.

        ``tell`` takes a line for each change. One process of those that share a state reads.
        ``messaging`` is the file of the broker over which hints come and go. What was read is
        reported every ``report_interval_s`` to each of ``report``: the URL of a service, or
        ``messaging`` for all that hear reports over that broker; with ``report_policies`` only what
        decisions of these policies of the service read.

        Raises:
            UsageError: no pod manager is registered; a URL is none, or there is no broker.
            InUse: another process reads, and they are to be read once.
            InventoryIncomplete: none could be read once.
        """
        from valence_sched.inventory.reporter import Reporter  # SQL

        registry = self.registry(live.state)
        if not registry.members(live):
            hint = f"register one with podm create NAME URL (none is in {registry.where})"
            raise UsageError(f"no pod manager is registered: {hint}")
        with contextlib.ExitStack() as stack:
            words: dict[str, Any] = {}
            fanout: HintFanout | None = None
            if messaging is not None:
                fanout = self.hint_fanout(
                    self.config.messaging(messaging),
                    lambda names: reader.hint(names, "a hint of another process"),
                )
                words["changed"] = fanout.send
            store = stack.enter_context(registry.store())
            reader = self.sources.background_reader(live, store, pace, tell, threads, **words)
            if fanout is not None:
                fanout.start()
                stack.callback(fanout.close)
            targets = {one: self._report_target(one, fanout, report_policies) for one in report}
            ended = threading.Event()

            def names() -> list[str]:
                return [one.registration.name for one in registry.members(live)]

            reporter = Reporter(store, names, targets, report_interval_s, tell, sleep=ended.wait)
            if not once:
                if targets:
                    stack.callback(ended.set)
                    work = functools.partial(reporter.run, ended.is_set)
                    threading.Thread(target=work, daemon=True, name="reporter").start()
                reader.run()
                return
            reader.run_once()
            reporter.report()
            if not reader.read_names:
                hint = "check that they run and that their URLs are right (podm check)"
                raise InventoryIncomplete(f"no pod manager could be read: {hint}")

    def _report_target(
        self, target: str, fanout: HintFanout | None, policies: Sequence[str]
    ) -> Callable[[str, Mapping[str, Any]], object]:
        """Return what takes reports of pod managers: a service by its URL, or a broker."""
        if target == "messaging":
            if fanout is None:
                raise UsageError("--report messaging: name the file of the broker (--messaging)")
            if policies:
                hint = "name the URL of a service with --report"
                text = "--report-policy: a broker does not tell what policies read"
                raise UsageError(f"{text}: {hint}")
            return fanout.report
        from valence_sched.inventory import reporter
        from valence_sched.remote.connection import connection  # HTTP: only to a service
        from valence_sched.remote.scheduler import RemoteScheduler

        service = connection(self.config.environ, target)
        if service is None:
            raise UsageError("--report: an empty URL: name that of a service, or messaging")
        scheduler = RemoteScheduler(service)
        return reporter.needed(scheduler, policies) if policies else scheduler.update_resource_stats

    def hint_fanout(
        self,
        settings: MessagingSettings,
        heard: Callable[[tuple[str, ...]], object],
        reported: Callable[[str, dict[str, Any]], object] | None = None,
    ) -> HintFanout:
        """Return what sends and hears hints over a broker; it connects when it is started.

        ``reported`` takes reports of pod managers that are heard.

        Raises:
            SchedulerError: the library is not installed.
            UsageError, CredentialError: the URL is none, or cannot be had.
        """
        try:
            from valence_sched.messaging.fanout import HintFanout
        except ModuleNotFoundError as error:
            if error.name not in ("oslo_messaging", "oslo_config"):
                raise
            text = "messaging needs oslo.messaging: pip install 'valence-sched[messaging]'"
            raise SchedulerError(text) from None
        return HintFanout(self.config.secret_url(settings.url), settings, heard, reported)

    def use_service(
        self,
        url: str | None = None,
        *,
        token: Callable[[], str] | None = None,
        verify: bool | str = True,
        certificate: ClientCertificate | None = None,
    ) -> None:
        """Let the service at a URL decide, by default at the one of the environment, if any.

        It then has the flavors and policies, too. ``token``, ``verify`` and errors as of a
        connection.
        """
        from valence_sched.remote.connection import connection  # HTTP: only to a service
        from valence_sched.remote.scheduler import RemoteScheduler

        service = connection(
            self.config.environ, url, token=token, verify=verify, certificate=certificate
        )
        if service is not None:
            self.service = scheduler = RemoteScheduler(service)
            self.config.service_flavors = scheduler.flavors
            self.config.service_policies = scheduler.policies

    def ask_ironic(
        self,
        login: Callable[[], CloudLogin | None] = lambda: None,
        settings: Callable[[], IronicSettings] | None = None,
    ) -> None:
        """Let Ironic be asked before hardware changes, of what may be changed.

        It is the one of ``settings``, by default the user's own, else the one in the catalogue of
        the cloud that ``login`` logs in to, if there is one.
        """

        def baremetals() -> Sequence[Baremetal]:
            from valence_sched.integrations import ironic  # HTTP

            own, password = (settings or self.config.ironic)(), None
            if own.password is not None:
                password = self.secret(own.password, "ironic: password")
            if own.url is not None:
                verify = own.cafile or True
                return [ironic.ironic_at(own.url, own.username, password, verify, own.timeout_s)]
            try:
                cloud = login()
            except CloudError as error:
                text = f"{error}: no hardware is changed before the cloud tells of Ironic"
                raise BaremetalUnavailable(one_line(f"{text} ({WITHOUT})")) from None
            return [] if cloud is None else ironic.ironics_of(cloud, own.timeout_s)

        self.config.baremetals = baremetals

    def scheduler(
        self, selection: Selection = DEFAULT_SELECTION, *, effects: EffectLog | None = None
    ) -> Scheduler:
        """Return the scheduler of the service, else the one over a selection.

        Raises:
            UsageError: the selection has what only a scheduler here can heed.
        """
        if self.service is None:
            return self.engine(selection, effects=effects)
        _refuse_options(policy_file=selection.policy_files, strict=selection.strict)
        _refuse_reading(selection)
        return self.service

    def zone_file(self, file: str) -> RecordedZone:
        """Read a tree of zones, ``-`` for standard input; InputError if it is invalid."""
        name = "stdin" if file == "-" else file
        folder = "" if file == "-" else os.path.dirname(file)
        return parse_zone_file(self.config.read(file), name, folder)

    def zoned_scheduler(
        self, selection: Selection, file: str, *, effects: EffectLog | None = None
    ) -> Scheduler:
        """Return what decides over the zones of a file, on their recorded inventories.

        What is not decided is answered on all of them as if they were one zone. Errors as for the
        file.
        """
        from valence_sched.zones.decider import ZoneDecider
        from valence_sched.zones.tree import flat_request, recorded_tree

        zone = self.zone_file(file)
        flat = self.engine(_of_zones(selection, zone), effects=effects)
        # what is skipped in an inventory is told once, by the engine that reads all of them
        app = App(self.config.environ, self.config.input, now=self.now)

        def podms(zone: RecordedZone) -> Engine:
            return app.engine(
                replace(selection, sources=zone.inventories, stated=stated, strict=False)
            )

        def requests(asked: Request) -> Callable[[str], Request]:
            request = flat_request(zone, asked)
            return lambda _zone: request

        stated = zone.stated()
        tree = recorded_tree(zone, podms)
        return ZoneDecider(flat, tree, deadline_s=600.0, own_has_all=True, requests=requests)

    def zoned_site(self, selection: Selection, file: str) -> Site:
        """Return the pod managers of all zones of a file as one site; errors as of a site."""
        return load_site(self.loader, self.config, _of_zones(selection, self.zone_file(file)))

    def zone_podms(self, selection: Selection, file: str, names: Sequence[str]) -> list[str]:
        """Return the ids of the pod managers in some zones of a file and in all below these.

        ``names`` are ways down to zones or patterns of them.

        Raises:
            NothingMatches: no zone has one of these names.
        """
        zones = dict(self.zone_file(file).walk())
        found: dict[str, None] = {}
        for name in names:
            paths = fnmatch.filter(zones, name)
            if not paths:
                known = [path for path in zones if path]
                raise NothingMatches(f"zone named {name!r}", suggest(name, known))
            if inventories := _inventories(zones[path] for path in paths):
                app = App(self.config.environ, self.config.input, now=self.now)
                view = app.loader.view(replace(selection, sources=inventories))
                found.update(dict.fromkeys(view.podm_ids))
        return list(found)

    def dispatchable(self, scheduler: Scheduler, report: Report) -> Report:
        """Return a report that says which of its nodes were decided on a recording, and its age."""
        recorded = {one.podm.id: one.podm.read_at for one in scheduler.podms() if not one.live}
        return with_recording(report, recorded, self.now())

    def site(self, selection: Selection = DEFAULT_SELECTION) -> Site:
        """Return the pod managers of a selection with what decides on them, for edits.

        Errors as for a decision. What claims hold is subtracted. Pod managers of a service are
        fetched, and what is planned with them is planned here.
        """
        if self.service is not None:
            _refuse_reading(selection)
            return site_of(self.service.documents(), self.config, selection)
        return load_site(self.loader, self.config, selection)

    @functools.cached_property
    def whatif(self) -> WhatIf:
        """Return the part that answers what-if questions."""
        from valence_sched.planning.whatif import WhatIf  # only to plan

        return WhatIf(self.config)

    def edited_sites(
        self,
        site: Site,
        scenarios: Sequence[str] = (),
        edits: Sequence[Edit] = (),
        *,
        policy: str | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> list[Site]:
        """Return the site of each scenario, ``FILE`` or ``FILE#NAME``, after edits besides.

        Without scenarios it is the one site after the edits. ``policy`` is that of requests that
        name none, ``weights`` are other weights of its weighers.

        Raises:
            InputError, UnknownName: a scenario file is invalid, or refers to what is not there.
            NothingMatches, UsageError: as of an edit.
        """
        from valence_sched.planning.edits import edited
        from valence_sched.planning.scenarios import scenario_sites, with_policy

        sites = scenario_sites(site, scenarios, self.config) if scenarios else [site]
        return [with_policy(edited(one, edits), policy, weights or {}) for one in sites]

    def read_checks(self, file: str) -> list[Check]:
        """Read a file of expectations, ``-`` for standard input.

        InputError, NewerSchema if it is invalid, or has no expectation.
        """
        from valence_sched.config.scenario_file import parse_checks

        name = "stdin" if file == "-" else file
        checks, warnings = parse_checks(self.config.read(file), name)
        self.config.remarks += warnings
        return checks

    def checker(
        self,
        site: Site,
        *,
        strict: bool = False,
        record: Callable[[str, Report], None] | None = None,
        progress: Callable[[str], Callable[[int], None]],
        survival_progress: Callable[[int, int], None],
    ) -> Checker:
        """Return what tells whether expectations on a site are met; arguments as for its class."""
        from valence_sched.planning.checks import Checker

        return Checker(
            site,
            self.config,
            strict=strict,
            record=record,
            progress=progress,
            survival_progress=survival_progress,
        )

    def decides_otherwise(self, site: Site) -> bool:
        """Return whether a site has other policies or flavors than files of the user have."""
        ours = (self.config.policies(), self.config.flavors(), "default")
        return (site.policies, site.flavors, site.policy) != ours

    def write_site(self, site: Site, file: str) -> tuple[int, int]:
        """Write a site as an inventory file; return its podms and blocks, errors as for one."""
        return files.write_inventory(site.documents(), file)

    def print_site(self, site: Site, write: Callable[[str], object]) -> None:
        """Write a site as the JSON of one inventory, a pod manager at a time."""
        files.write_podms(site.documents(), lambda data: write(data.decode()), lines=False)

    def workload(
        self,
        file: str,
        columns: Mapping[str, TraceColumn],
        column_files: Sequence[str] = (),
        *,
        sort: bool = False,
        near_maps: Sequence[str] = (),
    ) -> Workload:
        """Return the workload of a file, ``-`` for standard input.

        ``columns`` and those that ``column_files`` say are of a recorded trace, by field. With
        ``sort`` its lines may stand in any order.

        Raises:
            InputError: a file cannot be read; of the workload also when it is replayed.
        """
        from valence_sched.planning.workload import open_workload

        every: dict[str, TraceColumn] = {}
        for name in column_files:
            every |= parsers.parse_trace_columns(self.config.read(name), name)
        every |= columns
        return open_workload(file, self.config, every, sort=sort, near_maps=near_maps)

    def synthetic_workload(self, spec: SyntheticSpec) -> Workload:
        """Return a workload that is drawn by a seed."""
        from valence_sched.planning.workload import SyntheticWorkload

        return SyntheticWorkload(spec)

    def replay(
        self,
        sites: Sequence[Site],
        policies: Sequence[str],
        workload: Workload,
        progress: Callable[[str], Callable[[int], None]],
        *,
        strict: bool = False,
    ) -> Replay:
        """Replay a workload on each site under each policy, without any under those of requests.

        ``progress`` is called with the name of each run, and what it returns with the number of
        requests so far.

        Raises:
            UnknownName: a site does not have a policy.
            SchedulerError: as for the workload, and for a decision.
        """
        from valence_sched.planning.replay import replay_all

        return replay_all(sites, policies, workload, progress, strict=strict)

    def sweep(
        self,
        sites: Sequence[Site],
        policies: Sequence[str],
        seeds: Sequence[int],
        workload: Workload,
        *,
        strict: bool = False,
    ) -> Sweep:
        """Return the runs of a workload on sites, under policies and with seeds, not yet made.

        Errors as of :class:`~valence_sched.planning.sweep.Sweep`.
        """
        from valence_sched.planning.sweep import Sweep

        return Sweep(sites, policies, seeds, workload, strict=strict)

    def sweep_workers(
        self, jobs: int | None = None, backend: str | None = None
    ) -> AbstractContextManager[Workers]:
        """Return what makes the runs of a sweep: so many processes, or those of a Dask cluster.

        Errors as of :func:`~valence_sched.planning.sweep.opened_workers`.
        """
        from valence_sched.planning.sweep import opened_workers

        return opened_workers(jobs, backend)

    def sweep_journal(self, file: str) -> SweepJournal:
        """Return the file of finished runs of a sweep, open for more; InputError if it cannot."""
        from valence_sched.planning.sweep import SweepJournal

        return SweepJournal(file)

    @contextlib.contextmanager
    def sweep_writer(self, file: str) -> Iterator[Callable[[Sequence[SweepRun]], None]]:
        """Yield what writes the runs of a sweep into a file that is open before they are made.

        UsageError, SchedulerError as of an encoder of such files; InputError as for a report.
        """
        from valence_sched.planning.sweep import encoder

        encode = encoder(file)
        with files.pending(file) as write:
            yield lambda runs: write(encode(runs))

    def read_replay(self, file: str) -> tuple[Replay, list[str]]:
        """Read a written replay, ``-`` for standard input; errors and warnings as for a report."""
        from valence_sched.model.replay import parse_replay

        data = self.config.read_document(file)
        return parse_replay(data, "stdin" if file == "-" else file)

    def serve(
        self,
        selection: Selection,
        ready: Callable[[list[tuple[str, str]]], None],
        *,
        username: str | None = None,
        password: PasswordReference | None = None,
        **options: Any,
    ) -> None:
        """Serve inventories as live pod managers until a signal stops the process.

        ``ready`` is called with id and URL of each when all listen; ``options`` are the fields of
        :class:`~valence_sched.simulator.server.serve.ServeOptions`.

        Raises:
            UsageError: a user without a password, or a password without a user.
            CredentialError: the password is missing, or others can read it.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
            SchedulerError: as for the simulator.
        """
        from valence_sched.simulator.server import serve
        from valence_sched.simulator.server.services import Account

        if (username is None) != (password is None):
            raise UsageError("a login needs --username and one of --password-env, --password-file")
        if username is not None:
            text = read_password(password, "podm serve", self.config.environ, None)
            options["login"] = Account(username, text or "")

        def check_and_report(urls: list[tuple[str, str]]) -> None:
            self.loader.check(len(urls), selection)
            ready(urls)

        records = self.sources.records(selection)
        serve.serve(records, self.diagnostics, serve.ServeOptions(**options), check_and_report)

    def secret(self, reference: PasswordReference, what: str) -> str:
        """Return the secret that a reference names; CredentialError where it is none."""
        try:
            return read_password(reference, what, self.config.environ, None) or ""
        except CredentialError as error:
            raise error.at(what) from None

    @contextlib.contextmanager
    def report_writer(self, file: str) -> Iterator[Callable[[Report | Reports | Replay], None]]:
        """Yield what writes a decision or a replay as JSON into a file that is open before.

        InputError if it cannot be written, at once or later; unwritten, the file stays as it was.
        """
        with files.pending(file) as write:
            yield lambda report: write(files.json_text(report, file))

    def text_writer(self, file: str) -> AbstractContextManager[Callable[[bytes], None]]:
        """Return what writes bytes into a file, opened as for a report."""
        return files.pending(file)

    @contextlib.contextmanager
    def page_writer(self, file: str) -> Iterator[Callable[[Page], None]]:
        """Yield what writes a page as HTML into a file that is open before the page is made.

        SchedulerError if the libraries for pages are not installed; InputError as for a report.
        """
        try:
            from valence_sched.pages.render import page_html
        except ModuleNotFoundError as error:
            if error.name not in ("jinja2", "markupsafe", "pygal"):
                raise
            text = f"--html needs {error.name}: pip install 'valence-sched[html]'"
            raise SchedulerError(text) from None
        with files.pending(file) as write:
            yield lambda page: write(page_html(page))

    def relocation_page(self, result: Relocation | Survival, site: Site) -> Page:
        """Return the page of a failure or a drain on a site, with the map of it."""
        from valence_sched.model.relocation import Relocation
        from valence_sched.pages.hardware import hardware_listing
        from valence_sched.pages.relocation import relocation_page, survival_page

        view = site.view()
        source = inventory_source(view, site.skipped)
        blocks = hardware.blocks(view, BlockFilter())
        listing = hardware_listing(hardware.overviews(view), hardware.pools(view), blocks)
        facts = (
            ("Policy", site.policy),
            *(("Edit", effect.text) for effect in site.effects),
            ("Pod managers", f"{source.podms:,}"),
            ("Blocks", f"{source.blocks:,}"),
            ("Inventory", source.digest),
        )
        if isinstance(result, Relocation):
            return relocation_page(result, listing, facts)
        return survival_page(result, listing, facts)

    def report_text(self, report: Report | Reports | Replay) -> str:
        """Return a decision or a replay as the JSON that a file would get."""
        return files.json_text(report).decode()

    def read_report(self, file: str) -> tuple[Report | Reports, list[str]]:
        """Read one written decision or several, ``-`` for stdin; also return warnings.

        InputError if it cannot be read or is none, NewerSchema if its major version is newer.
        """
        data = self.config.read_document(file)
        return parse_report(data, "stdin" if file == "-" else file)

    def write_plan(self, plan: Plan, file: str) -> None:
        """Write a plan as JSON, whole or not at all."""
        files.write_json(plan, file)

    def read_plan(self, file: str) -> Plan:
        """Read a plan, ``-`` for standard input; its unknown fields become remarks.

        Errors as for a report; InputError, too, if it was changed since it was made.
        """
        from valence_sched.model.plan import parse_plan

        data = self.config.read_document(file)
        plan, warnings = parse_plan(data, "stdin" if file == "-" else file)
        self.config.remarks += warnings
        return plan


def _of_zones(selection: Selection, zone: RecordedZone) -> Selection:
    """Return a selection of the inventories of a zone and of all zones below it."""
    return replace(selection, sources=_inventories([zone]), stated=zone.stated())


def _inventories(zones: Iterable[RecordedZone]) -> tuple[str, ...]:
    below = (one for zone in zones for _, one in zone.walk())
    return tuple(dict.fromkeys(each for one in below for each in one.inventories))


def _refuse_reading(selection: Selection) -> None:
    """Raise UsageError for options about how pod managers are read, which a service does."""
    live = selection.live
    _refuse_options(
        resource_file=selection.resource_files,
        max_age=live.max_age_s is not None,
        liveness=live.liveness,
    )


def _refuse_options(**options: object) -> None:
    for name, given in options.items():
        if given:
            hint = "leave it out, or name an inventory or a state to decide here"
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: the service decides by its own settings: {hint}")


def fault_rules() -> list[tuple[str, str]]:
    """Return the form and the help of every fault rule of ``podm serve``."""
    from valence_sched.simulator.server.faults import RULES

    return [(f"{rule.name}:{rule.words}".rstrip(":"), rule.help) for rule in RULES]
