"""Mutated server logs: lines are dropped, repeated, mixed, wrapped and cut; numbers and prefixes are changed."""

from __future__ import annotations

import json
import re
from functools import cache

from tests.hostile.mutant import Mutant
from tests.hostile.nasty import INTEGERS, NUMBERS, TEXTS, WORDS
from tests.hostile.tame import tame
from tests.hostile.written import flipped
from tests.shared import ROOT

OURS = ROOT / "tests/unit/tools/server_logs"
HASTY = 0.8                  # share of imports whose search for a run is short
BYTES = 0.15                 # share of the mutants with changed bytes in addition
MOST = 120                   # lines of a log to mutate, at most
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
OTHERS = (
    # ik_llama.cpp
    "INFO [   launch_slot_with_task] slot is processing task | tid=\"1\" timestamp=1 id_slot=0 id_task=1\n"
    "======== Cache: cache_size = 0, n_past =  0, n_past_prompt = 0\n"
    "INFO [    batch_pending_prompt] kv cache rm [p0, end) | tid=\"1\" timestamp=1 id_slot=0 id_task=1 p0=0\n"
    "slot create_check: id  0 | task 1 | created context checkpoint 1 of 6 (pos_min = 71, pos_max = 71, n_tokens = 72, "
    "size = 1.651 MiB, took 1.67 ms)\n"
    "slot apply_checkp: id  0 | task 2 | n_past = 70, slot.prompt.tokens.size() = 100, seq_id = 0, pos_min = 99\n"
    "slot apply_checkp: id  0 | task 2 | restored context checkpoint took  4.38 ms (pos_min = 61, pos_max = 61, "
    "n_tokens = 62, n_past = 62, size = 1.012 MiB)\n",
    # mlx_lm.server
    "2026-11-21 14:18:57,101 - INFO - Prompt Cache: 2 sequences, 0.50 GB\n"
    "2026-11-21 14:18:57 [cache_wrapper][INFO]: Prompt cache: using 0/396 tokens from cache\n"
    "2026-11-21 14:18:58 [cache_wrapper][INFO]: Prompt cache: using 390/420 tokens from cache\n",
    # old builds
    "slot 0 is processing [task id: 205]\nslot 0 : in cache: 36 tokens | to process: 188 tokens\n"
    "slot 0 : kv cache rm - [36, end)\nslot 0: context shift - n_keep = 22, n_left = 38, n_discard = 19\n"
    "print_timings: prompt eval time =    1728.17 ms /    14 tokens (  123.44 ms per token)\n"
    "print_timings:        eval time =     724.57 ms /    12 runs\n**slot 0 released (27 tokens in cache)**\n",
    # something else
    "INFO 08-01 [core.py:58] Initializing a V1 LLM engine\n[GIN] 2026/11/21 - 10:00:00 | 200 | 1s | POST /api/chat\n",
)
PREFIXES = (
    lambda line, n: f"May 22 01:30:{n % 60:02} pc llama-server[7]: {line}", lambda line, n: f"[37709] {line}",
    lambda line, n: json.dumps({"log": line + "\n", "time": n}), lambda line, n: f"\x1b[32m{line}\x1b[0m\r",
    lambda line, n: f"мая 22 01:30:{n % 60:02} pc llama[7]: {line}", lambda line, n: f"llama-1  | {line}",
    lambda line, n: json.dumps({"type": "log", "level": "info", "msg": line}), lambda line, n: "> " + line,
)


@cache
def server_logs():
    """Return logs as lists of lines."""
    texts = [file.read_text("utf-8") for file in sorted(OURS.glob("*.log"))]
    return [text.splitlines() for text in (*texts, *OTHERS)]


def _part(rng):
    lines = rng.choice(server_logs())
    first = rng.choice((0, 0, rng.randrange(len(lines))))
    return list(lines[first : first + MOST])


def _numbers(rng, lines):
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(lines))
        found = list(_NUMBER.finditer(lines[at]))
        if found:
            number = rng.choice(found)
            value = str(rng.choice((*INTEGERS, *NUMBERS, rng.randrange(200), int(number[0].partition(".")[0][:9]) + 1)))
            lines[at] = lines[at][: number.start()] + value + lines[at][number.end() :]
    return lines


def _places(rng, lines):
    """Drop, repeat, swap or split lines."""
    for _ in range(rng.randrange(1, 6)):
        at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
        what = rng.randrange(4)
        if what == 0 and len(lines) > 1:
            del lines[at]
        elif what == 1:
            lines[to:to] = [lines[at]] * rng.choice((1, 1, 2, 300))
        elif what == 2:
            lines[at], lines[to] = lines[to], lines[at]
        else:
            cut = rng.randrange(len(lines[at]) + 1)
            lines[at : at + 1] = [lines[at][:cut], lines[at][cut:]]
    return lines


def _mixed(rng, lines):
    """Interleave two logs, as if two processes wrote to a file."""
    second, out = _part(rng), []
    while lines or second:
        source = lines if not second or (lines and rng.random() < 0.5) else second
        out.append(source.pop(0))
    return out


def _wrapped(rng, lines):
    prefix = rng.choice(PREFIXES)
    return [prefix(line, number) for number, line in enumerate(lines)]


def _words(rng, lines):
    at = rng.randrange(len(lines))
    words = lines[at].split(" ")
    words[rng.randrange(len(words))] = rng.choice((*WORDS, *TEXTS, "9" * 5000))
    lines[at] = " ".join(words)
    return lines


BENT = (_numbers, _numbers, _places, _places, _mixed, _wrapped, _words)


def _bent(rng):
    """Return the bytes of a mutated log."""
    lines = _part(rng)
    for _ in range(rng.randrange(1, 4)):
        lines = rng.choice(BENT)(rng, lines) or [""]
    data = ("\n".join(lines) + rng.choice(("", "\n"))).encode("utf-8", "surrogatepass")
    return flipped(data, rng) if rng.random() < BYTES else data


def watched_log(rng, number):
    """Return the rows of a mutated log, of which a line may be long."""
    data = _bent(rng)
    if rng.random() < 0.1:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice((b"x", b"- prompt ", b"\xff", b"| task 1 | ")) * 100_000 + data[at:]
    return Mutant("watch", number, ("watch", "--once", "in.log", *rng.choice(((), ("--json",)))), {"in.log": data})


def server_log(rng, number):
    """Return an import or an explanation of a mutated log."""
    data = _bent(rng)
    argv = rng.choices(
        (["import", "in.log"], ["import", "in.log", "--json"], ["import", "in.log", "-o", "out.toml"],
         ["import", "in.log", "-p", "llama_cpp@b11549"], ["import", "in.log", "-p", "ik_llama@2491"],
         ["import", "in.log", "--model", "GGGA"], ["import", "in.log", "in.log"], ["explain", "in.log"],
         ["explain", "in.log", "--json"]),
        (4, 4, 2, 4, 1, 2, 1, 2, 1),
    )[0]  # fmt: skip
    if argv[0] == "import" and rng.random() < HASTY:
        argv = [*argv, "--limit", "sought=20000"]
    return Mutant("server-log", number, tame(argv), {"in.log": data}, ("out.toml",), lines=2)
