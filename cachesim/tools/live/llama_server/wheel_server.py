"""Launcher of the llama-server in the wheel xllamacpp: an executable file that takes llama-server's flags.

    python -m cachesim.tools.live.llama_server.wheel_server PYTHON FOLDER

``run_server``, ``ServerStart`` and the recorder take it as any binary of llama.cpp. PYTHON is the interpreter of the
environment with the wheel, which `make slow` installs in `.venv-xllama`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_word
from cachesim.tools.live.llama_server import wheel_program

IMPORT_WITHIN = 60.0        # seconds
LAUNCHER = "llama-server"   # name of the file


def write_launcher(python: Path, folder: Path) -> Path:
    """Write the launcher for the wheel of an environment into a folder; return its path. ``python``: the interpreter of
    that environment. Raise BadInput if the environment lacks the wheel."""
    require_wheel(python)
    launcher = folder / LAUNCHER
    launcher.write_text(launcher_text(python), encoding="utf-8")
    launcher.chmod(0o755)
    return launcher


def launcher_text(python: Path) -> str:
    """Return the launcher's text for the interpreter of an environment with the wheel."""
    words = [str(python.absolute()), "-I", str(Path(wheel_program.__file__).absolute())]
    return f'#!/bin/sh\nexec {" ".join(map(shell_word, words))} "$@"\n'


def require_wheel(python: Path) -> None:
    """Raise BadInput unless the interpreter runs and imports the wheel."""
    if not os.access(python, os.X_OK):
        raise BadInput("not an executable file", file=str(python), hint="expected the interpreter of an environment")
    words = [str(python), "-I", "-c", f"import {wheel_program.WHEEL}"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=IMPORT_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"cannot be run: {error}", file=str(python)) from None
    if done.returncode:
        raise BadInput(f"this Python has no {wheel_program.WHEEL}", file=str(python),
                       hint="make .venv-xllama/.made installs it")  # fmt: skip


if __name__ == "__main__":
    try:
        write_launcher(Path(sys.argv[1]), Path(sys.argv[2]))
    except IndexError:
        sys.exit("python -m cachesim.tools.live.llama_server.wheel_server PYTHON FOLDER")
    except BadInput as bad:
        sys.exit(str(bad))
