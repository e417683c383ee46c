# SPDX-License-Identifier: Apache-2.0
"""Decisions dispatched to a controller, by both programs, over real sockets."""

import json

from tests.functional.packages_on_path import written
from tests.functional.programs import PROGRAMS, SITE
from tests.functional.test_live import Live
from tests.unit.integrations.test_dispatchers import controller
from valence_sched.integrations.dispatchers.webhook import SIGNATURE, TIMESTAMP, signature

KEY = "canary-of-the-webhook-5521"
NODE = ("schedule", "--inventory", SITE, "--flavor", "small", "-f", "json")
OTHERS = '''
from valence_sched.model.dispatch import Receipt


def paper(url, order):
    """Writes the names of nodes into a file."""
    with open(url, "w") as stream:
        needs = [need.kind for one in order.alternatives for need in one.needs]
        stream.write(f"{order.name} {needs}")
    return [Receipt(nodes=tuple(one.node for one in order.placements), podm="", status=7)]
'''


class TestDispatch(Live):
    """The controller gets the decision; nothing is held or composed here."""

    def test_a_webhook_gets_the_report_and_a_signature(self):
        """S3: a webhook gets the report and a signature."""
        report = self.folder / "report.json"
        for program in PROGRAMS:
            with self.subTest(program), controller() as there:
                words = ("--count", "2", "--report", str(report), "--dispatch-key-env", "HOOK")
                to = ("--dispatch", f"webhook={there.url}/hook?token=of-mine")
                done = self.podm(*NODE, *words, *to, program=program, HOOK=KEY)
                ((path, headers, body),) = there.came
                self.assertEqual("/hook?token=of-mine", path)
                self.assertEqual(json.loads(report.read_bytes()), json.loads(body))
                told = signature(KEY.encode(), headers[TIMESTAMP], body)
                self.assertEqual(f"sha256={told}", headers[SIGNATURE])
                rows = json.loads(body)["placements"]
                recording = json.loads(body)["recording"]
                self.assertEqual(sorted({row["chosen"]["podm"] for row in rows}),
                                 recording["podms"])  # fmt: skip
                self.assertRegex(recording["read_at"], "^2026-01-0")
                self.assertGreater(recording["age_s"], 86_400)
                self.assertEqual(
                    [(1, rows[0]["chosen"]["podm"], 200), (2, rows[1]["chosen"]["podm"], 200)],
                    [(row["Node"], row["Podm"], row["Status"]) for row in done.data],
                )
                everything = f"{done.out}{done.err}{body.decode()}{headers}{report.read_text()}"
                self.assertNotIn(KEY, everything)
                self.assertNotIn("of-mine", done.out + done.err)
        self.assertFalse(self.state.exists())

    def test_valence_gets_each_node_in_its_own_words(self):
        """S3: numbers are converted as in our flavors."""
        properties = "processor: {total_cores: 8}, memory: {capacity_mib: 4096}"
        text = f"name: v\nproperties: {{{properties}, pci_device: {{type: [SSD, SSD]}}}}\n"
        flavor = self.write("v.yaml", text)
        answers = ((200, {"uuid": "u1"}), (201, {"uuid": "u2"}))
        with controller(*answers) as there:
            words = ("schedule", "--inventory", SITE, "--flavor", flavor, "--count", "2")
            done = self.podm(*words, "--dispatch", f"valence={there.url}", "-f", "json")
            came = [json.loads(body) for _, _, body in there.came]
        wanted = {"processor": {"total_cores": 8}, "memory": {"capacity_mib": 4096},
                  "pci_device": {"type": ["SSD", "SSD"]}}  # fmt: skip
        self.assertEqual([wanted, wanted], [one["properties"] for one in came])
        for one in came:
            self.assertRegex(one["description"], r"on a recording read at 2026-01-0.*, \d+d ago")
        self.assertEqual([one["podm_id"] for one in came], [row["Podm"] for row in done.data])
        self.assertEqual([("u1", 200), ("u2", 201)],
                         [(row["Reference"], row["Status"]) for row in done.data])  # fmt: skip

    def test_what_valence_has_no_word_for_is_refused_before_anything_is_sent(self):
        flavor = self.write("n.yaml", "name: n\nproperties: {nics: [{speed_mbps: 10000}]}\n")
        with controller() as there:
            words = ("schedule", "--inventory", SITE, "--flavor", flavor)
            done = self.podm(*words, "--dispatch", f"valence={there.url}", code=1)
            self.assertEqual([], there.came)
        self.assertRegex(done.err, r"^Valence cannot express .*: Valence does not support nic by "
                r"its "
                         r"speed_mbps\n$")  # fmt: skip

    def test_a_refusal_and_a_lost_answer_are_one_line_and_not_sent_again(self):
        lost = "expected 2xx: the decision may have been accepted"
        for answer, line in ((503, f"HTTP 503, {lost}"), (0, "may have been accepted")):
            with controller((answer, {})) as there:
                done = self.podm(*NODE, "--dispatch", f"webhook={there.url}", code=1)
                self.assertEqual(1, len(there.came))
            self.assertEqual(("", 1), (done.out, done.err.count("\n")), done.err)
            self.assertIn(line, done.err)

    def test_nothing_is_sent_where_nothing_fits(self):
        with controller() as there:
            to = ("--dispatch", f"webhook={there.url}")
            self.podm(*NODE, "--count", "999", *to, code=3)
            self.podm(*NODE, "--count", "999", "--min-count", "1", *to, code=4)
            self.assertEqual(1, len(there.came))

    def test_words_that_cannot_be_are_refused(self):
        hook = ("--dispatch", "webhook=http://127.0.0.1:9")
        for words, code, line in (
            (("--dispatch", "webhook"), 2, "expected <name>=<url>"),
            (("--dispatch", "wehbook=http://h"), 1, "did you mean 'webhook'?"),
            (("--dispatch", "webhook=ftp://h"), 2, "expected an http or https URL"),
            (("--dispatch", "webhook=http://[::1"), 2, "https URL, found an invalid host"),
            (("--dispatch", "webhook=http://u:canary@h"), 2, "remove the password from the URL"),
            ((*hook, "--claim"), 2, "not allowed with"),
            ((*hook, "--compose"), 2, "not allowed with"),
            ((*hook, "--dispatch-key-env", "NO_SUCH"), 1, "NO_SUCH"),
            (("--dispatch-key-env", "HOOK"), 2, "--dispatch-key-env: only with --dispatch"),
        ):
            with self.subTest(words):
                done = self.podm(*NODE, *words, code=code)
                self.assertIn(line, done.err)
                self.assertEqual("", done.out)
                self.assertNotIn("canary", done.err)

    def test_others_hand_over_as_they_like(self):
        others = written(self.folder / "others", "dispatcher_of_others", OTHERS,
                         "valence_sched.dispatchers", "paper")  # fmt: skip
        paper = self.folder / "paper"
        done = self.podm(*NODE, "--dispatch", f"paper={paper}", PYTHONPATH=others)
        self.assertEqual([7], [row["Status"] for row in done.data])
        self.assertEqual("small ['processor', 'memory']", paper.read_text())

    def test_others_that_fail_are_named_and_may_have_sent(self):
        for number, (body, found) in enumerate((
            ("return None", "TypeError: 'NoneType' object is not iterable"),
            ("return [{'nodes': [1]}]", "TypeError: found dict, expected a Receipt"),
            ("raise OSError('no such queue')", "OSError: no such queue"),
        )):  # fmt: skip
            with self.subTest(body):
                others = written(self.folder / f"others-{number}", "dispatcher_of_others",
                                 f"def queue(url, order):\n    {body}\n",
                                 "valence_sched.dispatchers", "queue")  # fmt: skip
                done = self.podm(*NODE, "--dispatch", "queue=there", PYTHONPATH=others, code=1)
                self.assertEqual(
                    f"dispatcher 'queue': {found}: the decision may have been accepted: "
                    "check the other system first\n", done.err,
                )  # fmt: skip
