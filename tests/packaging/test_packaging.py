"""Contents of the distributions: the corpus in the wheel, the tests in the sdist, the README in both."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from email.policy import default
from pathlib import Path

import pytest

from cachesim import __version__
from cachesim.base.exits import BAD_INPUT
from tests.docs.examples import README, examples, piped
from tests.docs.here import under_named
from tests.docs.test_readme import ALL, complaints, typed
from tests.shared import ROOT

pytestmark = pytest.mark.long
COMMANDS = {command.split()[1]: (command, output) for command, output in examples(ALL)
            if command.startswith("cachesim ") and " tests/" not in command}  # fmt: skip
"""An example of each command; tests/docs runs all of them in the tree."""
TYPED = {line.split()[1]: line for line in typed("llama-24143-entry-removed-dense", ROOT)}
TYPED["repair"] = "cachesim repair ik_llama@1889-base --model GA --examples 4 --seed 3"
"""A command of the symptom table each; ``repair`` with a smaller input."""


def files(folder):
    """Return the files below a folder, by their relative paths."""
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def metadata(built):
    with zipfile.ZipFile(built.wheel) as archive:
        text = archive.read(f"llm_cachesim-{__version__}.dist-info/METADATA")
    return BytesParser(policy=default).parsebytes(text)


def test_building_gives_no_warning(built):
    said = re.sub(r"\S+\.toml", "", built.output.lower())            # names of scenarios
    assert [word for word in ("deprecat", "warning", "absent", "ignored") if word in said] == [], built.output


def test_the_sdist_holds_everything_that_is_under_version_control(built):
    made = {name for name in files(built.unpacked) if name.startswith("llm_cachesim.egg-info/")}
    assert files(built.tree) - made - files(built.unpacked) == set()
    assert files(built.unpacked) - made - files(built.tree) == {"PKG-INFO", "setup.cfg"}


def _packed(name):
    plain = ("FAULTS.md", "COMMON.txt", "SHOWN_IN.txt", "SEEN_ON.txt")
    return name.endswith(".toml") or name.startswith("lessons/") or name in plain


def test_the_wheel_holds_the_package_and_the_corpus(built):
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    ours = {f"cachesim/{name}" for name in files(built.unpacked / "cachesim") if not name.startswith("pages/site/")}
    corpus = {f"cachesim/_corpus/{name}" for name in files(built.unpacked / "scenarios") if _packed(name)}
    info = f"llm_cachesim-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == ours | corpus
    assert f"{info}licenses/LICENSE" in names


def test_the_metadata_for_the_package_index_is_complete(built):
    about = metadata(built)
    assert (about["License-Expression"], about["Description-Content-Type"]) == ("MIT AND Apache-2.0", "text/markdown")
    assert about.get_payload(decode=True).decode("utf-8").strip() == README.read_text("utf-8").strip()
    assert about["Author"] and about["Keywords"] and about["Summary"] and len(about.get_all("Project-URL")) >= 3
    kinds = about.get_all("Classifier")
    assert "Framework :: Pytest" in kinds and not [one for one in kinds if one.startswith("License")]


def test_the_sdist_is_enough_to_run_tests(built):
    some = ["tests/unit/scenarios/test_corpus.py", "tests/unit/tools/conformance/test_history.py",
            "tests/unit/scenarios/test_load.py"]
    done = subprocess.run([sys.executable, "-m", "pytest", *some, "-p", "no:cacheprovider"], cwd=built.unpacked,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_corpus_is_the_installed_one(installed):
    code, out, err = installed(["cachesim", "scenarios", "--folder"])
    assert (code, err) == (0, "") and out.strip().endswith("site-packages/cachesim/_corpus")
    assert files(out.strip()) == {name for name in files(ROOT / "scenarios") if _packed(name)}


@pytest.mark.parametrize(("command", "output"), COMMANDS.values(), ids=lambda text: text[:40])
def test_an_example_of_the_documents_works_with_the_installed_wheel(installed, command, output):
    command, *pipes = under_named(command, output).split(" | ")
    code, out, err = installed(shlex.split(command))
    foreign = [line for line in complaints(err) if not line.startswith("cachesim: ")]      # notes are ours
    assert code != BAD_INPUT and foreign == [] and piped(out, pipes) == output


@pytest.mark.parametrize("command", [line for name, line in TYPED.items() if name not in COMMANDS])
def test_a_command_of_the_symptom_table_works_with_the_installed_wheel(installed, command):
    code, out, err = installed(shlex.split(command))
    assert code in (0, 1) and not complaints(err, command) and len(out.splitlines()) >= 3


def test_the_kit_and_the_plugin_are_installed(installed):
    code, out, err = installed(["python", "-c", "import cachesim; print(cachesim.conform.__module__)"])
    assert (code, out, err) == (0, "cachesim.tools.conformance.suite\n", "")
    code, out, err = installed(["python", "-m", "pytest", "--help"])
    assert code == 0 and "--cachesim-profile" in out, err
