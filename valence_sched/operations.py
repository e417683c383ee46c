# SPDX-License-Identifier: Apache-2.0
"""What changes the world: decisions composed on live pod managers, here or by somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.core import plugins
from valence_sched.errors import (
    CredentialError,
    PluginError,
    RequestError,
    SchedulerError,
    UsageError,
    one_line,
)
from valence_sched.model import valence_words
from valence_sched.model.inventory import to_json
from valence_sched.model.need import Ask
from valence_sched.model.order import Order, Receipt
from valence_sched.model.request import Request
from valence_sched.plans import Plans

if TYPE_CHECKING:
    from valence_sched.claiming import Claims
    from valence_sched.core.decision import Decision
    from valence_sched.provisioning import Provisioned
    from valence_sched.site import Site


class Operations(Plans):
    """The scheduler's parts, and those that write: store, claims, nodes."""

    def make(
        self,
        site: Site,
        claims: Claims,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = 600.0,
    ) -> Provisioned:
        """Claim and compose the nodes of a request; errors as for a provisioner."""
        from valence_sched.provisioning import Provisioner

        provisioner = Provisioner(site.store, claims, site.composer, site.read)
        return provisioner.provision(request, key=key, ttl_s=ttl_s)

    def dispatch(
        self,
        word: str,
        decision: Decision,
        key_variable: str | None = None,
        timeout_s: float = 30.0,
    ) -> Sequence[Receipt]:
        """Hand a decision to somebody else who composes, once; nothing is held or composed here.

        ``word`` is ``NAME=URL``, ``key_variable`` names the environment variable with the key
        that signs.

        Raises:
            UsageError: it names no URL, or one that is none.
            UnknownName: nobody hands decisions over by this name.
            CredentialError: there is no key.
            DispatchFailed: the other side refuses or does not answer.
            PluginError: who hands it over broke the contract.
        """
        name, equals, url = word.partition("=")
        if not equals or not url:
            raise UsageError("--dispatch: expected <name>=<url>, as in webhook=https://host/path")
        send = plugins.installed(plugins.DISPATCHERS).get(name, "--dispatch")
        key = self._key(key_variable) if key_variable is not None else None
        choices = {placement.choice for placement in decision.placements}
        properties, unsaid = _said([decision.request.asks[choice - 1] for choice in choices])
        called = decision.request.flavor or decision.request.id
        report = to_json(decision.report())
        order = Order(report, decision.placements, called, properties, key, timeout_s, unsaid)
        try:
            found: Sequence[Receipt] = tuple(send(url, order))
            for receipt in found:
                if not isinstance(receipt, Receipt):
                    raise TypeError(f"found {type(receipt).__name__}, expected a Receipt")
        except SchedulerError:
            raise
        except Exception as error:  # whoever wrote it: an operator must not take it for unsent
            raise PluginError(one_line(
                f"dispatcher {name!r}: {type(error).__name__}: {error}: the decision may have "
                "been taken or not: look there first"
            )) from error  # fmt: skip
        return found

    def _key(self, variable: str) -> bytes:
        key = self.environ.get(variable)
        if not key:
            raise CredentialError(one_line(f"--dispatch-key-env: nothing is in {variable}, "
                                           "expected a key"))  # fmt: skip
        return key.encode("utf-8", "surrogateescape")


def _said(asks: Sequence[Ask]) -> tuple[dict[str, Any], str | None]:
    """Return what nodes were asked to be in Valence's words, and what these cannot say."""
    if len(asks) != 1:
        return {}, "its nodes are made by several alternatives of the flavor"
    try:
        return valence_words.properties(asks[0]), None
    except RequestError as error:
        return {}, str(error)
