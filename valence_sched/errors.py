# SPDX-License-Identifier: Apache-2.0
"""The error tree: every error of the project, with its code, exit code and HTTP status.

::

    SchedulerError            scheduler_error       1  500
    ├── InputError            input_invalid         1  400   a document is invalid
    │   ├── NewerSchema       schema_newer          1  400   a document has a newer major version
    │   └── DuplicateId       id_duplicate          1  400   two pod managers under one id
    ├── UsageError            usage                 2  400   the command line contradicts itself
    │   └── NoPodm            no_podm               2  400   no pod manager is known
    ├── UnknownName           name_unknown          1  404   no such flavor, policy, filter, podm
    ├── NothingMatches        nothing_matches       1  404   the target of an edit matches nothing
    ├── RequestError          request_invalid       1  400   the request contradicts itself
    ├── NothingFits           nothing_fits          3  409   the nodes fit on no pod manager
    ├── PluginError           plugin_failed         1  500   a plug-in broke its contract
    ├── CloudError            cloud_failed          1  502   OpenStack does not answer or refuses
    ├── PodmError             podm_failed           1  502   a pod manager fails to answer
    ├── CredentialError       credential_invalid    1  401   a password is missing or unsafe
    ├── OutputError           output_failed         1  500   an output stream is closed or full
    ├── StoreError            store_failed          1  503   the state cannot be read or written
    │   └── Undecodable       undecodable           1  500   a stored document cannot be decoded
    ├── Unauthenticated       unauthenticated       1  401   the credentials are missing or wrong
    ├── AccessDenied          access_denied         1  403   the role of the user does not allow it
    ├── QuotaExceeded         quota_exceeded        1  403   a claim exceeds the quota of its owner
    ├── RateLimited           rate_limited          1  429   too many requests of a user or project
    ├── IdentityUnavailable   identity_unavailable  1  503   the identity service does not answer
    ├── ServiceError          service_failed        1  502   the service fails to answer
    ├── ServiceBusy           service_busy          1  503   the service is busy
    ├── NameTaken             name_taken            1  409   the name or key is already in use
    ├── IdentityConflict      identity_conflict     1  409   the name or service is already known
    ├── InUse                 in_use                1  409   a pod manager has claims or nodes
    ├── StaleOffer            stale_offer           6  409   an offer of a zone is no longer valid
    ├── HardwareInUse         hardware_in_use       6  409   a system uses the hardware
    ├── DrainRefused          drain_refused         6  409   the site did not drain a node
    ├── ClaimState            claim_state           1  409   the claim is in the wrong state
    ├── ClaimLost             claim_lost            6  409   another claim holds the chosen hardware
    ├── ComposeFailed         compose_failed        1  502   a pod manager refused to compose a node
    ├── DispatchFailed        dispatch_failed       1  502   the composer refused a decision
    ├── Unverified            unverified            7  502   the effect of a write is unknown
    │   └── StillComposing    still_composing       7  502   a node still composes after the timeout
    ├── DecisionUndecided     undecided             5  503   the search budget ran out
    ├── BaremetalUnavailable  baremetal_unavailable 5  503   Ironic does not report its use
    └── InventoryIncomplete   inventory_incomplete  5  503   documents or pod managers are missing
        └── InventoryStale    inventory_stale       5  503   a reading is older than allowed
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self


def prefixed(text: str, *places: str) -> str:
    """Return a text behind its places, each named once, even if the text begins with them."""
    for place in places:
        text = text.removeprefix(f"{place}: ")
    *others, last = places
    names = others if text.startswith(f"{last} ") else places
    return ": ".join((*names, text))


class SchedulerError(Exception):
    """Base of every error this project raises on purpose; its text is one line."""

    code: ClassVar[str] = "scheduler_error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init_subclass__(cls, *, code: str = "", exit_code: int = 0, status: int = 0) -> None:
        """Take what the line of a class states; the rest is as in its base class."""
        cls.code, cls.exit_code = code or cls.code, exit_code or cls.exit_code
        cls.http_status = status or cls.http_status

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    def at(self, place: str) -> Self:
        """Prefix the text of the error with the place where it was raised; return the error."""
        self.args = (one_line(prefixed(str(self), place)),)
        return self

    @property
    def public_text(self) -> str:
        """Return the text without the address of a state and the messages of its database."""
        cause, text = self.__cause__, str(self)
        if not isinstance(cause, SchedulerError) or (public := cause.public_text) == str(cause):
            return text
        return text.replace(str(cause), public) if str(cause) in text else public

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text and the attributes: the arguments differ from class to class."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[SchedulerError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@contextmanager
def errors_at(place: str | None) -> Iterator[None]:
    """Prefix the text of each SchedulerError with a place; None leaves it unchanged."""
    try:
        yield
    except SchedulerError as error:
        if place is None:
            raise
        raise error.at(place) from error.__cause__


@contextmanager
def needing(library: str, user: str, extra: str, *modules: str) -> Iterator[None]:
    """Raise SchedulerError with the ``extra`` to install if a module of a library is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in (modules or (library,)):
            raise
        text = f"{user} needs {library}: pip install 'valence-sched[{extra}]'"
        raise SchedulerError(text) from None


