# SPDX-License-Identifier: Apache-2.0
"""The requests to a pod manager: only those for a node and its blocks."""

import contextlib
import re
import tempfile
import unittest
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from msgspec.structs import replace

from tests.unit.drivers.files.test_tree import documents_of as documents_of_tree
from tests.unit.drivers.racks import PCIE, SYSTEMS
from tests.unit.lifecycle.site import Site, request, site
from valence_sched.app import App
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.model.inventory import (
    Devices,
    Drive,
    FullBlock,
    FullPodm,
    Memory,
    Node,
    Pool,
    Processor,
    Status,
)
from valence_sched.model.reading import ReadOptions
from valence_sched.model.registration import Registration

BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
MOST_COMPOSE, MOST_DELETE = 25, 20
EVERY = ReadOptions()
CPU, RAM = Processor(cores=16), Memory(capacity_mib=1 << 16)
SERVER = Devices(processors=(CPU,), memory=(RAM,))
DISK = Devices(drives=(Drive(capacity_bytes=1 << 40),))


def block(number: int, used: int) -> FullBlock:
    """Every fourth block is a server, the others hold a drive each; the first ones are in use."""
    kind, devices = ("Storage", DISK) if number % 4 else ("Compute", SERVER)
    state = "Composed" if number < used else "Unused"
    return FullBlock(uri=f"{BLOCKS}/{number}", type=(kind,), pools=("z",),
                     status=Status(state=state), devices=devices)  # fmt: skip


def podm(count: int, used: int = 20) -> FullPodm:
    """Return a pod manager of this number of blocks; each node has four of them."""
    nodes = tuple(Node(uri=f"/redfish/v1/Systems/{n}", name=f"n{n}",
                       blocks=tuple(f"{BLOCKS}/{i}" for i in range(n, n + 4)))
                  for n in range(0, used, 4))  # fmt: skip
    blocks = tuple(block(number, used) for number in range(count))
    return FullPodm(id="p", pools=(Pool(id="z"),), blocks=blocks, nodes=nodes)


NODE = {"properties": {"processor": {"total_cores": 16}, "drives": [{"count": 2}]}}


@contextlib.contextmanager
def opened(count: int, *fail: str, **more) -> Iterator[Site]:
    documents = {"p": documents_of(podm(count))}
    with site(*fail, source=None, documents=documents, **more) as here:
        yield here


class Case(unittest.TestCase):
    def counted(self, here: Site, do) -> Counter:
        """Return the requests of some work by method and path."""
        (one,) = here.podms.values()
        before = len(one.requests)
        self.result = do()
        return Counter((seen.method, seen.path) for seen in one.requests[before:])


class TestRequests(Case):
    """Composing and deleting, with 40 blocks and with 120."""

    def test_a_node_costs_the_same_however_many_blocks_there_are(self):
        for fail in ((), ("no-expand",), ("if-match",)):
            found = {}
            for count in (40, 120):
                with self.subTest(fail, count=count), opened(count, *fail) as here:
                    claim = here.claim(request(**NODE))
                    made = self.counted(
                        here, lambda here=here, one=claim: here.composer.compose(one)
                    )
                    node = self.result
                    self.assertEqual(3, len(node.blocks))
                    gone = self.counted(here, lambda here=here, one=node: here.composer.remove(one))
                    self.assertLessEqual(made.total(), MOST_COMPOSE, made)
                    self.assertLessEqual(gone.total(), MOST_DELETE, gone)
                    found[count] = made.total(), gone.total()
                    paths = {path for _, path in made | gone}
                    read = {path for path in paths if path.startswith(f"{BLOCKS}/")}
                    self.assertEqual(set(node.blocks), read)
            self.assertEqual(found[40], found[120])

    def test_a_node_of_a_rack_reads_its_system_and_the_nodes(self):
        documents = {"p": documents_of_tree(PCIE)}
        with site(source=None, documents=documents) as here:
            claim = here.claim(request(properties={"processor": {"total_cores": 8}}))
            made = self.counted(here, lambda: here.composer.compose(claim))
            (system,) = self.result.blocks
            node = self.result
            gone = self.counted(here, lambda: here.composer.remove(node))
            self.assertLessEqual(gone.total(), MOST_DELETE, gone)
            paths = {path for _, path in made | gone if path.startswith(SYSTEMS)}
            self.assertEqual({system}, {"/".join(path.split("/")[:5]) for path in paths})
            self.assertEqual(set(), {path for _, path in made | gone if "/Fabrics" in path})
            self.assertEqual(here.store.load_podms()["p"].nodes, here.read("p").nodes)

    def test_what_is_removed_is_free_at_once_and_what_is_composed_is_held(self):
        with opened(40) as here:
            free = here.free_to_decide()
            node = here.composer.compose(here.claim(request(**NODE)))
            self.assertEqual(free - 3, here.free_to_decide())
            self.assertEqual("COMPOSED", here.store.claims.show(node.claim).state)
            here.store.remember(here.read("p"))
            self.assertEqual("SETTLED", here.store.claims.show(node.claim).state)
            self.assertEqual(free - 3, here.free_to_decide())
            here.composer.remove(node)
            self.assertEqual(free, here.free_to_decide())
            self.assertEqual(here.store.load_podms()["p"].blocks, here.read("p").blocks)

    def test_a_reading_that_began_before_neither_settles_nor_frees(self):
        with opened(40) as here:
            free, before = here.free_to_decide(), here.read("p")
            node = here.composer.compose(here.claim(request(**NODE)))
            here.store.remember(before)
            self.assertEqual("COMPOSED", here.store.claims.show(node.claim).state)
            self.assertEqual(free - 3, here.free_to_decide())
            there = here.read("p")
            here.store.remember(there)
            here.composer.remove(node)
            self.assertEqual(free, here.free_to_decide())

    def test_what_another_node_has_meanwhile_is_not_freed(self):
        with opened(40) as here:
            node = here.composer.compose(here.claim(request(**NODE)))
            there = here.read("p")
            other = Node(uri="/redfish/v1/Systems/other", blocks=node.blocks[:1])
            here.store.remember(replace(there, nodes=(*there.nodes, other)))
            here.store.note_removal("p", node.uri, node.blocks)
            state = {it.uri: it.status.state for it in here.store.load_podms()["p"].blocks}
            self.assertEqual(["Composed", "Unused", "Unused"], [state[it] for it in node.blocks])
            here.store.note_removal("p", node.uri, node.blocks)  # it is no longer listed
            again = {it.uri: it.status.state for it in here.store.load_podms()["p"].blocks}
            self.assertEqual(state, again)


