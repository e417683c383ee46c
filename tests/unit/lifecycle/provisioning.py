# SPDX-License-Identifier: Apache-2.0
"""Pod managers that make nodes as they are told, and a provisioner of them."""

import contextlib
import dataclasses

from tests.unit.lifecycle.scripted import COMPOSED, Scripted
from tests.unit.store.engines import StoreCase
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.model.composition import CompositionResult
from valence_sched.testing import request


def renewed(one, **fields):
    """Return a composer or a provisioner with other fields, and with state of its own."""
    names = [field.name for field in dataclasses.fields(one) if not field.name.startswith("_")]
    return type(one)(**{name: getattr(one, name) for name in names} | fields)


class Making(Scripted):
    """A composer that makes each node of the blocks it is asked for."""

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
    """A store with pod managers that answer as they are told."""

    def site(self, *names, blocks=3, readings=None, refusals=None, prepare=None, **composers):
        self.url = self.fresh_url()
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
