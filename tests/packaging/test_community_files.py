"""Files that people expect of a repository: the top level, the project's address, forms, citation, workflows."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib

import pytest

from cachesim.base.extras import requirements
from cachesim.cli.command_list import COMMANDS
from tests.packaging.install_commands import MESSAGES
from tests.shared import ROOT

SPEC = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)
TOP_LEVEL = {
    "cachesim", "scenarios", "tests", "pyproject.toml", "Makefile", "MANIFEST.in", "LICENSE", "README.md",
    "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "SECURITY.md",
}  # fmt: skip
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
URL = release.own_url(ROOT)


def tracked():
    """Return the names of the files under version control; without it, the test is skipped."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    return subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()


def test_the_top_level_has_the_expected_files_and_folders():
    top = {name.partition("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_issue_forms_ask_for_the_output_of_import():
    texts = {form.stem: form.read_text("utf-8") for form in FORMS}
    assert set(texts) == {"config", "re-evaluated", "wrong-simulation"}
    for name in ("re-evaluated", "wrong-simulation"):
        assert "cachesim import -" in texts[name] and "required: true" in texts[name]


def test_the_pull_request_form_asks_for_a_comparison_of_a_folder():
    text = (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text("utf-8")
    [folder] = re.findall(r"cachesim diff (\S+) -p \S+ -p \S+", text)
    assert (ROOT / folder).is_dir()


def test_commands_in_the_forms_exist():
    places = [*FORMS, ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"]
    named = {word for place in places for word in re.findall(r"[`$] ?cachesim ([a-z]+)", place.read_text("utf-8"))}
    assert {"import", "diff"} <= named <= set(COMMANDS)


def test_the_example_workflow_uses_inputs_of_the_action():
    folder = ROOT / ".github" / "actions" / "check"
    example, action = ((folder / name).read_text("utf-8") for name in ("example.yml", "action.yml"))
    [given] = re.findall(r"/actions/check@TAG\n +with:\n((?: {10}.*\n)+)", example)
    inputs = re.findall(r"^  ([a-z]+):$", action.partition("runs:")[0], re.M)
    assert set(re.findall(r"^ +([a-z]+):", given, re.M)) <= set(inputs) and "url" in given
    assert "cachesim-check.xml" in action and "path: cachesim-check.xml" in example


def test_the_own_workflow_runs_what_continuous_integration_runs():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert "run: .ci/run" in text and (ROOT / ".ci" / "run").exists()
    assert f"({URL}/actions/workflows/tests.yml/badge.svg)" in (ROOT / "README.md").read_text("utf-8")


def test_the_citation_has_what_its_format_requires():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert {"cff-version", "message", "title", "authors"} <= set(re.findall(r"^([a-z-]+):", text, re.M))
    assert f"repository-code: {URL}\n" in text


def test_security_names_a_private_report_and_the_limits():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    assert f"{URL}/security/advisories/new" in text and "cachesim/pages/limits.md" in text


def test_the_address_is_changed_in_every_file(tmp_path):
    names = [name for name in tracked() if URL in _text(name) or f"uses: {release._path(URL)}/" in _text(name)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    new = "https://example.org/me/kv-sim"
    assert sorted(release.set_url(tmp_path, new)) == sorted(names)
    assert release.own_url(tmp_path) == new
    assert [name for name in names if release._path(URL) in (tmp_path / name).read_text("utf-8")] == []
    with pytest.raises(SystemExit, match="not an address"):
        release.set_url(tmp_path, "example.org")


def _text(name):
    file = ROOT / name
    is_text = file.suffix in {".md", ".toml", ".yml", ".yaml", ".cff", ".py", ".mk", ""} and file.is_file()
    return file.read_text("utf-8", errors="replace") if is_text else ""


def test_all_extras_of_commands_are_in_all():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert "all" in extras
    assert {one for extra in (*MESSAGES, "gguf") for one in requirements(extra)} == set(requirements("all"))
