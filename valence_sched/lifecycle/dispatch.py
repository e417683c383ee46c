# SPDX-License-Identifier: Apache-2.0
"""Dispatch: sends decisions to an external controller, once or until it accepts them."""

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from valence_sched.core import plugins
from valence_sched.errors import CredentialError, PluginError, SchedulerError, UsageError, one_line
from valence_sched.model.decision import Recording, Report
from valence_sched.model.dispatch import Dispatch, Dispatcher, DispatchSettings, Order, Receipt
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import age_s

if TYPE_CHECKING:
    from valence_sched.store.decisions import Dispatches

LOOK_S = 1.0  # pause between checks for due decisions
FIRST_PAUSE_S, MOST_DOUBLED = 1.0, 16


def dispatch(
    target: str,
    report: Report,
    *,
    environ: Mapping[str, str],
    key_variable: str | None = None,
    timeout_s: float = 30.0,
) -> Sequence[Receipt]:
    """Send a decision to an external controller once, without a claim or a node here.

    ``target`` is ``NAME=URL``: the dispatcher and its URL. ``key_variable`` names the variable of
    ``environ`` with the signing key.

    Raises:
        UsageError: the target has no valid URL.
        UnknownName: there is no dispatcher of this name.
        CredentialError: the variable holds no key.
        DispatchFailed: the controller refuses or does not answer.
        PluginError: the dispatcher does not behave as a dispatcher must.
    """
    name, url, dispatcher = _parse_target(target, "--dispatch")
    key = None
    if key_variable is not None:
        if not (text := environ.get(key_variable)):
            found = f"{key_variable} is empty, expected a key"
            raise CredentialError(f"--dispatch-key-env: {found}")
        key = text.encode("utf-8", "surrogateescape")
    return _send(name, dispatcher, url, _order(report, key, timeout_s))


def bind_target(
    settings: DispatchSettings, key: bytes | None, password: str | None
) -> Callable[[Dispatch], Sequence[Receipt]]:
    """Return a function that sends a waiting decision; errors as for :func:`dispatch`."""
    name, url, dispatcher = _parse_target(settings.target, "dispatch: target")
    login = (settings.username, password) if settings.username and password else None

    def post(one: Dispatch) -> Sequence[Receipt]:
        order = _order(one.report, key, settings.timeout_s)
        order = dataclasses.replace(order, id=one.id, again=one.attempts > 0, claim=one.claim)
        return _send(name, dispatcher, url, dataclasses.replace(order, login=login))

    return post


def _parse_target(target: str, where: str) -> tuple[str, str, Dispatcher]:
    name, equals, url = target.partition("=")
    if not equals or not url:
        raise UsageError(f"{where}: expected <name>=<url>, as in webhook=https://host/path")
    return name, url, plugins.load(plugins.DISPATCHERS).get(name, where)


def _order(report: Report, key: bytes | None, timeout_s: float) -> Order:
    request, choices = report.request, dict.fromkeys(one.choice for one in report.placements)
    return Order(
        report=to_json(report),
        placements=report.placements,
        name=request.flavor or request.id,
        alternatives=tuple(request.alternatives[choice - 1] for choice in choices),
        key=key,
        timeout_s=timeout_s,
        recording=report.recording or None,
    )


def _send(name: str, dispatcher: Dispatcher, url: str, order: Order) -> Sequence[Receipt]:
    try:
        receipts = tuple(dispatcher(url, order))
        for receipt in receipts:
            if not isinstance(receipt, Receipt):
                raise TypeError(f"found {type(receipt).__name__}, expected a Receipt")
        return receipts
    except SchedulerError:
        raise
    except Exception as error:  # the dispatcher may have sent the decision before it failed
        hint = "the decision may have been accepted: check the other system first"
        text = f"dispatcher {name!r}: {type(error).__name__}: {error}: {hint}"
        raise PluginError(text) from error


@dataclasses.dataclass
class DispatchSender:
    """Posts the waiting decisions of a store to a controller until it accepts them.

    ``post`` raises a SchedulerError unless the controller confirmed the decision. After an error
    the sender posts the decision again after a pause, which doubles each time. Meanwhile only later
    decisions of the same request wait. Each process of a service may have a sender, but only one at
    a time posts a decision. ``log`` receives a line for each change, ``sleep`` waits.
    """

    dispatches: "Dispatches"
    post: Callable[[Dispatch], Sequence[Receipt]]
    settings: DispatchSettings
    log: Callable[[str], object]
    sleep: Callable[[float], object]
    _problem: str = ""

    def run(self, ended: Callable[[], bool]) -> None:
        """Post until ``ended`` returns True; raises the errors of the store."""
        while not ended():
            if not self.step():
                self.sleep(LOOK_S)

    def step(self) -> bool:
        """Post one due decision; return whether the controller accepted it."""
        one = self.dispatches.take(2 * self.settings.timeout_s)
        if one is None:
            return False
        try:
            receipts = self.post(one)
        except SchedulerError as error:
            problem = one_line(str(error))
            pause_s = FIRST_PAUSE_S * 2 ** min(one.attempts, MOST_DOUBLED)
            self.dispatches.delay(one, problem, min(pause_s, self.settings.max_interval_s))
        else:
            problem = ""
            self.dispatches.finish(one, receipts)
        if problem != self._problem:
            waiting = f"decisions are waiting: {problem}"
            self.log(waiting if problem else "decisions are posted again")
        self._problem = problem
        return not problem


def with_recording(
    report: Report, recorded: Mapping[str, str | None], now: datetime.datetime
) -> Report:
    """Return a report that shows which of its pod managers are ``recorded``, and their age.

    ``recorded`` has the read time of each pod manager of an inventory, by its id.
    """
    chosen = {placement.chosen.podm for placement in report.placements}
    podms = tuple(sorted(chosen & recorded.keys()))
    if not podms:
        return report
    ages_s = {recorded[podm]: age_s(recorded[podm], now) for podm in podms}
    known = {at: age for at, age in ages_s.items() if age is not None}
    oldest = max(known, key=known.__getitem__) if len(known) == len(ages_s) else None
    recording = Recording(podms=podms, read_at=oldest, age_s=known.get(oldest))
    return structs.replace(report, recording=recording)
