"""Every install command that a page or a message prints, run in a fresh environment.

The commands run as printed, in a tagged clone of the tree with its distributions in ``dist/``. No container engine
builds the container file: its instructions run in a folder, with an environment of this Python in place of its image.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
from importlib.metadata import files, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cachesim import __version__
from cachesim.base.extras import install_command
from tests.packaging.install_commands import MESSAGES, packages_of_extras, printed
from tests.shared import ROOT
from tests.unit.tools.conformance.http_check.stand_in import Simulated, serving

pytestmark = pytest.mark.long
ELSEWHERE = ("docker ", "podman ", *map(install_command, MESSAGES), "pip install --no-cache-dir",
             "pip install -q llm-cachesim==", "python -m pip install --no-index", "pip install @REQUIREMENT@",
             'python -m pip install "$GITHUB_ACTION_PATH', "pip install '.[all]'", 'python -m pip install ".[all]"',
             "pre-commit install", "pip install dist/*.whl", "pip install dist/*.tar.gz", "pip install -e .",
             'python -m pip install "$(ls dist/*.whl)[all]"')
"""Beginnings of commands that another test of this file runs; `make release` runs the installation of a release, the
workflow of a release that of its pinned packages, `make live` that of a wheel in front of an exported program, and
test_ci_files.py that of the action. Other commands run the extra `all` and `pre-commit install`. The Makefile installs
the tree with `pip install -e .`; test_packaging.py builds a wheel from the sdist."""
INSTALLED_AS_A_CONTAINER = "pip install ."
BUILT = 'pip install "git+file:'
"""Beginning of a command that builds cachesim, with the build backend of this environment."""
RUN = ["run", "--as-expected", "-q", "llama-24143-entry-removed-dense"]
CONTAINER = ROOT / ".container" / "Containerfile"
TOKENIZER = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}}


@pytest.fixture(scope="session")
def checkout(built, tmp_path_factory):
    """A tagged clone of the tree, with its distributions."""
    place = tmp_path_factory.mktemp("clone") / "checkout"
    shutil.copytree(built.tree, place, ignore=shutil.ignore_patterns("*.egg-info"))
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", "-am", "all", f"v{__version__}"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    (place / "dist").mkdir()
    shutil.copy(built.sdist, place / "dist")
    shutil.copy(built.wheel, place / "dist")
    return place


def required_libraries(folder):
    """Return a folder with links to the packages that cachesim requires, and to what these require."""
    folder.mkdir()
    todo = ["llm-cachesim"]
    for name in todo:
        wanted = map(Requirement, requires(name) or ())
        todo += [one.name for one in wanted if one.name not in todo and (one.marker is None or one.marker.evaluate())]
    for name in todo[1:]:
        for part in {Path(file).parts[0] for file in files(name)} - {"..", "__pycache__"}:
            (folder / part).symlink_to(Path(sysconfig.get_path("purelib"), part))
    return folder


class Environment:
    """A fresh environment with a copy of our pip, in whose shell commands run. uv keeps its files beside it, and
    installs what cachesim requires; in other environments that is there already. ``is_filled``: all libraries of this
    environment are there."""

    def __init__(self, folder, is_filled):
        self.bin = folder / "env" / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        [site] = (folder / "env" / "lib").glob("python*/site-packages")
        for part in Path(sysconfig.get_path("purelib")).glob("pip*"):
            shutil.copytree(part, site / part.name)
        libraries = sysconfig.get_path("purelib") if is_filled else required_libraries(folder / "libraries")
        (site / "libraries.pth").write_text(f"{libraries}\n")                         # without its .pth files
        (self.bin / "pip").write_text(f'#!/bin/sh\nexec {self.bin}/python -m pip "$@"\n')
        (self.bin / "pip").chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        uv = {f"UV_{name}": str(folder / name) for name in ("TOOL_DIR", "TOOL_BIN_DIR")}
        quick = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}      # most byte code would never run
        if is_filled:
            quick["PIP_NO_BUILD_ISOLATION"] = "0"                                  # pip reads 0 as: no isolation
        self.variables = {**kept, **uv, **quick, "PATH": f"{self.bin}:{folder / 'TOOL_BIN_DIR'}:{os.environ['PATH']}",
                          "GITHUB_ACTION_PATH": ".github/actions/check"}  # fmt: skip

    def __call__(self, command, cwd):
        """Return exit code, stdout and stderr of a line."""
        done = subprocess.run(["bash", "-ec", command], cwd=cwd, env=self.variables, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def versions(self, cwd):
        """Return the versions of the installed packages by name."""
        listed = json.loads(self("pip list --format=json", cwd)[1])
        return {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in listed}

    def has_cachesim(self, cwd):
        """Return what the installed command prints as its version, after a scenario ran as expected."""
        code, _, err = self(shlex.join(["cachesim", *RUN]), cwd)
        assert code == 0, err
        return self("cachesim --version", cwd)[1].splitlines()[0]


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "h11"]
    if subprocess.run(words, cwd=tmp_path_factory.mktemp("index"), capture_output=True).returncode:
        pytest.skip("needs a package index")


@pytest.fixture
def environment(index, tmp_path, request):
    command = request.node.callspec.params["command"] if hasattr(request.node, "callspec") else ""
    return Environment(tmp_path, is_filled=command.startswith(BUILT))


COMMANDS = {one.removeprefix("python -m ").replace('"', "'"): one for one in printed()
            if not one.startswith(ELSEWHERE) and one != INSTALLED_AS_A_CONTAINER}  # fmt: skip
"""Commands by their words: one that is printed with and without ``python -m``, or in other quotes, runs once."""


@pytest.mark.parametrize("command", COMMANDS.values())
def test_an_install_command_works(environment, checkout, tmp_path, command):
    tool = re.search(r"\buvx?\b|pre-commit", command)
    if tool and "pip install" not in command and environment(f"pip install -q {tool[0].rstrip('x')}", tmp_path)[0]:
        pytest.skip(f"{tool[0]} cannot be installed here")
    code, out, err = environment(command, checkout)
    assert code == 0, err
    if packages := packages_of_extras(command):
        named = [re.split(r"[\[<>=~!]", package)[0] for package in packages]
        assert set(named) <= environment.versions(tmp_path).keys()
    elif pinned := re.search(r"-r (\S+)$", command):
        named = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", (checkout / pinned[1]).read_text("utf-8")))
        assert named and named.items() <= environment.versions(tmp_path).items()
    elif "pre-commit" in command:
        assert (checkout / ".git" / "hooks" / "pre-commit").is_file()
    else:
        version = out.splitlines()[0] if command.startswith("uvx") else environment.has_cachesim(tmp_path)
        assert version == f"cachesim {__version__}"


def test_a_wheel_then_what_messages_name_then_all_extras_are_installed(environment, checkout, tmp_path):
    assert environment("pip install dist/*.whl", checkout)[0] == 0
    assert environment.has_cachesim(tmp_path) == f"cachesim {__version__}"
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tmp_path / "template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    shutil.copy(ROOT / "tests/unit/tools/request_bodies/agent.jsonl", tmp_path / "bodies.jsonl")
    for extra, line in MESSAGES.items():
        with socket.create_server(("127.0.0.1", 0)) as used:
            port = used.getsockname()[1]
            asked = "cachesim " + line.format(port=port)
            code, _, err = environment(asked, tmp_path)
            assert code == 2 and install_command(extra) in err, err
            code, _, err = environment(install_command(extra), tmp_path)
            assert code == 0, err
            used.close() if extra == "cluster" else None       # here it would be a server that never answers
            code, _, err = environment(asked, tmp_path)
        assert code == 0 or (code == 2 and str(port) in err and "pip install" not in err), err
    for line in ('python -m pip install "$(ls dist/*.whl)[all]"', "pip check"):
        code, out, err = environment(line, checkout)
        assert code == 0, out + err


def test_every_message_with_a_command_is_listed():
    site = ROOT / "cachesim/pages/site"                  # not in the wheel
    every = [path for path in (ROOT / "cachesim").rglob("*.py") if site not in path.parents]
    modules = [path for path in every if path.name != "extras.py"]
    named = [one for path in modules for one in re.findall(r'install_command\("?([\w-]+)"?\)', path.read_text("utf-8"))]
    assert set(named) == set(MESSAGES)
    others = {path.name for path in modules if re.search(r"pip install|\buv ", path.read_text("utf-8"))}
    servers = {"affected_versions.py", "judged_loss.py", "program_text.py"}
    assert others == servers, "they say how a server is installed"


def test_the_container_file_makes_a_working_check(environment, checkout, tmp_path):
    root = tmp_path / "root"
    place = root
    for line in CONTAINER.read_text("utf-8").splitlines():
        name, _, rest = line.partition(" ")
        if name == "WORKDIR":
            place = root / rest.strip("/")
            place.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                folder = (checkout / source).is_dir()
                (shutil.copytree if folder else shutil.copy)(checkout / source, place / target)
        elif name == "RUN":
            code, _, err = environment(rest, place)
            assert code == 0, err
        elif name == "ENTRYPOINT":
            entry = json.loads(rest)
        else:
            assert name in ("#", "FROM", "USER"), line
    shutil.rmtree(root / "src")                                     # what is installed does not need the sources
    with serving(Simulated("llama_cpp@b11549").complete) as url:
        code, out, err = environment(shlex.join([*entry, url, "--requests", "60"]), tmp_path)
    assert code == 1 and "branch" in out, err


def test_a_page_shows_how_to_build_and_run_the_container():
    shown = {one for one in printed() if one.startswith("docker ")}
    head = {one[4:] for one in CONTAINER.read_text("utf-8").splitlines() if one.startswith("#   ")}
    assert head == shown and all((ROOT / one.split()[5]).samefile(CONTAINER) for one in shown if " build " in one)
