# SPDX-License-Identifier: Apache-2.0
"""Scarce weigher: keeps accelerators for the requests that need them."""

import numpy as np

from valence_sched.model.need import Need, Test
from valence_sched.model.request import Request
from valence_sched.view.block_kinds import read_only
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import Floats, View


@reads_podm()
def scarce(view: View, request: Request) -> Floats:
    """Prefers pod managers with few free accelerators other than the requested ones.

    The score is ``1 / (1 + spare)``: ``spare`` is the number of free accelerators of the pod
    manager that match no accelerator need of the request. Source: PCIWeigher of Nova, which keeps
    hosts with PCI devices for instances that request them, here by kind of device.
    """
    requested = tuple([need for need in request.needs if need.kind == "accelerator"])
    # memoised: most consecutive requests need the same accelerators, or none
    return view.memoise_free("scarce", requested, lambda: _scarce(view, requested))  # type: ignore[no-any-return]


def _scarce(view: View, requested: tuple[Need, ...]) -> Floats:
    kinds, key = view.kinds, ("scarce", requested, len(view.kinds))
    amounts: Floats | None = kinds.derived.get(key)
    if amounts is None:
        unknown = requested[0].unknown if requested else "reject"
        amounts = np.zeros(len(kinds))
        for tests, sign in _none_of(requested).items():
            need = Need(
                kind="accelerator", measure="devices", amount=0, tests=tests, unknown=unknown
            )
            amounts += sign * kinds.amounts(need)
        kinds.derived.store(key, read_only(amounts))
    spare = view.podm_block_counts.sum(amounts, free=True)
    if not spare.any():
        return view.constant(1.0)
    return read_only((1.0 / (1.0 + spare))[view.podm_of])


def _none_of(needs: tuple[Need, ...]) -> dict[tuple[Test, ...], int]:
    """Return a sign for each set of tests: signed device counts add up to the unrequested devices.

    This is inclusion–exclusion, the expanded product of ``1 - passes(need)``: a device that several
    needs accept is subtracted once.
    """
    terms: dict[tuple[Test, ...], int] = {(): 1}
    for need in needs:
        for tests, sign in list(terms.items()):
            joint = tuple(sorted({*tests, *need.tests}, key=repr))
            terms[joint] = terms.get(joint, 0) - sign
    return {tests: sign for tests, sign in terms.items() if sign}