def each_error(change: Callable[[str], object], names: Iterable[str]) -> Iterator[SchedulerError]:
    """Call a change once for each name; yield its errors, and go on with the other names."""
    for name in dict.fromkeys(names):
        try:
            change(name)
        except SchedulerError as error:
            yield error


class InputError(SchedulerError, code="input_invalid", status=400):
    """An invalid document: the file, the path in it, the found and expected value, and a hint."""

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
        text = ": ".join(filter(None, (file, document_path, found and f"found {found}")))
        text += f", expected {expected}" if expected else ""
        super().__init__(text + (f" ({hint})" if hint else ""))


class NewerSchema(InputError, code="schema_newer"):
    """A document of a newer major version, which this program cannot read safely."""


class DuplicateId(InputError, code="id_duplicate"):
    """Two pod managers with the same id, whose blocks could not be distinguished."""


class UsageError(SchedulerError, code="usage", exit_code=2, status=400):
    """A command line that lacks an argument, has too many, or contradicts itself."""


class NoPodm(UsageError, code="no_podm"):
    """There is no pod manager to decide on, neither recorded nor registered."""


class UnknownName(SchedulerError, code="name_unknown", status=404):
    """An unknown name; the message has the nearest known name."""

    kind = name = ""  # an error of another service may lack them

    def __init__(
        self, kind: str, name: str, known: Iterable[str], location: str = "", hint: str = ""
    ) -> None:
        self.kind, self.name = kind, name
        text = f"{location}: " if location else ""
        super().__init__(f"{text}no {kind} named {name!r} ({hint or suggest(name, known)})")


