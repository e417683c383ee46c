# SPDX-License-Identifier: Apache-2.0
"""Resources that links name, and known resources."""

from __future__ import annotations

import itertools
import unittest
from unittest import TestCase

from valence_sched.drivers.dialect import service_identity
from valence_sched.drivers.document_shape import NEXT
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.links import (
    MAX_PAGES_UNBOUNDED,
    ROOT,
    DocumentNotes,
    LinkedDocuments,
    Shared,
    collection_pages,
    joined_path,
    link_path,
)
from valence_sched.drivers.redfish.schema import ResourceBlock

BLOCKS: dict[str, Json] = {f"/blocks/{name}": {"Pool": "Free"} for name in "abc"}


class FollowTest(TestCase):
    def setUp(self) -> None:
        self.notes, self.asked = DocumentNotes(), list[str]()

    def follow(self, *links: str, known: tuple[str, ...] = (), **more: Json) -> list[str]:
        documents = BLOCKS | {f"/blocks/{name}": json for name, json in more.items()}

        def get(uri: str) -> Json | None:
            self.asked.append(uri)
            return documents.get(uri)

        service = LinkedDocuments(get, self.notes, documents)
        return [it.uri for it in service.follow(links, ResourceBlock, "/zone", known)]

    def test_known_ones_among_several_are_left_out_and_not_looked_at(self) -> None:
        found = self.follow(
            "/blocks/a", "/blocks/b", "/blocks/c/", known=("/blocks/a", "/blocks/c")
        )
        self.assertEqual((["/blocks/b"], ["/blocks/b"]), (found, self.asked))

    def test_one_that_a_link_alone_names_is_judged_also_when_it_is_known(self) -> None:
        self.assertEqual(["/blocks/a"], self.follow("/blocks/a", known=("/blocks/a",)))
        self.assertEqual([], self.follow("/blocks/empty", known=("/blocks/empty",), empty={"a": 1}))
        (note,) = self.notes.diagnostics("f")
        self.assertIn("/blocks/empty: found neither members nor a property", note.text)

    def test_however_a_link_is_spelled_it_names_one(self) -> None:
        found = self.follow(
            "/blocks/a", "/blocks/a/", "/blocks/a#x", "http://podm/blocks/A", "//blocks/a"
        )
        self.assertEqual(["/blocks/a"], found)

    def test_two_slashes_at_the_start_of_a_path_are_one_for_every_reader(self) -> None:
        link, uri = f"/{ROOT}/Systems/1", f"{ROOT}/Systems/1"
        service = LinkedDocuments(BLOCKS.get, NO_NOTES)
        self.assertEqual(
            (uri, uri, uri), (service.uri(link, ROOT), link_path(link), joined_path("/S", link))
        )

    def test_a_link_of_too_many_characters_is_refused_also_when_it_is_known(self) -> None:
        name = "x" * 1100
        self.assertEqual(
            ["/blocks/b"], self.follow(f"/blocks/{name}", "/blocks/b", **{name: {"a": 1}})
        )
        (note,) = self.notes.diagnostics("f")
        self.assertIn("found a link of 1,108 characters, expected at most 1024", note.text)


class SharedTest(TestCase):
    def test_what_pod_managers_share_is_made_once_for_all_that_are_read_together(self) -> None:
        shared: Shared = {}
        first, second = (LinkedDocuments(BLOCKS.get, NO_NOTES, shared=shared) for _ in range(2))
        self.assertIs(first.shared(list), second.shared(list))
        self.assertIsNot(first.shared(list), first.shared(set))
        alone = LinkedDocuments(BLOCKS.get, NO_NOTES)
        self.assertIs(alone.shared(list), alone.shared(list))
        self.assertIsNot(first.shared(list), alone.shared(list))


class CollectionPagesTest(TestCase):
    def read(self, documents: dict[str, Json]) -> list[str]:
        return [page.uri for page in collection_pages(documents.get, "/c")]

    def test_each_page_is_read_once_and_one_that_is_not_there_ends_them(self) -> None:
        first: Json = {"Members": [], NEXT: "?page=2"}
        self.assertEqual(["/c"], self.read({"/c": first}))
        for last in ({"Members": []}, {"Members": [], NEXT: "/c"}):
            self.assertEqual(["/c", "/c?page=2"], self.read({"/c": first, "/c?page=2": last}))
        self.assertEqual([], list(collection_pages({}.get, None)))

    def test_pages_that_never_end_are_read_up_to_a_bound(self) -> None:
        numbers = itertools.count(1)
        pages = collection_pages(lambda _: {"Members": [], NEXT: f"/c?page={next(numbers)}"}, "/c")
        self.assertEqual(MAX_PAGES_UNBOUNDED, sum(1 for _ in pages))


MANAGERS = f"{ROOT}/Managers"
ONE, TWO = (f"{MANAGERS}/{number}" for number in (1, 2))
UUID = "8f2d6c1e-3b7a-4d90-9c55-0a1b2c3d4e5f"


def page(*uris, following=None):
    """Return a page of managers that links the next page."""
    json = {"Members": [{"@odata.id": uri} for uri in uris]}
    return json | ({"Members@odata.nextLink": following} if following else {})


class TestManagers(unittest.TestCase):
    """A service without a UUID is identified by its manager, if it has one."""

    def identity(self, **pages):
        documents = {ROOT: {"Managers": {"@odata.id": MANAGERS}}, ONE: {"UUID": UUID}, TWO: {}}
        documents |= {MANAGERS + name.replace("first", ""): json for name, json in pages.items()}
        return service_identity(LinkedDocuments(documents.get, NO_NOTES))

    def test_the_only_manager_stands_for_the_service(self):
        self.assertIn(UUID, self.identity(first=page(ONE)))

    def test_it_may_stand_on_any_page(self):
        self.assertIn(UUID, self.identity(first=page(following=MANAGERS + "2"), **{"2": page(ONE)}))

    def test_of_managers_on_several_pages_none_stands_for_the_service(self):
        second = {"2": page(TWO)}
        self.assertIsNone(self.identity(first=page(ONE, following=MANAGERS + "2"), **second))

    def test_behind_a_page_that_cannot_be_read_there_may_be_others(self):
        self.assertIsNone(self.identity(first=page(ONE, following=MANAGERS + "2")))
