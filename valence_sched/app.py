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
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec.structs import replace

from valence_sched import errors, files
from valence_sched.config.podms_file import read_password
from valence_sched.config.settings import Cloud, Configuration
from valence_sched.core.explain.report import inventory_source
from valence_sched.engine import Engine
from valence_sched.inventory import reporter
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.sources import Now, SourceReader
from valence_sched.model import codec, decision, diagnostic, zone_registry
from valence_sched.model.baremetal import WITHOUT
from valence_sched.model.decision import Report, Reports
from valence_sched.model.diagnostic import AuditLine, EffectLog
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.http import default_authorities
from valence_sched.model.reading import DEFAULT_SELECTION, ReadOptions, ReadPace, Selection
from valence_sched.view import hardware

if TYPE_CHECKING:
    from valence_sched.inventory.capture import Captures
    from valence_sched.inventory.registry import Registry
    from valence_sched.lifecycle.dispatch import DispatchSender
    from valence_sched.lifecycle.drain import SiteDrain
    from valence_sched.messaging.fanout import HintFanout
    from valence_sched.model.baremetal import Baremetal, CloudLogin, IronicSettings
    from valence_sched.model.capacity import PurchaseResult
    from valence_sched.model.dispatch import Dispatch, DispatchSettings, MessagingSettings, Receipt
    from valence_sched.model.http import ClientCertificate
    from valence_sched.model.node_change import NodeChangePlan
    from valence_sched.model.page import Page
    from valence_sched.model.plan import Plan
    from valence_sched.model.registration import PasswordReference
    from valence_sched.model.relocation import Rebalance, Relocation, Survival
    from valence_sched.model.replay import Replay
    from valence_sched.model.request import Request
    from valence_sched.model.scheduler import Scheduler
    from valence_sched.planning.site import Site as Site
    from valence_sched.planning.sweep import Sweep as Sweep
    from valence_sched.planning.tune import Tuning as Tuning
    from valence_sched.planning.whatif import WhatIf
    from valence_sched.planning.workload import Workload as Workload
    from valence_sched.remote.scheduler import RemoteScheduler
    from valence_sched.store.document import Quarantine
    from valence_sched.store.store import Store


def import_late_modules() -> None:
    """Import the modules with the classes that a scheduler decodes, before a thread needs them."""
    for name in ("drivers.crawl.cache", "lifecycle.access", "store.store"):
        importlib.import_module(f"valence_sched.{name}")


