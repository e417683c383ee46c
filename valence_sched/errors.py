# SPDX-License-Identifier: Apache-2.0
"""The error tree: every error of the project, with its code, exit code and HTTP status.

::

    SchedulerError            scheduler_error       1  500
    ├── InputError            input_invalid         1  400   a document is invalid
    │   ├── NewerSchema       schema_newer          1  400   its major version is newer than ours
    │   └── DuplicateId       id_duplicate          1  400   two pod managers under one id
    ├── UsageError            usage                 2  400   the command line contradicts itself
    │   └── NoPodm            no_podm               2  400   there is nothing to decide on
    ├── UnknownName           name_unknown          1  404   no such flavor, policy, filter, podm
    ├── NothingMatches        nothing_matches       1  404   an edit is about nothing that is there
    ├── RequestError          request_invalid       1  400   the request contradicts itself
    ├── NothingFits           nothing_fits          3  409   no pod manager makes the nodes
    ├── PluginError           plugin_failed         1  500   a plug-in broke its contract
    ├── CloudError            cloud_failed          1  502   OpenStack does not answer or refuses
    ├── PodmError             podm_failed           1  502   a pod manager does not answer well
    ├── CredentialError       credential_invalid    1  401   no password, or no safe one
    ├── OutputError           output_failed         1  500   a stream takes no more
    ├── StoreError            store_failed          1  503   the state cannot be read or written
    │   └── Undecodable       undecodable           1  500   what is stored cannot be decoded
    ├── Unauthenticated       unauthenticated       1  401   the service knows no such user
    ├── AccessDenied          access_denied         1  403   the role of the user does not allow it
    ├── QuotaExceeded         quota_exceeded        1  403   the project would have more than it may
    ├── RateLimited           rate_limited          1  429   the project asks too often, or too much
    ├── IdentityUnavailable   identity_unavailable  1  503   nobody can tell who a user is
    ├── ServiceError          service_failed        1  502   the service does not answer well
    ├── ServiceBusy           service_busy          1  503   the service takes no more work now
    ├── NameTaken             name_taken            1  409   the name or key is already in use
    ├── IdentityConflict      identity_conflict     1  409   another service, or another name of one
    ├── InUse                 in_use                1  409   it still has claims or nodes
    ├── StaleOffer            stale_offer           6  409   what a zone offered is taken
    ├── HardwareInUse         hardware_in_use       6  409   another system has a server on it
    ├── ClaimState            claim_state           1  409   the claim is in the wrong state
    ├── ClaimLost             claim_lost            6  409   another claim holds what was chosen
    ├── ComposeFailed         compose_failed        1  502   a pod manager would not compose it
    ├── DispatchFailed        dispatch_failed       1  502   the composer did not accept it
    ├── Unverified            unverified            7  502   the present state is unknown
    │   └── StillComposing    still_composing       7  502   it goes on after all patience
    ├── DecisionUndecided     undecided             5  503   the budget ended before the answer
    ├── BaremetalUnavailable  baremetal_unavailable 5  503   Ironic cannot tell what it uses
    └── InventoryIncomplete   inventory_incomplete  5  503   the answer cannot be trusted
        └── InventoryStale    inventory_stale       5  503   it is older than the maximum age
"""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self


