# SPDX-License-Identifier: Apache-2.0
"""Registrations: what of a reading counts otherwise once one has changed."""

import unittest

from tests.unit.store.site import podm
from valence_sched.model.inventory import Limit
from valence_sched.model.registration import Registration, alters_reading, reregistered


def registration(**most):
    return Registration(name="p", url="https://p", max_blocks=most)


class TestMaxBlocks(unittest.TestCase):
    """The most blocks of a node, as registered before and now, in what was read before."""

    def test_by_what_was_read(self):
        for kind, read, before, after, expected in (
            ("Compute", Limit(0, 1), None, 3, Limit(0, 3)),  # one was assumed
            ("Compute", Limit(0, 3), 3, None, Limit(0, 1)),
            ("Compute", Limit(0, 3), 3, 5, Limit(0, 5)),
            ("Compute", Limit(0, 3), 3, 2, Limit(0, 2)),
            ("Compute", Limit(0, 2), 3, 5, Limit(0, 2)),  # the pod manager is stricter
            ("Compute", Limit(0, 2), 3, None, Limit(0, 2)),
            ("Compute", Limit(0, 2), None, 5, Limit(0, 2)),
            ("Compute", Limit(2, 2), 1, None, Limit(2, 2)),  # at least two
            ("Compute", Limit(2, 4), None, 1, Limit(2, 2)),
            ("Storage", Limit(), None, 3, Limit(0, 3)),
            ("Storage", Limit(0, 3), 3, None, None),  # any number
            ("Storage", Limit(1, 3), 3, None, Limit(1, None)),
        ):
            with self.subTest(kind=kind, read=read, before=before, after=after):
                limits = {} if read == Limit() else {kind: read}
                pools = [{"id": "z", "limits": {name: {"min": one.min, "max": one.max}
                                                for name, one in limits.items()}}]  # fmt: skip
                known = podm(blocks=[], pools=pools)
                old = registration(**({} if before is None else {kind: before}))
                new = registration(**({} if after is None else {kind: after}))
                self.assertTrue(alters_reading(old, new))
                (pool,) = reregistered(known, old, new).pools
                self.assertEqual(expected, pool.limits.get(kind))

    def test_what_did_not_change_stays_as_it_was_read(self):
        pools = [{"id": "z", "limits": {"Compute": {"max": 2}}}]
        known = podm(blocks=[], pools=pools)
        self.assertFalse(alters_reading(registration(Compute=5), registration(Compute=5)))
        found = reregistered(known, registration(Compute=5), registration(Compute=5, Storage=1))
        self.assertEqual({"Compute": Limit(0, 2), "Storage": Limit(0, 1)}, found.pools[0].limits)