class App:
    """Holds the scheduler's parts, made from files, the environment and standard input.

    ``config`` reads the files of a user, ``sources`` the records of pod managers; ``loader`` builds
    views of the pod managers. ``diagnostics`` collects remarks on their documents. ``service`` is
    the scheduler behind HTTP that decides instead of this process, or None.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: diagnostic.Progress | None = None,
        cloud: Cloud | None = None,
        now: Now | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine
        self.diagnostics = diagnostic.Diagnostics()
        self.config = Configuration(environ, stdin, cloud)
        self.sources = SourceReader(self.config, self.diagnostics, self.registry, progress, now)
        self.loader = InventoryLoader(self.sources)
        self.now = self.sources.now
        self.service: Scheduler | None = None
        self.shared_store: Callable[[], Store] | None = None  # that a service keeps open
        self.ask_ironic()

    @functools.cached_property
    def captures(self) -> Captures:
        """Return the recorder of pod managers."""
        from valence_sched.inventory.capture import Captures  # the renderer: only to record

        return Captures(self.sources, self.loader)

    def registry(self, state: str | None = None) -> Registry:
        """Return the registry of the state at a URL; None: the default state."""
        from valence_sched.inventory.registry import Registry  # only to use a state

        return Registry(self.config, state, self._quarantine, self.shared_store)

    def record_changes(
        self, state: str | None, verb: str, outcomes: Iterable[tuple[str, str]]
    ) -> None:
        """Record the changes of a command in the state, if it exists; errors as for a state."""
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
        """Return the scheduler over a selection; ``effects`` as for an engine."""
        drain = functools.partial(self.site_drain, selection)
        parts = self.config, self.sources, self.loader
        return Engine(*parts, selection, effects=effects, drain=drain)

    def site_drain(self, selection: Selection) -> SiteDrain | None:
        """Return the hook that drains nodes; InputError or CredentialError if it is invalid.

        A service has only the hook of its settings, another selection also that of the user's file.
        """
        settings = selection.drain
        if settings is None and selection.zones is None:
            settings = self.config.drain()
        if settings is None:
            return None
        from valence_sched.lifecycle.drain import SiteDrain  # SQL

        secret = self.secret(settings.key, "drain: key") if settings.key is not None else None
        key = secret.encode() if secret is not None else None

        def post(url: str, body: bytes, id_: str, timeout_s: float) -> Any:
            from valence_sched.integrations.dispatchers.webhook import post_signed  # HTTP

            headers = {"Idempotency-Key": id_}
            hint = "check that it runs and that the URL is right"
            return post_signed(url, body, key, timeout_s, headers, hint)[1]

        return SiteDrain(settings, self.config.environ, post, (secret,) if secret else ())

    def controller(self, settings: DispatchSettings) -> Callable[[Dispatch], Sequence[Receipt]]:
        """Return the function that posts decisions; CredentialError, UnknownName if invalid."""
        from valence_sched.lifecycle.dispatch import bind_target  # only to dispatch

        key, password = (
            self.secret(reference, f"dispatch: {what}") if reference is not None else None
            for what, reference in (("key", settings.key), ("password", settings.password))
        )
        return bind_target(settings, key.encode() if key else None, password)

    def dispatch_sender(
        self,
        store: Store,
        settings: DispatchSettings,
        log: Callable[[str], object],
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> DispatchSender:
        """Return the sender of the decisions that wait in a store; errors as for the controller."""
        from valence_sched.lifecycle.dispatch import DispatchSender  # only to dispatch

        return DispatchSender(store.dispatches, self.controller(settings), settings, log, sleep)

    def watch(
        self,
        live: ReadOptions,
        log: Callable[[str], object],
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

        ``log`` takes a line for each change. ``messaging`` is the file of the broker that carries
        hints. A target in ``report`` is the URL of a service, or ``messaging`` for all receivers of
        that broker; with ``report_policies``, it gets only the fields that these policies read.

        UsageError: no pod manager is registered; a URL is invalid, or there is no broker. InUse:
        with ``once``, another process reads. InventoryIncomplete: with ``once``, all readings fail.
        """
        from valence_sched.inventory.background_reader import background_reader  # HTTP

        registry = self.registry(live.state)
        if not registry.members(live):
            hint = f"register one with podm create NAME URL (state: {registry.where})"
            raise errors.UsageError(f"no pod manager is registered: {hint}")
        with contextlib.ExitStack() as stack:
            fanout: HintFanout | None = None
            if messaging is not None:
                fanout = self.hint_fanout(
                    self.config.messaging(messaging),
                    lambda names: reader.hint(names, "a hint of another process"),
                )
            store = stack.enter_context(registry.store())
            send: Callable[[Sequence[str]], object] = fanout.send if fanout else lambda _names: None
            reader = background_reader(self.sources, live, store, pace, log, threads, changed=send)
            if fanout is not None:
                fanout.start()
                stack.callback(fanout.close)
            targets = {one: self._report_target(one, fanout, report_policies) for one in report}
            ended = threading.Event()

            def names() -> list[str]:
                return [one.registration.name for one in registry.members(live)]

            reports = reporter.Reporter(
                store, names, targets, report_interval_s, log, sleep=ended.wait
            )
            if not once:
                if targets:
                    stack.callback(ended.set)
                    work = functools.partial(reports.run, ended.is_set)
                    threading.Thread(target=work, daemon=True, name="reporter").start()
                reader.run()
                return
            reader.run_once()
            reports.report()
            if not reader.read_names:
                hint = "check that they run and that their URLs are right (podm check)"
                raise errors.InventoryIncomplete(f"no pod manager could be read: {hint}")

    def _report_target(
        self, target: str, fanout: HintFanout | None, policies: Sequence[str]
    ) -> Callable[[str, Mapping[str, Any]], object]:
        """Return the function that reports a pod manager to the service at a URL or to a broker."""
        if target == "messaging":
            if fanout is None:
                text = "--report messaging: name the file of the broker (--messaging)"
                raise errors.UsageError(text)
            if policies:
                text = "--report-policy: a broker has no policies"
                raise errors.UsageError(f"{text}: name the URL of a service with --report")
            return fanout.report
        if (scheduler := self._remote_scheduler(target)) is None:
            raise errors.UsageError("--report: an empty URL, expected a service or messaging")
        return reporter.needed(scheduler, policies) if policies else scheduler.update_resource_stats

    def hint_fanout(
        self,
        settings: MessagingSettings,
        heard: Callable[[tuple[str, ...]], object],
        reported: Callable[[str, dict[str, Any]], object] | None = None,
    ) -> HintFanout:
        """Return the sender and receiver of hints and reports over a broker, not yet connected.

        SchedulerError: its library is missing. UsageError, CredentialError: its URL is invalid.
        """
        modules = ("oslo_messaging", "oslo_config")
        with errors.needing("oslo.messaging", "messaging", "messaging", *modules):
            from valence_sched.messaging.fanout import HintFanout
        return HintFanout(self.config.secret_url(settings.url), settings, heard, reported)

    def use_service(
        self,
        url: str | None = None,
        *,
        token: Callable[[], str] | None = None,
        verify: bool | str = True,
        certificate: ClientCertificate | None = None,
    ) -> None:
        """Use the decisions, flavors and policies of a service; options as for a connection."""
        scheduler = self._remote_scheduler(url, token=token, verify=verify, certificate=certificate)
        if scheduler is not None:
            self.service = scheduler
            self.config.service_flavors = scheduler.flavors
            self.config.service_policies = scheduler.policies

    def _remote_scheduler(self, url: str | None, **options: Any) -> RemoteScheduler | None:
        from valence_sched.remote import connection, scheduler  # HTTP: only to a service

        service = connection.connection(self.config.environ, url, **options)
        return None if service is None else scheduler.RemoteScheduler(service)

    def ask_ironic(
        self,
        login: Callable[[], CloudLogin | None] = lambda: None,
        settings: Callable[[], IronicSettings] | None = None,
    ) -> None:
        """Before each change of hardware, ask Ironic whether it uses this hardware.

        The ``settings``, by default those of the user, name it, else the cloud of ``login``.
        """

        def baremetals() -> Sequence[Baremetal]:
            from valence_sched.integrations import ironic  # HTTP

            own, password = (settings or self.config.ironic)(), None
            if own.password is not None:
                password = self.secret(own.password, "ironic: password")
            if own.url is not None:
                verify = own.cafile or default_authorities(self.config.environ) or True
                return [ironic.ironic_at(own.url, own.username, password, verify, own.timeout_s)]
            try:
                cloud = login()
            except errors.CloudError as error:
                text = f"{error}: no hardware is changed before the cloud names its Ironic"
                raise errors.BaremetalUnavailable(f"{text} ({WITHOUT})") from None
            return [] if cloud is None else ironic.ironics_of(cloud, own.timeout_s)

        self.config.baremetals = baremetals

    def scheduler(
        self, selection: Selection = DEFAULT_SELECTION, *, effects: EffectLog | None = None
    ) -> Scheduler:
        """Return the scheduler of the service, else a scheduler over a selection.

        UsageError: the selection has options for a scheduler in this process only.
        """
        if self.service is None:
            return self.engine(selection, effects=effects)
        _refuse_options(policy_file=selection.policy_files, strict=selection.strict)
        if (drain := selection.drain) is not None:
            _refuse_options(drain_command=drain.command, drain_url=drain.url)
        _refuse_reading(selection)
        return self.service

    def zone_file(self, file: str) -> zone_registry.RecordedZone:
        """Read a tree of zones, ``-`` for standard input; InputError if it is invalid."""
        folder = "" if file == "-" else os.path.dirname(file)
        return zone_registry.parse_zone_file(*self.config.read(file), folder)

    def zoned_scheduler(
        self, selection: Selection, file: str, *, effects: EffectLog | None = None
    ) -> Scheduler:
        """Return the scheduler over the recorded zones of a file; errors as for the file.

        Verbs that do not decide treat all these zones as one zone.
        """
        from valence_sched.zones import decider, tree

        zone = self.zone_file(file)
        flat = self.engine(_of_zones(selection, zone), effects=effects)
        # only the engine over all inventories reports skipped documents
        app = App(self.config.environ, self.config.input, now=self.now)
        stated = zone.stated()

        def podms(zone: zone_registry.RecordedZone) -> Engine:
            own = replace(selection, sources=zone.inventories, stated=stated, strict=False)
            return app.engine(own)

        def requests(request: Request) -> Callable[[str], Request]:
            flat_request = tree.flat_request(zone, request)
            return lambda _zone: flat_request

        zones = tree.recorded_tree(zone, podms)
        return decider.ZoneDecider(
            flat, zones, deadline_s=600.0, own_has_all=True, requests=requests
        )

    def zoned_site(self, selection: Selection, file: str) -> Site:
        """Return the pod managers of all zones of a file as one site; errors as for a site."""
        from valence_sched.planning.site import load_site  # only to plan

        return load_site(self.loader, self.config, _of_zones(selection, self.zone_file(file)))

    def zone_podms(self, selection: Selection, file: str, names: Sequence[str]) -> list[str]:
        """Return the ids of the pod managers in zones of a file and in the zones below them.

        ``names`` are paths of zones, or patterns of paths; NothingMatches if one matches no zone.
        """
        zones = dict(self.zone_file(file).walk())
        found: dict[str, None] = {}
        for name in names:
            paths = fnmatch.filter(zones, name)
            if not paths:
                known = [path for path in zones if path]
                raise errors.NothingMatches(f"zone named {name!r}", errors.suggest(name, known))
            if inventories := _inventories(zones[path] for path in paths):
                app = App(self.config.environ, self.config.input, now=self.now)
                view = app.loader.view(replace(selection, sources=inventories))
                found.update(dict.fromkeys(view.podm_ids))
        return list(found)

    def dispatchable(self, scheduler: Scheduler, report: Report) -> Report:
        """Return a report that names the recorded pod managers of its nodes, and their age."""
        from valence_sched.lifecycle.dispatch import with_recording  # only to dispatch

        recorded = {one.podm.id: one.podm.read_at for one in scheduler.podms() if not one.live}
        return with_recording(report, recorded, self.now())

    def site(self, selection: Selection = DEFAULT_SELECTION) -> Site:
        """Return the pod managers of a selection without held blocks; errors as for a decision."""
        from valence_sched.planning.site import load_site, site_of  # only to plan

        if self.service is not None:
            _refuse_reading(selection)
            return site_of(self.service.documents(), self.config, selection)
        return load_site(self.loader, self.config, selection)

    @functools.cached_property
    def whatif(self) -> WhatIf:
        """Return the object that answers what-if questions."""
        from valence_sched.planning.whatif import WhatIf  # only to plan

        return WhatIf(self.config)

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

        When all listen, ``ready`` is called with the ID and the URL of each. ``options`` are the
        arguments of :func:`~valence_sched.simulator.server.serve.serve`.

        UsageError: a user without a password, or the reverse. CredentialError: the password cannot
        be read safely. InventoryIncomplete: with ``strict``, a document had to be skipped.
        """
        from valence_sched.simulator.server import serve, services

        if (username is None) != (password is None):
            text = "a login needs --username and one of --password-env, --password-file"
            raise errors.UsageError(text)
        if username is not None:
            secret = read_password(password, "podm serve", self.config.environ, None)
            options["login"] = services.Account(username, secret or "")

        def check_and_report(urls: list[tuple[str, str]]) -> None:
            self.loader.check(len(urls), selection)
            ready(urls)

        records = self.sources.records(selection)
        serve.serve(records, self.diagnostics, check_and_report, **options)

    def secret(self, reference: PasswordReference, what: str) -> str:
        """Return the secret that a reference names, or raise CredentialError about it."""
        try:
            return read_password(reference, what, self.config.environ, None) or ""
        except errors.CredentialError as error:
            raise error.at(what) from None

    @contextlib.contextmanager
    def report_writer(self, file: str) -> Iterator[Callable[[Report | Reports | Replay], None]]:
        """Open a file; yield the function that writes a decision or a replay to it as JSON.

        InputError if it cannot be opened or written. Without a write, the file is unchanged.
        """
        with files.pending(file) as write:
            yield lambda report: write(files.json_text(report, file))

    def text_writer(self, file: str) -> AbstractContextManager[Callable[[bytes], None]]:
        """Open a file as for a report; yield the function that writes bytes to it."""
        return files.pending(file)

    @contextlib.contextmanager
    def page_writer(self, file: str) -> Iterator[Callable[[Page], None]]:
        """Open a file as for a report; yield the function that writes a page to it as HTML."""
        from valence_sched.pages.render import page_html  # Jinja2 is slow to import

        with files.pending(file) as write:
            yield lambda page: write(page_html(page))

    def whatif_page(
        self, result: Relocation | Survival | Rebalance | PurchaseResult, site: Site, most: int = 0
    ) -> Page:
        """Return the page of moves or of a purchase on a site, with a map of the site.

        The map names former nodes. ``most`` is the allowed number of moves of a rebalance.
        """
        from valence_sched.model.capacity import PurchaseResult
        from valence_sched.model.relocation import Rebalance, Relocation, Survival
        from valence_sched.pages import hardware as maps, relocation as pages
        from valence_sched.planning.relocate import site_after

        view = site.view()
        source = inventory_source(view, site.skipped)
        drawn = view
        if isinstance(result, Relocation | Survival):
            drawn = site_after(site, result).view()
        podms = [
            replace(after, podm=replace(after.podm, nodes=before.nodes))
            for before, after in zip(view.podms, hardware.overviews(drawn), strict=True)
        ]
        blocks = hardware.blocks(drawn, BlockFilter())
        old = maps.old_readings(podms, self.now())
        listing = maps.hardware_listing(podms, hardware.pools(drawn), blocks, old)
        facts = (
            ("Policy", site.policy),
            *(("Edit", effect.text) for effect in site.effects),
            ("Pod managers", f"{source.podms:,}"),
            ("Blocks", f"{source.blocks:,}"),
            ("Inventory", source.digest),
        )
        if isinstance(result, Relocation):
            return pages.relocation_page(result, listing, facts)
        if isinstance(result, Rebalance):
            return pages.rebalance_page(result, listing, most, facts)
        if isinstance(result, PurchaseResult):
            return pages.purchase_page(result, listing, facts)
        return pages.survival_page(result, listing, facts)

    def report_text(self, report: Report | Reports | Replay) -> str:
        """Return a decision or a replay as the JSON of a report file."""
        return files.json_text(report).decode()

    def read_report(self, file: str) -> tuple[Report | Reports, list[str]]:
        """Read written decisions and warnings, ``-`` for stdin; InputError or NewerSchema."""
        return decision.parse_report(*self.config.read_document(file))

    def write_plan(self, plan: Plan | NodeChangePlan, file: str) -> None:
        """Write a plan as JSON, whole or not at all."""
        files.write_json(plan, file)

    def read_plan(self, file: str) -> Plan | NodeChangePlan:
        """Read a plan, ``-`` for stdin; InputError if it was changed, or NewerSchema."""
        from valence_sched.model import node_change, plan

        data, name = self.config.read_document(file)
        changes_node = codec.decode(data, codec.DocumentHead, name).schema == node_change.SCHEMA
        parse = node_change.parse_change_plan if changes_node else plan.parse_plan
        read, warnings = parse(data, name)
        self.config.remarks += warnings
        return read


def _of_zones(selection: Selection, zone: zone_registry.RecordedZone) -> Selection:
    return replace(selection, sources=_inventories([zone]), stated=zone.stated())


def _inventories(zones: Iterable[zone_registry.RecordedZone]) -> tuple[str, ...]:
    below = (one for zone in zones for _, one in zone.walk())
    return tuple(dict.fromkeys(each for one in below for each in one.inventories))


def _refuse_reading(selection: Selection) -> None:
    live = selection.live
    _refuse_options(
        resource_file=selection.resource_files,
        max_age=live.max_age_s is not None,
        liveness=live.liveness,
    )


def _refuse_options(**options: object) -> None:
    for name, given in options.items():
        if given:
            hint = "omit it, or name an inventory or a state to decide here"
            option = f"--{name.replace('_', '-')}"
            raise errors.UsageError(f"{option}: the service decides by its own settings: {hint}")


def fault_rules() -> list[tuple[str, str]]:
    """Return the form and the help of every fault rule of ``podm serve``."""
    from valence_sched.simulator.server.faults import RULES

    return [(f"{rule.name}:{rule.words}".rstrip(":"), rule.help) for rule in RULES]


def catalogue() -> ModuleType:
    """Return the functions on the service catalogue of a cloud."""
    from valence_sched.integrations import catalogue

    return catalogue
