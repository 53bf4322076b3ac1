"""The sdist, the wheel made from it, and an environment in which only the wheel is installed.

No network is used: setuptools and the libraries that the wheel needs are those of the current environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shared import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist",
)  # fmt: skip
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
BUILDING = {**ENVIRONMENT, "SOURCE_DATE_EPOCH": "1700000000"}      # two builds have the same bits
HOOK = "import sys, setuptools.build_meta as b; print('made:', getattr(b, sys.argv[1])(sys.argv[2]))"


class Built(NamedTuple):
    """Built distributions."""

    tree: Path           # copy of the files under version control
    sdist: Path
    unpacked: Path       # contents of the sdist
    wheel: Path
    output: str          # output of both builds


def hook(name, source, out):
    """Return the file that a hook of the build backend creates, and its output."""
    done = subprocess.run([sys.executable, "-W", "default", "-c", HOOK, name, str(out)], cwd=source, env=BUILDING,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / done.stdout.rpartition("made: ")[2].strip(), done.stdout + done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77.0.3", reason="the build backend is not installed (extra `dev`)")
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    sdist, output = hook("build_sdist", tree, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    [unpacked] = (folder / "sdist").iterdir()
    clean = folder / "clean"
    shutil.copytree(unpacked, clean)
    wheel, more = hook("build_wheel", clean, folder)
    return Built(tree, sdist, unpacked, wheel, output + more)


@pytest.fixture(scope="session")
def installed(built, tmp_path_factory):
    """Return a function that runs a command line in the environment with the wheel, in an empty folder, and returns
    exit code, stdout and stderr."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
                    built.wheel], check=True)  # fmt: skip
    [site] = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")     # without its .pth files
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()

    def run(words):
        done = subprocess.run([python.parent / words[0], *words[1:]], cwd=elsewhere, env=ENVIRONMENT,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run
