"""Launcher of the llama-server in the wheel xllamacpp: an executable file that takes llama-server's flags.

    python -m cachesim.tools.live.llama_server.wheel_server PYTHON FOLDER

``run_server``, ``ServerStart`` and the recorder take it as any binary of llama.cpp. PYTHON is the interpreter of the
environment with the wheel, which `make slow` installs in `.venv-xllama`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_word
from cachesim.tools.live.llama_server import wheel_program
from cachesim.tools.live.llama_server.guarded_run import run_guarded

IMPORT_WITHIN = 60.0        # seconds
LAUNCHER = "llama-server"   # name of the file
_REPORT = (
    f"import {wheel_program.WHEEL} as wheel, importlib.metadata as metadata\n"
    f"build = getattr(wheel, 'BUILD_INFO', {{}}).get('build_number')\n"
    f"print(build or 0, metadata.version('{wheel_program.WHEEL}'))"
)


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
    reported_build(python)


def reported_build(python: Path) -> int:
    """Return the number of llama.cpp's build that the wheel of an environment reports, in its library or in its
    version; 0 = in neither. Raise BadInput unless the interpreter runs and imports the wheel."""
    words = [str(python.absolute()), "-I", "-c", _REPORT]
    try:
        done = run_guarded(words, python.absolute().parent, IMPORT_WITHIN)
    except BadInput as error:
        hint = error.hint or "expected the interpreter of an environment"
        raise BadInput(f"cannot be run: {error.cause}", file=str(python), hint=hint) from None
    found = re.fullmatch(r"(\d+) ([\d.]+)\s*", done.output)
    if done.returncode or found is None:
        raise BadInput(f"this Python has no {wheel_program.WHEEL}", file=str(python),
                       hint="make .venv-xllama/.made installs it")  # fmt: skip
    return int(found[1]) or int(wheel_program.build_of(found[2]))


if __name__ == "__main__":
    try:
        write_launcher(Path(sys.argv[1]), Path(sys.argv[2]))
    except IndexError:
        sys.exit("python -m cachesim.tools.live.llama_server.wheel_server PYTHON FOLDER")
    except BadInput as bad:
        sys.exit(str(bad))
