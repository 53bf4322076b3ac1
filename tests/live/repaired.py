"""``python -m tests.live.repaired``: comparison of the repaired rules with a server that has those edits.

For each change its conversation is run on b11549 and on b11549 with all edits (``repairs.toml``): the first must answer
like the simulated b11549, wrong at the same request; the second like ``latest-repaired``, and never wrong. Then drawn
conversations are run on the second. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import write_flags
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.player import Player
from tests.live import build
from tests.live.__main__ import CACHE
from tests.live.__main__ import main as campaign
from tests.live.beside import Beside
from tests.live.kits import AMPLIFIED, ROUNDING
from tests.live.named import log_cut_off
from tests.live.worlds import write_models

FOLDER = Path(__file__).resolve().parents[2] / "scenarios" / "llama_cpp" / "repairs"
MORE = ("llama-waiting-request-holds-cells", "llama-completions-wait-in-full-context", "llama-completion-copied-early",
        "llama-completions-fill-window-ring", "llama-empty-slot-file-keeps-cells")  # fmt: skip
"""Conversations in other folders that fail without an edit."""
SERVERS = {"llama_cpp@b11549": "b11549", "llama_cpp@b11549-repaired": "b11549-repaired"}


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.repaired", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="drawn conversations, earlier runs included")
    parser.add_argument("--minutes", type=float, default=10, help="for the drawn ones")
    args = parser.parse_args(argv)
    codes = 0
    try:
        binaries = {profile: build.binary(commit) for profile, commit in SERVERS.items()}
    except build.Missing as why:
        print(why, file=sys.stderr)
        return 2
    write_models(CACHE / "models")
    for file in (*sorted(FOLDER.glob("*.toml")), *(corpus_files()[name] for name in MORE)):
        for profile, binary in binaries.items():
            said, differs = look(load(file), profile, binary)
            codes |= differs
            print(f"{file.stem:16} {SERVERS[profile]:16} {said}", flush=True)
    profile, binary = list(binaries.items())[-1]
    drawn = ["--server", binary, "--commit", "b11549", "--profile", profile, "-n", args.n, "--minutes", args.minutes,
             "--state", CACHE / "state-repaired"]  # fmt: skip
    return codes or campaign(list(map(str, drawn)))


def look(scenario, profile, binary):
    """Compare a server with the simulator under this profile; return a description, and whether they differ."""
    try:
        player = Player(scenario)
        found = find_model(scenario.model)
    except BadInput as bad:
        return f"not played: {bad.cause}", False
    rounding = AMPLIFIED if found.arch == "gemma3" else ROUNDING
    start = ServerStart(binary, CACHE / "models" / found.file, tuple(write_flags(scenario.server)), "b11549")
    beside = Beside()
    try:
        with Recorder(start, rounding=rounding) as recorder:
            for _ in player.run(recorder.play):
                pass
            data = {**recorder.trace(), "profile": profile.partition("@")[2]}
        difference = beside.hear(data)
    except BadInput as bad:
        return f"not played: {bad.cause}", False
    finally:
        beside.close()
    if difference is not None and not log_cut_off(difference, data, ()):
        return f"DIFFERS: {difference}", True
    wrong = beside.found.broken
    died = any(step.get("died") for step in data["steps"])
    said = "process ends" if died else f"wrong at {', '.join(map(str, wrong))}" if wrong else "right"
    notes = f" ({'; '.join(player.notes)})" if player.notes else ""
    return f"{beside.steps} steps as ours, {said}{notes}", False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
