# SPDX-License-Identifier: Apache-2.0
"""What an access reads of a pod manager that is served, and how it connects to it."""

from msgspec.structs import replace

from tests.unit.lifecycle.scripted import ToldProgress
from tests.unit.lifecycle.test_access import AccessCase
from tests.unit.trees import tree
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.composition import CompositionRequest
from valence_sched.model.registration import Registration
from valence_sched.testing.served import served


class TestRead(AccessCase):
    """A reading counts if the service is the one that is known."""

    def setUp(self):
        super().setUp()
        podms = self.enterContext(served(documents={"gpu-east": {**tree("gpu-east")}}))
        self.one = Registration(name="gpu-east", url=podms["gpu-east"].url)

    def read(self, identity=None):
        members = {"gpu-east": replace(self.one, identity=identity)}
        access = PodmAccess(self.store, members, lambda _one: None, timeout_s=10,
                            progress=ToldProgress(self.told))  # fmt: skip
        return access.read("gpu-east")

    def test_it_is_read_with_its_identity(self):
        found = self.read()
        self.assertEqual("gpu-east", found.id)
        self.assertEqual([("gpu-east", "reading")], self.told)
        self.assertEqual(found.blocks, self.read(found.identity).blocks)

    def test_another_service_in_its_place_is_not_read(self):
        self.assertIsNone(self.read("uuid:99999999-2222-4333-8444-555555555555"))

    def test_one_that_is_known_by_its_address_is_known_by_its_blocks(self):
        address = "address:127.0.0.1:1"
        found = self.read(address)
        self.assertIsNotNone(found)
        self.store.remember(replace(found, identity=None))
        self.assertEqual(found.blocks, self.read(address).blocks)
        moved = [replace(block, uri=f"{block.uri}-x") for block in found.blocks]
        self.store.remember(replace(found, identity=None, blocks=tuple(moved), pools=()))
        self.assertIsNone(self.read(address))
        self.assertIsNotNone(self.read())

    def test_one_that_does_not_answer_is_not_read(self):
        self.one = replace(self.one, url="http://127.0.0.1:1")
        self.assertIsNone(self.read())

    def test_one_that_does_not_answer_in_time_is_not_read(self):
        members = {"gpu-east": self.one}
        access = PodmAccess(self.store, members, lambda _one: None, timeout_s=0.0)
        self.assertIsNone(access.read("gpu-east"))

    def test_a_composer_logs_in_and_waits_as_the_caller_says(self):
        given = []

        def composer(session, patience):
            given.append((session.connection.host, session.timeout_s, patience().pause()))
            return given

        def dialect():
            return Dialect("told", ServiceRoot, lambda *_: None, composer=composer)

        asked = []
        one = replace(self.one, driver="told")
        access = PodmAccess(self.store, {"gpu-east": one}, asked.append, timeout_s=10.0,
                            patience_s=0.0, dialects={"told": dialect})  # fmt: skip
        with access.connect("gpu-east") as made:
            self.assertIs(given, made.may_change(CompositionRequest(name="n")))
        ((host, timeout_s, paused),) = given
        self.assertIn(host, one.url)
        self.assertEqual((10.0, False), (timeout_s, paused))
        self.assertEqual([one], asked)
