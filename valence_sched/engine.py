# SPDX-License-Identifier: Apache-2.0
"""Engine: the scheduler in this process, over one selection of pod managers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from valence_sched.core.decider import Decider
from valence_sched.errors import SchedulerError, UnknownName
from valence_sched.lifecycle.decision_result import decision_result, decision_results
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES, Claim
from valence_sched.model.decision import Report, Reports
from valence_sched.model.decision_result import (
    DecisionResult,
    DecisionResults,
    Detail,
    FitCounts,
    Ranking,
)
from valence_sched.model.dispatch import Receipt
from valence_sched.model.flavor import Flavor
from valence_sched.model.lifecycle import (
    ClaimRecord,
    ClaimResult,
    NodeRecord,
    NodeStatus,
    PlanRefresh,
    PlanResult,
    Preview,
    ProvisionResult,
    ReconcileResult,
)
from valence_sched.model.plan import Plan
from valence_sched.model.podm_overview import BlockUsage, PodmOverview, StatsReport
from valence_sched.model.policy import Policy
from valence_sched.model.read_options import Selection
from valence_sched.model.reports import parse_report
from valence_sched.model.request import Request
from valence_sched.model.scheduler import KEEP_S, TTL_S, WAIT_S, Scheduler

if TYPE_CHECKING:
    from valence_sched.lifecycle.access import PodmAccess
    from valence_sched.lifecycle.claim import Claimer
    from valence_sched.store.store import Store
