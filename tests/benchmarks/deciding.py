# SPDX-License-Identifier: Apache-2.0
"""The time of a decision: on amounts only, a new and a known flavor, a change, many nodes."""

from __future__ import annotations

import functools
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import msgspec

from tests.benchmarks.measure import Measurement, in_turns, median_ms, sized
from valence_sched.app import App
from valence_sched.core.decider import Decider
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.policy import bind
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.policy import WeigherUse
from valence_sched.model.request import Group, Request, sealed
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing.generate import podms
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

PODMS, BLOCKS, SEED = sized(10_000, 40), sized(100, 10), 1
NODES = sized(1000, 5)
PROBE_MS = 0.07  # time of the probe when the targets were set
THOUSAND_MS = {"default": 60.0, "five": 90.0}  # for 1,000 nodes, by policy
FIVE = msgspec.structs.replace(
    App(environ={}).config.policies()["default"],
    name="five",
    weighers=tuple(
        WeigherUse(name) for name in ("room", "balance", "scarce", "known", "fragmentation")
    ),
)
#: The default policy, and the same without the weigher that takes most of the time.
DEFAULT = App(environ={}).config.policies()["default"]
LIGHT = msgspec.structs.replace(
    DEFAULT,
    name="light",
    weighers=tuple(use for use in DEFAULT.weighers if use.name != "fragmentation"),
)


def amounts(policy: str = "default", name: str = "amounts") -> Iterator[Measurement]:
    """10,000 pools of 8 resource classes, each request new: at most 18 numpy passes.

    Two thirds of the time is weigher fragmentation, which counts the lost nodes of 8 resources.
    """
    engine = _engine(blocks=0, stocks=8)
    resources = sorted(engine.snapshot().resources)
    requests = iter([
        _request({"stocks": [{"resource": r, "amount": 1.0 + n / 1000} for r in resources]}, policy)
        for n in range(sized(400, 10))
    ])  # fmt: skip

    def decide() -> None:
        assert engine.select_destinations(next(requests)).batch.nodes

    for _ in range(sized(100, 1)):  # fill the cache of judgements of the engine
        decide()
    yield in_turns(f"{name}: a new request", decide, 30, 18, calls=10)


