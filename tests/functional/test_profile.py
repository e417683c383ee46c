# SPDX-License-Identifier: Apache-2.0
"""Profiles: defaults of options in config.yaml; environment and options override them."""

from tests.functional.programs import FLAVORS, ROOT, SITE, Case, Done, environment, run
from tests.service.serving import serving
from valence_sched.service.settings import ServiceSettings

PROFILES = f"""\
profile: lab
profiles:
  lab: {{inventory: {SITE}, policy: pack, zone: east-1, owner: alice, output: json}}
  relative: {{inventory: [site.json]}}
  remote: {{service: "http://127.0.0.1:9", output: value}}
"""
CLOUDLESS = ("valence-sched", "openstack")


class TestProfile(Case):
    def setUp(self):
        self.config = self.folder / "valence-sched" / "config.yaml"
        self.config.parent.mkdir(exist_ok=True)
        self.write(PROFILES)

    def write(self, text: str) -> None:
        self.config.write_text(text)

    def command(self, *words: str, program: str = "valence-sched", **environ: str) -> Done:
        return run(program, *words, XDG_CONFIG_HOME=str(self.folder), **environ)

    def settings(self, *words: str, **environ: str) -> dict[str, tuple[str | None, str]]:
        done = self.command(*words, "config", "show", "-f", "json", **environ)
        self.assertEqual(0, done.code, done)
        return {row["Setting"]: (row["Value"], row["Source"]) for row in done.data}

    def test_a_request_has_the_defaults_of_the_profile(self):
        for program in CLOUDLESS:
            with self.subTest(program):
                done = self.command("podm", "schedule", "--cores", "4", program=program)
                self.assertEqual(0, done.code, done)
                given = ("--inventory", SITE, "--policy", "pack", "--zone", "east-1")
                given += ("--owner", "alice", "-f", "json")
                self.assertEqual(run(program, "podm", "schedule", "--cores", "4", *given), done)

    def test_an_output_that_a_command_does_not_have_is_left_to_those_that_do(self):
        self.write(f"profile: a\nprofiles: {{a: {{output: csv, inventory: {SITE}}}}}")
        self.assertIn('"gpu-east",', self.command("podm", "list").out)
        self.assertIn("| ", self.command("podm", "show", "gpu-east").out)

    def test_options_override_the_profile(self):
        words = ("podm", "fit", "--flavor", "gpu-large", "--flavor-file", FLAVORS)
        done = self.command(*words, "--zone", "none-such", "-f", "value", "-c", "Podm")
        self.assertEqual(3, done.code, done)
        self.assertNotIn("{", done.out)

    def test_each_value_has_its_source(self):
        found = self.settings()
        self.assertEqual(("lab", str(self.config)), found["profile"])
        self.assertEqual((SITE, "profile lab"), found["inventory"])
        self.assertEqual((None, "default"), found["service"])
        self.assertEqual(("pack", "profile lab"), found["policy"])
        named = self.settings("--profile", "remote")
        self.assertEqual(("remote", "option --profile"), named["profile"])
        self.assertEqual(("http://127.0.0.1:9", "profile remote"), named["service"])

    def test_a_source_in_the_environment_replaces_those_of_the_profile(self):
        found = self.settings(
            VALENCE_SCHED_PROFILE="remote", VALENCE_SCHED_STATE="postgresql://op:secret@db/s"
        )
        self.assertEqual(("remote", "environment VALENCE_SCHED_PROFILE"), found["profile"])
        self.assertEqual((None, "default"), found["service"])
        shown = ("postgresql://op:***@db/s", "environment VALENCE_SCHED_STATE")
        self.assertEqual(shown, found["state"])

    def test_a_profile_names_a_service(self):
        settings = ServiceSettings(inventories=(SITE,), state=str(self.folder / "state.sqlite"))
        with serving(settings, environment()) as url:
            self.write(f"profiles: {{one: {{service: {url!r}}}}}")
            done = self.command("--profile", "one", "podm", "list", "-f", "json")
            self.assertEqual(0, done.code, done)
            named = self.command("podm", "list", "-f", "json", VALENCE_SCHED_URL=url)
            self.assertEqual(named, done)
            self.assertTrue(done.data)

    def test_paths_are_relative_to_the_folder_of_the_file(self):
        (self.config.parent / "site.json").write_bytes((ROOT / "examples/site.json").read_bytes())
        done = self.command("--profile", "relative", "podm", "list", "-f", "json")
        self.assertEqual(0, done.code, done)
        self.assertTrue(done.data)

    def test_what_is_wrong_is_one_line(self):
        both = "profiles: {one: {service: 'http://a', inventory: b}}"
        wrong = {
            "profiles: {one: {polic: pack}}": "found unknown field 'polic'",
            both: "$.profiles.one: found a service together with an inventory or a state",
            "profile: two\nprofiles: {one: {}}": "$.profile: no profile named 'two'",
            "profiles: {one: {state: 'postgresql://a:b@c/d'}}": "put the URL into",
            "profiles: [": "config.yaml",
            "profiles: {one: {service: 'http://a:b@c'}}": "a URL without a password (use VALENCE",
            "profiles: {one: {inventory: ['']}}": "$.profiles.one.inventory: found an empty text",
            "profiles: {one: {service: ''}}": "$.profiles.one.service: found an empty text",
            "profile: a\nprofiles: {a: {output: jsn}}": "no output format named 'jsn'",
        }
        for text, message in wrong.items():
            with self.subTest(text):
                self.write(text)
                done = self.command("config", "show")
                self.assertEqual((1, 1), (done.code, done.err.count("\n")), done)
                self.assertIn(message, done.err)
        self.config.unlink()
        done = self.command("--profile", "lab", "config", "show")
        self.assertEqual(1, done.code)
        self.assertIn("does not exist", done.err)

    def test_an_error_of_an_inventory_names_the_profile(self):
        self.write("profile: a\nprofiles: {a: {inventory: none.json}}")
        done = self.command("podm", "list")
        self.assertEqual(1, done.code)
        self.assertTrue(done.err.startswith("profile a: "), done.err)

    def test_a_file_of_the_user_that_cannot_be_read_is_not_passed_over(self):
        for name, words in (
            ("config.yaml", ("config", "show")),
            ("flavors.yaml", ("podm", "flavor", "list")),
            ("policies.yaml", ("scheduler", "policy", "list")),
            ("podms.yaml", ("podm", "list", "--state", str(self.folder / "none.sqlite"))),
        ):
            self.config.unlink(missing_ok=True)
            file = self.config.parent / name
            file.symlink_to("/dev/zero")
            with self.subTest(name):
                done = self.command(*words)
                self.assertEqual(
                    (1, f"{file}: found a special file"),
                    (done.code, done.err[: len(str(file)) + 22]),
                    done,
                )
            file.unlink()
