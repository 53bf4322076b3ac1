"""Workflows and actions: pinned actions, packages with hashes, inputs that are data, and few permissions."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.shared import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, *sorted((FOLDER / "actions").rglob("*.yml"))]
REQUIREMENTS = sorted((FOLDER / "requirements").glob("*.txt"))
URL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
OWN = f"{URL.split('/', 3)[3]}/.github/actions/check@TAG"


def scripts(text):
    """Return the scripts of the steps of a file: the text of each `run`, on its line or below it."""
    return re.findall(r"^ *(?:- )?run: (?!\|)(.+)$", text, re.M) + [
        block for _, block in re.findall(r"^( *)(?:- )?run: \|\n((?:\1 +.*\n)+)", text, re.M)]


def text_of(name):
    return (FOLDER / "workflows" / f"{name}.yml").read_text("utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_actions_are_pinned_and_scripts_contain_no_expression(file):
    text = file.read_text("utf-8")
    used = [one for one in re.findall(r"uses: (.+)$", text, re.M) if one != OWN]
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
    found = scripts(text)
    assert found and [script for script in found if "${{" in script] == []       # an input is data


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_only_read_and_ends(file):
    text = file.read_text("utf-8")
    assert text.partition("jobs:")[0].endswith("permissions:\n  contents: read\n")
    assert text.count("timeout-minutes:") == text.count("runs-on:") > 0
    assert "pull_request_target" not in text and "secrets." not in text


def test_only_the_job_that_runs_no_other_code_may_attest():
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text_of("release").partition("jobs:\n")[2], re.M))
    assert list(jobs) == ["build", "audit", "attest"]
    assert [name for name, job in jobs.items() if "write" in job] == ["attest"]
    assert "id-token: write" in jobs["attest"] and "attestations: write" in jobs["attest"]
    assert "needs: [build, audit]" in jobs["attest"] and "run:" not in jobs["attest"]
    assert "actions/attest-build-provenance@" in jobs["attest"]


def test_a_release_is_built_from_packages_with_hashes_and_audited():
    release, audit = text_of("release"), text_of("audit")
    build = release.partition("  audit:\n")[0]
    assert "pip download --require-hashes" in build and 'PIP_NO_INDEX: "1"' in build
    assert build.index("pip download") < build.index(".ci/release.py build") < build.index("upload-artifact")
    assert "cyclonedx-py environment" in release
    for text in (release, audit):
        assert {"release.txt", "audit.txt", "audited.txt"} == set(re.findall(r"pip-audit .*-r (?:\S+/)?(\S+)", text))
    assert "pip-audit" not in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.stem)
def test_each_package_has_a_version_and_hashes(file):
    packages = re.split(r"\n+(?=\S)", re.sub(r"^#.*\n", "", file.read_text("utf-8"), flags=re.M).strip())
    form = r"[\w.-]+==[\w.]+(?: ; .+)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\\n|$))+"
    assert [package for package in packages if not re.fullmatch(form, package)] == []
    wanted = re.findall(r"^[\w-]+", file.with_suffix(".in").read_text("utf-8"), re.M)
    assert set(wanted) <= {re.match(r"[\w.-]+", package)[0] for package in packages}


def test_the_texts_of_steps_are_found():
    text = "steps:\n  - run: a ${{ b }}\n  - name: c\n    run: |\n      d\n      e\n"
    assert scripts(text) == ["a ${{ b }}", "      d\n      e\n"]
