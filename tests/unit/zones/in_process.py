# SPDX-License-Identifier: Apache-2.0
"""A tree of zones in this process, each with its own engine, state and pod managers."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.store.engines import empty_file
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.errors import ServiceError
from valence_sched.model.decision import SilentZone
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.reading import ReadOptions, ReadPace, Selection
from valence_sched.model.registration import Registration
from valence_sched.model.request import Request
from valence_sched.model.scheduler import OwnScheduler, Scheduler
from valence_sched.model.verbs import VERBS
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm, served
from valence_sched.zones import paths
from valence_sched.zones.below import ZonesBelow
from valence_sched.zones.claims import ZoneClaims
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.selection import Selected, ZoneSelection
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree

BLOCK = "/redfish/v1/CompositionService/ResourceBlocks/{}"
CORES = 8  # of each block


def inventory(podms: Mapping[str, int]) -> dict[str, Any]:
    """Return pod managers of one pool by id, with this number of blocks, each enough for a node."""
    blocks = {
        name: [{"uri": BLOCK.format(f"b{number:02}"), "type": ["Compute"], "pools": ["pool"],
                "devices": {"processors": [{"cores": CORES}]}} for number in range(count)]
        for name, count in podms.items()
    }  # fmt: skip
    rows = [
        {"id": name, "pools": [{"id": "pool"}], "blocks": some} for name, some in blocks.items()
    ]
    return {"schema": "valence-sched/inventory", "version": "1.0", "podms": rows}


class OwnEngine(OwnScheduler):
    """The verbs of engines over a state: one decides, any other verb uses a new engine."""

    def __init__(self, environ: Mapping[str, str], state: str) -> None:
        self._environ = environ
        self._selection = Selection(live=ReadOptions(state=state, stored=True, timeout_s=10))
        self._lock, self._deciding = threading.Lock(), self._engine()

    def _engine(self) -> Engine:
        return App(environ=self._environ).engine(self._selection)

    def _call(self, verb: Any, *words: Any, **named: Any) -> Any:
        route = VERBS.get(verb.__name__)
        if route is None or route.reading:
            with self._lock:
                return self._answer(self._deciding, verb, words, named)
        with contextlib.closing(self._engine()) as engine:
            return self._answer(engine, verb, words, named)

    def _answer(self, engine: Engine, verb: Any, words: Any, named: Any) -> Any:
        result = getattr(engine, verb.__name__)(*words, **named)
        return iter(list(result)) if isinstance(result, Iterator) else result


class InProcessZone(Scheduler):
    """A zone of a tree: its offers, claims and nodes.

    While it is ``dead``, it answers nothing; ``calls`` has its called verbs. ``areas`` are the
    availability zones of pod managers.
    """

    def __init__(
        self, name: str, folder: Path, podms: Sequence[ServedPodm], children: Any = (),
        *, url: str = "", areas: Mapping[str, str] | None = None, **words: Any,
    ) -> None:  # fmt: skip
        self.name, self.dead, self.calls = name, False, []
        self.children: tuple[InProcessZone, ...] = tuple(children)
        self.state = url or empty_file(folder)
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        environ = dict.fromkeys(homes, str(folder))
        self.store = Store(self.state)
        for podm in podms:
            area = (areas or {}).get(podm.id)
            self.store.register(Registration(name=podm.id, url=podm.url, zone=area))
        if podms:
            live = ReadOptions(state=self.state, timeout_s=10)
            App(environ=environ).watch(live, str, pace=ReadPace(), threads=2, once=True)
        self.engine = OwnEngine(environ, self.state)
        self.own = self.engine if podms else None
        self.tokens = Tokens([f"secret of {name}"], name)
        self.effects, self.silent = EffectLog(), []
        words = {"deadline_s": 20.0, "prepare_ttl_s": 20.0, **words}
        below = {child.name: child for child in self.children}
        below = ZonesBelow(self.engine, below, words.pop("deadline_s"), self.silent.append)
        self.claims_here = ZoneClaims(name, self.tokens, below, self.store.zone_claims,
                                      self.effects, pause=lambda _s: None, **words)  # fmt: skip
        self.nodes_here = ZoneNodes(self.claims_here)

    def tree(self) -> ZoneTree:
        children = [ChildZone(child.name, child) for child in self.children]
        members = self.store.zone_claims
        return ZoneTree(self.name, self.tokens, self.own, children, members=members)

    def select(self, request: Request, avoid: Sequence[SilentZone] = ()) -> Selected:
        """Decide on a request here, without some zones."""
        sealed = self.engine.seal(request)
        selection = ZoneSelection(
            self.tree(), sealed.policy, sealed.request, deadline_s=20.0, avoid=avoid
        )
        return selection.nodes()

    def claim(self, request: Request, **words: Any) -> Any:
        return self.claims_here.claim(request, self.select, **words)

    def compose(self, request: Request, **words: Any) -> Any:
        return self.nodes_here.compose(request, self.select, **words)[0]

    def offers(self, query: Any) -> Any:
        self.ask("offers")
        return self.tree().offers(query)

    def group_state(self, query: Any) -> Any:
        self.ask("group_state")
        return self.tree().group_state(query)

    def podm(self, name: str) -> Any:
        self.ask("podm")
        _, part, rest = self.claims_here.below.find(name)
        return part.podm(rest)

    def node_record(self, name: str) -> Any:
        self.ask("node_record")
        zone, part, rest = self.claims_here.below.find(name)
        return paths.below(zone, part.node_record(rest))

    def hold_offers(self, body: Any, *, key: str | None = None) -> Any:
        self.ask("hold_offers")
        return self.claims_here.hold_offers(body, key=key)

    def _call(self, verb: Any, *words: Any, **named: Any) -> Any:
        self.ask(verb.__name__)
        part = self.nodes_here if hasattr(ZoneNodes, verb.__name__) else self.claims_here
        return getattr(part, verb.__name__)(*words, **named)

    def held_blocks(self) -> dict[str, list[str]]:
        """Return the blocks that live claims hold here, by pod manager."""
        held: dict[str, list[str]] = {}
        self.store.claims.expire()
        for claim in self.store.claims.list():
            for part in claim.parts:
                held.setdefault(part.podm, []).extend(part.blocks)
        return {podm: sorted(blocks) for podm, blocks in held.items()}

    def ask(self, name: str) -> None:
        self.calls.append(name)
        if self.dead:
            raise ServiceError(f"{self.name}: does not answer")


@contextlib.contextmanager
def served_tree(
    *podms: str, blocks: int = 2, fail: Sequence[str] = (), latency_ms: float = 0.0
) -> Iterator[tuple[Path, dict[str, ServedPodm]]]:
    """Yield a folder and served pod managers by id."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.json"
        path.write_text(json.dumps(inventory(dict.fromkeys(podms, blocks))))
        with served(str(path), fail=fail, latency_ms=latency_ms) as there:
            yield Path(folder), there


def made_nodes(podms: Mapping[str, ServedPodm]) -> list[str]:
    """Return the names of our existing nodes on pod managers."""
    return sorted(
        str(document["Name"])
        for podm in podms.values()
        for document in map(podm.documents.get, podm.documents)
        if str(document.get("Name", "")).startswith("vs-")
    )