class SchedulerError(Exception):
    """Base of every error this project raises on purpose: one line of text."""

    code: ClassVar[str] = "scheduler_error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def at(self, place: str) -> Self:
        """Prefix the text of the error with the place where it was raised; return the error."""
        self.args = (one_line(f"{place}: {self}"),)
        return self

    @property
    def public_text(self) -> str:
        """Return the text without the place of a state, and without what its database says."""
        cause, text = self.__cause__, str(self)
        if not isinstance(cause, SchedulerError) or (public := cause.public_text) == str(cause):
            return text
        return text.replace(str(cause), public) if str(cause) in text else public

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what the error says, not the arguments that its class makes the text of."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[SchedulerError], words: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """Return an error that another process raised."""
    error = kind.__new__(kind, *words)
    error.__dict__.update(state)
    return error


@contextmanager
def errors_at(place: str | None) -> Iterator[None]:
    """Prefix the text of each error of ours with a place; None leaves it as it is."""
    try:
        yield
    except SchedulerError as error:
        if place is None:
            raise
        raise error.at(place) from error.__cause__


class InputError(SchedulerError):
    """An invalid document: the file, the path in it, what was found and expected, and a hint."""

    code, http_status = "input_invalid", 400

    def __init__(
        self,
        file: str,
        document_path: str = "",
        found: str = "",
        expected: str = "",
        hint: str = "",
    ) -> None:
        self.file, self.document_path, self.found = file, document_path, found
        self.expected, self.hint = expected, hint
        text = ": ".join(part for part in (file, document_path) if part)
        if found:
            text += f": found {found}"
        if expected:
            text += f", expected {expected}"
        if hint:
            text += f" ({hint})"
        super().__init__(one_line(text))


class NewerSchema(InputError):
    """A document of a newer major version, which this program cannot read safely."""

    code = "schema_newer"


class DuplicateId(InputError):
    """Two pod managers under one id: their blocks would be indistinguishable."""

    code = "id_duplicate"


class UsageError(SchedulerError):
    """A command line that lacks an argument, has too many, or contradicts itself."""

    code, exit_code, http_status = "usage", 2, 400


class NoPodm(UsageError):
    """There is no pod manager to decide on, neither recorded nor registered."""

    code = "no_podm"


class UnknownName(SchedulerError):
    """An unknown name; the message has the nearest known one."""

    code, http_status = "name_unknown", 404

    def __init__(self, kind: str, name: str, known: Iterable[str], location: str = "") -> None:
        self.kind, self.name = kind, name
        names = sorted(known)
        text = f"{location}: " if location else ""
        super().__init__(one_line(f"{text}no {kind} named {name!r} ({suggest(name, names)})"))


class NothingMatches(SchedulerError):
    """A target that no pod manager, pool or block meets; the message has the nearest known one."""

    code, http_status = "nothing_matches", 404

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(one_line(f"no {what} ({hint})" if hint else f"no {what}"))


class RequestError(SchedulerError):
    """A request without needs, or with parts that contradict each other."""

    code, http_status = "request_invalid", 400


class NothingFits(SchedulerError):
    """No pod manager makes the nodes of a request; the message has reasons."""

    code, exit_code, http_status = "nothing_fits", 3, 409


class PluginError(SchedulerError):
    """A filter or weigher raised, or returned what its contract forbids."""

    code = "plugin_failed"


class CloudError(SchedulerError):
    """OpenStack must be asked, and there is no cloud, or it refuses."""

    code, http_status = "cloud_failed", 502


class PodmError(SchedulerError):
    """A live pod manager does not answer, refuses, or gives an answer that cannot be parsed."""

    code, http_status = "podm_failed", 502


class CredentialError(SchedulerError):
    """The password that a reference names is missing, or other users can read it."""

    code, http_status = "credential_invalid", 401


class OutputError(SchedulerError):
    """A stream that a command prints to is closed, full, or gone with its reader."""

    code = "output_failed"

    def __init__(self, stream: str, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        super().__init__(one_line(f"{stream}: {reason.lower()}"))


class StoreError(SchedulerError):
    """The state cannot be opened, read or written; nothing was written in part.

    It is ``uncertain`` whether all was written where the answer to a commit was lost. The database
    is ``away`` where it cannot be reached now, and may be later.
    """

    code, http_status = "store_failed", 503
    uncertain = away = False

    @property
    def public_text(self) -> str:
        unsure = ", and whether this change was made is unknown" if self.uncertain else ""
        return f"the state cannot be used{unsure}: try again later, the log says why"


class Undecodable(StoreError):
    """A stored document that cannot be decoded, of an ``owner`` where it has one; others can be."""

    code, http_status = "undecodable", 500

    def __init__(self, kind: str, id_: str, owner: str | None = None) -> None:
        self.kind, self.id, self.owner = kind, id_, owner
        hint = "an operator can look at it (valence-scheduler store check --deep)"
        super().__init__(one_line(f"{kind} {id_} cannot be decoded: {hint}"))

    @property
    def public_text(self) -> str:
        return str(self)


class Unauthenticated(SchedulerError):
    """A request to the service without credentials, or with wrong ones."""

    code, http_status = "unauthenticated", 401


class AccessDenied(SchedulerError):
    """A request to the service that the role of its user does not allow."""

    code, http_status = "access_denied", 403


class QuotaExceeded(SchedulerError):
    """A claim with which its owner would have more than its quota; the message has the numbers."""

    code, http_status = "quota_exceeded", 403


class RateLimited(SchedulerError):
    """A user or project that asks the service too often; ``retry_after_s`` is how long to wait."""

    code, http_status = "rate_limited", 429
    retry_after_s = 1.0


class IdentityUnavailable(SchedulerError):
    """The identity service cannot tell who a user is, so nobody is let in."""

    code, http_status = "identity_unavailable", 503


class ServiceError(SchedulerError):
    """The scheduler's service does not answer, or gives an answer that cannot be parsed."""

    code, http_status = "service_failed", 502


class ServiceBusy(SchedulerError):
    """The service decides on other requests now; the same request may succeed a moment later."""

    code, http_status = "service_busy", 503


class NameTaken(SchedulerError):
    """A name or a key that is already in use for something else."""

    code, http_status = "name_taken", 409


class IdentityConflict(SchedulerError):
    """A name that leads to another service than before, or a service that has another name."""

    code, http_status = "identity_conflict", 409


class InUse(SchedulerError):
    """A pod manager that cannot be removed because it still has claims or nodes."""

    code, http_status = "in_use", 409


class StaleOffer(SchedulerError):
    """What a zone offered is no longer there, or its token is not one of this zone."""

    code, exit_code, http_status = "stale_offer", 6, 409


