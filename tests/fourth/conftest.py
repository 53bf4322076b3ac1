"""The fourth engine: imported from its folder, and installed from its own wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cachesim.engines import registry
from cachesim.engines.rule import RULES
from tests.shared import ROOT

BLOCKS = Path(__file__).parent / "blocks"


@pytest.fixture(scope="module")
def engine():
    """The engine, known as if it were installed. Afterwards all is as it was."""
    modules = set(sys.modules)
    sys.path.insert(0, str(BLOCKS))
    try:
        from blockpool import ENGINE

        registry.ENGINES._take_engine(ENGINE, "tests")
        yield ENGINE
        registry.ENGINES._names.remove(ENGINE.name)
        del registry.ENGINES._known[ENGINE.name]
    finally:
        sys.path.remove(str(BLOCKS))
        for rule_id in [one for one, fn in RULES.items() if fn.__module__.partition(".")[0] == "blockpool"]:
            del RULES[rule_id]
        for name in set(sys.modules) - modules:
            if name.partition(".")[0] == "blockpool":
                del sys.modules[name]


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Run a command of cachesim where the engine's wheel is installed; return exit code, stdout and stderr."""
    pytest.importorskip("setuptools", minversion="77.0.3", reason="the build backend is not installed (extra `dev`)")
    folder = tmp_path_factory.mktemp("fourth")
    shutil.copytree(BLOCKS, folder / "tree", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    hook = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", hook, folder], cwd=folder / "tree", check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    site = folder / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
                    "--disable-pip-version-check", "--target", site, wheel], check=True)  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]), "COLUMNS": "200"}

    def run(*words):
        done = subprocess.run([sys.executable, "-m", "cachesim", *map(str, words)], cwd=folder, env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run
