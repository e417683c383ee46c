# SPDX-License-Identifier: Apache-2.0
"""Renews the expected results of tests: ``python -m tests.functional.renew_golden``.

It writes the golden decision, the example decision of the checks, the digests of outputs that
programs rely on, the transcripts below ``doc/source/examples`` and the screen in the README. Review
the difference before you commit it: users and their programs rely on each of them.
"""

import hashlib
import itertools
import json
import re
import tempfile
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

from tests.functional.programs import FLAVORS, ROOT, SITE, run, shell
from valence_sched.service.routes import document

GOLDEN = Path(__file__).parent / "golden" / "decision.json"
QUESTION = ("--inventory", SITE, "--flavor", "gpu-large", "--alternates", "2", "--seed", "7")
#: The decision that ``examples/check.yaml`` expects.
CHECKED = ROOT / "examples" / "decision.json"
CHECKED_QUESTION = ("--inventory", SITE, "--flavor", "gpu-large", "--count", "2")
DIGESTS = GOLDEN.with_name("digests.json")
POLICIES = ("default", "pack", "balanced", "chance", "fragmentation")
WISHES = (
    (),
    ("--count", "3"),
    ("--seed", "5", "--alternates", "2"),
    ("--count", "2", "--min-count", "1", "--anti-affinity", "podm"),
    ("--count", "4", "--min-count", "1", "--spread", "zone", "--soft-affinity", "location"),
    ("--owner", "team-a", "--exclude-podm", "gpu-north", "--seed", "9"),
)
#: Commands whose JSON output depends only on the example site.
ANSWERS = tuple(line.split() for line in f"""
podm list --inventory {SITE}
podm pool list --inventory {SITE}
podm block list --inventory {SITE}
podm device list --inventory {SITE}
podm flavor list
podm flavor show gpu-large
podm fit --flavor gpu-large --inventory {SITE}
podm fit --flavor large --explain --inventory {SITE}
podm inventory validate {SITE}
scheduler filter list
scheduler weigher list
scheduler policy list
scheduler policy show default
scheduler whatif fail gpu-east --inventory {SITE}
scheduler whatif drain gpu-west --inventory {SITE}
scheduler whatif need --flavor gpu-large --count 5 --buy GPU-03@gpu-east --inventory {SITE}
""".strip().splitlines())  # fmt: skip
EXAMPLES = ROOT / "doc" / "source" / "examples"
README = ROOT / "README.rst"
PAGE_COLUMNS = "90"  # of a page of the docs on a desktop
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)
SCREEN = re.compile(r"^    (\$ (?:.*\\\n)*.*\n)(?:    .*\n)*", re.MULTILINE)


def transcripts() -> list[Path]:
    """Return the files with a transcript."""
    return sorted(EXAMPLES.glob("*.txt"))


def replayed(transcript: str) -> str:
    """Return a transcript with the present output of its commands, run in a new folder.

    A command begins with ``$`` and continues after a backslash at the end of its line.
    """
    with tempfile.TemporaryDirectory(prefix="transcript-") as folder:
        for name in ("doc", "examples"):
            (Path(folder) / name).symlink_to(ROOT / name)
        told = [
            f"{command}\n{shell(command[2:], Path(folder), COLUMNS=PAGE_COLUMNS).out}"
            for command in COMMAND.findall(transcript)
        ]
    return "\n".join(told)


def screen(command: str) -> str:
    """Return the output of a command of the README, indented, with long lines wrapped."""
    lines = shell(command[2:]).out.splitlines()
    broken = [part for line in lines for part in textwrap.wrap(line, 72) or [""]]
    return "".join(f"    {line}".rstrip() + "\n" for line in [command.rstrip(), *broken])


def decisions() -> dict[str, str]:
    """Return the exit code of 300 decisions and the digest of each report."""
    flavors = [
        row["Name"]
        for row in run(
            "valence-sched", "podm", "flavor", "list", "--flavor-file", FLAVORS, "-f", "json"
        ).data
    ]
    digests = {}
    for flavor, policy, wish in itertools.product(flavors[:10], POLICIES, WISHES):
        words = ("--flavor", flavor, "--policy", policy, *wish)
        done = run("valence-sched", "podm", "schedule", "--inventory", SITE, "--flavor-file",
                   FLAVORS, *words, "-f", "json")  # fmt: skip
        digests[" ".join(words)] = f"{done.code} {_digest(done.out)}"
    return digests


def answers() -> dict[str, str]:
    """Return digests of outputs, of the help of all commands, and of the API document."""
    digests = {"openapi": _digest(document().decode())}
    helps = [
        [*name.split("_"), "--help-all"] for name in entry_points(group="openstack.podm.v1").names
    ]
    for words in (*([*line, "-f", "json"] for line in ANSWERS), *sorted(helps)):
        done = run("valence-sched", *words)
        found = f"{done.code} {_digest(done.out.replace(SITE, 'site.json'))}"
        digests[" ".join(words).replace(SITE, "site.json")] = found
    return digests


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> None:
    """Write all expected results."""
    GOLDEN.parent.mkdir(exist_ok=True)
    run("valence-sched", "podm", "schedule", *QUESTION, "--report", GOLDEN)
    run("valence-sched", "podm", "schedule", *CHECKED_QUESTION, "--report", CHECKED)
    DIGESTS.write_text(json.dumps({**decisions(), **answers()}, indent=1) + "\n")
    for path in transcripts():
        path.write_text(replayed(path.read_text()))
    README.write_text(SCREEN.sub(lambda found: screen(found[1]), README.read_text()))


if __name__ == "__main__":
    main()
