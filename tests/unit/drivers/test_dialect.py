# SPDX-License-Identifier: Apache-2.0
"""The choice of the dialect of a pod manager."""

import unittest

from tests.unit.drivers.redfish.stored import PLAIN, Service
from tests.unit.drivers.served import DIALECTS, Server
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.dialect import Dialect, dialect_of_driver, recognised_dialect
from valence_sched.drivers.fields import NO_NOTES, Resource
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.drivers.rsd.dialect import rsd
from valence_sched.drivers.rsd.schema import OptionalLink, PooledDevice
from valence_sched.errors import PluginError, PodmError, UnknownName
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.registration import Registration

RACK = {"Nodes": {"@odata.id": "/redfish/v1/Nodes"}}


def dialect(name, recognise):
    return lambda: Dialect(name, ServiceRoot, read_podm, recognise)


class TestRecognised(unittest.TestCase):
    """The service root determines the dialect."""

    def test_the_first_by_name_that_recognises_the_root_is_taken(self):
        dialects = {"acme": dialect("acme", lambda root: "Acme" in root), **DIALECTS}
        for root, name in (({"Acme": 1}, "acme"), ({"Acme": 1, **RACK}, "acme"), (RACK, "rsd")):
            self.assertEqual(name, recognised_dialect(root, dialects).name)

    def test_a_root_that_no_dialect_recognises_is_of_the_standard(self):
        for root in (None, {}, {"Systems": {}}):
            self.assertEqual("redfish", recognised_dialect(root, DIALECTS).name)

    def test_a_dialect_that_only_a_registration_names_recognises_no_root(self):
        named = Dialect("acme", ServiceRoot, read_podm)
        self.assertEqual("rsd", recognised_dialect(RACK, {"acme": lambda: named, **DIALECTS}).name)

    def test_a_dialect_that_fails_is_named(self):
        dialects = {"acme": dialect("acme", lambda root: root["Acme"]), **DIALECTS}
        with self.assertRaisesRegex(PluginError, "dialect 'acme': KeyError: 'Acme'"):
            recognised_dialect(RACK, dialects)

    def test_a_driver_that_is_named_is_taken_whatever_the_root_says(self):
        self.assertEqual("redfish", dialect_of_driver("redfish", RACK, DIALECTS, "p").name)
        with self.assertRaisesRegex(UnknownName, "no driver named 'redfisch'"):
            dialect_of_driver("redfisch", RACK, DIALECTS, "p")


class TestConnect(unittest.TestCase):
    """A dialect without a composer can only read."""

    def test_it_is_refused_and_named(self):
        server = Server({"/redfish/v1": b'{"Acme": {"@odata.id": "/acme"}}'})
        self.addCleanup(server.close)
        dialects = {"acme": dialect("acme", lambda root: "Acme" in root), **DIALECTS}
        for driver in ("auto", "acme"):
            target = ReadTarget(Registration(name="p", url=server.url, driver=driver))
            with self.assertRaisesRegex(PodmError, "driver 'acme' only reads pod managers"):
                connect(target, dialects, 5, 1).__enter__()


class TestRedfish(unittest.TestCase):
    def test_its_composer_composes_on_the_session_that_it_is_given(self):
        podm = Service()
        composer = redfish().composer(podm, podm.patience)
        self.assertEqual("composed", composer.compose(PLAIN, podm.states.append).state)

    def test_it_composes_memory_and_storage_by_amount(self):
        amounts = {"cxl_memory_mib", "cxl_pmem_mib", "storage_gib"}
        self.assertEqual(("redfish", amounts), (redfish().name, set(redfish().amounts)))

    def test_a_service_with_stocks_alone_lacks_no_composition_service(self):
        chassis, domain = f"{ROOT}/Chassis", f"{ROOT}/Chassis/1/MemoryDomains/1"
        domains = {"MemoryDomains": {"@odata.id": f"{chassis}/1/MemoryDomains"}}
        sized = {"MemorySizeMiB": 4096, "AllowsMemoryChunkCreation": True,
                 "MemoryChunks": {"@odata.id": f"{domain}/MemoryChunks"}}  # fmt: skip
        for of, said in ((domains, False), ({}, True)):
            with self.subTest(of):
                notes = Diagnostics()
                documents = {
                    ROOT: {"Chassis": {"@odata.id": chassis}},
                    chassis: {"Members": [{"@odata.id": f"{chassis}/1"}]},
                    f"{chassis}/1": of,
                    f"{chassis}/1/MemoryDomains": {"Members": [{"@odata.id": domain}]},
                    domain: sized,
                    f"{domain}/MemoryChunks": {"Members": []},
                }
                podm = redfish().inventory(LinkedDocuments(documents.get, notes), "p")
                self.assertEqual(said, not podm.stocks)
                told = [it for it in notes.lines() if "no link to a composition service" in it]
                self.assertEqual(said, bool(told))


class Holder(Resource):
    """Any object with such links."""

    one = OptionalLink("Links/One", PooledDevice, "the only one")
    other = OptionalLink("Other", PooledDevice, "read where nothing else is", late=True)


class TestRsd(unittest.TestCase):
    def test_of_all_amounts_it_composes_storage_alone(self):
        self.assertEqual({"storage_gib"}, rsd().amounts)


class TestOptionalLink(unittest.TestCase):
    def test_an_empty_object_is_no_link_and_all_others_are_read(self):
        for value, links in (({}, ()), (None, ()), ({"@odata.id": "/D/1"}, ("/D/1",)),
                             ([{"@odata.id": "/D/1"}, {}], ("/D/1", "")), ([], ())):  # fmt: skip
            with self.subTest(value):
                json = {"Links": {"One": value}, "Other": value}
                holder = Holder("/h", json, NO_NOTES)
                self.assertEqual((links, links), (holder.one, holder.other))
