# SPDX-License-Identifier: Apache-2.0
"""Checks: expectations of an inventory, keyed by their verb in a file, and their results."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from valence_sched.model.base import Noun
from valence_sched.model.inventory import Count, Name, Positive
from valence_sched.model.quantity import format_count
from valence_sched.model.scenario import Edit, EditText, Target, any_of, edit_text, target_of

SCHEMA = "valence-sched/check"
VERSION = "1.0"
Nodes = Annotated[int, Meta(ge=1, le=1_000_000)]
FitCount = Annotated[int, Meta(ge=0, le=1_000_000)]
Result = Literal["pass", "fail", "recorded"]


class _PlacedNodes(Noun, frozen=True, kw_only=True):
    """Nodes of a flavor; ``policy`` defaults to the policy of the flavor, then of the scenario."""

    flavor: Name
    policy: Name | None = None

    def __post_init__(self) -> None:
        place = getattr(self, "place", None)
        if place is not None and target_of(place).selects_blocks:
            raise ValueError("Expected pod managers or pools in 'in', not blocks")


class FitBounds(_PlacedNodes, frozen=True, kw_only=True):
    """The number of nodes of a flavor expected to fit ``in`` pod managers or pools."""

    at_least: FitCount | None = None
    at_most: FitCount | None = None
    place: Target | str | None = msgspec.field(name="in", default=None)

    def __post_init__(self) -> None:
        if self.at_least is None and self.at_most is None:
            raise ValueError("Expected at_least, at_most, or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"Expected at_most to be {self.at_least} (at_least) or more")
        super().__post_init__()


class Landing(_PlacedNodes, frozen=True, kw_only=True):
    """``count`` nodes of a flavor, all expected to be placed ``in`` pod managers or pools."""

    count: Nodes = 1
    place: Target | str = msgspec.field(name="in")


class UnplacedNodes(_PlacedNodes, frozen=True, kw_only=True):
    """``count`` nodes of a flavor that are expected not to fit ``in`` pod managers or pools."""

    count: Nodes = 1
    place: Target | str | None = msgspec.field(name="in", default=None)


class WorkloadBounds(Noun, frozen=True, kw_only=True):
    """The number of pod managers a workload is expected to need.

    Without ``policy``, each request is decided by its own policy. At most ``unplaced_at_most``
    nodes may be refused or undecided.
    """

    workload: Name
    policy: Name | None = None
    podms_at_most: Count | None = None
    unplaced_at_most: Count = 0


class GoldenDecision(_PlacedNodes, frozen=True, kw_only=True):
    """A decision that is expected to equal the recorded decision of a file.

    Request, placements, policy and inventory are compared; with ``placements_only`` only the
    placements.
    """

    file: Name
    count: Nodes = 1
    seed: int = 0
    placements_only: bool = False


class _Expectation(Noun, frozen=True, kw_only=True):
    """An expectation on the site after a scenario (``FILE`` or ``FILE#NAME``) and ``edits``."""

    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    scenario: Name | None = None
    edits: tuple[EditText, ...] = ()


class Fits(_Expectation, frozen=True, kw_only=True):
    """A number of nodes of a flavor fits."""

    fits: FitBounds


class Lands(_Expectation, frozen=True, kw_only=True):
    """Nodes of a flavor are placed in the given pod managers or pools."""

    lands: Landing


class DoesNotFit(_Expectation, frozen=True, kw_only=True):
    """Nodes of a flavor do not fit."""

    does_not_fit: UnplacedNodes


class Survives(_Expectation, frozen=True, kw_only=True):
    """Every node can be re-placed after any failure of this number of pod managers."""

    survives: Positive


class Fails(_Expectation, frozen=True, kw_only=True):
    """If a target fails, at most ``stuck_at_most`` of its nodes cannot be re-placed."""

    fails: Target | str
    stuck_at_most: Count = 0

    def __post_init__(self) -> None:
        _ = self.target  # a text is parsed here, so that an error names its place

    @property
    def target(self) -> Target:
        return target_of(self.fails)


class Uses(_Expectation, frozen=True, kw_only=True):
    """A workload is placed on a number of pod managers."""

    uses: WorkloadBounds


class Decides(_Expectation, frozen=True, kw_only=True):
    """A decision equals the recorded decision."""

    decision: GoldenDecision


Expectation = Fits | Lands | DoesNotFit | Survives | Fails | Uses | Decides
EXPECTATIONS: dict[str, type[Expectation]] = {
    next(
        name for name in noun.__struct_fields__ if name not in _Expectation.__struct_fields__
    ): noun
    for noun in get_args(Expectation)
}
ExpectationText = Annotated[dict[str, Any], any_of(EXPECTATIONS.values())]


class CheckFile(Noun, frozen=True, kw_only=True):
    """A file of expectations, at least one."""

    schema: str = SCHEMA
    version: str = VERSION
    expectations: Annotated[tuple[ExpectationText, ...], Meta(min_length=1)]


class Check(Struct, frozen=True, kw_only=True):
    """An expectation with its edits decoded; ``place`` is the file and the path in it."""

    expectation: Expectation
    edits: tuple[Edit, ...] = ()
    place: str = "check"
    file: str = "check"
    line: int = 1


class CheckResult(Struct, frozen=True, kw_only=True):
    """The name of an expectation, whether it is met, and the actual result."""

    name: str
    result: Result
    found: str
    file: str
    line: int


def check_name(check: Check) -> str:
    """Return the name of an expectation, else a sentence with its scenario and its edits."""
    expected = check.expectation
    if expected.name is not None:
        return expected.name
    scenario = [expected.scenario.rpartition("#")[2]] if expected.scenario else []
    context = ", ".join([*scenario, *map(edit_text, check.edits)])
    return _sentence(expected) + (f" ({context})" if context else "")


def _sentence(expectation: Expectation) -> str:
    match expectation:
        case Fits(fits=one):
            return f"{one.flavor} fits {_bounds(one)}{_where(one.policy, one.place)}"
        case Lands(lands=one):
            return _of_nodes(one, "is placed", "are placed")
        case DoesNotFit(does_not_fit=one):
            return _of_nodes(one, "does not fit", "do not fit")
        case Survives(survives=number):
            return f"the site survives {format_count(number, 'pod manager failure')}"
        case Fails(stuck_at_most=0):
            return f"every node can be re-placed if {expectation.target} fails"
        case Fails(stuck_at_most=most):
            return f"at most {format_count(most, 'node')} stuck if {expectation.target} fails"
        case Uses(uses=one):
            podms = format_count(one.podms_at_most or 0, "pod manager")
            need = "is placed" if one.podms_at_most is None else f"needs at most {podms}"
            return f"{one.workload} {need}{_where(one.policy)}"
        case Decides(decision=golden):
            return f"{golden.flavor} is decided as in {golden.file}"


def _bounds(bounds: FitBounds) -> str:
    least, most = bounds.at_least, bounds.at_most
    if least is None:
        return f"at most {format_count(most or 0, 'time')}"
    if most is None:
        return f"at least {format_count(least, 'time')}"
    return f"{format_count(most, 'time')}" if least == most else f"{least:,} to {most:,} times"


def _of_nodes(one: Landing | UnplacedNodes, verb: str, plural: str) -> str:
    what = f"{one.flavor} {verb}" if one.count == 1 else f"{one.count:,} x {one.flavor} {plural}"
    return what + _where(one.policy, one.place)


def _where(policy: str | None, place: Target | str | None = None) -> str:
    target = "" if place is None else f" in {target_of(place)}"
    return target if policy is None else f"{target} under {policy}"
