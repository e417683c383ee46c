# SPDX-License-Identifier: Apache-2.0
"""What every command does with an error."""

import argparse
import io
import unittest

from valence_sched_cli import base


class TestErrors(unittest.TestCase):
    """An error is one line and an exit code."""

    def line_of(self, error: BaseException) -> str:
        """Return what a command that ends with an error says."""

        class Failing(base.Command):
            def take_action(self, parsed_args):
                raise error

        app = argparse.Namespace(stdout=io.StringIO(), NAME="valence-sched")
        with self.assertLogs(base.LOG, "ERROR") as logs:
            command = Failing(app, None)
            self.assertEqual(1, command.run(command.get_parser("x").parse_args([])))
        (record,) = logs.records
        return record.getMessage()

    def test_too_little_memory_is_said_for_most_such_errors_have_no_text(self):
        hint = "name smaller files, or ask for less"
        self.assertEqual(f"out of memory: {hint}", self.line_of(MemoryError()))
        line = self.line_of(MemoryError("Unable to allocate 7 GiB"))
        self.assertEqual(f"out of memory: Unable to allocate 7 GiB: {hint}", line)


if __name__ == "__main__":
    unittest.main()
