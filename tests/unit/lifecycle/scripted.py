# SPDX-License-Identifier: Apache-2.0
"""Scripted composers, and the store and the claim for them."""

import contextlib
import dataclasses
import tempfile
import time
import unittest
from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import StoreCase, empty_file
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.errors import PodmError
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import CompositionResult, Grant, composition_request
from valence_sched.model.diagnostic import NoProgress
from valence_sched.model.lifecycle import Action
from valence_sched.store.store import Store
from valence_sched.testing import request

URI = "/S/1"
COMPOSED = CompositionResult(state="composed", node=URI, blocks=("c0",))
ABSENT = CompositionResult(state="absent", reason="nothing is there")
PART = CompositionResult(state="left", node=URI, reason="c0 is idle")
USED = CompositionResult(state="left", reason="c0 is in use")
UNKNOWN = CompositionResult(state="unknown", reason="the owner is unknown")
BUSY = CompositionResult(state="left", node=URI, reason="the task runs", works=True)
DOWN = PodmError("connection refused")
AMOUNT = Grant("/chunks/1", 5.0)
LONG = "x" * 700
TICK_S = 0.002  # the clock of SQLite counts milliseconds: what ends now has ended then


class ToldProgress(NoProgress):
    """Records the actions on each subject."""

    def __init__(self, told):
        self.told = told

    def begin(self, subject, activity):
        self.told.append((subject, activity))


class Scripted:
    """A composer with scripted answers, which may change anything and records its calls."""

    def __init__(self, compose=COMPOSED, read_node=ABSENT, remove=ABSENT):
        self._answers = {"compose": compose, "read_node": read_node, "remove": remove}
        self.calls = []
        self.written = {URI}
        self.checks = []  # the request and the node of each check before a change

    def node_blocks(self, _node):
        return None

    def _answer(self, verb):
        self.calls.append(verb)
        if isinstance(answer := self._answers[verb], Exception):
            raise answer
        return answer

    @property
    def reads(self):
        return self

    amount_reads = reads

    def may_change(self, request, node=None):
        self.checks.append((request, node))
        return self

    def refusal(self, _request):
        return None

    def conflicts(self, _request):
        return ()

    def reserve(self, _request):
        self.calls.append("reserve")
        return True

    def unreserve(self, _request):
        self.calls.append("unreserve")

    def compose(self, _request, _watch):
        return self._answer("compose")

    def read_node(self, _request, _node=None):
        return self._answer("read_node")

    def remove(self, _request, _node, _watch):
        return self._answer("remove")