class HardwareInUse(SchedulerError):
    """Hardware that is not changed because another system uses it; the message says which."""

    code, exit_code, http_status = "hardware_in_use", 6, 409


class ClaimState(SchedulerError):
    """A claim whose state does not, or no longer, allow the operation."""

    code, http_status = "claim_state", 409


class ClaimLost(SchedulerError):
    """Another claim holds what was chosen, or the pod manager changed; the message says which.

    ``podm`` is the pod manager, ``claim`` the other claim if it is known. ``group`` is the group of
    which another claim was faster: trying again helps once that is over.
    """

    code, exit_code, http_status = "claim_lost", 6, 409

    def __init__(self, text: str, podm: str = "", claim: str = "", group: str = "") -> None:
        self.podm, self.claim, self.group = podm, claim, group
        super().__init__(one_line(text))


class ComposeFailed(SchedulerError):
    """A pod manager did not compose what was chosen; no part of the node remains."""

    code, http_status = "compose_failed", 502

    def __init__(self, text: str, podm: str = "") -> None:
        self.podm = podm
        super().__init__(one_line(text))


class DispatchFailed(SchedulerError):
    """The external composer refused the decision, or did not answer."""

    code, http_status = "dispatch_failed", 502

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class Unverified(SchedulerError):
    """The effect of a write on a pod manager could not be read back, or not be undone."""

    code, exit_code, http_status = "unverified", 7, 502


class StillComposing(Unverified):
    """A pod manager has accepted a composition and is still working on it."""

    code = "still_composing"

    def __init__(self, text: str, node: str = "", podm: str = "", claim: str = "") -> None:
        self.node, self.podm, self.claim = node, podm, claim
        super().__init__(one_line(text))


class InventoryIncomplete(SchedulerError):
    """Documents or pod managers are missing, so the answer cannot be trusted."""

    code, exit_code, http_status = "inventory_incomplete", 5, 503


class InventoryStale(InventoryIncomplete):
    """The last reading of a pod manager is older than the maximum age."""

    code = "inventory_stale"


class DecisionUndecided(SchedulerError):
    """The budget of the policy left a pool open that might have been chosen."""

    code, exit_code, http_status = "undecided", 5, 503


class BaremetalUnavailable(SchedulerError):
    """Ironic does not tell whether it uses hardware, so the hardware is not changed."""

    code, exit_code, http_status = "baremetal_unavailable", 5, 503


MAX_KNOWN_LENGTH = 400  # characters of names in the hint for an unknown one


def closest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the known name most similar to an unknown one, None if none reaches the cutoff."""
    import difflib  # only for a name that is unknown

    names = sorted(known)
    alike = {one.casefold(): one for one in reversed(names)}
    if same := alike.get(name.strip().casefold()):
        return same
    close = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return close[0] if close else None


def suggest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the hint for an unknown name: the nearest known one, or the first known names.

    ``cutoff`` is the least similarity of the nearest one, from 0 to 1.
    """
    names = sorted(known)
    listed = [part.strip() for part in name.split(",")]
    if len(listed) > 1 and set(listed) <= set(names):
        return "these are several names: name each by itself"
    close = closest(name, names, cutoff)
    if close is not None:
        return f"did you mean {close!r}{_look_alike(name, close)}?"
    if not names:
        return "none is known"
    ends = itertools.accumulate(len(known_name) + 2 for known_name in names)
    fitting = max(1, sum(end <= MAX_KNOWN_LENGTH for end in ends))
    more = f" and {len(names) - fitting:,} more" if fitting < len(names) else ""
    return f"known: {', '.join(names[:fitting])}{more}"


def unknown_lines(what: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield a line for each name that is not known, once, with the nearest.

    ``what`` says what no pod manager does that has one of the names, as in ``is in the zone``.
    """
    known_names = set(known)
    for name in dict.fromkeys(names):
        if name not in known_names:
            yield one_line(f"no pod manager {what} {name!r} ({suggest(name, known_names)})")


def _look_alike(name: str, close: str) -> str:
    """Return which character of a name looks like one of the nearest, and is another."""
    odd = [char for char in name if not char.isascii() and char not in close]
    if not odd:
        return ""
    import unicodedata

    return f", without {unicodedata.name(odd[0], 'the character')} (U+{ord(odd[0]):04X})"


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an error; only the type if its text cannot be made."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


def one_line(text: str, limit: int = 600) -> str:
    """Return ``text`` on a single line of printable characters, cut at ``limit`` characters."""
    flat = escape(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def escape(text: str, keep: str = "") -> str:
    r"""Return ``text`` with what does not print escaped as in JSON: ``\n``, ``\u001b``.

    That are control characters, those without a width or that turn the direction of text, line
    separators, every space but the plain one, and halves of surrogate pairs. What is in ``keep``
    stays.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else escape_character(char) for char in text
    )


_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_character(char: str) -> str:
    """Return a character as JSON escapes it."""
    code = char.encode("utf-16-be", "surrogatepass").hex()
    units = (f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
    return _SHORT_ESCAPES.get(char) or "".join(units)
