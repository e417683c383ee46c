# SPDX-License-Identifier: Apache-2.0
"""A service without child zones meets the contracts of changes, as the zones of a tree do."""

import unittest

from tests.functional.through import is_chosen
from tests.seam.contract import ClaimingContract, ComposingContract, RegisteringContract
from tests.seam.node_changes import ChangingContract
from tests.seam.test_engine import CHANGING, SharedService, start_service


class TestServiceChanges(
    SharedService, ChangingContract, ComposingContract, ClaimingContract, RegisteringContract,
    unittest.TestCase,
):  # fmt: skip
    """On a state with served pod managers, which the tests change."""

    used = CHANGING
    start = staticmethod(start_service)


for _name in dir(TestServiceChanges):
    if not is_chosen(TestServiceChanges.__name__, _name):
        setattr(TestServiceChanges, _name, None)