def weighers() -> Iterator[Measurement]:
    """A new request takes at most some times its time without the weigher fragmentation.

    Measured with five weighers and with the default policy. Requests of flavors take the same
    blocks as the earlier requests, or other blocks each time.
    """
    engine = _engine(blocks=0, stocks=8)
    resources = sorted(engine.snapshot().resources)
    yield from _to_light("amounts", 3.0, engine, lambda n: _request(
        {"stocks": [{"resource": r, "amount": 1.0 + n / 1000} for r in resources]}, "default"
    ))  # fmt: skip
    cores, memory, *others = App(environ={}).config.flavors()["medium"].needs
    replace, engine = msgspec.structs.replace, _engine(blocks=BLOCKS, stocks=0)
    yield from _to_light("flavors", 2.0, engine, lambda n: Request(needs=(
        cores, replace(memory, amount=memory.amount + n), *others
    )))  # fmt: skip
    yield from _to_light("flavors of other blocks", 7.0, engine, lambda n: Request(needs=(
        replace(cores, amount=16 * (1 + n % 6)),
        replace(memory, amount=131_072 * (1 + n // 6 % 30) + n), *others,
    )))  # fmt: skip


def _to_light(
    name: str, target: float, engine: Decider, make: Callable[[int], Request]
) -> Iterator[Measurement]:
    """Yield the CPU time of new requests by two policies, each relative to the light policy."""
    numbers = itertools.count()

    def decide(policy: str) -> None:
        asked = msgspec.structs.replace(make(next(numbers)), policy=policy)
        assert engine.select_destinations(asked).batch.nodes

    policies = FIVE.name, DEFAULT.name, LIGHT.name
    for _ in range(sized(50, 1)):  # fill the caches of the engine
        for policy in policies:
            decide(policy)
    deciders = [functools.partial(decide, policy) for policy in policies]
    turns = [
        [median_ms(each, 5, clock=time.process_time) for each in deciders]
        for _ in range(sized(20, 1))
    ]
    for place, policy in enumerate(policies[:2]):
        value, probe = (statistics.median(turn[at] for turn in turns) for at in (place, -1))
        ratio = statistics.median(turn[place] / turn[-1] for turn in turns)
        yield Measurement(name=f"weighers: a new request of {name}, {policy} to light", value=value,
                          unit="ms", probe=probe, ratio=ratio, target=target)  # fmt: skip


def amounts_five() -> Iterator[Measurement]:
    """``amounts`` with five weighers, fragmentation among them, and the same target."""
    yield from amounts(FIVE.name, "amounts with five weighers")


def flavors_five() -> Iterator[Measurement]:
    """``flavors`` with five weighers, fragmentation among them, and the same targets."""
    yield from flavors(FIVE.name, "flavors with five weighers")


def mixed() -> Iterator[Measurement]:
    """1,000 requests of 20 flavors, one after another, on 1,000 podms of 100 blocks."""
    site = view(BLOCKS, 0, podms_=1000)
    flavors_ = list(App(environ={}).config.flavors().values())
    needs = [
        tuple(msgspec.structs.replace(need, amount=need.amount + n) if need.unit else need
              for need in flavors_[n % len(flavors_)].needs)
        for n in range(20)
    ]  # fmt: skip
    asked = [sealed(Request(needs=one, policy=FIVE.name, mix=App(environ={}).config.mix()))
             for one in needs]  # fmt: skip
    bound = bind(FIVE)
    scheduler = FilterScheduler()

    def thousand() -> None:
        ledger = Ledger(site)
        for number in range(sized(1000, 20)):
            placed = scheduler.schedule(ledger.context(asked[number % 20], bound)).nodes
            if placed:
                ledger.take(placed[0].chosen)

    yield in_turns("mixed: 1,000 requests of 20 flavors", thousand, 3, 25_000)


def flavors(policy: str = "default", name: str = "flavors") -> Iterator[Measurement]:
    """10,000 podms of 100 blocks: a new and a known flavor, a change, 1,000 nodes, also apart."""
    engine = _engine(blocks=BLOCKS, stocks=0)
    flavor = App(environ={}).config.flavors()["medium"]
    memory = itertools.count(flavor.needs[1].amount, 1)
    request = Request(needs=flavor.needs, policy=policy)

    def new() -> None:
        needs = list(flavor.needs)
        needs[1] = msgspec.structs.replace(needs[1], amount=next(memory))
        asked = Request(needs=tuple(needs), policy=policy)
        assert engine.select_destinations(asked).batch.nodes

    def same() -> None:
        assert engine.select_destinations(request).batch.nodes

    changes = itertools.cycle(list(_changes(20)))

    def change() -> None:
        engine.replace(next(changes))
        same()

    def thousand() -> None:
        many = msgspec.structs.replace(request, count=NODES)
        assert len(engine.select_destinations(many).batch.nodes) == NODES

    group = Group(name="benchmark", anti_affinity=("podm",))

    def apart() -> None:
        many = msgspec.structs.replace(request, count=NODES, group=group)
        decision = engine.select_destinations(many)
        assert len(decision.chosen_podms()) == len(decision.batch.nodes) == NODES

    yield in_turns(f"{name}: seen for the first time", new, 5, 60, calls=4)
    same()
    yield in_turns(f"{name}: the same again", same, 10, 3, calls=5)
    yield in_turns(f"{name}: after one podm changed", change, 5, 20, calls=5)
    yield in_turns(
        f"{name}: 1,000 nodes with depletion", thousand, 5, THOUSAND_MS[policy] / PROBE_MS
    )
    yield in_turns(f"{name}: 1,000 nodes with anti-affinity", apart, 5, 3000)


def _changes(count: int) -> Iterator[LeanPodm]:
    """Yield podms as a new reading could return them: one block in ten has changed its use."""
    for number, line in enumerate(podms(count, BLOCKS, SEED)):
        podm = msgspec.json.decode(line, type=LeanPodm)
        status = msgspec.Raw(b'{"state":"Composed"}')
        blocks = tuple(
            msgspec.structs.replace(block, status=status) if index % 10 == number % 10 else block
            for index, block in enumerate(podm.blocks)
        )
        yield msgspec.structs.replace(podm, blocks=blocks)


def _engine(blocks: int, stocks: int) -> Decider:
    config = App(environ={}).config
    policies = [*config.policies().values(), FIVE, LIGHT]
    return Decider(view(blocks, stocks), policies, mix=config.mix)


def view(blocks: int, stocks: int, podms_: int = PODMS) -> View:
    """Return the View of the generated inventory."""
    builder = ViewBuilder()
    decoder = msgspec.json.Decoder(LeanPodm)
    for line in podms(podms_, blocks, SEED, stocks=stocks):
        builder.add(decoder.decode(line), "generated")
    built = builder.view()
    gc.freeze()  # as Main does for an inventory that it reads
    return built


def _request(properties: dict[str, object], policy: str) -> Request:
    flavor = msgspec.convert({"name": "benchmark", "properties": properties}, Flavor)
    return Request(needs=flavor.needs, policy=policy)
