# SPDX-License-Identifier: Apache-2.0
"""Writes generated inventories of any size as JSON Lines: a header, then a pod manager per line.

``python -m valence_sched.testing.generate --podms 1000 --blocks 100 --seed 1 --output site.jsonl``
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import IO, NamedTuple, TextIO

from msgspec.structs import replace

from valence_sched import files
from valence_sched.model import inventory
from valence_sched.model.inventory import Devices, Drive, Memory, Processor, Status, Stock, to_json
from valence_sched.streams import discard

GB = 10**9
A100_80GB, A100_40GB = "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB"
H100 = "NVIDIA H100 80GB HBM3"


class Hardware(NamedTuple):
    """One kind of block: the prefix of its name, its type, its devices, and its sharing."""

    label: str
    type: inventory.BlockType
    devices: Devices
    shared: bool = False


def _cpu(count: int, cores: int, model: str, mib: int | None) -> Hardware:
    cpus, memory = Processor(count=count, cores=cores, model=model), Memory(capacity_mib=mib)
    return Hardware("CPU", "Compute", Devices(processors=(cpus,), memory=(memory,)))


def _card(count: int, model: str | None, mib: int | None, kind: str = "GPU") -> Hardware:
    cards = inventory.Accelerator(kind=kind, count=count, model=model, memory_mib=mib)
    return Hardware(kind, "Expansion", Devices(accelerators=(cards,)))


def _drives(
    count: int,
    gb: int | None,
    media: str,
    protocol: str,
    rpm: int | None = None,
    *,
    shared: bool = False,
) -> Hardware:
    size = gb * GB if gb else None
    drives = Drive(count=count, capacity_bytes=size, media=media, protocol=protocol, rpm=rpm)
    return Hardware(media, "Storage", Devices(drives=(drives,)), shared)


def _nics(count: int, mbps: int | None) -> Hardware:
    return Hardware("NIC", "Network", Devices(nics=(inventory.Nic(count=count, speed_mbps=mbps),)))


def _modules(count: int, mib: int, type_: str) -> Hardware:
    modules = Memory(count=count, capacity_mib=mib, type=type_)
    return Hardware("MEM", "Memory", Devices(memory=(modules,)))


def _shared_status(compositions: int, health: inventory.Health | None = None) -> Status:
    composed = Status(state="ComposedAndAvailable", shareable=True, max_compositions=8)
    return replace(composed, health=health, compositions=compositions)


#: Every kind of block, by sort of hardware.
HARDWARE: dict[str, tuple[Hardware, ...]] = {
    "compute": (
        _cpu(1, 32, "EPYC 7543", 262144),
        _cpu(1, 32, "EPYC 9354", 393216),
        _cpu(2, 32, "EPYC 9354", 786432),
        _cpu(2, 64, "EPYC 7742", 1048576),
        _cpu(2, 96, "EPYC 9654", 1572864),
        _cpu(2, 16, "Xeon Gold 6326", 262144),
        _cpu(2, 24, "Xeon Gold 6342", 524288),
        _cpu(2, 32, "Xeon Platinum 8358", 524288),
        _cpu(2, 32, "Xeon Platinum 8358", 2097152),
        _cpu(2, 56, "Xeon Platinum 8480+", 2097152),
        _cpu(1, 80, "Altra Q80-30", 524288),
        _cpu(2, 20, "Xeon Gold 6248", None),
    ),
    "memory": (
        _modules(4, 65536, "DDR5"),
        _modules(8, 65536, "DDR5"),
        _modules(8, 131072, "DDR5"),
        _modules(8, 32768, "DDR4"),
    ),
    "cards": (
        *(_card(count, A100_80GB, 81920) for count in (1, 2, 4, 8)),
        *(_card(count, A100_40GB, 40960) for count in (1, 2)),
        *(_card(count, H100, 81920) for count in (1, 4, 8)),
        *(_card(count, "NVIDIA L40S", 49152) for count in (1, 2, 4)),
        _card(1, "NVIDIA A10", 24576),
        _card(2, "AMD Instinct MI210", 65536),
        _card(1, None, None),
        _card(1, "AMD Alveo U55C", 16384, kind="FPGA"),
    ),
    "drives": (
        _drives(1, 960, "SSD", "NVMe"),
        _drives(1, 1920, "SSD", "NVMe"),
        _drives(1, 3840, "SSD", "NVMe"),
        _drives(4, 3840, "SSD", "NVMe"),
        _drives(8, 7680, "SSD", "NVMe"),
        _drives(8, 15360, "SSD", "NVMeOverFabrics", shared=True),
        _drives(2, 480, "SSD", "SATA"),
        _drives(2, 1920, "SSD", "SAS"),
        _drives(1, None, "SSD", "NVMe"),
        _drives(12, 16000, "HDD", "SAS", rpm=7200),
        _drives(4, 2400, "HDD", "SAS", rpm=10500),
    ),
    "nics": (_nics(2, 10000), _nics(2, 25000), _nics(1, 100000), _nics(2, 200000), _nics(2, None)),
}

#: A pod manager: for each sort of hardware, the number of kinds and the percentage of blocks.
Profile = dict[str, tuple[int, int]]
PROFILES: tuple[Profile, ...] = (
    {"compute": (3, 45), "memory": (1, 8), "drives": (4, 30), "nics": (1, 17)},
    {"compute": (2, 25), "cards": (3, 31), "drives": (3, 28), "nics": (1, 16)},
    {"compute": (2, 30), "memory": (3, 40), "drives": (2, 20), "nics": (1, 10)},
    {"compute": (1, 15), "drives": (6, 70), "nics": (2, 15)},
)
PROFILE_WEIGHTS = (40, 30, 10, 20)

#: States of use: the percentage of blocks, and the status of an unshared and of a shared block. The
#: first two states share the remaining percentage: :data:`BUSY` is the part of the second.
STATES: tuple[tuple[int, Status, Status], ...] = (
    (0, Status(), Status(shareable=True, max_compositions=8)),
    (0, Status(state="Composed"), _shared_status(3)),
    (3, Status(reserved=True), Status(reserved=True, shareable=True, max_compositions=8)),
    (2, Status(health="Warning"), _shared_status(1)),
    (1, Status(health="Critical"), _shared_status(2, health="Critical")),
    (1, Status(state="Composing"), _shared_status(8)),
    (1, Status(state="Unavailable", enabled=False), Status(state="Unavailable", shareable=True)),
)
#: The percentage of a podm that is composed; 30 on average.
BUSY = (5, 10, 20, 25, 30, 30, 35, 85)

AGGREGATES = ("gold", "silver", "liquid-cooled", "pci-dss", "lab")
FABRICS = (("ib",), ("ethernet",), ("ethernet", "ib"), ("cxl", "ethernet"))
SYSTEMS = (("linux",), ("linux", "windows"), ("esxi", "linux", "windows"))
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_AVX512F", "HW_GPU_NVLINK", "HW_NIC_SRIOV")
RESOURCES: tuple[tuple[str, str, int, int], ...] = (  # resource, unit, largest total, step
    ("cores", "cores", 4096, 1),
    ("memory_mib", "MiB", 33554432, 1024),
    ("gpu", "devices", 128, 1),
    ("storage_gib", "GiB", 1048576, 1),
    ("cxl_memory_mib", "MiB", 16777216, 4096),
    ("nvme_gib", "GiB", 262144, 1),
    ("network_mbps", "Mbit/s", 3200000, 1000),
    ("fpga", "devices", 32, 1),
)

CAPTURED_AT = "2026-01-05T06:00:00Z"
BLOCKS_URI = "/redfish/v1/ResourceBlocks/"


class BlockText(NamedTuple):
    """A kind of block as JSON: the texts before its number and its pools, the rest by state."""

    head: str
    middle: str
    tails: tuple[str, ...]


Texts = dict[str, tuple[BlockText, ...]]  # by sort of hardware


def podms(count: int, blocks: int, seed: int, pools: int = 2, stocks: int = 0) -> Iterator[bytes]:
    """Yield ``count`` pod managers as JSON, each with these numbers of blocks, pools and stocks.

    A pod manager without blocks has only stocks, and one pool. About one block in seven is in two
    pools, about three in ten are composed. ValueError if a number is below 0, or ``pools`` below 1.
    """
    if min(count, blocks, stocks) < 0 or pools < 1:
        found = f"{count} podms, {blocks} blocks, {stocks} stocks, {pools} pools"
        raise ValueError(f"numbers must be 0 or more, and pools 1 or more, got {found}")
    hardware = {sort: tuple(map(_block_text, kinds)) for sort, kinds in HARDWARE.items()}
    names = tuple(f"z{number}" for number in range(1, (pools if blocks else 1) + 1))
    return (_podm(number, blocks, seed, names, stocks, hardware) for number in range(1, count + 1))


def header() -> bytes:
    return to_json(inventory.InventoryHeader(schema=inventory.SCHEMA, captured_at=CAPTURED_AT))


def _block_text(kind: Hardware) -> BlockText:
    devices = to_json(kind.devices).decode()
    tails = []
    for _, unshared, shared in STATES:
        status = to_json(shared if kind.shared else unshared).decode()
        status_field = "" if status == "{}" else f',"status":{status}'
        tails.append(f'{status_field},"devices":{devices}}}')
    head, middle = f'{{"uri":"{BLOCKS_URI}{kind.label}', f'","type":["{kind.type}"],"pools":'
    return BlockText(head, middle, tuple(tails))


def _podm(
    number: int, blocks: int, seed: int, pools: Sequence[str], stocks: int, hardware: Texts
) -> bytes:
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - realistic, not secret
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
) -> inventory.Podm[None, None]:
    year, one = rng.randint(2019, 2025), inventory.Limit(min=1, max=1)
    return inventory.Podm(
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
            inventory.Pool(id=pool, limits={"Compute": one} if rng.random() < 0.8 else {})
            for pool in pools
        ),
    )


def _blocks(
    rng: random.Random, count: int, pools: Sequence[str], busy: int, profile: Profile, texts: Texts
) -> str:
    kinds: list[BlockText] = []
    shares: list[float] = []
    for sort, (number, share) in profile.items():
        kinds += rng.sample(texts[sort], number)
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
        f"{kind[0]}{n}{kind[1]}{member}{kind[2][state]}" for n, kind, state, member in draws
    )


def _memberships(pools: Sequence[str]) -> tuple[list[str], list[float]]:
    single = [f'["{pool}"]' for pool in pools]
    double = [f'["{one}","{other}"]' for one, other in pairwise(pools)]
    weights = [6 / len(single)] * len(single)
    return single + double, weights + [1 / max(1, len(double))] * len(double)


def _stocks(rng: random.Random, count: int, pools: Sequence[str], busy: int) -> tuple[Stock, ...]:
    drawn = []
    for number in range(count):
        resource, unit, largest, step = RESOURCES[number % len(RESOURCES)]
        total = max(1, int(largest * rng.uniform(0.1, 1.0)) // step) * step
        used = int(total * min(95, rng.gauss(busy, 10)) / 100) // step * step
        uri = f"/redfish/v1/Storage/StoragePools/{number + 1}"
        stock = Stock(
            uri=uri,
            resource=resource,
            unit=unit,
            pools=tuple(pools),
            total=float(total),
            used=float(max(0, used)),
            step=float(step),
        )
        drawn.append(stock)
    return tuple(drawn)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    count, blocks, stocks = arguments.podms, arguments.blocks, arguments.stocks
    texts = podms(count, blocks, arguments.seed, arguments.pools, stocks)
    lines = _with_progress(chain([header()], texts), count, sys.stderr)
    try:
        if arguments.output == "-":
            _write(lines, sys.stdout.buffer)
        else:
            with files.atomic(arguments.output, sync=False) as file:
                _write(lines, file)
    except BrokenPipeError:  # the reader of the pipe has stopped
        discard(sys.stdout)
    except OSError as error:
        sys.stderr.write(f"{arguments.output}: {error.strerror or error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m valence_sched.testing.generate",
        description="Write a realistic inventory as JSON Lines; equal seeds give equal bytes.",
    )
    least_0, least_1 = _at_least(0), _at_least(1)
    parser.add_argument("--podms", type=least_0, required=True, help="number of pod managers")
    parser.add_argument("--blocks", type=least_0, required=True, help="blocks of each pod manager")
    parser.add_argument("--seed", type=int, default=0, help="a whole number (default: 0)")
    pools = "pools of each pod manager with blocks (default: 2)"
    parser.add_argument("--pools", type=least_1, default=2, help=pools)
    parser.add_argument("--stocks", type=least_0, default=0, help="stocks of each (default: 0)")
    parser.add_argument("--output", default="-", metavar="FILE", help="default: -, standard output")
    return parser


def _at_least(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is less than {minimum}")
        return value

    return number


def _with_progress(lines: Iterable[bytes], podms: int, stream: TextIO) -> Iterator[bytes]:
    """Yield the lines; on a terminal show the progress if it takes over a second."""
    if not stream.isatty():
        yield from lines
        return
    due, shown = time.monotonic() + 1, False
    for number, line in enumerate(lines):
        if time.monotonic() >= due:
            due, shown = time.monotonic() + 0.2, True
            stream.write(f"\r{number} of {podms} pod managers")
            stream.flush()
        yield line
    if shown:
        stream.write("\r\033[K")
        stream.flush()


def _write(lines: Iterable[bytes], file: IO[bytes]) -> None:
    for line in lines:
        file.write(line)
        file.write(b"\n")
    file.flush()


if __name__ == "__main__":
    sys.exit(main())
