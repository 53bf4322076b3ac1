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


WORST_ROWS = """from cachesim.model.chosen_rows import Chooser, best, index_heads, index_scores, index_sums
from cachesim.model.chosen_rows import visible_rows


def worst_rows(q, k, rows, count):
    return best(-index_scores(q, k[:, 0]), visible_rows(rows), count)


WORST_ROWS = Chooser(index_heads, index_sums, worst_rows)
"""
WHOLE_WORST = """from cachesim.model.weights import KV_HEADS
from cachesim.oracle.whole_chosen import ChosenRead, SecondRows, best_of, index_numbers, read_chosen, scores_of
from cachesim.oracle.whole_parts import attention_heads


def worst_attention(u, weights, turn, layer):
    q, k, v = attention_heads(u, weights.into, turn)
    index = index_numbers(u, weights, turn)

    def choice(i):
        return [best_of(-scores_of(index.q[i], index.k[: i + 1]), layer.count)] * KV_HEADS

    return ChosenRead(read_chosen(q, k, v, choice), k, v, SecondRows(index.k[:, None], index.k[:, None, :0]))
"""
CHOOSING = (
    ("model/worst_rows.py", "", WORST_ROWS),
    ("model/layer_kinds.py", "from cachesim.model.weights import HEAD",
     "from cachesim.model.worst_rows import WORST_ROWS\nfrom cachesim.model.weights import HEAD"),
    ("model/layer_kinds.py", '    LayerKind("B",', '    LayerKind("X", "attention to the worst rows", '
     '_choosing(WORST_ROWS), numbers=("count",), newest=True),\n    LayerKind("B",'),
    ("oracle/whole_worst.py", "", WHOLE_WORST),
    ("oracle/whole_sequence.py", "\n\n\nclass WholeKind",
     "\nfrom cachesim.oracle.whole_worst import worst_attention\n\n\nclass WholeKind"),
    ("oracle/whole_sequence.py", '    "B":',
     '    "X": WholeKind(chosen=worst_attention, digests=chosen_digests),\n    "B":'),
)
"""A kind with an index, which reads the rows with the lowest scores: file, text, its replacement."""


@pytest.fixture
def choosing(tmp_path) -> Path:
    """A copy of the package with that kind, in four files."""
    shutil.copytree(ROOT / "cachesim", tmp_path / "cachesim")
    for name, old, new in CHOOSING:
        path = tmp_path / "cachesim" / name
        text = path.read_text() if old else ""
        assert text.count(old) == 1 or not old
        path.write_text(text.replace(old, new) if old else new)
    assert len({name for name, _, _ in CHOOSING}) == 4
    return tmp_path


def test_a_kind_with_an_index_needs_four_files_too(choosing):
    line = ["-m", "cachesim", "run", "A40.B9>3/A.C9/A[:20].D5", "--model", "X8", "-np", "1", "--json"]
    code, out = run(choosing, *line)
    assert code == 0, out
    played = json.loads(out)["runs"][0]
    assert played["mode"] == "exact" and played["holds"] is True
    assert [one["kept"] for one in played["requests"]] == [0, 40, 20]
    spoilt = choosing / "cachesim" / "model" / "worst_rows.py"
    spoilt.write_text(WORST_ROWS.replace("best(-", "best("))
    assert run(choosing, *line)[0] == 1
    code, out = run(choosing, "-m", "cachesim", "run", "A5/A", "--model", "X8", "-p", "vllm@latest")
    assert code == 2 and "vllm has no layers of kind X" in out


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
