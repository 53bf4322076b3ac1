"""Program in place of a real llama-server: the simulator behind HTTP, started with llama-server's flags.

``python real_llama.py PROFILE WORD...`` runs under a rule set; the launcher reports the build."""

from __future__ import annotations

import os
import sys
from http.server import ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.scenarios.option_checks import filled
from tests.unit.tools.live.sim_server import Simulated

PYTHON = sys.executable             # a test may replace it by a stand-in
OWN = ("-m", "--host", "--port", "--alias", "--slot-save-path")
LAUNCHER = """#!/bin/sh
if [ "$1" = --version ]; then echo 'version: {number} (abc)'; exit; fi
FAR={far} PYTHONPATH='{root}' exec '{python}' '{program}' {profile} "$@"
"""


def launcher(folder, build, profile, name="llama-server", far=1.0):
    """Write an executable file for a build and a rule set; return its path. ``far``: difference of the
    log-probabilities of a wrong answer."""
    program = Path(__file__).resolve()
    text = LAUNCHER.format(number=build.removeprefix("b"), root=program.parents[4], python=PYTHON,
                           program=program, profile=profile, far=far)  # fmt: skip
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def handler_of(profile, words, far):
    """Return the handler of a server under a rule set, which was started with these words."""
    own, flags, rest = {}, [], list(words)
    while rest:
        word = rest.pop(0)
        if word in OWN:
            own[word] = rest.pop(0)
        else:
            flags.append(word)
    options = filled(read_flags(flags).options, "llama_cpp")
    model = Path(own["-m"]).stem.removeprefix("tiny-")
    return type("Handler", (Simulated,), {"profile": profile, "model": model, "options": options, "far": far,
                                          "props": {"model_alias": own["--alias"]}})  # fmt: skip


def main(profile, words):
    handler = handler_of(profile, words, float(os.environ["FAR"]))
    handler.begin()
    named = dict(pairwise(words))
    ThreadingHTTPServer((named["--host"], int(named["--port"])), handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
