"""Other Pythons and older packages: `python .ci/pythons.py smoke|oldest|matrix`. Standard library only.

smoke    every other Python of this machine installs cachesim, imports it and runs a scenario
oldest   tests of the modules that call NumPy, rich, h11, Jinja, tokenizers, shtab, hypothesis, with the oldest versions
         that pyproject.toml allows
matrix   the main suite on every Python of this machine

A missing Python is reported and skipped, without an error. Environments lie below `.venv-ci/` and are reused until
pyproject.toml changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv-ci"
MINORS = (11, 12, 13, 14)                          # as the classifiers of pyproject.toml
OLDEST = (
    "numpy==1.26.0", "rich==13.0.0", "markdown-it-py==2.2.0", "pytest==8.0.0", "hypothesis==6.122.0",
    "distributed==2024.8.0", "jinja2==3.1.0", "tokenizers==0.20.0", "shtab==1.9.3", "h11==0.14.0",
)
OLDEST_MINORS = (11, 12)                           # NumPy 1.26 has no wheels for later ones
UNIT = "tests/unit"
OLDEST_TESTS = (
    *(f"{UNIT}/{folder}" for folder in ("base", "model", "oracle", "tools/lessons")),
    *(f"{UNIT}/engines/{engine}/test_feature_conversations.py" for engine in ("ik_llama", "llama_cpp", "mlx_lm")),
    *(f"{UNIT}/engines/{engine}/test_conversations.py" for engine in ("sglang", "vllm")),
    *(f"{UNIT}/tools/{tool}/test_outputs.py" for tool in ("advise", "request_bodies", "run", "search", "server_logs")),
    *(f"{UNIT}/tools/request_bodies/test_{name}.py" for name in ("template", "template_parser", "tokenizer")),
    *(f"{UNIT}/cli/test_{name}.py" for name in ("completion", "hostile_text", "main", "output_options")),
    f"{UNIT}/strategies/test_conversation_strategies.py", f"{UNIT}/strategies/test_server_strategies.py",
    f"{UNIT}/tools/picture/test_whole_pictures.py", f"{UNIT}/tools/playground/test_page.py",
    f"{UNIT}/tools/watch/test_relay.py", "tests/conformance", "tests/house/test_startup.py",
)
"""The modules that call Hypothesis, Jinja, tokenizers, shtab and h11; for NumPy and rich, whole conversations of every
engine and outputs of five commands."""
SMOKE = (
    ("-c", "import cachesim; assert all(callable(getattr(cachesim, name)) for name in cachesim.__all__)"),
    ("-m", "cachesim", "run", "--as-expected", "llama-24143-entry-removed-dense", "ik-1889-no-refusal-hybrid",
     "mlx-1006-ragged-crash-hybrid"),
    ("-m", "cachesim", "run", "S40.A60>r4/B70/S.A"),
)


def version(python: str) -> tuple[int, int] | None:
    """Its version, None if it does not run (a pyenv shim without a version behind it, for example)."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.fullmatch(r"(\d+) (\d+)\s*", done.stdout)
    return (int(found[1]), int(found[2])) if done.returncode == 0 and found else None


def pythons() -> dict[int, str]:
    """Minor version -> an interpreter: of the PATH, else of pyenv."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in MINORS:
        places = [shutil.which(f"python3.{minor}"), *map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python3")))]
        for place in filter(None, places):
            if version(place) == (3, minor):
                found[minor] = place
                break
    return found


def environment(name: str, python: str, *packages: str) -> str:
    """Return the interpreter of an environment with these packages, created if missing or older than pyproject.toml."""
    folder = HOME / name
    stamp, mine = folder / ".made", str(folder / "bin" / "python")
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        say(f"creating {folder.relative_to(ROOT)}")
        shutil.rmtree(folder, ignore_errors=True)
        run([python, "-m", "venv", "--without-pip", str(folder)])
        run([sys.executable, "-m", "pip", "--python", mine, "--disable-pip-version-check", "--quiet", "install",
             "--no-compile", *packages])
        stamp.touch()
    return mine


def run(command: list[str], quiet: bool = False) -> None:
    """Run a command in the checkout and exit if it fails. ``quiet``: show its output only then."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=quiet, text=True)
    if done.returncode:
        print(done.stdout or "", done.stderr or "", file=sys.stderr)
        sys.exit(f".ci/pythons.py: exit code {done.returncode}: {' '.join(command)}")


def say(text: str) -> None:
    print(text, flush=True)


def smoke() -> None:
    """Import cachesim and run a scenario on every Python except that of the suite."""
    there = pythons()
    for minor in MINORS:
        if minor == sys.version_info[1]:
            continue
        if minor not in there:
            say(f"Python 3.{minor}: not on this machine, left out")
            continue
        python = environment(f"smoke-3.{minor}", there[minor], "-e", ".")
        for words in SMOKE:
            run([python, *words], quiet=True)
        say(f"Python 3.{minor}: imports and runs")


def oldest() -> None:
    """The tests that need no real server with the oldest packages allowed."""
    there = pythons()
    minor = next((one for one in OLDEST_MINORS if one in there), None)
    if minor is None:
        say(f"oldest packages: no Python of 3.{', 3.'.join(map(str, OLDEST_MINORS))} on this machine, left out")
        return
    python = environment("oldest", there[minor], *OLDEST, "gguf", "setuptools", "pytest-xdist", "-e", ".")
    say(f"oldest packages, Python 3.{minor}: {' '.join(OLDEST)}")
    run([python, "-m", "pytest", "-n", "2", "--dist", "loadfile", *OLDEST_TESTS, *sys.argv[2:]])


def matrix() -> None:
    """The whole suite on every Python."""
    there = pythons()
    for minor in MINORS:
        if minor not in there:
            say(f"Python 3.{minor}: not on this machine, left out")
            continue
        say(f"Python 3.{minor}")
        run([environment(f"dev-3.{minor}", there[minor], "-e", ".[dev]"), "-m", "pytest", *sys.argv[2:]])


if __name__ == "__main__":
    tasks = {"smoke": smoke, "oldest": oldest, "matrix": matrix}
    if len(sys.argv) < 2 or sys.argv[1] not in tasks:
        sys.exit(f"usage: python .ci/pythons.py {'|'.join(tasks)}")
    tasks[sys.argv[1]]()
