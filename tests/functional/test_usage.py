# SPDX-License-Identifier: Apache-2.0
"""What claims hold is in use for whoever decides, and free in what is told."""

import json

from tests.functional.test_live import Live
from valence_sched.store.store import Store

NODE = ("schedule", "--flavor", "small", "-f", "json")


class TestHeld(Live):
    """One pod manager of the example site, held of, decided on and read again."""

    def setUp(self):
        super().setUp()
        self.found = self.serve()
        self.register({"gpu-east": self.found["gpu-east"]})

    def free(self, *words: str) -> int:
        (row,) = self.podm("list", "--long", "-f", "json", *words).data
        return int(row["Free Blocks"])

    def fitting(self) -> int:
        return sum(row["Nodes"] for row in self.podm("fit", "--flavor", "small", "-f", "json").data
                   if row["Podm"] == "gpu-east")  # fmt: skip

    def blocks(self, *words: str) -> list[str]:
        (row,) = [row for row in self.podm(*NODE, *words).data if row["Rank"] == 1]
        return [str(block) for block in row["Blocks"]]

    def told(self) -> list[str]:
        """The states of all blocks as a capture, a conversion and the state have them."""
        found = []
        for words in (("capture", "--all"), ("inventory", "convert")):
            file = self.folder / f"{words[0]}.json"
            self.podm(*words, "-o", str(file))
            podms = json.loads(file.read_bytes())["podms"]
            found.append([block.get("status") for podm in podms for block in podm["blocks"]])
        self.assertEqual(found[0], found[1])
        return found[0]

    def test_a_claim_is_taken_off_what_is_decided_on_and_nowhere_else(self):
        before, free, fitting = self.told(), self.free(), self.fitting()
        held = self.blocks("--claim")
        self.assertEqual(free - len(held), self.free())
        self.assertEqual(fitting - 1, self.fitting())
        self.assertFalse(set(held) & set(self.blocks()))
        self.assertEqual(before, self.told())

    def test_what_was_held_is_free_again_and_nothing_of_it_was_remembered(self):
        """A reservation that went into what is remembered would never come out of it."""
        free, before = self.free(), self.told()
        for _ in range(2):
            self.blocks("--claim")
        with Store(f"sqlite:///{self.state}") as store:
            self.assertEqual(2, len(store.claims.list()))
            for claim in store.claims.list():
                store.claims.release(claim.id)
            kept = [block.status for block in store.load_podms()["gpu-east"].blocks]
        states = [(one.state, one.reserved) if one else None for one in kept]
        self.assertEqual(free, self.free())
        self.assertEqual(before, self.told())
        told = [(one.get("state", "Unused"), one.get("reserved", False)) for one in before]
        self.assertEqual(told, states)

    def test_what_was_composed_is_counted_once(self):
        free = self.free()
        (node,) = self.podm(*NODE, "--compose").data
        (claim,) = self.podm("claim", "list", "-f", "json").data
        self.assertEqual("COMPOSED", claim["State"])
        self.assertEqual(free - len(node["Blocks"]), self.free())
        (claim,) = self.podm("claim", "list", "-f", "json").data
        self.assertEqual("SETTLED", claim["State"])
        self.assertEqual(free - len(node["Blocks"]), self.free())

    def test_the_holder_of_a_block_is_shown_and_what_is_somebody_elses(self):
        held = self.blocks("--claim")
        (claim,) = self.podm("claim", "list", "-f", "json").data
        taken = self.blocks()[0]
        documents = self.found["gpu-east"].documents
        before = documents.get(taken)
        status = {**before["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(taken, {**before, "CompositionStatus": status})
        shown = self.podm("show", "gpu-east", "-f", "json").data
        self.assertEqual(dict.fromkeys(held, claim["ID"]), shown["Held Blocks"])
        self.assertIn(taken, shown["Foreign Blocks"])
        self.assertFalse(set(held) & set(shown["Foreign Blocks"]))

    def test_a_recorded_one_is_decided_on_as_recorded_unless_the_state_is_named(self):
        file = str(self.folder / "recorded.json")
        self.podm("capture", "--all", "-o", file)
        held, words = self.blocks("--claim"), ("--inventory", file)
        self.assertEqual(held, self.blocks(*words))
        self.assertNotEqual(held, self.blocks(*words, "--state", str(self.state)))
