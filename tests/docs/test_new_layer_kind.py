"""CONTRIBUTING's layer kind in a copy of the package: four files, run by every engine and judged by the oracle."""

from __future__ import annotations

import filecmp
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from tests.house import checks

pytestmark = pytest.mark.long
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("### A layer kind\n")[2].partition("\n## ")[0]
SNIPPETS = re.findall(r"```(python|diff)\n(?:#|---) (cachesim/\S+)\n(.*?)```", SECTION, re.S)
COMMANDS = SECTION.partition("```sh\n")[2].partition("```")[0].splitlines()
TESTS, CONVERSATION = (shlex.split(line)[1:] for line in COMMANDS)
NEEDED = ("cachesim", "tests/unit/model", "tests/unit/oracle", "tests/properties/test_bits.py", "pyproject.toml")
BOTH_FORMS = "tests/properties/test_bits.py::test_cached_path_is_the_cold_run"
STATES = "tests/unit/oracle/test_cold_run.py::test_states_and_rows_at_every_length"


def change(text: str, diff: str) -> str:
    """The text after every hunk of a diff without line numbers."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of what the commands need, with the snippets applied."""
    root = tmp_path_factory.mktemp("kind")
    for name in NEEDED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    for language, name, body in SNIPPETS:
        path = root / name
        path.write_text(body if language == "python" else change(path.read_text(), body))
    return root


def run(tree: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a module that runs in the tree."""
    done = subprocess.run([sys.executable, *words], cwd=tree, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def spoil(tree):
    """Replaces a text in a file of the package until the end of the test."""
    before = {}

    def replace(name: str, old: str, new: str) -> None:
        path = tree / "cachesim" / name
        text = before.setdefault(path, path.read_text())
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    yield replace
    for path, text in before.items():
        path.write_text(text)


def test_the_kind_is_in_at_most_four_files(tree):
    ours, theirs = ({path.relative_to(root) for path in (root / "cachesim").rglob("*") if path.suffix != ".pyc"}
                    for root in (ROOT, tree))  # fmt: skip
    new = {name for name in theirs - ours if name.name != "__pycache__"}
    changed = {name for name in ours & theirs if (ROOT / name).is_file()
               and not filecmp.cmp(ROOT / name, tree / name, shallow=False)}  # fmt: skip
    assert {str(name) for name in new | changed} == {name for _, name, _ in SNIPPETS}
    assert len(new | changed) <= 4


def test_the_new_files_keep_the_rules_of_the_house():
    for language, name, body in SNIPPETS:
        if language == "python":
            module = checks.parse(body, name.removeprefix("cachesim/").removesuffix(".py").replace("/", "."))
            assert [finding for check in checks.CHECKS for finding in check(module)] == []


@pytest.mark.parametrize("profile", ["llama_cpp@latest", "ik_llama@1889-base", "mlx_lm@d78bf58e"])
def test_a_conversation_is_right_and_continues_from_a_stored_state(tree, profile):
    assert CONVERSATION[-2:] == ["-p", "llama_cpp@latest"]
    code, out = run(tree, *CONVERSATION[:-1], profile, "--json")
    assert code == 0, out
    played = json.loads(out)["runs"][0]
    assert played["mode"] == "exact" and played["holds"] is True
    again = played["requests"][2]
    assert again["kept"] == 0 and again["restored"] + again["loaded"] >= 95


def test_a_known_fault_of_an_engine_shows_with_the_kind(tree):
    line = ["-m", "cachesim", "run", "S40.A20/S.A>3/B9@0/S.A.C5", "--model", "EA", "-p", "ik_llama@1889-base"]
    assert run(tree, *line)[0] == 1


def test_both_forms_are_the_same(tree):
    """The tests of CONTRIBUTING's command that concern the kind."""
    mine = "E-exact or E-provenance or at_every_length or layer_kinds or whole_sequence"
    code, out = run(tree, *TESTS, "-p", "no:cacheprovider", "-vv", "-k", mine)
    assert code == 0, out
    assert all(f"{BOTH_FORMS}[E-{mode}] PASSED" in out for mode in ("exact", "provenance"))


@pytest.mark.parametrize(("file", "old", "new", "found_with"), [
    ("model/moving_average.py", "h * (1.0 - NEW)", "h * (1.0 - 2 * NEW)", [True]),
    ("model/layer_kinds.py", "moving_average, 1, 0,", "moving_average, 2, 0,", [True, False]),
], ids=["factor", "reach"])  # fmt: skip
def test_a_fault_in_the_step_form_is_found(tree, spoil, file, old, new, found_with):
    spoil(file, old, new)
    assert run(tree, *CONVERSATION)[0] == 1
    _, out = run(tree, "-m", "pytest", "-p", "no:cacheprovider", STATES)
    assert [exact for exact in (True, False) if f"FAILED {STATES}[{exact}]" in out] == found_with
