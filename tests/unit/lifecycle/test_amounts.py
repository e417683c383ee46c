# SPDX-License-Identifier: Apache-2.0
"""Memory chunks and volumes of nodes: made, read back, deleted; none leaks, none is another's."""

import contextlib
import dataclasses
import unittest
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import NETWORK, PCIE
from tests.unit.lifecycle.site import Site, request, site
from tests.unit.lifecycle.test_habits import access
from tests.unit.trees import tree
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES
from valence_sched.model.composition import composition_request

SYSTEMS = "/redfish/v1/Systems"
MEMORY = {"processor": {"total_cores": 16},
          "stocks": [{"resource": "cxl_memory_mib", "amount": 200000}]}  # fmt: skip
VOLUME = {"processor": {"total_cores": 8},
          "stocks": [{"resource": "storage_gib", "amount": 100}]}  # fmt: skip
BOTH = ("mem-1", MEMORY, 262144, "MemoryChunks"), ("store-1", VOLUME, 112, "AllocatedVolumes")


class Case(NamedTuple):
    """Rules of a pod manager with ``{}`` for the collection that amounts are made in.

    Without a ``line`` there is a node; ``left`` is of an error that exits 7.
    """

    rules: tuple[str, ...]
    line: str = ""
    left: bool = False


CASES = (
    Case(()),
    Case(("own-names",)),
    Case(("no-location",)),
    Case(("own-names", "no-location")),
    Case(("body:text:POST:*", "body:list:DELETE:*")),
    Case(("drop-reply:POST:*/{}",)),
    Case(("short-amounts",), "expected (262144|112) as granted"),
    Case(("status:400:POST:*/{}",), "HTTP 400"),
    Case(("lie:POST:*/{}",), "HTTP 200"),
    Case((f"status:500:POST:{SYSTEMS}",), "HTTP 500"),
    Case((f"status:500:POST:{SYSTEMS}", "own-names"), "HTTP 500"),
    Case(("failed-node",), "is Failed"),
    Case(("steal:Host4", "steal:Head-4"), "in use"),
    Case((f"status:500:POST:{SYSTEMS}", "status:500:DELETE:*/{}/*"), "/{}/.* still there", True),
    Case((f"status:500:POST:{SYSTEMS}", "ghost"), "/{}/.* still there: it answered", True),
    Case(("drop-reply:POST:*/{}", "own-names"), "came meanwhile, and whose it is", True),
)


