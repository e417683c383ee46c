# SPDX-License-Identifier: Apache-2.0
"""SiteDrain: asks the command or the URL of a site to drain a node that will lose blocks."""

import functools
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec

from valence_sched.calls import start_calls
from valence_sched.errors import DrainRefused, SchedulerError, plain_reason
from valence_sched.model.claim import ComposedNode
from valence_sched.model.http import ANSWER, foreign_phrase
from valence_sched.model.lifecycle import Event
from valence_sched.model.node_change import DrainAnswer, DrainBody, DrainSettings
from valence_sched.model.redact import redact_text
from valence_sched.store.tables import key_of

#: The environment variables that a command inherits, besides ``LC_…``.
INHERITED = ("PATH", "HOME", "LANG")
NODE_VARIABLE = "VALENCE_SCHED_NODE"
LATER_S = 1.0  # from the deadline until a post ends
MOST_TEXT = 4096  # bytes at the end of an error output, or characters of an answer
HINT = "nothing was detached: drain the node, then try again"


#: Posts a message with an id to a URL, within seconds; returns the JSON of a 2xx answer.
Post = Callable[[str, bytes, str, float], Any]


@dataclass(frozen=True, slots=True)
class SiteDrain:
    """The hook of a site; ``environ`` is the environment of this program.

    ``post`` raises a SchedulerError without a 2xx answer. No message has one of the ``secrets``.
    """

    settings: DrainSettings
    environ: Mapping[str, str] = field(repr=False)
    post: Post
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def drain(self, node: ComposedNode, blocks: Sequence[str], events: Sequence[Event]) -> None:
        """Drain a node that loses blocks; ``events`` are the latest events of its claim.

        DrainRefused unless the hook confirms within its deadline that the node is drained.
        """
        last = [f"{event.kind} {event.at}" for event in events[-1:]]
        body = DrainBody(
            id=key_of(node.id, *sorted(blocks), *last),
            node=node.id,
            podm=node.podm,
            uri=node.uri,
            owner=node.owner,
            flavor=node.flavor,
            blocks=tuple(blocks),
        )
        try:
            problem = self._run(body) if self.settings.command else self._ask(body)
        except OSError as error:  # such as a full disk, or a command of another user that hangs
            problem = f"the hook cannot be run or ended: {plain_reason(error)}"
        if problem:
            raise DrainRefused(f"node {node.id} is not drained: {problem}: {HINT}")

    def _run(self, body: DrainBody) -> str:
        """Run the command with the message as its standard input; return the problem, if any."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # each exit code would seem to be 0
            return "exit codes are unknown, because this process ignores SIGCHLD"
        command, deadline_s = self.settings.command, self.settings.deadline_s
        inherited = {name for name in self.environ if name in INHERITED or name.startswith("LC_")}
        environ = {name: self.environ[name] for name in inherited} | {NODE_VARIABLE: body.node}
        # with files, neither a long message nor a child process that stays can block
        with tempfile.TemporaryFile() as message, tempfile.TemporaryFile() as errors:
            message.write(msgspec.json.encode(body))
            message.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603 - the operator chooses the command
                    command,
                    stdin=message,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=environ,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return f"{command[0]} cannot be started: {plain_reason(error)}"
            try:
                code = process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                return f"{command[0]} did not end within {deadline_s:g} s, and was killed"
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return f"{command[0]} {_ending(code)}{self._answer(_last_line(errors))}" if code else ""

    def _ask(self, body: DrainBody) -> str:
        """Post the message to the URL; return the problem, if any."""
        url, deadline_s = self.settings.url or "", self.settings.deadline_s
        content = msgspec.json.encode(body)
        post = functools.partial(self.post, url, content, body.id, deadline_s + LATER_S)
        # a server that sends its answer slowly must not extend the deadline
        (answered,) = start_calls([post], "drain")
        where = url.partition("?")[0]  # the query may be a secret
        try:
            answer = msgspec.convert(answered.result(deadline_s), DrainAnswer)
        except TimeoutError:
            return f"{where} did not answer within {deadline_s:g} s"
        except msgspec.ValidationError:
            return f'{where} did not answer {{"drained": true}} or {{"drained": false}}'
        except SchedulerError as error:
            return str(error)
        return "" if answer.drained else f"{where} refused{self._answer(answer.reason)}"

    def _answer(self, text: str) -> str:
        clean = redact_text(text[:MOST_TEXT], self.secrets).strip()
        return f" with {foreign_phrase(ANSWER, clean)}" if clean else ""


def _ending(code: int) -> str:
    if code > 0:
        return f"exited with code {code}"
    names = {one.value: one.name for one in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"


def _last_line(errors: IO[bytes]) -> str:
    end = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, end - MOST_TEXT))
    lines = errors.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")
