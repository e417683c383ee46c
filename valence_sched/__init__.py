# SPDX-License-Identifier: Apache-2.0
"""The public names for authors of plug-ins and users of the library.

Each name is imported from its module when a program first uses it, so that importing the package
loads nothing. Modules may move; these names stay.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from valence_sched.app import App as App
    from valence_sched.core.evaluation_cache import Ledger as Ledger
    from valence_sched.core.policy import bind as bind
    from valence_sched.drivers.dialect import Dialect as Dialect, Dialects as Dialects
    from valence_sched.drivers.files.json_inventory import Record as Record
    from valence_sched.engine import Engine as Engine
    from valence_sched.errors import (
        AccessDenied as AccessDenied, BaremetalUnavailable as BaremetalUnavailable,
        ClaimLost as ClaimLost, ClaimState as ClaimState, CloudError as CloudError,
        ComposeFailed as ComposeFailed, CredentialError as CredentialError,
        DecisionUndecided as DecisionUndecided, DispatchFailed as DispatchFailed,
        DrainRefused as DrainRefused, DuplicateId as DuplicateId, HardwareInUse as HardwareInUse,
        IdentityConflict as IdentityConflict, IdentityUnavailable as IdentityUnavailable,
        InUse as InUse, InputError as InputError, InventoryIncomplete as InventoryIncomplete,
        InventoryStale as InventoryStale, NameTaken as NameTaken, NewerSchema as NewerSchema,
        NoPodm as NoPodm, NothingFits as NothingFits, NothingMatches as NothingMatches,
        OutputError as OutputError, PluginError as PluginError, PodmError as PodmError,
        QuotaExceeded as QuotaExceeded, RateLimited as RateLimited, RequestError as RequestError,
        SchedulerError as SchedulerError, ServiceBusy as ServiceBusy, ServiceError as ServiceError,
        StaleOffer as StaleOffer, StillComposing as StillComposing, StoreError as StoreError,
        Unauthenticated as Unauthenticated, Undecodable as Undecodable, UnknownName as UnknownName,
        Unverified as Unverified, UsageError as UsageError
    )
    from valence_sched.model.codec import (
        convert as convert, decode as decode, load_yaml as load_yaml
    )
    from valence_sched.model.diagnostic import Diagnostic as Diagnostic, Diagnostics as Diagnostics
    from valence_sched.model.dispatch import Order as Order, Receipt as Receipt
    from valence_sched.model.inventory import (
        Accelerator as Accelerator, Block as Block, Devices as Devices, Drive as Drive,
        FullBlock as FullBlock, FullPodm as FullPodm, Inventory as Inventory, Limit as Limit,
        Memory as Memory, Nic as Nic, Node as Node, Podm as Podm, Pool as Pool,
        Processor as Processor, Status as Status, Stock as Stock, to_json as to_json
    )
    from valence_sched.model.node_change import NodeChange as NodeChange
    from valence_sched.model.reading import Selection as Selection, Sign as Sign
    from valence_sched.model.request import Request as Request, sealed as sealed
    from valence_sched.model.request_spec import Place as Place
    from valence_sched.model.scheduler import Scheduler as Scheduler
    from valence_sched.schedulers.filter import FilterScheduler as FilterScheduler
    from valence_sched.testing import check_filter as check_filter, check_weigher as check_weigher
    from valence_sched.view.terms import (
        Term as Term, penalises_unknown as penalises_unknown, per_pool as per_pool, reads as reads,
        reads_podm as reads_podm, terms as terms
    )
    from valence_sched.view.view import (
        Floats as Floats, Labels as Labels, Mask as Mask, View as View
    )
    # fmt: on
    # isort: on

# The module of each name, below this package.
_MODULES = {
    name: module
    for module, names in {
        "app": "App",
        "core.evaluation_cache": "Ledger",
        "core.policy": "bind",
        "drivers.dialect": "Dialect Dialects",
        "drivers.files.json_inventory": "Record",
        "engine": "Engine",
        "errors": """
            AccessDenied BaremetalUnavailable ClaimLost ClaimState CloudError ComposeFailed
            CredentialError DecisionUndecided DispatchFailed DrainRefused DuplicateId HardwareInUse
            IdentityConflict IdentityUnavailable InUse InputError InventoryIncomplete InventoryStale
            NameTaken NewerSchema NoPodm NothingFits NothingMatches OutputError PluginError
            PodmError QuotaExceeded RateLimited RequestError SchedulerError ServiceBusy ServiceError
            StaleOffer StillComposing StoreError Unauthenticated Undecodable UnknownName Unverified
            UsageError
        """,
        "model.codec": "convert decode load_yaml",
        "model.diagnostic": "Diagnostic Diagnostics",
        "model.dispatch": "Order Receipt",
        "model.inventory": """
            Accelerator Block Devices Drive FullBlock FullPodm Inventory Limit Memory Nic Node Podm
            Pool Processor Status Stock to_json
        """,
        "model.node_change": "NodeChange",
        "model.reading": "Selection Sign",
        "model.request": "Request sealed",
        "model.request_spec": "Place",
        "model.scheduler": "Scheduler",
        "schedulers.filter": "FilterScheduler",
        "testing": "check_filter check_weigher",
        "view.terms": "Term penalises_unknown per_pool reads reads_podm terms",
        "view.view": "Floats Labels Mask View",
    }.items()
    for name in names.split()
}

__all__ = [*sorted(_MODULES)]  # noqa: PLE0604


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name from its module and keep it."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
