# SPDX-License-Identifier: Apache-2.0
"""The time of edits of 1,000 podms of 100 blocks, relative to building a View of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from tests.benchmarks.measure import Measurement, against, median_ms, sized
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.scenario import (
    AddBlocks,
    Clone,
    Drain,
    Edit,
    Fail,
    Remove,
    SetAttributes,
    edit_text,
)
from valence_sched.planning.edits import apply_edit
from valence_sched.planning.site import Site
from valence_sched.testing.generate import podms

PODMS, BLOCKS, SEED = sized(1_000, 40), sized(100, 10), 1
TIMES = sized(5, 1)

EDITS: tuple[Edit, ...] = (
    Fail("model=A100"),
    Fail("*"),
    Drain("*/z1"),
    Remove("free=yes"),
    Clone("*"),
    AddBlocks("CPU2@podm-00001", "*", 100),
    SetAttributes("*", facts={"price": 1.0}),
    SetAttributes("*@*", health="OK"),
)


def editing() -> Iterator[Measurement]:
    """Each edit takes at most 1.5 times the time of building the View of all these blocks."""
    decoder = msgspec.json.Decoder(LeanPodm)
    site = Site("base", tuple(map(decoder.decode, podms(PODMS, BLOCKS, SEED, stocks=2))), {}, {})
    site.view()  # decodes each different text once
    probe = median_ms(lambda: Site("again", site.podms, {}, {}, kinds=site.kinds).view(), TIMES)
    for edit in EDITS:
        took = median_ms(functools.partial(apply_edit, site, edit), TIMES)
        yield against(f"editing: {edit_text(edit)}", took, probe, 1.5)
