# SPDX-License-Identifier: Apache-2.0
"""Hardware and needs as phrases that people read: ``2 GPU A100 80 GiB``, ``256 GiB memory``."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from valence_sched.model.inventory import Accelerator, Devices, Drive, Nic
from valence_sched.model.need import Need
from valence_sched.model.quantity import agree, format_bytes, format_count, format_mbps, format_mib
from valence_sched.model.request import Request

MIB = 1 << 20
_EXCESS = {"cores": "core", "accelerators": "accelerator", "drives": "drive", "nics": "NIC"}

#: What the models of CPUs say beside the model.
_NOISE = re.compile(r"\((?:R|TM|C)\)|\b(?:\d+-Core )?Processor\b|\bCPU\b|@.*", re.IGNORECASE)


def device_phrases(devices: Devices, *, brief: bool = False) -> Iterator[str]:
    """Yield devices in words, the cores first: ``32 cores EPYC``, ``256 GiB``, ``2 GPU A100``.

    With ``brief`` the models of CPUs and the memory of accelerators are left out. Devices in a
    condition follow, with its word: ``1 GPU A100 (Critical)``.
    """
    every = devices_by_condition(devices)
    for condition, found in sorted(every.items(), key=lambda item: item[0] or ""):
        for phrase in phrases(found, brief=brief):
            yield f"{phrase} ({condition})" if condition else phrase


def devices_by_condition(devices: Devices) -> dict[str | None, Devices]:
    """Return the devices by their condition, a word of Redfish; None for nothing wrong."""
    groups = {name: getattr(devices, name) for name in Devices.__struct_fields__}
    words = dict.fromkeys(one.condition for group in groups.values() for one in group)
    if words.keys() <= {None}:
        return {None: devices}
    return {
        word: Devices(**{
            name: tuple(one for one in group if one.condition == word)
            for name, group in groups.items()
        })
        for word in words
    }  # fmt: skip


def phrases(devices: Devices, *, brief: bool = False) -> Iterator[str]:
    """Yield devices in words, whatever condition they are in."""
    by_model: dict[str, list[int | None]] = defaultdict(list)
    for cpu in devices.processors:
        by_model["" if brief else short_model(cpu.model)].append(_product(cpu.count, cpu.cores))
    for model, numbers in by_model.items():
        cores = agree(1 if numbers == [1] else 2, f"cores {model}")
        yield f"{_sum_text(numbers, str)} {cores}".strip()
    if devices.memory:
        sizes = [_product(one.count, one.capacity_mib) for one in devices.memory]
        yield _sum_text(sizes, format_mib) + ("" if any(sizes) else " memory")
    alike: dict[tuple[str, bool], int] = defaultdict(int)  # by words, those of unknown number apart
    others: list[Accelerator | Drive | Nic] = [*devices.accelerators, *devices.drives]
    for device in (*others, *devices.nics):
        words = _device_words(device, brief=brief)
        alike[words, device.count is None] += device.count or 0
    for (words, is_unknown), count in alike.items():
        yield f"{'?' if is_unknown else count} {words}"


def _device_words(device: Accelerator | Drive | Nic, *, brief: bool) -> str:
    match device:
        case Accelerator():
            memory = format_bytes(device.memory_mib * MIB) if device.memory_mib else ""
            words = [device.kind, short_model(device.model), "" if brief else memory]
        case Drive():
            size = format_bytes(device.capacity_bytes) if device.capacity_bytes else ""
            kind = " ".join(filter(None, (device.protocol, device.media))) or "drive"
            words = ["remote" if device.remote else "", kind, size]
        case Nic():
            words = ["NIC", format_mbps(device.speed_mbps) if device.speed_mbps else ""]
    return " ".join(filter(None, words))


def _product(count: int | None, amount: int | None) -> int | None:
    return None if count is None or amount is None else count * amount


def _sum_text(numbers: Sequence[int | None], shown: Callable[[int], str]) -> str:
    """Return a sum in words; with a plus where a part of it is unknown."""
    known = [number for number in numbers if number is not None]
    if not known:
        return "unknown"
    return shown(sum(known)) + ("+" if len(known) < len(numbers) else "")


def short_model(model: str | None) -> str:
    """Return the name of a model without marks, clock rates and the word for what it is."""
    return " ".join(_NOISE.sub(" ", model or "").split())


def need_phrase(need: Need) -> str:
    """Return a need in words: ``256 GiB memory``, ``1 drive SSD of 900 GiB or more``."""
    times = f"{need.count} x" if need.count > 1 else ""
    least = []
    for test in need.tests:
        if test.operator == "at_least":
            name, value = test.attribute, float(test.value)
            if name == "capacity_bytes":
                least.append(f"of {format_bytes(value)} or more")
            elif name in ("capacity_mib", "memory_mib"):
                least.append(f"of {format_bytes(value * MIB)} or more")
            elif name == "speed_mbps":
                least.append(f"of {format_mbps(value)} or more")
            else:
                least.append(f"of {_plain_number(value)} {name.replace('_', ' ')} or more")
    if need.unit == "MiB":
        amount = format_bytes(need.amount * MIB)
    else:
        amount = " ".join(filter(None, [_plain_number(need.amount), need.unit]))
    return " ".join(filter(None, [times, amount, agree(need.amount, need.label), *least]))


def request_phrase(request: Request) -> str:
    """Return what is asked for: ``gpu-large: 32 cores, 256 GiB memory, 2 GPU A100``."""
    needs = ", ".join(map(need_phrase, request.needs))
    name = request.flavor or request.id or "request"
    others = len(request.fallbacks)
    return f"{name}: {needs}" + (f"; or {format_count(others, 'other way')}" if others else "")


def excess_phrases(excess: Mapping[str, float]) -> Iterator[str]:
    """Yield what the blocks of a candidate have beyond the request."""
    for name, amount in excess.items():
        if name == "memory_mib":
            yield format_bytes(amount * MIB)
        else:
            yield format_count(amount, _EXCESS[name])


def _plain_number(value: object) -> str:
    """Return a number without needless zeros and without separators of thousands."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)
