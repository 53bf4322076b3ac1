"""``python -m tests.live.check_ik``: `cachesim check` on ik_llama.cpp.

If IK_SERVER names its server, this server is checked with tiny models. Otherwise a STAND-IN answers the recorded
conversations as a recording of a real ik_llama.cpp does, in that server's format; it proves nothing beyond the
recording. Every answer that was recorded as wrong must raise an alarm, and no other answer may. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path

from cachesim.base.tokens import common_prefix
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.tools.conformance.client_history import SLOTS, HistoryPart, history_from_tree
from cachesim.tools.conformance.compare_replies import near
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.known_faults import LEAST
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.http_check.warm_run import ServerRunner
from cachesim.tools.conformance.properties import VERSUS_COLD, checks

FOLDERS = (Path("../shared/traces/ik_llama"), Path(__file__).resolve().parents[1] / "data" / "ik_llama")
PROPS = {"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}}
KNOWN = {"prompt", "n_predict", "cache_prompt"}
MODELS = ("tiny-GA.gguf", "tiny-gemma3l6.gguf", "tiny-A.gguf")      # as written by tests.live.ik.models


class Unplayable(Exception):
    """Raised for a recording that is not a history of the check."""


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_ik", description=__doc__)
    parser.add_argument("--traces", type=Path, help="folder of recordings")
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache" / "cachesim-live" / "models" / "ik")
    args = parser.parse_args(argv)
    if os.environ.get("IK_SERVER"):
        return real(Path(os.environ["IK_SERVER"]), args.models)
    return stand_in(args.traces or next(folder for folder in FOLDERS if folder.is_dir()))


def real(binary, models):
    """Check a real server and print the findings without judging them."""
    from tests.live.build import is_ik
    from tests.live.check_server import started

    if not is_ik(binary):
        print(f"{binary}: no ik_llama.cpp, not checked here")
        return 0
    for model in MODELS:
        with started(binary, models / model, alone=("--log-disable",)) as url:
            http = Http(url, 60, 5_000)
            found = check(http, identify_server(http), CheckOptions(examples=20))
            http.close()
        print(f"{binary}, {model}:\n{found.report}")
    return 0


def stand_in(folder):
    """Run every recording that the check could have requested."""
    played = alarms = wrong = bad = 0
    left = []
    for file in sorted(folder.glob("*.json")):
        data = json.loads(file.read_text("utf-8"))
        try:
            found, recorded = play(data)
        except Unplayable as why:
            left.append(f"{file.stem}: {why}")
            continue
        played, alarms, wrong, bad = played + 1, alarms + len(found), wrong + len(recorded), bad + (found != recorded)
        if found != recorded:
            print(f"{file.stem}: alarms {sorted(found)}, recorded as wrong {sorted(recorded)}")
    print("\n".join(f"not played: {one}" for one in left))
    print(f"STAND-IN for ik_llama.cpp, answering from {played} recordings in {folder}: {alarms} alarms, {wrong} "
          f"answers recorded as wrong, {bad} recordings differ, {len(left)} not played")  # fmt: skip
    return int(bool(bad or not played))


def play(data):
    """Return the requests of a recording that raise alarms, and those recorded as wrong. Raise Unplayable."""
    history = history_of(data["steps"])
    with Script(data["steps"]) as script:
        http = Http(script.url, 10, 1_000)
        stage = ServerRunner(http, identify_server(http), near(0.0))
        stage.twice = 0
        played = stage.play(history)
        http.close()
    judged = checks(played, NearAnswers(LEAST))
    found = {check.request for check in judged if check.name in VERSUS_COLD and not check.ok}
    return found, {number for number, step in enumerate(data["steps"]) if size_of(step) > LEAST}


def size_of(step):
    """Return the distance of a recorded answer from its cold run."""
    cold = step.get("cold") or {"equal": True}
    tie = cold.get("cold_margin", 1.0) <= LEAST
    return cold.get("max_dlogprob", 0.0) if cold["equal"] or tie else 9.0


def history_of(steps):
    """Return the recorded prompts in words: parts shared with earlier prompts and answers, and new parts."""
    words, asked, seen = {}, [], []
    for number, step in enumerate(steps):
        if step.get("op") != "completion" or set(step["request"]) - KNOWN or step["response"].get("status") != 200:
            raise Unplayable("more than completions of a prompt that are answered")
        prompt, answer = step["request"]["prompt"], step["response"]["tokens"]
        best = max(seen, key=lambda one: common_prefix(prompt, one[0]), default=((), ()))
        shared = common_prefix(prompt, best[0])
        new, said = (f"{'AB'[number // 26]}{chr(97 + number % 26)}", f"{'XY'[number // 26]}{chr(97 + number % 26)}")
        parts = [
            *_first(best[1], shared),
            *([HistoryPart(new, len(prompt) - shared)] if len(prompt) > shared else []),
        ]
        words |= {new: len(prompt) - shared} if len(prompt) > shared else {}
        words[said] = len(answer)
        pieces = tuple(Piece(part.word, False, 0, part.tokens) for part in parts)
        asked.append(LineRequest(prompt=pieces, answer=(Piece(said),), n_predict=len(answer),
                                 cache_prompt=step["request"].get("cache_prompt", True)))  # fmt: skip
        seen.append(((*prompt, *answer), [*parts, HistoryPart(said, len(answer))]))
    if len(words) > SLOTS or not all(words.values()):
        raise Unplayable("more words than a history has")
    return history_from_tree(ScenarioLine(words, tuple(asked)))


def _first(parts, most):
    out = []
    for part in parts:
        if most > 0:
            out.append(part._replace(tokens=min(part.tokens, most)))
        most -= part.tokens
    return out


class Script:
    """Server of a recording: after another prompt all requests warm, then all cold. Tokens may differ, but their counts
    must be those recorded."""

    def __init__(self, steps):
        self.steps, self.at, self.lock = steps, -1, threading.Lock()

    def __enter__(self):
        from tests.unit.tools.conformance.http_check.stand_in import serving

        self.running = serving(self.complete, PROPS)
        self.url = self.running.__enter__()
        return self

    def __exit__(self, *what):
        self.running.__exit__(*what)

    def complete(self, body):
        with self.lock:
            number, self.at = self.at, self.at + 1
        if number < 0:
            return 200, _reply([1], 0.0, len(body["prompt"]), len(body["prompt"]))
        step, cold = self.steps[number % len(self.steps)], number >= len(self.steps)
        response = step["response"]
        if len(body["prompt"]) != len(step["request"]["prompt"]):
            return 400, {"error": "another prompt than was recorded"}
        evaluated = len(body["prompt"]) if cold else response["prompt_n"]
        return 200, _reply(response["tokens"], 0.0 if cold else size_of(step), evaluated, len(body["prompt"]))


def _reply(tokens, far, evaluated, total):
    """Return a reply in ik_llama.cpp's format: probabilities of texts, without a number of cached tokens."""
    probs = [{"tok_str": f"<{n}>", "prob": 2.718281828 ** (-1 - n - far)} for n in range(4)]
    return {"content": "".join(f"<{token}>" for token in tokens), "tokens": tokens, "tokens_evaluated": total,
            "timings": {"prompt_n": evaluated},
            "completion_probabilities": [{"content": "<0>", "probs": probs} for _ in tokens]}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