class ScriptedCase(unittest.TestCase):
    """A store with a pod manager, and a claim of one block of it."""

    def begin(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = Store(empty_file(Path(folder.name)))
        self.addCleanup(self.store.close)
        generation = self.store.remember(podm())
        self.claim = self.store.claims.create([part("p", generation, "c0")])

    def state(self):
        return self.store.claims.show(self.claim.id).state

    def execute(self, statement):
        """Run a statement of a test directly on the database."""
        with self.store._database.writer.begin() as connection:
            connection.execute(statement)


class Watched(Scripted):
    """A scripted composer that reports states, records requests, and refuses as scripted."""

    def __init__(self, refusal=None, conflicts=(), reserve=True, unreserve=None, **answers):
        super().__init__(**answers)
        self.first = {"refusal": refusal, "conflicts": conflicts,
                      "reserve": reserve, "unreserve": unreserve}  # fmt: skip
        self.requests = []

    def give(self, verb, request):
        self.requests.append((verb, request))
        if isinstance(answer := self.first[verb], Exception):
            raise answer
        return answer

    def refusal(self, request):
        return self.give("refusal", request)

    def conflicts(self, request):
        return self.give("conflicts", request)

    def reserve(self, request):
        self.calls.append("reserve")
        return self.give("reserve", request)

    def unreserve(self, request):
        self.calls.append("unreserve")
        self.give("unreserve", request)

    def compose(self, request, watch):
        self.requests.append(("compose", request))
        watch("specific")
        return super().compose(request, watch)

    def read_node(self, request, node=None):
        self.requests.append(("read_node", request))
        return super().read_node(request, node)

    def remove(self, request, node, watch):
        self.requests.append(("remove", request))
        assert node == URI
        watch("removing it")
        return super().remove(request, node, watch)


class ComposeCase(ScriptedCase):
    """A store with a claim of one block, and a composer that records its calls."""

    def setUp(self):
        self.begin()
        self.points, self.states = [], []

    def composer(self, scripted, **words):
        def connect(id_):
            self.assertEqual("p", id_)
            if isinstance(scripted, Exception):
                raise scripted
            return contextlib.nullcontext(scripted)

        return NodeComposer(
            self.store, connect, progress=ToldProgress(self.states),
            **{"checkpoint": self.points.append, **words},
        )  # fmt: skip

    def break_at(self, point):
        """Let every transaction fail from a point on."""

        def fail(connection):
            connection.exec_driver_sql("SELECT * FROM absent")

        def mark(now):
            if now == point:
                sa.event.listen(self.store._database.writer, "begin", fail)

        return mark

    def error(self, kind, scripted, **words):
        with self.assertRaises(kind) as caught:
            self.composer(scripted, **words).compose(self.claim)
        self.assertIs(kind, type(caught.exception))
        return caught.exception

    def ended(self):
        claim = self.store.claims.show(self.claim.id)
        return claim.state, claim.note

    def lines(self):
        return self.store.effects.unnamed_lines()


class Noting(Scripted):
    """A scripted composer that records its arguments; answers may depend on the name."""

    def __init__(self, by_name=None, **answers):
        super().__init__(**answers)
        self.by_name = by_name or {}
        self.arguments = []

    def read_node(self, request, node=None):
        self.arguments.append(("read_node", request, node))
        answer = super().read_node(request, node)
        return self.by_name.get(request.name, answer)

    def remove(self, request, node, watch):
        self.arguments.append(("remove", request, node))
        self.assert_quiet(watch)
        return super().remove(request, node, watch)

    def unreserve(self, request):
        self.arguments.append(("unreserve", request, None))
        super().unreserve(request)

    @staticmethod
    def assert_quiet(watch):
        """Check that removals by a reconciler are not watched."""
        assert watch("removing") is None


class ReapCase(ScriptedCase):
    """A store with a claim of one block that has been composing for too long."""

    def setUp(self):
        self.begin()
        self.dry_run = False
        self.readings = {}

    def start(self, *parts):
        """Start to compose the claim; with ``parts``, release it and compose a new one of them."""
        if parts:
            self.store.claims.release(self.claim.id)
            self.claim = self.store.claims.create(parts)
        self.store.claims.start_composing(self.claim.id, 1e-6)

    def reap(self, composer):
        self.read, self.told = [], []

        def connect(id_):
            assert id_ in self.store.load_podms()
            return contextlib.nullcontext(composer)

        def read(id_):
            self.read.append(id_)
            return self.readings.get(id_)

        progress = ToldProgress(self.told)
        time.sleep(TICK_S)
        return list(Reconciler(self.store, connect, read, self.dry_run, progress).reconcile())

    def claim_line(self, composer):
        (action,) = (one for one in self.reap(composer) if one.kind == "claim")
        expected = Action(kind="claim", id=self.claim.id, podm=", ".join(self.claim.podms), done="")
        self.assertEqual(expected, replace(action, done=""))
        return action.done

    def wanted(self):
        (part_,) = self.claim.parts
        return composition_request(self.claim, part_.shares[0], self.store.load_podms()["p"])


def renewed(one, **fields):
    """Return a composer or a provisioner with other fields and a separate state."""
    names = [field.name for field in dataclasses.fields(one) if not field.name.startswith("_")]
    return type(one)(**{name: getattr(one, name) for name in names} | fields)


class Making(Scripted):
    """A composer that makes each node of the requested blocks."""

    def __init__(self, name="p", **answers):
        super().__init__(**answers)
        self.name, self.made = name, []

    def compose(self, wanted, watch):
        answer = super().compose(wanted, watch)
        if answer is not COMPOSED:
            return answer
        self.made.append(wanted)
        uri = f"/S/{self.name}{len(self.made)}"
        return CompositionResult(state="composed", node=uri, blocks=wanted.blocks)


class ProvisionCase(StoreCase):
    """A store with pod managers that answer as scripted."""

    def site(self, *names, blocks=3, readings=None, refusals=None, prepare=None, **composers):
        self.url = self.empty_url()
        self.one = self.store()
        self.one.remember_all([podm(name, blocks) for name in names])
        self.composers = {name: composers.get(name) or Making(name) for name in names}
        self.points, self.readings, self.read = [], readings or {}, []

        def connect(name):
            if isinstance(composer := self.composers[name], Exception):
                raise composer
            return contextlib.nullcontext(composer)

        def read(name):
            self.read.append(name)
            if isinstance(reading := self.readings.get(name), Exception):
                raise reading
            return reading

        self.claimer = claimer(self.one)
        composer = NodeComposer(self.one, connect, checkpoint=self.points.append)
        words = {"prepare": prepare} if prepare else {}
        if refusals:
            words["refusals"] = lambda asked: refusals if asked.count else {}
        self.provisioner = Provisioner(self.one, self.claimer, composer, read, **words)
        return self.provisioner

    def request(self, **words):
        return request(CORES, **words)

    def states(self):
        every = ("HELD", "COMPOSING", "COMPOSED", "RELEASED", "FAILED")
        return {claim.id: claim.state for claim in self.one.claims.list(every)}
