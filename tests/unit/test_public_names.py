# SPDX-License-Identifier: Apache-2.0
"""The public names: each resolves, and no module is loaded too early."""

import ast
import importlib
import inspect
import subprocess
import sys
import unittest
from pathlib import Path

import valence_sched
from valence_sched import errors

PUBLIC = [
    "Accelerator",
    "AccessDenied",
    "App",
    "BaremetalUnavailable",
    "Block",
    "ClaimLost",
    "ClaimState",
    "CloudError",
    "ComposeFailed",
    "CredentialError",
    "DecisionUndecided",
    "Devices",
    "Diagnostic",
    "Diagnostics",
    "Dialect",
    "Dialects",
    "DispatchFailed",
    "DrainRefused",
    "Drive",
    "DuplicateId",
    "Engine",
    "FilterScheduler",
    "Floats",
    "FullBlock",
    "FullPodm",
    "HardwareInUse",
    "IdentityConflict",
    "IdentityUnavailable",
    "InUse",
    "InputError",
    "Inventory",
    "InventoryIncomplete",
    "InventoryStale",
    "Labels",
    "Ledger",
    "Limit",
    "Mask",
    "Memory",
    "NameTaken",
    "NewerSchema",
    "Nic",
    "NoPodm",
    "Node",
    "NodeChange",
    "NothingFits",
    "NothingMatches",
    "Order",
    "OutputError",
    "Place",
    "PluginError",
    "Podm",
    "PodmError",
    "Pool",
    "Processor",
    "QuotaExceeded",
    "RateLimited",
    "Receipt",
    "Record",
    "Request",
    "RequestError",
    "Scheduler",
    "SchedulerError",
    "Selection",
    "ServiceBusy",
    "ServiceError",
    "Sign",
    "StaleOffer",
    "Status",
    "StillComposing",
    "Stock",
    "StoreError",
    "Term",
    "Unauthenticated",
    "Undecodable",
    "UnknownName",
    "Unverified",
    "UsageError",
    "View",
    "bind",
    "check_filter",
    "check_weigher",
    "convert",
    "decode",
    "load_yaml",
    "penalises_unknown",
    "per_pool",
    "reads",
    "reads_podm",
    "sealed",
    "terms",
    "to_json",
]

#: By class of the plug-in interface: the documented verbs that plug-ins and programs call.
VERBS = {
    "Ledger": "close context correct release remove_node take",
    "View": """
        all_rows constant forget_changes free free_table freeze grant_count inverse invalidate_free
        is_unknown largest_grant memoise memoise_free memoise_latest memoise_selected number podm
        podm_lots precompute_free rows rows_of take take_podms text total window with_own_memo
        without_memo
    """,
}

PROBE = """
import sys, valence_sched
print(*(name for name in sys.modules if name.startswith("valence_sched.")))
print(*({"numpy", "msgspec", "yaml", "sqlalchemy", "sushy"} & set(sys.modules)))
"""


def typed_names() -> dict[str, str]:
    """Return the module of each name, as a type checker reads it."""
    tree = ast.parse(Path(valence_sched.__file__).read_bytes())
    return {
        str(alias.asname): str(statement.module)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


class TestPublicNames(unittest.TestCase):
    """The names of ``from valence_sched import ...``."""

    maxDiff = None

    def test_the_list_is_this_one_and_sorted(self):
        self.assertEqual(PUBLIC, sorted(PUBLIC))
        self.assertEqual(PUBLIC, valence_sched.__all__)

    def test_each_name_resolves(self):
        for name in PUBLIC:
            with self.subTest(name):
                self.assertIsNotNone(getattr(valence_sched, name))
                self.assertIn(name, dir(valence_sched))

    def test_a_type_checker_finds_each_name_in_the_same_module(self):
        typed = typed_names()
        self.assertEqual(PUBLIC, sorted(typed))
        for name, module in typed.items():
            with self.subTest(name):
                value = getattr(importlib.import_module(module), name)
                self.assertIs(value, getattr(valence_sched, name))

    def test_the_verbs_of_the_plugin_interface_stay_and_are_documented(self):
        for name, verbs in VERBS.items():
            kind = getattr(valence_sched, name)
            for verb in verbs.split():
                with self.subTest(name, verb=verb):
                    self.assertTrue(inspect.getdoc(getattr(kind, verb)))

    def test_every_error_is_public(self):
        tree = {
            name
            for name, value in vars(errors).items()
            if inspect.isclass(value) and issubclass(value, errors.SchedulerError)
        }
        self.assertEqual(set(), tree - set(PUBLIC))

    def test_another_name_is_an_attribute_error(self):
        with self.assertRaisesRegex(AttributeError, "valence_sched.*nosuch"):
            valence_sched.nosuch  # noqa: B018

    def test_importing_the_package_loads_none_of_its_modules(self):
        run = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
        )
        self.assertEqual("\n\n", run.stdout)
