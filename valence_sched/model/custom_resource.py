# SPDX-License-Identifier: Apache-2.0
"""Custom resources: declared by an operator, added to pod managers as stocks or devices."""

import fnmatch
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from valence_sched.errors import one_line, suggest
from valence_sched.model import inventory
from valence_sched.model.base import Noun
from valence_sched.model.inventory import DECLARED_SCHEME, Amount, Name, Podm, Stock
from valence_sched.model.need import MEASURES

_KINDS = ("processor", "accelerator", "memory", "drive", "nic")
WHOLE_DEVICES = dict(zip(_KINDS, inventory.Devices.__struct_fields__, strict=True))


class CustomResource(Noun, frozen=True, kw_only=True):
    """A resource that an operator declares, and its amount in each pod manager or pool.

    The amount is the entry of ``podms`` for the pod manager's id or name, else the value of its
    ``fact``, else ``total``. ``used_fact`` is the fact with the amount in use; the other fields are
    as in a stock. If ``per`` is a kind of device, the amount is the number of parts of each such
    device; the parts become accelerators of the kind ``name``. ``of`` is a pattern for the model or
    the kind of these devices.
    """

    name: Name
    unit: str = ""
    per: Literal["podm", "pool", "processor", "accelerator", "memory", "drive", "nic"] = "podm"
    of: Name | None = None
    total: Amount | None = None
    fact: str | None = None
    podms: dict[str, Amount] = {}
    used_fact: str | None = None
    min: Amount = 0.0
    max: Amount | None = None
    step: Amount = 0.0

    def __post_init__(self) -> None:
        # msgspec adds the path to a ValueError; these texts have the form of its own errors
        if self.name in MEASURES:  # else $free.cores would be ambiguous
            raise ValueError(f"Expected a name other than {', '.join(MEASURES)}")
        if self.total is None and self.fact is None and not self.podms:
            raise ValueError("Expected at least one of total, fact, podms")
        if self.per == "pool" and self.used_fact is not None:
            raise ValueError("Expected used_fact only with per: podm")
        if self.max is not None and self.max < self.min:
            raise ValueError("Expected max to be at least min")
        if not self.is_device and self.of is not None:
            raise ValueError(f"Expected 'of' only with per: {', '.join(WHOLE_DEVICES)}")
        if self.is_device and (self.unit or self.used_fact or self.min or self.max or self.step):
            raise ValueError(f"Expected name, of, total, fact and podms only with per: {self.per}")
        amounts = (self.total or 0.0, *self.podms.values())
        if self.is_device and not all(float(amount).is_integer() for amount in amounts):
            raise ValueError(f"Expected whole numbers with per: {self.per}")

    @property
    def is_device(self) -> bool:
        return self.per in WHOLE_DEVICES


