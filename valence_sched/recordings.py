# SPDX-License-Identifier: Apache-2.0
"""Recordings of pod managers: captured into files and trees, and served as live ones again."""

from __future__ import annotations

import secrets as secrets_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched import credentials
from valence_sched.errors import CredentialError, UnknownName, UsageError, one_line
from valence_sched.inventories import Inventories
from valence_sched.model.alias import Aliases
from valence_sched.model.inventory import FullPodm
from valence_sched.model.live import EVERY, Live
from valence_sched.model.registered import Password

if TYPE_CHECKING:
    from valence_sched.capturing import Captured
    from valence_sched.drivers.live import Reading
    from valence_sched.drivers.recorded import Record
    from valence_sched.readings import Readings

LEAST_KEY = 16  # characters of a key for aliases


class Recordings(Inventories):
    """What is recorded of pod managers, and what comes of it."""

    def serve(
        self,
        sources: Sequence[str],
        ready: Callable[[list[tuple[str, str]]], None],
        *,
        username: str | None = None,
        password: Password | None = None,
        strict: bool = False,
        **how: Any,
    ) -> None:
        """Serve inventories as live pod managers until the process is told to stop.

        ``ready`` is called with id and URL of each when all listen; ``how`` are the fields of
        :class:`~valence_sched.simulator.serving.Service`.

        Raises:
            UsageError: a user without a password, or a password without a user.
            CredentialError: the password is not there, or others can read it.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
            SchedulerError: as the service says.
        """
        from valence_sched.simulator import serving, sessions

        if (username is None) != (password is None):
            raise UsageError("a login needs --username and one of --password-env, --password-file")
        if username is not None:
            word = credentials.password(password, "podm serve", self.environ, None)
            how["login"] = sessions.Login(username, word or "")

        def checked(named: list[tuple[str, str]]) -> None:
            self._check(len(named), sources, strict)
            ready(named)

        records = self._records(sources, EVERY)
        serving.serve(records, self.problems, serving.Service(**how), checked)

    def capture(
        self,
        sources: Sequence[str],
        live: Live = EVERY,
        *,
        file: str | None = None,
        tree: str | None = None,
        aliases: Aliases | None = None,
    ) -> Captured:
        """Record pod managers: those of inventories, or else live ones, those of ``live.only``.

        Written as one inventory, or with ``tree`` as a folder of Redfish documents each; without
        credentials, and with ``aliases`` without names.

        Raises:
            UsageError: no pod manager is known.
            UnknownName: one that is named is not there.
            InputError: it cannot be read at all, or not be written.
            PodmError: no pod manager could be read, so there is no tree.
        """
        from valence_sched import capturing  # the renderer: only for who captures

        secrets: list[str] = []
        found: Iterable[Reading]
        if named := self.sources(sources, live):
            if live.chosen:
                raise UsageError("record either inventories or live pod managers, not both")
            whole = self._only(self.whole(named, live=live), live.only)
            found = capturing.recorded(whole, self.problems, documents=tree is not None)
        else:
            readings = self.readings(live, raw=tree is not None)
            if not readings:
                raise UsageError(self._nobody(live))
            secrets = readings.passwords()
            found = self._told(readings)
        if tree is not None:
            return capturing.to_trees(found, tree, aliases, secrets)
        return capturing.to_file(found, file or "", aliases, secrets)

    def aliases(self, variable: str | None = None) -> Aliases:
        """Return names in place of others: under the key in a variable, or one of this run.

        Raises:
            CredentialError: there is no such variable, or its key could be guessed.
        """
        if variable is None:
            return Aliases(secrets_module.token_bytes(32))
        key = self.environ.get(variable, "")
        if len(key) < LEAST_KEY:
            found = f"{len(key)} characters" if key else "nothing"
            raise CredentialError(one_line(
                f"--anonymize-key-env: found {found} in {variable}, expected a key of at least "
                f"{LEAST_KEY} (whoever guesses it can look up names)"
            ))  # fmt: skip
        return Aliases(key.encode("utf-8", "surrogateescape"))

    def _told(self, readings: Readings) -> Iterator[Reading]:
        """Yield live readings; what is doubtful in them is told when the command ends."""
        try:
            for reading in readings:
                self.live_ids.add(reading.podm.id)
                self.problems += reading.problems
                yield reading
        finally:
            self._progress(None)
            self.remarks += readings.remarks

    @staticmethod
    def _only(
        found: Iterable[tuple[FullPodm, Record]], names: Sequence[str]
    ) -> Iterator[tuple[FullPodm, Record]]:
        """Yield the pod managers of these names, all without names."""
        known: list[str] = []
        missing = dict.fromkeys(names)
        for podm, record in found:
            known.append(podm.id)
            if not names or podm.id in names:
                missing.pop(podm.id, None)
                yield podm, record
        for name in missing:
            raise UnknownName("pod manager", name, known)


def fault_rules() -> list[tuple[str, str]]:
    """Return the form of every fault rule of ``podm serve``, and what it does."""
    from valence_sched.simulator.faults import RULES

    return [(f"{rule.name}:{rule.words}".rstrip(":"), rule.help) for rule in RULES]
