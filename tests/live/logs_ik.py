"""``python -m tests.live.logs_ik``: test of the comparison of imported ik_llama.cpp logs, without a real server.

A STAND-IN answers as a recording of a real ik_llama.cpp and writes the log that the server would have written. It tests
only this comparison, not the server; ``tests.live.ik.logs`` does that. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.live.check_ik import FOLDERS
from tests.live.logs_ik_written import write_step

WITHIN = 60                  # seconds for an answer
NAMES = ("slot", "n_tokens", "cache_n", "prompt_n", "predicted_n")
_OPENER = build_opener(ProxyHandler({}))


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.logs_ik", description=__doc__)
    parser.add_argument("--traces", type=Path, help="folder of recordings")
    args = parser.parse_args(argv)
    return stand_in(args.traces or next(folder for folder in FOLDERS if folder.is_dir()))


def ask(url, body):
    """Return slot, prompt, reused, evaluated and generated tokens of an answer; None if refused."""
    asked = Request(f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with _OPENER.open(asked, timeout=WITHIN) as reply:
            found = json.loads(reply.read())
    except HTTPError:
        return None
    times = found["timings"]
    total, evaluated = found["tokens_evaluated"], times["prompt_n"]
    return found.get("id_slot"), total, total - evaluated, evaluated, times.get("predicted_n")


def compare(lines, answers):
    """Compare numbers of the log with those of the answers: counts, and errors."""
    session = read_session("ik_llama", grammars()["ik_llama"], lines)
    found, truth = [one for one in session.requests if not one.is_refused], [one for one in answers if one is not None]
    counts, bad = Counter({"requests": len(truth)}), []
    if len(found) != len(truth):
        bad.append(("requests", len(found), len(truth)))
    for one, real in zip(found, truth, strict=False):
        said = [getattr(one, name) for name in NAMES]
        for name, number, true in zip(NAMES, said, real, strict=True):
            known = None not in (number, true)
            counts[f"{name} {'not known' if not known else 'right' if number == true else 'WRONG'}"] += 1
            bad += [(one.lines, name, number, true)] if known and number != true else []
    return counts, bad


def stand_in(folder):
    """Run every recording whose steps are answered completions."""
    counts, bad, played = Counter(), [], 0
    for file in sorted(folder.glob("*.json")):
        steps = json.loads(file.read_text("utf-8"))["steps"]
        if any(one["op"] != "completion" or one.get("response", {}).get("status") != 200 for one in steps):
            continue
        played += 1
        found, wrong = play(steps)
        counts.update(found)
        bad += [(file.stem, *one) for one in wrong]
    return _say(f"STAND-IN for ik_llama.cpp, answering from {played} recordings in {folder}", counts, bad) or not played


def play(steps):
    """Send a recording over HTTP; compare its log with the answers and the decisions."""
    from tests.unit.tools.conformance.http_check.stand_in import serving

    with TemporaryDirectory(prefix="cachesim-logs-") as folder:
        log, left = Path(folder) / "log", list(enumerate(steps))

        def complete(body):
            number, step = left.pop(0)
            with log.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{line}\n" for line in write_step(step, number))
            answer = step["response"]
            times = {name: answer[name] for name in ("prompt_n", "predicted_n")}
            return 200, {"id_slot": 0, "tokens_evaluated": answer["tokens_evaluated"], "timings": times}

        with serving(complete) as url:
            answers = [ask(url, step["request"]) for step in steps]
        lines = log.read_text("utf-8").split("\n")
    counts, bad = compare(lines, answers)
    for made, one in zip(steps, read_session("ik_llama", grammars()["ik_llama"], lines).requests, strict=False):
        for name, true in decisions(made["events"]).items():
            counts["decisions"] += 1
            bad += [(one.lines, name, getattr(one, name), true)] if getattr(one, name) != true else []
    return counts, bad


def decisions(events):
    """Return the recorded decisions of a request."""
    out = {"restored": None, "full": False, "created": ()}
    for event in events:
        if event["ev"] in ("cache_lcp", "ckpt_search"):
            out["lcp"], out["held"] = event["n_past"], event["n_tokens"]
        elif event["ev"] == "ckpt_restore":
            out["restored"] = event["n_past"]
        elif event["ev"] == "full_reprocess":
            out["full"] = True
        elif event["ev"] == "ckpt_create":
            out["created"] += (event["n_tokens"],)
    return out


def _say(what, counts, bad):
    print(what)
    for name, times in sorted(counts.items()):
        print(f"  {name:<24}{times:>7}")
    for one in bad[:20]:
        print("  differs:", *one)
    print(f"  {len(bad)} differences")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
