# SPDX-License-Identifier: Apache-2.0
"""Bodies of the service itself: what is no verb of a scheduler."""

from typing import Any, Literal

import msgspec

from valence_sched.model.base import Noun
from valence_sched.model.flavor_properties import Properties
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import WAIT_S
from valence_sched.model.verbs import NodesBody, WaitSeconds


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


class EventBody(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a pod manager, as Redfish has it; what else it says is passed over."""

    records: tuple[dict[str, Any], ...] = msgspec.field(name="Events", default=())


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
