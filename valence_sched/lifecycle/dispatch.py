# SPDX-License-Identifier: Apache-2.0
"""Dispatch: hands a decision to another system that composes, once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from valence_sched.core import plugins
from valence_sched.errors import CredentialError, PluginError, SchedulerError, UsageError, one_line
from valence_sched.model.age import age_s
from valence_sched.model.decision import Recording, Report
from valence_sched.model.dispatch import Order, Receipt
from valence_sched.model.inventory import to_json


def dispatch(
    target: str,
    report: Report,
    *,
    environ: Mapping[str, str],
    key_variable: str | None = None,
    timeout_s: float = 30.0,
) -> Sequence[Receipt]:
    """Hand a decision to the other system, once; nothing is held or composed here.

    ``target`` is ``NAME=URL``: the dispatcher, and the URL that it sends to. ``key_variable``
    names the variable of ``environ`` with the key that signs.

    Raises:
        UsageError: the target names no URL, or none that can be one.
        UnknownName: there is no dispatcher of this name.
        CredentialError: the variable holds no key.
        DispatchFailed: the other side refuses or does not answer.
        PluginError: the dispatcher broke its contract.
    """
    name, equals, url = target.partition("=")
    if not equals or not url:
        raise UsageError("--dispatch: expected <name>=<url>, as in webhook=https://host/path")
    send = plugins.load(plugins.DISPATCHERS).get(name, "--dispatch")
    order = Order(
        report=to_json(report),
        placements=report.placements,
        name=report.request.flavor or report.request.id,
        alternatives=tuple(
            report.request.alternatives[choice - 1]
            for choice in dict.fromkeys(placement.choice for placement in report.placements)
        ),
        key=_read_key(environ, key_variable) if key_variable is not None else None,
        timeout_s=timeout_s,
        recording=report.recording or None,
    )
    try:
        receipts = tuple(send(url, order))
        for receipt in receipts:
            if not isinstance(receipt, Receipt):
                raise TypeError(f"found {type(receipt).__name__}, expected a Receipt")
    except SchedulerError:
        raise
    except Exception as error:  # an operator must not take it for unsent
        raise PluginError(one_line(
            f"dispatcher {name!r}: {type(error).__name__}: {error}: the decision may have "
            "been taken or not: look there first"
        )) from error  # fmt: skip
    return receipts


def with_recording(
    report: Report, recorded: Mapping[str, str | None], now: datetime.datetime
) -> Report:
    """Return a report that says which of its pod managers are ``recorded``, and how old they are.

    ``recorded`` has the time when each pod manager of an inventory was read, by its id.
    """
    chosen = {placement.chosen.podm for placement in report.placements}
    podms = tuple(sorted(chosen & recorded.keys()))
    if not podms:
        return report
    ages_s = {recorded[podm]: age_s(recorded[podm], now) for podm in podms}
    known = {at: age for at, age in ages_s.items() if age is not None}
    oldest = max(known, key=known.__getitem__) if len(known) == len(ages_s) else None
    recording = Recording(podms=podms, read_at=oldest, age_s=known.get(oldest))
    return replace(report, recording=recording)


def _read_key(environ: Mapping[str, str], variable: str) -> bytes:
    key = environ.get(variable)
    if not key:
        raise CredentialError(one_line(f"--dispatch-key-env: nothing is in {variable}, "
                                       "expected a key"))  # fmt: skip
    return key.encode("utf-8", "surrogateescape")
