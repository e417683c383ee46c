# SPDX-License-Identifier: Apache-2.0
"""Packages that commands import at their first use."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from valence_sched_cli import late


class TestPackage(unittest.TestCase):
    """A package is imported at the use of its first name."""

    def test_nothing_is_imported_before_a_name_is_used(self):
        program = (
            "import sys; from valence_sched_cli import late;"
            "print('valence_sched.model' in sys.modules);"
            "late.model.quantity.format_age(1.0);"
            "print('valence_sched.model.quantity' in sys.modules,"
            " 'valence_sched.model.inventory' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        self.assertEqual("False\nTrue False\n", done.stdout, done.stderr)

    def test_a_module_is_what_an_import_gives(self):
        from valence_sched.model import quantity

        self.assertIs(quantity, late.model.quantity)

    def test_a_name_that_is_missing_is_no_attribute(self):
        self.assertFalse(hasattr(late.model, "nothing"))

    def test_a_library_that_a_module_lacks_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "odd_package").mkdir()
            Path(folder, "odd_package", "__init__.py").touch()
            Path(folder, "odd_package", "needy.py").write_text("import no_such_library")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            self.addCleanup(sys.modules.pop, "odd_package", None)
            with self.assertRaisesRegex(ModuleNotFoundError, "no_such_library"):
                _ = late.Package("odd_package").needy
