# SPDX-License-Identifier: Apache-2.0
"""Bodies: the nouns that a caller of the service sends, and those that only the service answers."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.model.decision import Report
from valence_sched.model.decision_result import Detail
from valence_sched.model.flavor_properties import Properties
from valence_sched.model.plan import Plan
from valence_sched.model.problem import Problem
from valence_sched.model.registration import Registration
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import KEEP_S, TTL_S, WAIT_S

LONGEST_TTL_S = 90.0 * 86400
TtlSeconds = Annotated[float, Meta(ge=1, le=LONGEST_TTL_S)]
WaitSeconds = Annotated[float, Meta(ge=0, le=86400)]
MostNodes = Annotated[int, Meta(ge=1, le=1_000_000)]  # on each pod manager


class RequestBody(Noun, frozen=True, kw_only=True):
    """One request: as people write it in ``request``, or ``compiled`` by a client.

    A body has exactly one of its ``choices``.
    """

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled")
    request: RequestSpec | None = None
    compiled: Request | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.choices) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(self.choices)}")


class SpecBody(Noun, frozen=True, kw_only=True):
    """One request as people write it, to be compiled."""

    request: RequestSpec


class SelectBody(RequestBody, frozen=True, kw_only=True):
    """A request to decide on; with ``keep`` the whole decision is kept, and found by its id."""

    detail: Detail = "placements"
    keep: bool = False


class RequestsBody(Noun, frozen=True, kw_only=True):
    """Several requests: as people write them in ``requests``, or ``compiled`` by a client."""

    requests: tuple[RequestSpec, ...] = ()
    compiled: tuple[Request, ...] = ()

    def __post_init__(self) -> None:
        if self.requests and self.compiled:
            raise ValueError("Expected either requests or compiled")


class SelectAllBody(RequestsBody, frozen=True, kw_only=True):
    """Several requests to decide on, each as if the nodes of those before it were composed."""

    detail: Detail = "placements"


class CandidatesBody(RequestBody, frozen=True, kw_only=True):
    """A request of which the best candidates are wanted."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10


class FitsBody(RequestBody, frozen=True, kw_only=True):
    """A request whose nodes are counted, at most ``most`` on each pod manager."""

    most: MostNodes = 1000


class CapacityBody(FitsBody, frozen=True, kw_only=True):
    """A request whose nodes are counted, explained, and bounded by proof, as wanted."""

    explain: bool = False
    proven: bool = False


class MixCapacityBody(RequestsBody, frozen=True, kw_only=True):
    """Requests whose nodes are counted as one mix, with a whole share for each."""

    shares: tuple[Annotated[int, Meta(ge=1)], ...]
    most: MostNodes = 1000
    explain: bool = False
    proven: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shares or len(self.shares) != len(self.requests) + len(self.compiled):
            raise ValueError("Expected a share for each of one or more requests")


class RefreshBody(Noun, frozen=True, kw_only=True):
    """A plan that is decided again."""

    plan: Plan


class PreviewBody(Noun, frozen=True, kw_only=True):
    """A decision whose pod managers are asked whether they would compose it."""

    decision: Report


class ClaimBody(RequestBody, frozen=True, kw_only=True):
    """A request, or a plan, to hold for ``ttl_s``."""

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled", "plan")
    plan: Plan | None = None
    detail: Detail = "placements"
    ttl_s: TtlSeconds = TTL_S


class NodesBody(RequestBody, frozen=True, kw_only=True):
    """A request, a plan, or the id of a claim that is held, to be composed."""

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled", "plan", "claim")
    plan: Plan | None = None
    claim: str | None = None
    detail: Detail = "placements"
    ttl_s: TtlSeconds = TTL_S
    wait_s: WaitSeconds = WAIT_S


class WaitQuery(Noun, frozen=True, kw_only=True):
    """The query of what waits for a pod manager; ``name`` is one that a path cannot have."""

    name: str = ""
    wait_s: WaitSeconds = WAIT_S


class ValenceNodeBody(Noun, frozen=True, kw_only=True):
    """The body by which OpenStack Valence composes a node."""

    name: str = ""
    description: str = ""
    flavor_id: str | None = None
    properties: Properties | None = None
    podm_id: str | None = None

    def nodes_body(self) -> NodesBody:
        """Return what it asks for as a body of ours; ValueError as of a request."""
        podms = (self.podm_id,) if self.podm_id is not None else ()
        spec = RequestSpec(id=self.name, flavor=self.flavor_id, properties=self.properties,
                           podms=podms)  # fmt: skip
        return NodesBody(request=spec)


class RenewBody(Noun, frozen=True, kw_only=True):
    """How long a claim is held from now on."""

    ttl_s: TtlSeconds = TTL_S


class EventBody(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a pod manager, as Redfish has it; what else it says is passed over."""

    records: tuple[dict[str, Any], ...] = msgspec.field(name="Events", default=())


class ReconcileBody(Noun, frozen=True, kw_only=True):
    """How to reconcile; ``keep_s`` is the age at which what ended is forgotten."""

    dry_run: bool = False
    keep_s: Annotated[float, Meta(ge=0)] = KEEP_S


class RegisterBody(Noun, frozen=True, kw_only=True):
    """A pod manager to register, which with ``check`` is read once within ``timeout_s``.

    Variables and files that it names are those of the service.
    """

    registration: Registration
    check: bool = True
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 30.0


class StatsBody(Noun, frozen=True, kw_only=True):
    """What a pod manager reports of itself."""

    stats: dict[str, Any]


class Generation(Noun, frozen=True, kw_only=True):
    """The generation of a pod manager after a report."""

    generation: int


class Operation(Noun, frozen=True, kw_only=True):
    """Work that goes on after its answer: poll it by its id until its state is not ``running``.

    ``interrupted``: the process that worked on it is gone; claims and nodes say how far it came.
    ``content`` is a digest of what was asked for.
    ``result`` is what the verb of this ``kind`` returns, ``problem`` why it failed.
    """

    id: str
    kind: str
    state: Literal["running", "done", "failed", "interrupted"]
    owner: str | None = None
    content: str = ""
    result: msgspec.Raw
    problem: Problem | None = None


class RecordedReply(msgspec.Struct, frozen=True):
    """An answer by its idempotency key, and a digest of what was asked for."""

    content: str
    status: int
    headers: dict[str, str]
    body: msgspec.Raw


class ApiVersion(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """One version of the API, with the least and the greatest microversion of it."""

    id: str
    status: str
    min_version: str
    version: str
    links: tuple[dict[str, str], ...]


class ApiVersions(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """The versions of the API that the service has."""

    versions: tuple[ApiVersion, ...]


class Health(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """Whether the service can decide, and a line for each thing that is wrong.

    One that is ``starting`` waits until every registered pod manager was read, or that was tried.
    One that is ``degraded`` decides, without stored rows that cannot be decoded, or without a
    controller that takes its decisions.
    """

    status: Literal["ok", "degraded", "starting", "failing"]
    problems: tuple[str, ...] = ()