class TestAmounts(unittest.TestCase):
    """Chunks of memory domains and volumes of storage pools."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.trees = {name: tree(name) for name, *_ in BOTH}

    @contextlib.contextmanager
    def on(self, name: str, *rules: str) -> Iterator[Site]:
        with site(*rules, source=None, documents={name: self.trees[name]}, ttl_s=0.01) as here:
            yield here

    def made(self, here: Site, word: str) -> set[str]:
        (podm,) = here.podms.values()
        return {uri for uri in podm.documents if f"/{word}/" in uri}

    def test_it_is_made_whole_and_deleted_with_its_node_or_said(self):
        for name, properties, size, word in BOTH:
            for case in CASES:
                rules = [rule.format(word) for rule in case.rules]
                with self.subTest(name, rules=rules), self.on(name, *rules) as here:
                    self.check(here, case, request(properties=properties), size, word)

    def check(self, here: Site, case: Case, asked, size: float, word: str) -> None:
        before = self.made(here, word)
        free = {stock.uri: stock.used for stock in here.read(*here.podms).stocks}
        done = here.provisioner.provision(asked, ttl_s=5)
        found = bool(done.nodes), bool(done.unverified)
        self.assertEqual((not case.line, case.left), found, done)
        if case.line:
            (line,) = (*done.failures, *(one.message for one in done.unverified))
            self.assertRegex(line, case.line.format(word))
        else:
            (node,) = done.nodes
            self.assertEqual({it.uri for it in node.amounts}, self.made(here, word) - before)
            self.assertEqual([float(size)], [it.amount for it in node.amounts])
            here.read_again()
            self.assertEqual(["SETTLED"], [claim.state for claim in here.store.claims.list()])
            used = {stock.uri: stock.used for stock in here.read(*here.podms).stocks}
            self.assertEqual(size, sum(used.values()) - sum(free.values()))
            here.composer.remove(node)
        here.clear_faults()
        if case.left and "own-names" not in case.rules:
            self.assertEqual(1, len(self.made(here, word) - before))
            here.reconcile()
        if "drop-reply" not in str(case.rules) or not case.left:
            self.assertEqual(before, self.made(here, word))
            self.assertEqual([], here.store.claims.list())
            self.assertEqual(free, {one.uri: one.used for one in here.read(*here.podms).stocks})

    def test_what_a_process_made_that_died_before_the_node_is_deleted(self):
        for name, properties, _, word in BOTH:
            with self.subTest(name), self.on(name) as here:
                before = self.made(here, word)

                def die(point: str) -> None:
                    if point == "composing (specific)":
                        raise KeyboardInterrupt

                dying = Site(here.podms, here.store, checkpoint=die, ttl_s=0.01)
                claim = here.claim(request(properties=properties))
                with self.assertRaises(KeyboardInterrupt):
                    dying.composer.compose(claim)
                self.assertEqual(1, len(self.made(here, word) - before))
                here.reconcile()
                self.assertEqual(before, self.made(here, word))
                self.assertEqual("FAILED", here.store.claims.show(claim.id).state)

    def test_what_cannot_be_told_from_anothers_is_named_when_the_claim_ends(self):
        for name, properties, _, word in BOTH:
            rules = f"drop-reply:POST:*/{word}", "own-names"
            with self.subTest(name), self.on(name, *rules) as here:
                before = self.made(here, word)
                here.provisioner.provision(request(properties=properties), ttl_s=5)
                (stays,) = self.made(here, word) - before
                here.clear_faults()
                (line,) = here.reconcile()
                self.assertIn(f"nothing was composed, but look at {stays} may be made for it", line)

    def test_what_has_another_nodes_name_by_now_is_left_alone(self):
        with self.on("mem-1") as here:
            node = here.composer.compose(here.claim(request(properties=MEMORY)))
            (chunk,) = node.amounts
            documents = here.podms["mem-1"].documents
            documents.put(chunk.uri, {**documents.get(chunk.uri), "Name": "vs-another"})
            here.composer.remove(node)
            self.assertEqual((True, ["vs-another"]), (chunk.uri in documents, here.node_names()))

    def test_a_node_that_is_gone_takes_its_chunk_with_it_when_it_is_reconciled(self):
        with self.on("mem-1") as here:
            node = here.composer.compose(here.claim(request(properties=MEMORY)))
            here.podms["mem-1"].app.podm.composition.decompose(node.uri)
            self.assertIn(node.amounts[0].uri, here.podms["mem-1"].documents)
            here.reconcile()
            self.assertNotIn(node.amounts[0].uri, here.podms["mem-1"].documents)
            self.assertEqual([], here.store.nodes.list())

    def test_an_amount_that_another_took_meanwhile_is_said_before_anything_is_made(self):
        with self.on("mem-1") as here:
            claim = here.claim(request(properties=MEMORY))
            (grant,) = claim.parts[0].shares[0].grants
            documents = here.podms["mem-1"].documents
            domain = documents.get(grant.uri)
            documents.put(grant.uri, {**domain, "MemorySizeMiB": 1})
            with here.connect("mem-1") as composer:
                wanted = composition_request(claim, claim.parts[0].shares[0], None)
                self.assertEqual([f"{grant.uri}: found 0 MiB left, 262144 were chosen"],
                                 list(composer.conflicts(wanted)))  # fmt: skip
            self.assertEqual(262144.0, grant.amount)


class TestRack(unittest.TestCase):
    """Volumes that a rack's pod manager makes of RemoteDrives."""

    def test_they_are_read_back_and_gone_with_the_node(self):
        for name in (NETWORK, PCIE):
            with (
                self.subTest(name),
                site(source=None, documents={"rack": documents_of(name)}) as here,
            ):
                used = {stock.uri: stock.used for stock in here.read("rack").stocks}
                done = here.provisioner.provision(request(properties=VOLUME))
                self.assertEqual(((), ()), (done.failures, done.unverified))
                (made,) = done.nodes[0].amounts
                self.assertIn(made.uri, here.podms["rack"].documents)
                here.composer.remove(done.nodes[0])
                self.assertNotIn(made.uri, here.podms["rack"].documents)
                self.assertEqual(used, {it.uri: it.used for it in here.read("rack").stocks})

    def test_one_that_came_out_too_small_takes_its_node_with_it(self):
        documents = {"rack": documents_of(NETWORK)}
        with site("short-amounts", source=None, documents=documents) as here:
            before = {node.uri for node in here.read("rack").nodes}
            done = here.provisioner.provision(request(properties=VOLUME))
            self.assertRegex(done.failures[0], "without volumes of 100 GiB: found 50")
            self.assertEqual(before, {node.uri for node in here.read("rack").nodes})


class TestDeciding(unittest.TestCase):
    """A dialect that cannot compose an amount: deciding says so before anything is claimed."""

    def provision(self, here: Site, dialect: Dialect, **fields):
        """Provision with one pod manager of a dialect, which is the other one's place."""
        there = here.store.load_podms()["mem-1"]
        here.store.remember(replace(there, driver=dialect.name))
        reach = dataclasses.replace(
            access(here), dialects={dialect.name: lambda: dialect, "redfish": redfish}
        )
        return reach.provisioner(here.claimer).provision(request(**fields), detail="report")

    def test_it_is_left_out_and_named_and_nothing_is_claimed(self):
        plain = Dialect("plain", ServiceRoot, read_podm, composer=lambda _session, _patience: None)
        reads = Dialect("reads", ServiceRoot, read_podm)
        only_reads = "driver 'reads' reads pod managers, and cannot compose on them"
        lines = {plain: "driver 'plain' cannot compose cxl_memory_mib", reads: only_reads}
        for dialect, line in lines.items():
            with self.subTest(dialect.name), site() as here:
                done = self.provision(here, dialect, properties=MEMORY)
                self.assertEqual("nothing_fits", done.decision.report.outcome)
                self.assertIn(f"mem-1: {line}: left out", done.decision.report.warnings)
                self.assertEqual([], here.store.claims.list(FINAL_STATES + ACTIVE_STATES))
            with self.subTest(dialect.name, podms=True), site() as here:
                done = self.provision(here, dialect, properties=MEMORY, podms=["mem-1"])
                self.assertEqual((f"mem-1: {line}",), done.failures)
                self.assertEqual([], here.store.claims.list(FINAL_STATES + ACTIVE_STATES))
