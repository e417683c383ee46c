# SPDX-License-Identifier: Apache-2.0
"""Random pod managers of any size; the same seed gives the same bytes.

Pod manager number *n* depends on the seed, on *n* and on the shape of a pod manager, but not on the
number of pod managers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from valence_sched.model.inventory import SCHEMA, InventoryHeader, Limit, Podm, Pool, Stock, to_json
from valence_sched.testing.hardware import (
    AGGREGATES,
    BUSY,
    FABRICS,
    HARDWARE,
    PROFILE_WEIGHTS,
    PROFILES,
    RESOURCES,
    STATES,
    SYSTEMS,
    TRAITS,
    Hardware,
)

CAPTURED_AT = "2026-01-05T06:00:00Z"
BLOCKS_URI = "/redfish/v1/ResourceBlocks/"


class BlockText(NamedTuple):
    """A kind of block as text: the parts before its number, before its pools, and after them.

    ``tails`` has one text per line of ``STATES``.
    """

    head: str
    middle: str
    tails: tuple[str, ...]


def podms(count: int, blocks: int, seed: int, pools: int = 2, stocks: int = 0) -> Iterator[bytes]:
    """Yield ``count`` pod managers as JSON, each with so many blocks, pools and stocks.

    A pod manager without blocks has stocks only and is one pool. About one block in seven is in
    two pools, about three in ten are composed.

    Raises:
        ValueError: a number is below 0, or there is no pool.
    """
    if min(count, blocks, stocks) < 0 or pools < 1:
        raise ValueError(f"{count} podms of {blocks} blocks, {stocks} stocks, {pools} pools")
    hardware = {sort: tuple(map(_block_text, kinds)) for sort, kinds in HARDWARE.items()}
    names = tuple(f"z{number}" for number in range(1, (pools if blocks else 1) + 1))
    return (_podm(number, blocks, seed, names, stocks, hardware) for number in range(1, count + 1))


def header() -> bytes:
    """Return the first line of a JSON Lines inventory."""
    return to_json(InventoryHeader(schema=SCHEMA, captured_at=CAPTURED_AT))


def _block_text(kind: Hardware) -> BlockText:
    devices = to_json(kind.devices).decode()
    tails = []
    for _, unshared, shared in STATES:
        status = to_json(shared if kind.shared else unshared).decode()
        status_field = "" if status == "{}" else f',"status":{status}'
        tails.append(f'{status_field},"devices":{devices}}}')
    return BlockText(
        f'{{"uri":"{BLOCKS_URI}{kind.label}', f'","type":["{kind.type}"],"pools":', tuple(tails)
    )


def _podm(
    number: int,
    blocks: int,
    seed: int,
    pools: Sequence[str],
    stocks: int,
    hardware: dict[str, tuple[BlockText, ...]],
) -> bytes:
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - believable, not secret
    busy = rng.choice(BUSY)
    profile = rng.choices(PROFILES, PROFILE_WEIGHTS)[0]
    parts = [to_json(_bare_podm(rng, number, pools, busy))[:-1]]
    if blocks:
        text = _blocks(rng, blocks, pools, busy, profile, hardware)
        parts += [b',"blocks":[', text.encode(), b"]"]
    if stocks:
        parts += [b',"stocks":', to_json(_stocks(rng, stocks, pools, busy))]
    return b"".join([*parts, b"}"])


def _bare_podm(
    rng: random.Random, number: int, pools: Sequence[str], busy: int
) -> Podm[None, None]:
    """Draw a pod manager without its blocks and stocks."""
    year = rng.randint(2019, 2025)
    return Podm(
        id=f"podm-{number:05d}",
        url=f"https://podm-{number:05d}.example.org/redfish/v1",
        driver="redfish",
        status=rng.choices(("Online", "Offline", "Unknown"), (97, 2, 1))[0],
        enabled=rng.random() > 0.01,
        zone=f"zone-{rng.randint(1, 8)}",
        aggregates=tuple(sorted(rng.sample(AGGREGATES, rng.randint(0, 2)))),
        capabilities={"fabric": rng.choice(FABRICS), "os": rng.choice(SYSTEMS)},
        traits=tuple(sorted(rng.sample(TRAITS, rng.randint(0, 2)))),
        facts={
            "power_free_w": float(rng.randint(0, 40000)),
            "price": float(round(rng.uniform(0.5, 2.0), 2)),
            "rack": f"R{rng.randint(1, 400):03d}",
            "year": float(year),
        },
        generation=rng.randint(1, 9999),
        pools=tuple(
            Pool(id=pool, limits={"Compute": Limit(min=1, max=1)} if rng.random() < 0.8 else {})
            for pool in pools
        ),
    )


def _blocks(
    rng: random.Random,
    count: int,
    pools: Sequence[str],
    busy: int,
    profile: dict[str, tuple[int, int]],
    hardware: dict[str, tuple[BlockText, ...]],
) -> str:
    kinds: list[BlockText] = []
    shares: list[float] = []
    for sort, (number, share) in profile.items():
        kinds += rng.sample(hardware[sort], number)
        shares += [share / number] * number
    weights = [weight for weight, *_ in STATES[2:]]
    states = [100 - sum(weights) - busy, busy, *weights]
    draws = zip(
        range(1, count + 1),
        rng.choices(kinds, shares, k=count),
        rng.choices(range(len(STATES)), states, k=count),
        rng.choices(*_memberships(pools), k=count),
        strict=True,
    )
    return ",".join(
        [f"{kind[0]}{n}{kind[1]}{member}{kind[2][state]}" for n, kind, state, member in draws]
    )


def _memberships(pools: Sequence[str]) -> tuple[list[str], list[float]]:
    """Return the possible pools of a block as JSON, with weights: one pool, or two neighbours."""
    single = [f'["{pool}"]' for pool in pools]
    double = [f'["{one}","{other}"]' for one, other in pairwise(pools)]
    return single + double, [6 / len(single)] * len(single) + [1 / max(1, len(double))] * len(
        double
    )


def _stocks(rng: random.Random, count: int, pools: Sequence[str], busy: int) -> tuple[Stock, ...]:
    """Draw stocks, one per resource; after the last resource a second of the first, and so on."""
    drawn = []
    for number in range(count):
        resource, unit, largest, step = RESOURCES[number % len(RESOURCES)]
        total = max(1, int(largest * rng.uniform(0.1, 1.0)) // step) * step
        used = int(total * min(95, rng.gauss(busy, 10)) / 100) // step * step
        drawn.append(
            Stock(
                uri=f"/redfish/v1/Storage/StoragePools/{number + 1}",
                resource=resource,
                unit=unit,
                pools=tuple(pools),
                total=float(total),
                used=float(max(0, used)),
                step=float(step),
            )
        )
    return tuple(drawn)
