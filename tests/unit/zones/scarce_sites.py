# SPDX-License-Identifier: Apache-2.0
"""Random pod managers, mixes and policies for which scarce hardware matters."""

from random import Random

from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, engine, gpu
from valence_sched.core.decider import Decider
from valence_sched.model.need import Alternative, NameRequirements, Need, Test
from valence_sched.model.policy import WeigherUse
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.testing import view

CORES = Need(kind="processor", measure="cores", amount=8)
#: Not a power of two: the usable part of a card beside other needs is then not a short binary
#: fraction.
TENTHS = Need(kind="processor", measure="cores", amount=10)
MODELS = ("NVIDIA A100", "NVIDIA L40S", "NVIDIA H100")


def card(model: str | None = None, amount: int = 1) -> Need:
    """Return a need for cards of one model or of any model."""
    tests = (Test("kind", "equal", "gpu"),)
    tests += (Test("model", "equal", model),) if model else ()
    return Need(kind="accelerator", measure="devices", amount=amount, tests=tests)


def scarce_decider(podms: list[dict]) -> Decider:
    """Return a decider with a policy of the weigher fragmentation and one other weigher."""
    default = next(one for one in built_in() if one.name == "default")
    weighers = (WeigherUse("fragmentation", 2.0), WeigherUse("room", 1.0))
    return engine(view(*podms), replace(default, name="beside", weighers=weighers))


def scarce_podm(number: int, random: Random) -> dict:
    blocks = [cpu(f"c{n}", random.choice([8, 16, 16, 23])) for n in range(random.randint(1, 3))]
    blocks += [
        gpu(f"g{n}", random.choice([1, 2, 3]), random.choice(MODELS))
        for n in range(random.randint(0, 4))
    ]
    for block in blocks:
        block["pools"] = random.choice([["p"], ["p"], ["q"], ["p", "q"]])
    return {
        "id": f"podm-{number}",
        "traits": random.choice([[], [], ["HW_FAST"]]),
        "pools": [{"id": "p"}, {"id": "q"}],
        "blocks": blocks,
    }


def scarce_request(random: Random) -> Request:
    """Return a request with a mix, most of whose shares name hardware."""
    fast = NameRequirements(required=("HW_FAST",))
    shares = [
        FlavorShare((CORES, card()), weight=random.choice([1.0, 3.0])),
        FlavorShare((TENTHS, card(random.choice(MODELS)))),
        FlavorShare((CORES, card(amount=2)), fast),
        FlavorShare((TENTHS, card())),
        FlavorShare((CORES,)),
    ]
    chosen = tuple(random.sample(shares, random.randint(1, len(shares))))
    other_alternatives = random.choice([(), (), (Alternative((CORES,), ()),)])
    return Request(
        needs=random.choice([(CORES, card()), (TENTHS, card()), (card(random.choice(MODELS)),)]),
        other_alternatives=other_alternatives,
        count=random.choice([1, 2, 3, 5]),
        min_count=0,
        alternates=random.choice([0, 2]),
        mix=Mix(chosen),
        policy=random.choice(["fragmentation", "beside"]),
        seed=random.randint(0, 9),
    )
