# SPDX-License-Identifier: Apache-2.0
"""Writes what the tests compare with anew: ``python -m tests.functional.renew_golden``.

The golden decision, the transcripts below ``doc/source/examples`` and the screen in the README.
Look at the difference before you keep it: each is what somebody's program or eyes rely on.
"""

import re
import tempfile
import textwrap
from pathlib import Path

from tests.functional.programs import ROOT, SITE, run, shell

GOLDEN = Path(__file__).parent / "golden" / "decision.json"
QUESTION = ("--inventory", SITE, "--flavor", "gpu-large", "--alternates", "2", "--seed", "7")
EXAMPLES = ROOT / "doc" / "source" / "examples"
README = ROOT / "README.rst"
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)
SCREEN = re.compile(r"^    (\$ (?:.*\\\n)*.*\n)(?:    .*\n)*", re.MULTILINE)


def transcripts() -> list[Path]:
    """Return the files that hold a transcript."""
    return sorted(EXAMPLES.glob("*.txt"))


def replayed(transcript: str) -> str:
    """Return a transcript as its commands print it now, in a folder of their own.

    A command begins with ``$`` and goes on after a backslash at the end of its line.
    """
    with tempfile.TemporaryDirectory(prefix="transcript-") as folder:
        for name in ("doc", "examples"):
            (Path(folder) / name).symlink_to(ROOT / name)
        told = [
            f"{command}\n{shell(command[2:], Path(folder)).out}"
            for command in COMMAND.findall(transcript)
        ]
    return "\n".join(told)


def screen(command: str) -> str:
    """Return what a command of the README prints, indented, its long lines broken."""
    lines = shell(command[2:]).out.splitlines()
    broken = [part for line in lines for part in textwrap.wrap(line, 72) or [""]]
    return "".join(f"    {line}".rstrip() + "\n" for line in [command.rstrip(), *broken])


def main() -> None:
    """Write all of them."""
    GOLDEN.parent.mkdir(exist_ok=True)
    run("valence-sched", "podm", "schedule", *QUESTION, "--report", GOLDEN)
    for path in transcripts():
        path.write_text(replayed(path.read_text()))
    README.write_text(SCREEN.sub(lambda found: screen(found[1]), README.read_text()))


if __name__ == "__main__":
    main()
