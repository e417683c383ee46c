# SPDX-License-Identifier: Apache-2.0
"""What one compose operation needs: the request and the needs it is compiled to."""

from __future__ import annotations

import functools
import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from valence_sched.errors import RequestError, one_line
from valence_sched.model import operators
from valence_sched.model.noun import Noun

SCHEMA = "valence-sched/request"
VERSION = "1.0"
MAX_GROUPS = 8  # groups of one kind; the exact fit looks at every subset of them

NeedKind = Literal["processor", "memory", "accelerator", "drive", "nic", "stock"]
Measure = Literal["cores", "sockets", "capacity_mib", "devices", "amount"]
Unknown = Literal["reject", "allow", "penalise"]


class Test(Struct, frozen=True, gc=False):
    """One condition on a device: ``words`` in order, ``equal`` text, or ``at_least`` a number."""

    attribute: str
    operator: Literal["words", "equal", "at_least"]
    value: str | int


class Need(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a request: so much of a measure, from devices that pass every test.

    ``amount`` is a total (cores, MiB), a number of devices, or for a stock the size of each of
    ``count`` separate grants. ``unknown`` says what an attribute means that nobody told:
    ``reject`` the device, or ``allow`` it.
    """

    kind: NeedKind
    measure: Measure
    amount: Annotated[float, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1)] = 1
    tests: tuple[Test, ...] = ()
    resource: str = ""
    unknown: Literal["reject", "allow"] = "reject"

    @property
    def label(self) -> str:
        """Return what is asked for, in an operator's words: ``GPU A100``, ``cores``."""
        if self.kind == "stock":
            return self.resource
        words = [str(test.value) for test in self.tests if test.operator != "at_least"]
        if self.measure == "devices":
            kind = "" if self.kind == "accelerator" and words else self.kind
            return " ".join(filter(None, [kind, *words]))
        name = {"cores": "cores", "sockets": "sockets", "capacity_mib": "memory"}[self.measure]
        return " ".join([name, *words])

    @property
    def subject(self) -> Need:
        """Return the need without its amount: what all needs that look at the same things share."""
        return msgspec.structs.replace(self, amount=0, count=1)

    @property
    def unit(self) -> str:
        """Return the unit of the amount, empty for plain counts."""
        return "MiB" if self.measure == "capacity_mib" else ""


class Traits(Noun, frozen=True):
    """Traits a pool must have, and traits it must not have."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class Request(Noun, frozen=True, kw_only=True, dict=True):
    """What is asked of the scheduler, compiled to needs; plugins read it and nothing else."""

    schema: str = SCHEMA
    version: str = VERSION
    id: str = ""
    flavor: str | None = None
    needs: tuple[Need, ...] = ()
    count: Annotated[int, Meta(ge=1)] = 1
    alternates: Annotated[int, Meta(ge=0)] = 0
    podms: tuple[str, ...] = ()
    exclude_podms: tuple[str, ...] = ()
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: Traits = Traits()
    policy: str = "default"
    seed: int = 0

    @functools.cached_property
    def question(self) -> bytes:
        """Return what filters and weighers may look at, as bytes: equal bytes, equal verdicts."""
        return msgspec.json.encode(
            (
                self.needs,
                self.podms,
                self.exclude_podms,
                self.zone,
                self.aggregates,
                self.capabilities,
                self.traits,
                # last and only where asked: a request without keeps its identity and its lots
                *([{"attributes": self.attributes}] if self.attributes else []),
            ),
            order="deterministic",
        )


def sealed(request: Request) -> Request:
    """Check a request and give it an identity: its own, or else a digest of what it asks for.

    How many and how many alternates do not count: asking for more gets the same first answer.

    Raises:
        RequestError: it asks for nothing, for too many groups, for and against one podm, or for
            an attribute or operator that does not exist.
    """
    if not request.needs:
        raise RequestError("the request asks for nothing: name processors, memory or devices")
    for kind in ("accelerator", "drive", "nic"):
        groups = sum(need.kind == kind for need in request.needs)
        if groups > MAX_GROUPS:
            raise RequestError(f"{groups} groups of {kind}s, at most {MAX_GROUPS}: merge some")
    both = sorted(set(request.podms) & set(request.exclude_podms))
    if both:
        raise RequestError(f"pod manager {both[0]!r} is both asked for and excluded")
    for path, text in request.attributes.items():
        if wrong := operators.fault(path, text):
            raise RequestError(one_line(f"attribute {path!r}: {wrong}"))
    if request.id:
        return request
    digest = hashlib.blake2b(request.question, digest_size=8)
    named = msgspec.structs.replace(request, id=digest.hexdigest())
    named.__dict__.update(request.__dict__)  # the question does not depend on the id
    return named