class NothingMatches(SchedulerError, code="nothing_matches", status=404):
    """A target that no pod manager, pool or block matches; the message has the nearest name."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"no {what} ({hint})" if hint else f"no {what}")


class RequestError(SchedulerError, code="request_invalid", status=400):
    """A request without needs, or with parts that contradict each other."""


class NothingFits(SchedulerError, code="nothing_fits", exit_code=3, status=409):
    """The nodes of a request fit on no pod manager; the message has reasons."""


class PluginError(SchedulerError, code="plugin_failed"):
    """A filter or weigher raised an error, or returned an invalid value."""


class CloudError(SchedulerError, code="cloud_failed", status=502):
    """OpenStack is needed, but no cloud is configured, or the cloud refuses."""


class PodmError(SchedulerError, code="podm_failed", status=502):
    """A live pod manager does not answer, refuses, or gives an answer that cannot be parsed."""


class CredentialError(SchedulerError, code="credential_invalid", status=401):
    """The password that a reference names is missing, or other users can read it."""


class OutputError(SchedulerError, code="output_failed"):
    """A stream that a command prints to is closed or full, or its reader ended."""

    def __init__(self, stream: str, error: Exception) -> None:
        super().__init__(f"{stream}: {plain_reason(error)}")


class StoreError(SchedulerError, code="store_failed", status=503):
    """The state cannot be opened, read or written; a change is never written in part.

    ``uncertain``: the answer to a commit was lost. ``away``: the database cannot be reached now.
    """

    uncertain = away = False

    @property
    def public_text(self) -> str:
        unsure = "; this change may have been made" if self.uncertain else ""
        return f"the state cannot be used{unsure}: try again later (the log has the reason)"


class Undecodable(StoreError, code="undecodable", status=500):
    """A stored document of an ``owner`` that cannot be decoded; other documents can be."""

    kind = id = ""
    owner: str | None = ""

    def __init__(self, kind: str, id_: str, owner: str | None = None) -> None:
        self.kind, self.id, self.owner = kind, id_, owner
        hint = "an operator can inspect it (valence-scheduler store check --deep)"
        super().__init__(f"{kind} {id_} cannot be decoded: {hint}")

    @property
    def public_text(self) -> str:
        return str(self)


class Unauthenticated(SchedulerError, code="unauthenticated", status=401):
    """A request to the service without credentials, or with wrong credentials."""


class AccessDenied(SchedulerError, code="access_denied", status=403):
    """A request to the service that the role of its user does not allow."""


class QuotaExceeded(SchedulerError, code="quota_exceeded", status=403):
    """A claim that would exceed the quota of its owner; the message has the numbers."""


class RateLimited(SchedulerError, code="rate_limited", status=429):
    """Too many requests of a user or project; ``retry_after_s`` is the time to wait."""

    retry_after_s = 1.0


class IdentityUnavailable(SchedulerError, code="identity_unavailable", status=503):
    """The identity service does not answer, so that no user can be authenticated."""


class ServiceError(SchedulerError, code="service_failed", status=502):
    """The scheduler's service does not answer, or gives an answer that cannot be parsed."""


class ServiceBusy(SchedulerError, code="service_busy", status=503):
    """The service is busy with other requests; the same request may succeed a moment later."""


NO_THREADS = "this process can start no more threads: try again later"


class NameTaken(SchedulerError, code="name_taken", status=409):
    """A name or a key that is already in use for something else."""


class IdentityConflict(SchedulerError, code="identity_conflict", status=409):
    """Another service answers under a name, or a service is registered under another name."""


class InUse(SchedulerError, code="in_use", status=409):
    """A pod manager that cannot be removed because it still has claims or nodes."""


class StaleOffer(SchedulerError, code="stale_offer", exit_code=6, status=409):
    """The offer of a zone is no longer valid, or its token is not of this zone."""


class HardwareInUse(SchedulerError, code="hardware_in_use", exit_code=6, status=409):
    """Hardware that a system uses, such as Ironic, or the running node that would lose a block."""


class DrainRefused(SchedulerError, code="drain_refused", exit_code=6, status=409):
    """The site did not drain a node in time, so no block is detached from it."""


class ClaimState(SchedulerError, code="claim_state", status=409):
    """A claim whose state does not allow the operation."""


class ClaimLost(SchedulerError, code="claim_lost", exit_code=6, status=409):
    """Another claim holds the chosen hardware, or the pod manager changed; the message says which.

    ``claim`` is the other claim if it is known. ``group`` is the group of the request if another
    claim of the group is in progress: try again after that claim. ``undone`` is set if nodes were
    drained or changed for the claim, and changed back.
    """

    undone = False
    podm = claim = group = ""

    def __init__(self, text: str, podm: str = "", claim: str = "", group: str = "") -> None:
        super().__init__(text)
        self.podm, self.claim, self.group = podm, claim, group


class ComposeFailed(SchedulerError, code="compose_failed", status=502):
    """A pod manager did not compose a node; no part of the node remains."""

    def __init__(self, text: str, podm: str = "") -> None:
        super().__init__(text)
        self.podm = podm


class DispatchFailed(SchedulerError, code="dispatch_failed", status=502):
    """The external composer refused the decision, or did not answer."""


class Unverified(SchedulerError, code="unverified", exit_code=7, status=502):
    """The effect of a write on a pod manager could not be read back, or not be undone."""


