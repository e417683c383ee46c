# SPDX-License-Identifier: Apache-2.0
"""Generated inventories: realistic, of the requested size, and equal for equal seeds."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import msgspec

from valence_sched.model.inventory import (
    SCHEMA,
    Devices,
    FullPodm,
    InventoryHeader,
    Status,
    to_json,
)
from valence_sched.testing import generate

MODULE = "valence_sched.testing.generate"


def decoded(count: int, blocks: int, seed: int = 1, **options: int) -> list[FullPodm]:
    return [
        msgspec.json.decode(line, type=FullPodm)
        for line in generate.podms(count, blocks, seed, **options)
    ]


class PodmsTest(unittest.TestCase):
    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        first = list(generate.podms(5, 20, 7, pools=3, stocks=2))
        self.assertEqual(first, list(generate.podms(5, 20, 7, pools=3, stocks=2)))

    def test_the_same_seed_gives_the_same_bytes_in_another_process(self) -> None:
        command = [sys.executable, "-m", MODULE, "--podms", "3", "--blocks", "9", "--seed", "7"]
        first, second = (
            subprocess.run(
                command, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, check=True
            ).stdout
            for salt in ("1", "2")
        )
        self.assertEqual(first, second)
        self.assertEqual(first.splitlines()[1:], list(generate.podms(3, 9, 7)))

    def test_another_seed_gives_other_podms(self) -> None:
        self.assertNotEqual(list(generate.podms(2, 20, 1)), list(generate.podms(2, 20, 2)))

    def test_a_larger_site_begins_with_the_smaller_one(self) -> None:
        self.assertEqual(list(generate.podms(9, 10, 1))[:4], list(generate.podms(4, 10, 1)))

    def test_every_podm_decodes_and_is_written_in_its_stable_form(self) -> None:
        for line in generate.podms(40, 30, 3, pools=3, stocks=2):
            self.assertEqual(to_json(msgspec.json.decode(line, type=FullPodm)), line)

    def test_podms_and_blocks_are_as_many_as_asked_and_have_names_of_their_own(self) -> None:
        podms = decoded(6, 50)
        self.assertEqual(len({podm.id for podm in podms}), 6)
        for podm in podms:
            self.assertEqual(len({block.uri for block in podm.blocks}), 50)

    def test_a_block_takes_180_bytes_give_or_take_20(self) -> None:
        size = sum(len(line) + 1 for line in generate.podms(300, 100, 5))
        self.assertTrue(160 <= size / 30_000 <= 200, size / 30_000)

    def test_pools_overlap_and_every_block_stands_in_one_that_exists(self) -> None:
        for podm in decoded(20, 100, pools=3):
            names = {pool.id for pool in podm.pools}
            self.assertEqual(len(names), 3)
            self.assertEqual({len(block.pools) for block in podm.blocks}, {1, 2})
            self.assertTrue(all(names.issuperset(block.pools) for block in podm.blocks))

    def test_one_pool_holds_every_block(self) -> None:
        (podm,) = decoded(1, 30, pools=1)
        self.assertEqual({block.pools for block in podm.blocks}, {(podm.pools[0].id,)})

    def test_about_three_blocks_in_ten_are_composed(self) -> None:
        blocks = [block for podm in decoded(300, 100) for block in podm.blocks]
        composed = sum((block.status or Status()).state.startswith("Comp") for block in blocks)
        self.assertTrue(0.2 < composed / len(blocks) < 0.4, composed / len(blocks))

    def test_some_blocks_are_reserved_and_some_shared_with_room_left(self) -> None:
        found = [block.status for podm in decoded(40, 100) for block in podm.blocks if block.status]
        self.assertTrue(any(status.reserved for status in found))
        self.assertTrue(any(status.shareable and status.slots > 1 for status in found))

    def test_a_site_has_20_to_60_kinds_of_blocks_and_a_podm_some_of_them(self) -> None:
        kinds: set[tuple[tuple[str, ...], Devices]] = set()
        for podm in decoded(200, 100):
            mine = {(block.type, block.devices) for block in podm.blocks}
            self.assertTrue(4 <= len(mine) <= 12, len(mine))
            kinds |= mine
        self.assertTrue(20 <= len(kinds) <= 60, len(kinds))

    def test_podms_without_blocks_hand_out_amounts_of_eight_resources_from_one_pool(self) -> None:
        for podm in decoded(20, 0, stocks=8):
            self.assertEqual((len(podm.pools), podm.blocks), (1, ()))
            self.assertEqual(len({stock.resource for stock in podm.stocks}), 8)
            for stock in podm.stocks:
                assert stock.total is not None
                self.assertTrue(0 <= stock.used <= stock.total)
                self.assertEqual(stock.used % stock.step, 0)

    def test_numbers_that_make_no_sense_are_refused_at_once(self) -> None:
        for numbers in ((-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, 1, 0)):
            with self.assertRaises(ValueError):
                generate.podms(*numbers)


class MainTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, *more: str) -> int:
        return generate.main(["--podms", "3", "--blocks", "4", "--seed", "1", *more])

    def test_a_file_holds_a_header_and_a_podm_a_line_and_no_temporary_file_is_left(self) -> None:
        path = self.folder / "site.jsonl"
        path.write_text("older")
        self.assertEqual(self.write("--output", str(path)), 0)
        head, *lines = path.read_bytes().splitlines()
        self.assertEqual(msgspec.json.decode(head, type=InventoryHeader).schema, SCHEMA)
        self.assertEqual(lines, list(generate.podms(3, 4, 1)))
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_a_folder_that_is_not_there_is_one_line_of_error(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(self.write("--output", str(self.folder / "none" / "site.jsonl")), 1)
        self.assertEqual(told.getvalue().count("\n"), 1)
        self.assertIn("No such file", told.getvalue())

    def test_bad_arguments_exit_with_2(self) -> None:
        for bad in (["--podms", "-1"], ["--blocks", "x"], ["--pools", "0"], ["--none"]):
            with (
                self.subTest(bad),
                contextlib.redirect_stderr(io.StringIO()),
                self.assertRaises(SystemExit) as stopped,
            ):
                self.write(*bad)
            self.assertEqual(stopped.exception.code, 2)

    def test_a_reader_that_stops_early_hears_no_complaint(self) -> None:
        command = [sys.executable, "-m", MODULE, "--podms", "500", "--blocks", "100"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
            assert writer.stdout is not None and writer.stderr is not None
            writer.stdout.read(100)
            writer.stdout.close()
            self.assertEqual(writer.stderr.read(), b"")
        self.assertEqual(writer.returncode, 0)