class DeclaredResources:
    """Adds declared stocks and devices to pod managers; collects ``remarks``."""

    def __init__(self, resources: Sequence[CustomResource]) -> None:
        self._resources = [one for one in resources if not one.is_device]
        self._devices = [one for one in resources if one.is_device]
        self._podm_names: set[str] = set()
        self._devices_with: dict[tuple[bytes, tuple[int, ...]], msgspec.Raw] = {}
        self.remarks: list[str] = []

    def all_blocks(self, podm: Podm[Any, Any]) -> tuple[inventory.Block[Any, Any], ...]:
        """Return the blocks with declared devices, unless they report devices of the kind."""
        if not self._devices:
            return podm.blocks
        self._podm_names.update(name for name in (podm.id, podm.name) if name)
        numbers = tuple(int(self._total(one, podm) or 0) for one in self._devices)
        return tuple(
            msgspec.structs.replace(block, devices=self._with_parts(block.devices, numbers))
            for block in podm.blocks
        )

    def _with_parts(self, devices: Any, numbers: tuple[int, ...]) -> Any:
        if not isinstance(devices, msgspec.Raw):
            return devices and self._decoded_with_parts(devices, numbers)
        text = bytes(devices)
        if not text:
            return devices
        if (found := self._devices_with.get((text, numbers))) is None:  # many blocks are equal
            decoded = msgspec.json.decode(text, type=inventory.Devices)
            found = msgspec.Raw(msgspec.json.encode(self._decoded_with_parts(decoded, numbers)))
            self._devices_with[text, numbers] = found
        return found

    def _decoded_with_parts(
        self, devices: inventory.Devices, numbers: tuple[int, ...]
    ) -> inventory.Devices:
        reported = {one.kind for one in devices.accelerators}
        more = [
            inventory.Accelerator(
                kind=resource.name,
                count=None if whole.count is None else whole.count * number,
                model=getattr(whole, "model", None),
                state=whole.state,
                health=whole.health,
            )
            for resource, number in zip(self._devices, numbers, strict=True)
            if number and resource.name not in reported
            for whole in getattr(devices, WHOLE_DEVICES[resource.per])
            if _is_of(whole, resource.of)
        ]
        return msgspec.structs.replace(devices, accelerators=(*devices.accelerators, *more))

    def all_stocks(self, podm: Podm[Any, Any]) -> tuple[Stock, ...]:
        """Return all stocks; a reported resource overrides its declaration, with a remark."""
        self._podm_names.update(name for name in (podm.id, podm.name) if name)
        stocks = list(podm.stocks)
        for resource in self._resources:
            uri = DECLARED_SCHEME + resource.name
            stocks = [stock for stock in stocks if stock.uri.partition("#")[0] != uri]
            if any(stock.resource == resource.name for stock in stocks):
                text = f"reports {resource.name!r} itself: its declaration is ignored"
                self._remark(podm.id, text)
            else:
                stocks += self._stocks(resource, podm)
        return tuple(stocks)

    def unmatched_remarks(self) -> Iterator[str]:
        """Yield a remark for each declared pod manager that is in no inventory."""
        for resource in (*self._resources, *self._devices):
            for name in (one for one in resource.podms if one not in self._podm_names):
                text = f"no pod manager named {name!r} ({suggest(name, self._podm_names)})"
                yield one_line(f"resource {resource.name!r}: {text}")

    def _stocks(self, resource: CustomResource, podm: Podm[Any, Any]) -> Iterator[Stock]:
        total = self._total(resource, podm)
        if total is None:
            return
        used = self._fact_amount(resource.used_fact, podm) or 0.0
        pools, uri = tuple(pool.id for pool in podm.pools), DECLARED_SCHEME + resource.name
        shares = [(uri, pools)]
        if resource.per == "pool" and pools:
            shares = [(f"{uri}#{pool}", (pool,)) for pool in pools]
        same = {name: getattr(resource, name) for name in ("unit", "min", "max", "step")}
        for name, members in shares:
            stock = Stock(uri=name, resource=resource.name, pools=members, total=total, used=used)
            yield msgspec.structs.replace(stock, **same)

    def _total(self, resource: CustomResource, podm: Podm[Any, Any]) -> float | None:
        for name in (podm.id, podm.name):
            if name in resource.podms:
                return resource.podms[name]
        amount = self._fact_amount(resource.fact, podm)
        return resource.total if amount is None else amount

    def _fact_amount(self, fact: str | None, podm: Podm[Any, Any]) -> float | None:
        value = podm.facts.get(fact) if fact is not None else None
        if value is None:
            return None
        if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0:
            return float(value)
        self._remark(podm.id, f"fact {fact!r} is {value!r}, expected an amount: it is ignored")
        return None

    def _remark(self, podm: str, text: str) -> None:
        self.remarks.append(one_line(f"pod manager {podm!r}: {text}"))


def _is_of(device: inventory.InventoryDevice, pattern: str | None) -> bool:
    words = (getattr(device, "model", None), getattr(device, "kind", None))
    return pattern is None or any(fnmatch.fnmatchcase(word, pattern) for word in words if word)


def with_declared(podm: Any, declared: DeclaredResources | None) -> Any:
    """Return a pod manager, decoded or not, with its declared resources."""
    if declared is None:
        return podm
    stocks, blocks = declared.all_stocks(podm), declared.all_blocks(podm)
    return msgspec.structs.replace(podm, stocks=stocks, blocks=blocks)