class StillComposing(Unverified, code="still_composing"):
    """A pod manager has accepted a composition and is still working on it."""

    def __init__(self, text: str, node: str = "", podm: str = "", claim: str = "") -> None:
        super().__init__(text)
        self.node, self.podm, self.claim = node, podm, claim


class InventoryIncomplete(SchedulerError, code="inventory_incomplete", exit_code=5, status=503):
    """Documents or pod managers are missing, so the answer cannot be trusted."""


class InventoryStale(InventoryIncomplete, code="inventory_stale"):
    """The last reading of a pod manager is older than the maximum age."""


class DecisionUndecided(SchedulerError, code="undecided", exit_code=5, status=503):
    """The search of a pool that might be chosen reached the budget of the policy."""


class BaremetalUnavailable(SchedulerError, code="baremetal_unavailable", exit_code=5, status=503):
    """Ironic does not report whether it uses hardware, so that the hardware is not changed."""


MAX_KNOWN_LENGTH = 400  # characters of names in the hint for an unknown name


def closest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the known name most similar to an unknown name, None if it is not similar enough."""
    import difflib  # only for a name that is unknown

    names = sorted(known)
    alike = {one.casefold(): one for one in reversed(names)}
    close = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return alike.get(name.strip().casefold()) or next(iter(close), None)


def suggest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the hint for an unknown name: the nearest known name, or the first known names."""
    names = sorted(known)
    listed = [part.strip() for part in name.split(",")]
    if len(listed) > 1 and set(listed) <= set(names):
        return "this is a list of names: give each name separately"
    close = closest(name, names, cutoff)
    if close is not None:
        similar = ""
        if odd := next((char for char in name if not char.isascii() and char not in close), ""):
            import unicodedata  # only for a character that looks like another

            similar = f", without {unicodedata.name(odd, 'the character')} (U+{ord(odd):04X})"
        return f"did you mean {close!r}{similar}?"
    if not names:
        return "no name is known"
    ends = itertools.accumulate(len(known_name) + 2 for known_name in names)
    fitting = max(1, sum(end <= MAX_KNOWN_LENGTH for end in ends))
    shown = [repr(one) if ", " in one else one for one in names]
    return f"known: {name_some(shown, fitting)}"


def unknown_lines(what: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Yield a line for each unknown name; an example of ``what`` is ``is in the zone``."""
    known_names = set(known)
    for name in dict.fromkeys(names):
        if name not in known_names:
            yield one_line(f"no pod manager {what} {name!r} ({suggest(name, known_names)})")


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an error; only the type if its text cannot be made."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


def plain_reason(error: BaseException | None) -> str:
    """Return the text of an error in lower case, without the number and file of an OSError."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()


def name_some(names: Sequence[str], most: int, between: str = ", ", last: str = " and") -> str:
    """Return the first names and the number of the others, as in ``a, b and 3 more``."""
    rest = len(names) - most
    return between.join(names[:most]) + (f"{last} {rest:,} more" if rest > 0 else "")


def shown_name(file: str) -> str:
    """Return the name of a file in messages; ``-`` is standard input."""
    return "stdin" if file == "-" else file


def one_line(text: str, limit: int = 600) -> str:
    """Return ``text`` on a single line of printable characters, cut at ``limit`` characters."""
    flat = escape(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def escape(text: str, keep: str = "") -> str:
    r"""Return ``text`` with unprintable characters escaped as in JSON (``\n``, ``\u001b``).

    Control and formatting characters, line separators, special spaces, and halves of surrogate
    pairs are unprintable. Characters of ``keep`` stay.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else escape_character(char) for char in text
    )


def escape_character(char: str) -> str:
    code = char.encode("utf-16-be", "surrogatepass").hex()
    units = (f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or "".join(units)


def must_be(wanted: str, text: str) -> ValueError:
    """Return the error about a value out of range, or of the wrong form."""
    return ValueError(f"must be {wanted}, got {text[:40]!r}")


def is_not(form: str, text: str) -> ValueError:
    """Return the error about a text of the wrong form; ``form`` may have an example."""
    return ValueError(f"{text[:60]!r} is not {form}")