class TestFirstReadings(Case):
    """The requests to register a pod manager, and then to list it."""

    def test_a_list_after_create_reads_no_document_twice_and_no_device_again(self):
        for fail in ((), ("no-expand",)):
            with self.subTest(fail), opened(40, *fail) as here:
                folder = self.enterContext(tempfile.TemporaryDirectory())
                app = App(environ={f"XDG_{it}_HOME": folder for it in ("STATE", "CACHE", "CONFIG")})
                registry, (one,) = app.registry(), here.podms.values()
                known = Registration(name="p", url=one.url)

                def create(registry=registry, known=known):
                    return registry.create(known, None, registry.check(known, None, 10)[0])

                made = self.counted(here, create)
                listed = self.counted(here, lambda app=app: list(app.sources.live_reader(EVERY)))
                (reading,) = self.result
                self.assertEqual((None, 40), (reading.failure, len(reading.podm.blocks)))
                self.assertEqual({1}, {*made.values(), *listed.values()})
                self.assertEqual({"GET"}, {method for method, _ in made | listed})
                devices = {it for it in made if "/Drives/" in it[1] or "/Processors" in it[1]}
                self.assertEqual(bool(fail), bool(devices))
                self.assertEqual(set(), devices & set(listed))


class TestStores(Case):
    """A server that stores the documents that it receives."""

    def test_a_system_that_no_block_confirms_is_unverified_until_it_is_gone(self):
        with opened(40, "stores", ttl_s=0.01) as here:
            free = here.free_to_decide()
            done = here.provisioner.provision(request(**NODE))
            self.assertEqual(((), ()), (done.nodes, done.failures))
            (error,) = done.unverified
            seen = "; ".join([r"/\S+: found Unused, reserved"] * 3)
            why = rf"(/\S+) exists, but is not confirmed by any block \({seen}\)"
            self.assertRegex(str(error), f"p: claim .* stays COMPOSING: {why}")
            (action,) = here.reconciler.reconcile()
            self.assertRegex(action.done, f"unchanged: {why.partition(' by any')[0]}")
            self.assertEqual(["COMPOSING"], [claim.state for claim in here.store.claims.list()])
            (one,) = here.podms.values()
            self.assertEqual([], [seen for seen in one.requests if seen.method == "DELETE"])
            uri = urljoin(one.url, re.search(why, str(error))[1])
            urlopen(Request(uri, method="DELETE")).close()
            (action,) = here.reconciler.reconcile()
            self.assertRegex(action.done, "freed its holds")
            here.store.remember(here.read("p"))
            self.assertEqual(free, here.free_to_decide())


if __name__ == "__main__":
    unittest.main()
