# SPDX-License-Identifier: Apache-2.0
"""Provisioner: claims and composes all nodes of a request, or removes them again.

If a pod manager refuses a node, the next best pod manager is tried. If fewer nodes than required
are composed, they are decomposed again.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.calls import start_calls
from valence_sched.core.explain.report import decision_result
from valence_sched.lifecycle.claim import ClaimSource
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.model.claim import Claim, ComposedNode, disabled_error
from valence_sched.model.decision import Detail
from valence_sched.model.inventory import FullPodm
from valence_sched.model.lifecycle import ProvisionResult, UnverifiedNode, added_results
from valence_sched.model.registration import MOST_PARALLEL_COMPOSES, PARALLEL_COMPOSES
from valence_sched.model.request import Request
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store
from valence_sched.store.tables import key_of
from valence_sched.words.phrases import state_text

MOST_ATTEMPTS = 5
GRACE_S = 5.0  # time after an interruption to finish nodes that are being composed

_FindAnother = Callable[[tuple[str, ...], str | None], Claim | None]


@dataclass(frozen=True)
class Provisioner:
    """Composes the nodes of requests that a source claims, and the nodes of held claims.

    ``read`` reads a pod manager and returns None if it does not answer. ``refusals`` returns the
    pod managers that can never compose a request, with reasons; they are excluded. ``prepare`` is
    called before the claim, and raises if it is unknown which hardware Ironic uses. ``disabled``
    returns the pod managers that must not get nodes now. ``parallel`` returns how many nodes a pod
    manager composes at a time.
    """

    store: Store
    claim_source: ClaimSource | None
    composer: NodeComposer
    read: Callable[[str], FullPodm | None]
    refusals: Callable[[Request], Mapping[str, str]] = field(default=lambda _request: {})
    prepare: Callable[[], object] = field(default=lambda: None)
    disabled: Callable[[], Collection[str]] = field(default=frozenset)
    parallel: Callable[[str], int] = field(default=lambda _podm: PARALLEL_COMPOSES)
    _decision_lock: threading.Lock = field(default_factory=threading.Lock)
    _podm_semaphores: dict[str, threading.Semaphore] = field(default_factory=dict)

    def provision(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> ProvisionResult:
        """Compose the nodes of a request, or at least its required number.

        Raises:
            ClaimLost: all races were lost; nothing is held.
            ClaimState: the key belongs to nodes that are being composed, or a pod manager of the
                claim was disabled. In the latter case, the claim stays held.
            NameTaken: the key belongs to another request.
            BaremetalUnavailable: Ironic does not answer.
        """
        source = self.claim_source
        assert source is not None, "without a source only held claims can be composed"
        content = source.content(request)
        if earlier := self._earlier_nodes(request, key, content):
            return ProvisionResult(nodes=tuple(earlier))
        self.prepare()
        refusals = self.refusals(request)
        podms = [name for name in request.podms if name not in refusals]
        if request.podms and not podms:
            return ProvisionResult(failures=tuple(f"{n}: {refusals[n]}" for n in request.podms))
        excluded = [name for name in refusals if not podms and name not in request.exclude_podms]
        excludes = (*request.exclude_podms, *excluded)
        request = replace(request, podms=tuple(podms), exclude_podms=excludes)
        outcome = source.claim(request, key=key, ttl_s=ttl_s, content=content)
        done = ProvisionResult()
        if outcome.claim is not None:
            another = partial(self._claim_another, source, request, content, ttl_s)
            done = self._compose_all(outcome.claim, request.required_count, another)
        if outcome.decision is None:
            return done
        result = decision_result(outcome.decision, detail)
        lines = (f"{podm}: {why}: left out" for podm, why in refusals.items())
        report = replace(result.report, warnings=(*result.report.warnings, *lines))
        return replace(done, decision=replace(result, report=report))

    def compose_claim(self, claim_id: str) -> ProvisionResult:
        """Compose all nodes of a claim or none, only on the claimed hardware.

        Raises:
            ClaimState: the claim is not held, or one of its pod managers was disabled. In the
            latter case, the claim stays held. UnknownName: the claim is unknown.
            BaremetalUnavailable: Ironic does not answer.
        """
        self.store.claims.expire()
        claim = self.store.claims.show(claim_id)
        if claim.state != "HELD":
            nodes = ", ".join(node.id for node in self.store.nodes.list(claim=claim_id))
            reason = f"it is node {nodes}" if nodes else claim.note
            state = state_text(claim.state) + (f" ({reason})" if reason else "")
            text = f"claim {claim_id} is {state}: only a held claim can be composed"
            raise errors.ClaimState(text)
        self.prepare()
        return self._compose_all(claim, claim.nodes, lambda _avoid, _key: None)

    def _compose_all(
        self, claim: Claim, required: int, find_another: _FindAnother
    ) -> ProvisionResult:
        """Compose the nodes of a claim in parallel, and decompose them if there are too few.

        ``find_another`` claims a replacement for a failed node, given the pod managers to avoid and
        a key.
        """
        if disabled := sorted(set(claim.podms).intersection(self.disabled())):
            raise disabled_error(claim.id, disabled[0])
        self.composer.checkpoint("taken")
        claims = [claim] if claim.nodes == 1 else self.store.claims.split(claim.id)
        self.composer.checkpoint("split")
        composing = [partial(self._compose_node, claim, find_another) for claim in claims]
        futures = start_calls(composing, "compose", MOST_PARALLEL_COMPOSES)
        try:
            wait(futures)
        except KeyboardInterrupt:
            for future in futures:
                future.cancel()
            wait(futures, GRACE_S)  # most nodes are finished within this time
            raise
        result = added_results(map(_outcome, claims, futures))
        has_enough = len(result.nodes) + len(result.still_composing) >= required
        return result if has_enough else self._without_nodes(result)

    def _earlier_nodes(self, request: Request, key: str | None, content: str) -> list[ComposedNode]:
        """Return the composed nodes of a key; ClaimState while other nodes of it are composed."""
        if key is None:
            return []
        keys = {key, *(f"{key}#{number}" for number in range(1, request.count + 1))}
        claims = [one for one in self.store.claims.list(owner=request.owner) if one.key in keys]
        for other in (one for one in claims if one.content != key_of(content)):
            text = f"key {key!r} belongs to claim {other.id} of another request"
            raise errors.NameTaken(f"{text}: choose another key")
        ours = {one.id for one in claims if one.state in ("COMPOSED", "SETTLED")}
        # a held claim of the key is composed now, and split if it has several nodes
        for one in (one for one in claims if one.id not in ours):
            if one.key != key or (one.nodes == 1 and one.state != "HELD"):
                text = f"key {key!r} belongs to claim {one.id}, which is {one.state}"
                hint = "wait for it, or run podm claim reap after it expires"
                raise errors.ClaimState(f"{text}: {hint}")
        return [node for node in self.store.nodes.list() if node.claim in ours]

    def _compose_node(self, claim: Claim, find_another: _FindAnother) -> ProvisionResult:
        notes: list[str] = []
        avoid: tuple[str, ...] = ()
        problem: errors.SchedulerError
        for attempt in range(1, MOST_ATTEMPTS + 1):
            (part,) = claim.parts
            try:
                limit = threading.Semaphore(self.parallel(part.podm))
                with self._podm_semaphores.setdefault(part.podm, limit):
                    node = self.composer.compose(claim)
                    return ProvisionResult(nodes=(node,), notes=tuple(notes))
            except (errors.ComposeFailed, errors.HardwareInUse) as error:
                avoid, problem = (*avoid, part.podm), error
            except errors.ClaimLost as error:
                problem = error
                # if the reading fails, report the lost claim only
                with contextlib.suppress(errors.SchedulerError):
                    if (reading := self.read(part.podm)) is not None:
                        self.store.remember(reading)
            except errors.SchedulerError as error:  # the node is unverified or not started
                return _failed(error, notes)
            another = find_another(avoid, claim.key) if attempt < MOST_ATTEMPTS else None
            if another is None:
                return _failed(problem, notes)
            notes.append(f"{problem}: tried {another.parts[0].podm} instead")
            self.composer.checkpoint("another")
            claim = another
        raise AssertionError("unreachable")

    def _claim_another(
        self, source: ClaimSource, request: Request, content: str, ttl_s: float,
        avoid: tuple[str, ...], key: str | None,
    ) -> Claim | None:  # fmt: skip
        """Claim one node on another pod manager under the key of the failed node."""
        podms = tuple(name for name in request.podms if name not in avoid)
        if request.podms and not podms:
            return None
        excluded = tuple(dict.fromkeys((*request.exclude_podms, *avoid)))
        one = replace(request, count=1, min_count=None, podms=podms, exclude_podms=excluded)
        with self._decision_lock:
            try:
                return source.claim(one, key=key, ttl_s=ttl_s, content=content).claim
            except errors.SchedulerError:
                return None

    def _without_nodes(self, result: ProvisionResult) -> ProvisionResult:
        """Decompose all nodes, and return the result; ``unverified`` has nodes that remain."""
        failures, unverified = [*result.failures], [*result.unverified]
        for node in result.nodes:
            try:
                self.composer.remove(node)
                self.store.effects.forget("node", node.id)
                gone = f"{node.podm}: {node.uri} decomposed: too few nodes were composed"
                failures.append(gone)
            except errors.Unverified as error:
                unverified += _failed(error).unverified
            except errors.SchedulerError as error:
                stays = f"{node.podm}: {node.uri} remains, although too few nodes were composed"
                text = errors.one_line(f"{stays}: {error} (podm node delete)")
                unverified.append(UnverifiedNode(message=text))
        return replace(result, nodes=(), failures=tuple(failures), unverified=tuple(unverified))


def _outcome(claim: Claim, future: Future[ProvisionResult]) -> ProvisionResult:
    try:
        return future.result()
    except errors.ServiceBusy as error:  # no thread could start
        return _failed(error)
    except Exception as error:
        what = f"{type(error).__name__}: {error} (please report this)"
        text = errors.one_line(f"claim {claim.id}: {what}; run podm claim reap")
        return _failed(errors.Unverified(text))


def _failed(error: errors.SchedulerError, notes: Sequence[str] = ()) -> ProvisionResult:
    result = ProvisionResult(notes=tuple(notes))
    if isinstance(error, errors.Unverified):
        node = UnverifiedNode(message=str(error))
        if isinstance(error, errors.StillComposing):
            where = {"node": error.node, "podm": error.podm, "claim": error.claim}
            node = replace(node, still_composing=True, **where)
        return replace(result, unverified=(node,))
    is_lost = isinstance(error, errors.ClaimLost | errors.HardwareInUse)
    is_unknown = isinstance(error, errors.BaremetalUnavailable)
    return replace(result, failures=(str(error),), claim_lost=is_lost, use_unknown=is_unknown)
