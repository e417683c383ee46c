# SPDX-License-Identifier: Apache-2.0
"""A database that fails while a node is composed: the node is noted, or reaping notes it."""

import unittest

import sqlalchemy as sa

from tests.unit.lifecycle.site import Site, request, site
from tests.unit.store.engines import StoreCase
from tests.unit.store.test_database_errors import ServerCase
from tests.unit.trees import tree
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import to_json
from valence_sched.store import tables

POINTS = (
    "held",
    "intent",
    "checked",
    "reserved",
    "composing (specific)",
    "answered",
    "read back",
    "confirmed",
)
PODM = "gpu-east"
MOST_PAGES = 1 << 30


class Restarted:
    """All connections are cut in mid-compose, and those that are made after that are well."""

    def test_the_node_is_composed_and_noted_once(self):
        documents = tree(PODM)
        for point in POINTS:
            with self.subTest(point), site(
                source=None, documents={PODM: {**documents}}, url=self.named()
            ) as here:  # fmt: skip
                self.cut_at(here, point)
                done = here.provisioner.provision(request())
                self.assertEqual(((), ()), (done.failures, done.unverified))
                (node,) = done.nodes
                self.assertEqual([node.name], here.node_names())
                self.assertEqual("COMPOSED", here.store.claims.show(node.claim).state)
                here.composer.remove(node)

    def cut_at(self, here: Site, point: str) -> None:
        seen = here.points.append

        def mark(now: str) -> None:
            seen(now)
            if now == point:
                self.cut()

        object.__setattr__(here.composer, "checkpoint", mark)


class TestRestarted_postgresql(Restarted, ServerCase):  # noqa: N801
    """On PostgreSQL."""

    engine = "postgresql"


class TestRestarted_mysql(Restarted, ServerCase):  # noqa: N801
    """On MariaDB."""

    engine = "mysql"


class TestFull(StoreCase):
    """No room for the row of a node that is there."""

    def test_the_node_is_said_to_be_there_and_noted_once_there_is_room(self):
        with site(source=None, documents={PODM: tree(PODM)}, url=self.url, ttl_s=0.01) as here:
            limit = [MOST_PAGES]

            def limited(connection, _record, _proxy):
                connection.execute(f"PRAGMA max_page_count = {limit[0]}")

            def mark(now: str) -> None:
                if now == "read back":
                    limit[0] = self.fill()

            sa.event.listen(here.store._database.writer, "checkout", limited)
            object.__setattr__(here.composer, "checkpoint", mark)
            (error,) = here.provisioner.provision(request()).unverified
            self.assertNotIn("\n", str(error))
            there = f"^{PODM}: /redfish/v1/Systems/.* is composed, and that could not be noted: "
            self.assertRegex(str(error), f"{there}.*disk is full .make room.*podm claim reap")
            self.execute(sa.delete(tables.nodes))
            self.assertEqual(["COMPOSING"], [one.state for one in here.store.claims.list()])
            limit[0] = MOST_PAGES
            self.assertRegex(here.reconcile()[0], "composed: found /redfish/v1/Systems/")
            (node,) = here.store.nodes.list()
            self.assertEqual([node.name], here.node_names())

    def fill(self) -> int:
        """Fill the table of nodes, and return how many pages there are then."""
        filler = ComposedNode(id="f", podm="f", uri="f", claim="f")
        engine = sa.create_engine(self.url, poolclass=sa.StaticPool)
        with engine.connect() as connection:
            pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for number in range(100_000):
                row = {"id": f"f{number:06}", "podm_key": "f", "claim_id": "f",
                       "document": to_json(filler)}  # fmt: skip
                try:
                    connection.execute(sa.insert(tables.nodes), row)
                    connection.commit()
                except sa.exc.OperationalError:
                    connection.rollback()
                    break
        engine.dispose()
        return pages


class TestAgain(unittest.TestCase):
    """Changes whose commit had its effect though its answer was lost."""

    def test_noting_the_same_nodes_again_changes_nothing(self):
        with site(source=None, documents={PODM: tree(PODM)}) as here:
            node = here.composer.compose(here.claim(request()))
            here.store.claims.finish_composing(node.claim, [node])
            self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])

    def test_splitting_again_gives_the_same_claims(self):
        with site(source=None, documents={PODM: tree(PODM)}) as here:
            claim = here.claim(request(count=2))
            first = [one.id for one in here.store.claims.split(claim.id)]
            self.assertEqual(first, [one.id for one in here.store.claims.split(claim.id)])
