# SPDX-License-Identifier: Apache-2.0
"""Decisions held at once, or saved as plans and held later."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from valence_sched import files
from valence_sched.app import App
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.errors import (
    ClaimLost,
    CredentialError,
    InputError,
    InventoryIncomplete,
    PluginError,
    RequestError,
    SchedulerError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched.integrations.dispatchers import valence
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.custom_resource import (
    DeclaredStocks,
    declared_supplies,
    with_declared_stocks,
)
from valence_sched.model.diff import Difference
from valence_sched.model.dispatch import Order, Receipt
from valence_sched.model.group import GroupState
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.need import Alternative
from valence_sched.model.plan import Plan, make_plan, parse_plan, plan_drift
from valence_sched.model.read_options import DEFAULT_READ_OPTIONS, ReadOptions, Selection
from valence_sched.model.request import Request
from valence_sched.model.usage import foreign_blocks

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.lifecycle.access import PodmAccess
    from valence_sched.lifecycle.claim import Claimer, ClaimSource
    from valence_sched.lifecycle.plan import PlanClaimer
    from valence_sched.lifecycle.provision import ProvisionResult
    from valence_sched.store.store import Store


class States(App):
    """The scheduler's parts, and those that know the state."""

    @contextlib.contextmanager
    def store(self, state: str | None = None) -> Iterator[Store]:
        """Yield the state at a URL, None for the usual one.

        Raises:
            StoreError: it cannot be opened.
        """
        with self.registry(state).store() as store:
            yield store

    @contextlib.contextmanager
    def podm_access(
        self, live: ReadOptions = DEFAULT_READ_OPTIONS, **how: Any
    ) -> Iterator[PodmAccess]:
        """Yield the state and the live pod managers of a command, within reach.

        ``how`` are fields of :class:`~valence_sched.lifecycle.access.Site`. Errors as for a store.
        """
        from valence_sched.lifecycle.access import PodmAccess  # HTTP and SQL: only for who composes

        registry = self.registry(live.state)
        members = {one.registration.name: one.registration for one in registry.members(live)}
        how.setdefault("timeout_s", live.timeout_s)
        with registry.store() as store:
            yield PodmAccess(store, members, registry.password, **how)

    def update_resource_stats(
        self, podm: str | tuple[str, str], stats: Mapping[str, Any], state: str | None = None
    ) -> int:
        """Take in what a pod manager reports by itself; return its generation.

        ``podm`` is its id, as a decision names it, or host and node. The very next decision sees
        it. Words that are no fields of a pod manager are kept as facts.

        Raises:
            InputError: something reported is not what it must be; nothing is stored.
            StoreError: the state cannot be written.
        """
        with self.store(state) as store:
            return store.update_stats(podm, dict(stats))

    def read_stats(self, file: str) -> dict[str, Any]:
        """Return what stands in a file of reports, ``-`` for standard input.

        Raises:
            InputError: it is no JSON or YAML object.
        """
        named = "stdin" if file == "-" else file
        document = load_yaml(self.config.read(file), named)
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise InputError(named, "$", type(document).__name__, "an object")
        return {str(word): value for word, value in document.items()}

    def reported_stats(
        self, podm: str, state: str | None = None
    ) -> tuple[dict[str, Any], float | None]:
        """Return what a pod manager reported by itself, and how many seconds ago it last did.

        Raises:
            UnknownName: it never did.
            StoreError: the state cannot be read.
        """
        registry = self.registry(state)
        found: dict[str, dict[str, Any]] = {}
        if not registry.empty:
            with registry.store() as store:
                found, beats = store.reported_stats(), store.report_ages_s()
        if podm not in found:
            raise UnknownName("pod manager that reported", podm, found, registry.where)
        return found[podm], beats.get(podm)

    def forget_report(self, podm: str, state: str | None = None) -> None:
        """Forget what a pod manager reported by itself; errors as of a store."""
        registry = self.registry(state)
        if registry.empty:
            raise UnknownName("pod manager that reported", podm, (), registry.where)
        with registry.store() as store:
            store.forget_report(podm)

    def block_usage(
        self, podm: str, state: str | None = None
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return what of a pod manager is taken: blocks by the claim that holds them, and foreign.

        Foreign are the URIs of blocks in use that nobody here claimed. Nothing where the state
        does not know the pod manager.
        """
        registry = self.registry(state)
        if registry.empty:
            return {}, ()
        with registry.store() as store:
            told = store.load_podms([podm]).get(podm)
            claims = store.claims.list(podm=podm)
            nodes = store.nodes.list(podm)
        holders: dict[str, list[str]] = {}
        for claim in claims:
            for part in claim.parts:
                for uri in part.blocks if part.podm == podm else ():
                    holders.setdefault(uri, []).append(claim.id)
        ours = {*holders, *(uri for node in nodes for uri in node.blocks)}
        by_block = {uri: ", ".join(ids) for uri, ids in sorted(holders.items())}
        return by_block, foreign_blocks(told, ours) if told else ()


class Plans(States):
    """The scheduler's parts, and those that hold what was decided."""

    def claimer(
        self,
        store: Store,
        sources: Sequence[str],
        policy_files: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        flavor_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> Claimer:
        """Return who decides and claims on these inventories, after they were read and stored.

        What could not be read is not decided on. Errors as for a view.
        """
        from valence_sched.lifecycle.claim import Claimer

        told = self._remember_podms(store, sources, live, strict=strict)
        resources = self.config.resources(resource_files)
        return Claimer(
            store,
            self.config.policies(policy_files).values(),
            mix=functools.partial(self.config.mix, flavor_files),
            declared=DeclaredStocks(resources) if resources else None,
            skipped=[*self.diagnostics.lines("unread"), *self.diagnostics.lines("skipped")],
            strict=strict,
            among=frozenset(told),
            statuses=self.loader.statuses(told.items(), live),
        )

    def plan(
        self,
        decision: Decision,
        texts: Mapping[str, bytes],
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> Plan:
        """Return the plan of a decision; ``texts`` are the pod managers that a view was made of.

        Errors as for a view.
        """
        report = decision.report()
        podms = self._podms_as_read(texts, {one.chosen.podm for one in report.placements}, live)
        at = self.now().isoformat(timespec="seconds")
        return make_plan(report, podms.values(), at)

    def write_plan(self, plan: Plan, file: str) -> None:
        """Write a plan as JSON, whole or not at all."""
        files.write_json(plan, file)

    def read_plan(self, file: str) -> Plan:
        """Read a plan, ``-`` for standard input; what is unknown in it is remarked on.

        Raises:
            InputError: it cannot be read, is no plan, or was changed since it was made.
            NewerSchema: its major version is newer than ours.
        """
        data = self.config.input.read() if file == "-" else files.read(file, limit=-1)
        plan, warnings = parse_plan(data, "stdin" if file == "-" else file)
        self.config.remarks += warnings
        return plan

    def plan_claimer(
        self,
        store: Store,
        plan: Plan,
        sources: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> PlanClaimer:
        """Return who claims what a plan says, after its pod managers were read and stored.

        Raises:
            ClaimLost: one of them is not here any more.
            InventoryIncomplete: one of them cannot be read.
            SchedulerError: as for a view.
        """
        from valence_sched.lifecycle.plan import PlanClaimer

        names = tuple(basis.podm.id for basis in plan.podms)
        told = self._remember_podms(store, sources, self._narrow(names, sources, live),
                                strict=strict, only=names)  # fmt: skip
        for name in names:
            if name in self.sources.unread_ids:
                lines = self.diagnostics.lines("unread")
                line = next(line for line in lines if line.startswith(f"{name}: "))
                raise InventoryIncomplete(f"the plan cannot be compared with what is there: {line}")
            if name not in told:
                raise _missing_podm(name)
        return PlanClaimer(store, plan, self.loader.statuses(told.items(), live),
                       self._supplies(store, names, resource_files))  # fmt: skip

    def refresh(
        self,
        plan: Plan,
        sources: Sequence[str] = (),
        policy_files: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> tuple[Decision, list[Difference]]:
        """Decide again what a plan decided, on what is there now; also return what moved.

        By the policy of the plan, unless files of policies are named. Errors as for a view and
        for a decision.
        """
        texts: dict[str, bytes] = {}
        live = msgspec.structs.replace(live, subtract_claims=True)
        selection = Selection(sources=tuple(sources), strict=strict,
                              resource_files=tuple(resource_files), live=live)  # fmt: skip
        view = self.loader.view(selection, texts)
        policies = (
            self.config.policies(policy_files).values() if policy_files else [plan.decision.policy]
        )
        request = msgspec.structs.replace(plan.decision.request, company=GroupState())
        decision = Decider(view, policies, skipped=self.diagnostics.lines("skipped"),
                          strict=strict).select_destinations(request)  # fmt: skip
        names = {basis.podm.id for basis in plan.podms}
        return decision, list(plan_drift(plan, self._podms_as_read(texts, names, live)))

    def _podms_as_read(
        self, texts: Mapping[str, bytes], names: Collection[str], live: ReadOptions
    ) -> dict[str, FullPodm]:
        """Return the pod managers of these names as they told, with the status they stand with."""
        found = {name: decode(texts[name], FullPodm, f"pod manager {name}")
                 for name in names if name in texts}  # fmt: skip
        statuses = self.loader.statuses([(one.id, one.read_at) for one in found.values()], live)
        return {
            name: msgspec.structs.replace(podm, status=statuses.get(name, podm.status))
            for name, podm in found.items()
        }

    def _remember_podms(
        self,
        store: Store,
        sources: Sequence[str],
        live: ReadOptions,
        *,
        strict: bool,
        only: Collection[str] | None = None,
    ) -> dict[str, str | None]:
        """Read pod managers and store them as they told; return when each was read, by id."""
        told = {}
        selection = Selection(sources=tuple(sources), strict=strict, live=live)
        for podm in self.loader.podms(selection):
            if podm.id in self.sources.unread_ids or (only is not None and podm.id not in only):
                continue
            if podm.id not in self.sources.reported_ids:  # those told the state themselves
                store.remember(podm)
            told[podm.id] = podm.read_at
        return told

    def _narrow(
        self, names: tuple[str, ...], sources: Sequence[str], live: ReadOptions
    ) -> ReadOptions:
        """Return how to read no more live pod managers than these.

        Raises:
            ClaimLost: one of them is not known any more.
        """
        if (
            self.sources.named_sources(Selection(sources=tuple(sources), live=live))
            or "-" in live.podm_files
        ):
            return live
        registry = self.registry(live.state)
        here = {member.registration.name for member in registry.all_members(live)}
        if registry.uses_state(live) and not registry.empty:
            with registry.store() as store:
                here |= store.reported_stats().keys()
        for name in names:
            if name not in here:
                raise _missing_podm(name)
        return msgspec.structs.replace(live, only=names)

    def _supplies(
        self, store: Store, names: Sequence[str], resource_files: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """Return what is left of stocks that only their declaration tells of."""
        resources = self.config.resources(resource_files)
        if not resources:
            return {}
        declared = DeclaredStocks(resources)
        return {name: declared_supplies(with_declared_stocks(podm, declared))
                for name, podm in store.load_podms(names).items()}  # fmt: skip


def _missing_podm(name: str) -> ClaimLost:
    return ClaimLost(f"the plan is out of date: pod manager {name!r} is not here any more", name)


class Operations(Plans):
    """The scheduler's parts, and those that write: store, claims, nodes."""

    def compose(
        self,
        access: PodmAccess,
        claim_source: ClaimSource,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = 600.0,
    ) -> ProvisionResult:
        """Claim and compose the nodes of a request; errors as for a provisioner."""
        from valence_sched.lifecycle.provision import Provisioner

        provisioner = Provisioner(access.store, claim_source, access.composer, access.read)
        return provisioner.provision(request, key=key, ttl_s=ttl_s)

    def dispatch(
        self,
        word: str,
        decision: Decision,
        key_variable: str | None = None,
        timeout_s: float = 30.0,
    ) -> Sequence[Receipt]:
        """Hand a decision to somebody else who composes, once; nothing is held or composed here.

        ``word`` is ``NAME=URL``, ``key_variable`` names the environment variable with the key
        that signs.

        Raises:
            UsageError: it names no URL, or one that is none.
            UnknownName: nobody hands decisions over by this name.
            CredentialError: there is no key.
            DispatchFailed: the other side refuses or does not answer.
            PluginError: who hands it over broke the contract.
        """
        name, equals, url = word.partition("=")
        if not equals or not url:
            raise UsageError("--dispatch: expected <name>=<url>, as in webhook=https://host/path")
        send = plugins.load(plugins.DISPATCHERS).get(name, "--dispatch")
        key = self._key(key_variable) if key_variable is not None else None
        choices = {placement.choice for placement in decision.placements}
        properties, unsaid = _valence_properties(
            [decision.request.alternatives[choice - 1] for choice in choices]
        )
        called = decision.request.flavor or decision.request.id
        report = to_json(decision.report())
        order = Order(report, decision.placements, called, properties, key, timeout_s, unsaid)
        try:
            found: Sequence[Receipt] = tuple(send(url, order))
            for receipt in found:
                if not isinstance(receipt, Receipt):
                    raise TypeError(f"found {type(receipt).__name__}, expected a Receipt")
        except SchedulerError:
            raise
        except Exception as error:  # whoever wrote it: an operator must not take it for unsent
            raise PluginError(one_line(
                f"dispatcher {name!r}: {type(error).__name__}: {error}: the decision may have "
                "been taken or not: look there first"
            )) from error  # fmt: skip
        return found

    def _key(self, variable: str) -> bytes:
        key = self.config.environ.get(variable)
        if not key:
            raise CredentialError(one_line(f"--dispatch-key-env: nothing is in {variable}, "
                                           "expected a key"))  # fmt: skip
        return key.encode("utf-8", "surrogateescape")


def _valence_properties(asks: Sequence[Alternative]) -> tuple[dict[str, Any], str | None]:
    """Return what nodes were asked to be in Valence's words, and what these cannot say."""
    if len(asks) != 1:
        return {}, "its nodes are made by several alternatives of the flavor"
    try:
        return valence.properties(asks[0]), None
    except RequestError as error:
        return {}, str(error)
