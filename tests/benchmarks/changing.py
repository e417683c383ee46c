# SPDX-License-Identifier: Apache-2.0
"""The cost of attaching a device to a node relative to composing a node, and of choosing it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tests.benchmarks.measure import Measurement, against, sized
from tests.unit.core.deciders import built_in
from tests.unit.lifecycle.site import Site, request, site
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_result
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.model.claim import ComposedNode
from valence_sched.model.codec import decode
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import FullPodm, LeanPodm, to_json
from valence_sched.model.node_change import NodeChange, uris
from valence_sched.model.request import Request
from valence_sched.model.request_spec import compile_request
from valence_sched.planning.node_change import ChangePlanner
from valence_sched.view.builder import ViewBuilder

TIMES = sized(15, 1)
PODMS, HOSTS = sized(1000, 3), sized(40, 4)
GPU = {"accelerators": [{"kind": "GPU"}]}


def changing() -> Iterator[Measurement]:
    """Yield CPU and requests of attaching relative to composing, and the CPU of the choice."""
    with site() as here:
        composed: list[ComposedNode] = []

        def compose() -> None:
            composed.append(here.composer.compose(here.claim(request(podms=["gpu-east"]))))

        compose()
        changer = NodeChanger(here.store, here.connect, compile_request, _decide, 600.0)
        node = composed[0].id
        attached = changer.change(node, msgspec.convert({"attach": GPU}, NodeChange)).attached

        def attach() -> None:
            changer.change(node, NodeChange(attach_blocks=uris(attached)))

        def detach() -> None:
            changer.change(node, NodeChange(detach_blocks=uris(attached), force=True))

        def remove() -> None:
            here.composer.remove(composed.pop())

        detach()
        composing = _costs(here, compose, remove)
        attaching = _costs(here, attach, detach)
        for number, unit in enumerate(("CPU in ms", "requests")):
            name = f"changing: {unit.partition(' ')[0]} of attaching, of composing"
            yield against(name, attaching[number], composing[number], 1.0, unit)
    yield from _choosing()


def _costs(here: Site, work: Callable[[], None], undo: Callable[[], None]) -> Sequence[float]:
    """Return the least CPU in milliseconds, and the number of requests."""
    found = []
    for _ in range(TIMES):
        before = sum(len(podm.requests) for podm in here.podms.values())
        began = time.process_time()
        work()
        cpu_ms = (time.process_time() - began) * 1000
        sent = sum(len(podm.requests) for podm in here.podms.values()) - before
        found.append((cpu_ms, float(sent)))
        undo()
    return min(found)


def _decide(podm: FullPodm, wanted: Request) -> DecisionResult:
    builder = ViewBuilder()
    builder.add(decode(to_json(podm), LeanPodm, podm.id), podm.id)
    return decision_result(Decider(builder.view(), built_in()).select_destinations(wanted))


def _podm(name: str) -> FullPodm:
    cpu = {"processors": [{"cores": 32}], "memory": [{"capacity_mib": 65536}]}
    gpu = {"accelerators": [{"kind": "GPU", "model": "A100"}]}
    blocks = [
        {"uri": f"/{kind}/{number}", "type": [type_], "devices": held, "pools": [f"z{number % 4}"]}
        for number in range(HOSTS)
        for kind, type_, held in (("host", "Compute", cpu), ("gpu", "Processor", gpu))
    ]
    pools = [{"id": f"z{number}"} for number in range(4)]
    return msgspec.convert({"id": name, "blocks": blocks, "pools": pools}, FullPodm)


def _choosing() -> Iterator[Measurement]:
    """The first decision for a node, on its reach, relative to the first one over the site."""
    builder = ViewBuilder()
    podms = [_podm(f"p{number}") for number in range(PODMS)]
    for podm in podms:
        builder.add(decode(to_json(podm), LeanPodm, podm.id), podm.id)
    view, wanted = builder.view(), request(properties=GPU)
    node = ComposedNode(id="n", podm="p0", uri="/S/1", claim="c", blocks=("/host/1",))

    def everywhere(seed: int) -> None:
        Decider(view, built_in()).select_destinations(msgspec.structs.replace(wanted, seed=seed))

    def on_reach(seed: int) -> None:
        planner = ChangePlanner(podms[0], node, _decide)
        planner.attach(msgspec.structs.replace(wanted, seed=seed))

    every, reach = _least_ms(everywhere), _least_ms(on_reach)
    yield against("changing: a choice within reach, of one over the site", reach, every, 1.5)


def _least_ms(work: Callable[[int], None]) -> float:
    found = []
    for seed in range(TIMES):
        began = time.process_time()
        work(seed)
        found.append((time.process_time() - began) * 1000)
    return min(found)
