# SPDX-License-Identifier: Apache-2.0
"""A mix is compiled once for the block kinds that it is used with."""

import unittest

from valence_sched.model.request import FlavorShare, Mix
from valence_sched.testing import request, view
from valence_sched.view.fragmentation import flavor_mix
from valence_sched.view.overlay import Overlay


def card_mix(weight: float = 1.0) -> Mix:
    needs = request({"accelerators": [{"model": "A100"}]}).needs
    return Mix((FlavorShare(needs, weight=weight),))


class TestFlavorMix(unittest.TestCase):
    """What the block kinds of a View remember."""

    def test_an_equal_mix_is_compiled_once_also_for_an_overlay(self):
        site = view({"id": "a"})
        compiled = flavor_mix(site, card_mix(), "accelerators")
        self.assertIs(compiled, flavor_mix(site, card_mix(), "accelerators"))
        self.assertIs(compiled, flavor_mix(Overlay(site).view, card_mix(), "accelerators"))

    def test_another_mix_or_resource_is_compiled_separately(self):
        site = view({"id": "a"})
        compiled = flavor_mix(site, card_mix(), "accelerators")
        self.assertIsNot(compiled, flavor_mix(site, card_mix(2.0), "accelerators"))
        self.assertFalse(flavor_mix(site, card_mix(), "gpu_milli"))

    def test_views_of_different_block_kinds_share_nothing(self):
        a100 = {"accelerators": [{"kind": "GPU", "model": "NVIDIA A100"}]}
        l40s = {"accelerators": [{"kind": "GPU", "model": "NVIDIA L40S"}]}
        first, second = (
            view({"id": "a", "blocks": [{"uri": "b", "devices": devices}]})
            for devices in (a100, l40s)
        )
        self.assertIsNot(
            flavor_mix(first, card_mix(), "accelerators"),
            flavor_mix(second, card_mix(), "accelerators"),
        )
