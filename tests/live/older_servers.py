"""Drawn conversations on real llama-servers from before b6160, compared with the simulator's rule set of that build.

    python -m tests.live.older_servers BINARY PROFILE CONVERSATIONS SEED MODELS

Such a server lacks today's endpoints and fields, so that `make live` cannot drive it. This player uses what all of
them have: plain completions of token lists. After each request it compares the numbers of the reply (evaluated tokens,
tokens in the slot, slot, truncation) and the lines of the log about removals, shifts and reused blocks. The reply's
tokens are given to the simulator. MODELS: folder for tiny models, which are written there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Iterable, Iterator

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.vocab import PIECES, SPECIAL
from cachesim.model.hash_mixing import Rng
from tests.live.older_lines import dialect, sim_lines

FIRST_PORT, WAIT, SOON = 17000, 60, 1.0
PLAIN = [i for i, piece in enumerate(PIECES) if i < min(SPECIAL) and len(piece) == 1 and piece.isprintable()]
BANNED = [[i, False] for i in range(len(PIECES)) if i not in set(PLAIN)]
"""Only tokens of one character are sampled, so that the text of an answer gives its tokens."""
TOKEN_OF = {PIECES[i]: i for i in PLAIN}


@dataclass
class Step:
    """A step of a conversation: requests sent together, or an action on a slot."""

    requests: list[Request] = field(default_factory=list)
    action: tuple[str, int, str] = ("", 0, "")           # save, restore or erase; slot; file
    cancel: int = 0                                      # disconnect after so many streamed tokens


@dataclass
class Tally:
    """Counts of a campaign."""

    conversations: int = 0
    requests: int = 0
    lines: int = 0
    differing: int = 0
    differences: list[str] = field(default_factory=list)


class Real:
    """A started server."""

    def __init__(self, binary: Path, model: Path, options: dict, profile: str) -> None:
        self.ways, self.port = dialect(profile), FIRST_PORT + int(profile[1:])
        self.files = tempfile.TemporaryDirectory()
        self.log = Path(self.files.name) / "log"
        words = [str(binary), "-m", str(model), *self.ways.flags(options), "--port", str(self.port), "-t", "1",
                 *self.ways.more]  # fmt: skip
        if self.ways.slot_files:
            words += ["--slot-save-path", self.files.name + "/"]
        self.stream = self.log.open("w")
        self.process = subprocess.Popen(words, stdout=self.stream, stderr=self.stream)
        self.read = 0
        self.empty: set[str] = set()                     # files saved from an empty slot
        end = time.monotonic() + WAIT
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.ways.health}", timeout=2).status == 200:
                    return
            time.sleep(0.1)
        raise SystemExit(f"the server does not start ({self.process.poll()}): {self.log.read_text()[-400:]}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.stream.close()
        self.files.cleanup()

    def post(self, path: str, body: dict) -> dict:
        """Return the reply with its status; status 0 = the connection ended."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                       {"Content-Type": "application/json"})  # fmt: skip
        try:
            with urllib.request.urlopen(asked, timeout=WAIT) as reply:
                return {"status": reply.status, **json.load(reply)}
        except urllib.error.HTTPError as error:
            return {"status": error.code}
        except (OSError, ValueError):
            return {"status": 0}

    def ask(self, request: Request) -> dict:
        body = {"prompt": list(request.prompt), "n_predict": request.n_predict, "temperature": 0,
                "cache_prompt": request.cache_prompt, self.ways.slot: request.id_slot, "logit_bias": BANNED,
                "n_keep": request.n_keep or 0, "n_discard": request.n_discard, "repeat_penalty": 1.0}  # fmt: skip
        return self.post("/completion", body)

    def lines(self, ended: int = 1) -> list[tuple]:
        """Return the new log lines that are compared, as tuples. Waits for the lines about so many ended requests."""
        end, text = time.monotonic() + SOON, ""
        while len(re.findall(self.ways.lines["ends"], text[self.read :])) < ended and time.monotonic() < end:
            time.sleep(0.05)
            text = self.log.read_text(errors="replace")
        new, self.read = text[self.read :], len(text)
        found = [(at.start(), (kind, *map(number, at.groups()))) for kind, pattern in self.ways.lines.items()
                 for at in re.finditer(pattern, new)]  # fmt: skip
        return [line for _, line in sorted(found)]


def number(text: str) -> int:
    """Return a number of a log line; the earliest logs write truth values as words."""
    return int(text) if text.lstrip("-").isdigit() else int(text == "true")


def tokens_of(reply: dict) -> list[int]:
    """Return the generated tokens of a reply: each is one character."""
    return [TOKEN_OF[character] for character in reply.get("content", "") if character in TOKEN_OF]


# Drawing

def draw_options(rng: Rng, profile: str) -> dict:
    """Draw the options of a server."""
    slots = rng.one((1, 1, 2, 3))
    options = {"parallel": slots, "ctx_size": slots * rng.one((64, 96, 128, 192)), "batch_size": rng.one((64, 64, 128)),
               "ubatch_size": rng.one((32, 64))}  # fmt: skip
    ways = dialect(profile)
    if ways.reuse and rng.chance(35):
        options["cache_reuse"] = rng.one((1, 4, 8))
    if ways.no_shift and rng.chance(25):
        options["context_shift"] = False
    return options


def draw_steps(rng: Rng, options: dict, profile: str, texts: list[tuple[int, ...]]) -> Iterator[Step]:
    """Draw the steps of a conversation. ``texts``: what was said so far; the player adds the answers."""
    ways, room, slots = dialect(profile), options["ctx_size"] // options["parallel"], options["parallel"]
    saved: list[str] = []
    for _ in range(3 + rng.below(5)):
        if ways.slot_files and texts[1:] and rng.chance(18):
            what = rng.one(("save", "restore", "restore", "erase")) if saved else "save"
            file = rng.one(saved) if what == "restore" else f"f{len(saved)}"
            saved += [file] if what == "save" else []
            yield Step(action=(what, rng.below(slots), file))
            continue
        together = slots > 1 and rng.chance(25)
        named = [rng.below(slots)] if rng.chance(35) else [-1]
        step = Step([draw_request(rng, texts, room, slot, together) for slot in (range(2) if together else named)])
        texts += [request.prompt for request in step.requests]
        yield step


def draw_request(rng: Rng, texts: list, room: int, slot: int, together: bool) -> Request:
    """Draw a request that often continues or changes an earlier prompt."""
    base = rng.one(texts)
    kept = base if rng.chance(50) else base[: rng.below(len(base) + 1)]
    if rng.chance(20) and len(kept) > 12:                     # a client that removes a part of the history
        at = 2 + rng.below(6)
        kept = (*kept[:at], *kept[at + 1 + rng.below(5) :])
    fresh = tuple(rng.one(PLAIN) for _ in range(1 + rng.below(room // 2 if rng.chance(30) else 12)))
    prompt = (*kept, *fresh)
    return Request(prompt if rng.chance(12) else prompt[: room - 2], 1 + rng.below(room // 2 if rng.chance(25) else 8),
                   cache_prompt=not rng.chance(16) or together, id_slot=slot,
                   n_keep=rng.one((0, 0, 0, 5, -1)))  # fmt: skip


# Playing

def play(real: Real, server, steps: Iterable[Step], texts: list, tally: Tally, name: str) -> None:
    """Play the steps on both servers, and stop at the first difference."""
    folder = Path(real.files.name)
    for number, step in enumerate(steps):
        if step.action[0]:
            both = act(real, server, step, folder)
        else:
            both = ask(real, server, step, texts)
            tally.requests += len(step.requests)
        theirs, ours = both
        tally.lines += sum(1 for entry in theirs if isinstance(entry, tuple))
        if theirs != ours:
            tally.differing += 1
            what = step.action if step.action[0] else [replace(r, forced=None) for r in step.requests]
            tally.differences.append(f"{name} step {number}: {what}\n  real {theirs}\n  ours {ours}")
            return
        if real.process.poll() is not None:
            return


def ask(real: Real, server, step: Step, texts: list) -> tuple[list, list]:
    """Send the requests of a step to both servers; return what each says."""
    replies: list[dict] = [{}] * len(step.requests)

    def one(place: int) -> None:
        replies[place] = real.ask(step.requests[place])

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(step.requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mark = len(server.log.events)
    answers = []
    for place, request in enumerate(step.requests):
        said = tuple(tokens_of(replies[place]))
        texts.append((*request.prompt, *said))
        answers.append(server.submit(replace(request, forced=(*said, *[0] * request.n_predict))))
    while not server.dead and (server.core.queue or any(slot.busy for slot in server.core.slots)):
        server.iterate()
    theirs = [real.ways.summary(reply) for reply in replies]
    ours = [real.ways.summary_of(request, answer) for request, answer in zip(step.requests, answers, strict=True)]
    ended = sum(reply.get("status") == 200 for reply in replies)
    both = real.lines(ended), sim_lines(server.log.events[mark:], real.ways)
    together = len(step.requests) > 1
    if together:
        same_order(server, [line[1] for line in both[0] if line[0] == "ends"])
    return [*theirs, *in_order(both[0], together)], [*ours, *in_order(both[1], together)]


def same_order(server, slots: list[int]) -> None:
    """Let the simulated slots have ended in the order of the real ones: it depends on when requests arrived."""
    ticks = sorted(server.core.slots[slot].t_last for slot in slots)
    for slot, tick in zip(slots, ticks, strict=True):
        server.core.slots[slot].t_last = tick


def in_order(lines: list[tuple], together: bool) -> list[tuple]:
    """Return the lines slot by slot. How requests sent ``together`` share batches depends on when they arrive, so that
    only the first removal of each is compared."""
    out, seen = [], set()
    for line in sorted(lines, key=lambda line: line[1]):
        if not (together and line[0] == "rm" and line[1] in seen):
            out.append(line)
        seen |= {line[1]} if line[0] == "rm" else set()
    return out


def act(real: Real, server, step: Step, folder: Path) -> tuple[list, list]:
    what, slot, file = step.action
    if what == "restore" and file in real.empty:
        return [], []                      # the file of an empty slot ends the process of older servers
    reply = real.post(f"/slots/{slot}?action={what}", {"filename": file})
    done = server.slot(what, slot, folder / f"sim-{file}")
    real.empty |= {file} if reply.get("n_saved") == 0 else set()
    keys = ("status", "n_saved", "n_restored", "n_erased")
    return [{key: reply[key] for key in keys if key in reply}], [{key: done[key] for key in keys if key in done}]


@contextmanager
def started(binary: Path, model: Path, options: dict, profile: str):
    real = Real(binary, model, options, profile)
    try:
        yield real
    finally:
        real.stop()


def campaign(binary: Path, profile: str, conversations: int, seed: int, models: Path) -> Tally:
    """Play conversations, each on a new server."""
    tally = Tally()
    ways = dialect(profile)
    for number in range(conversations):
        rng = Rng(seed * 1_000_003 + number, "older servers")
        notation, file = rng.one(ways.models(models))
        options = draw_options(rng, profile)
        texts: list[tuple[int, ...]] = [()]
        steps = draw_steps(rng, options, profile, texts)
        table = f"llama_cpp@{profile}"
        server = engine_of(table).start(table, notation, ways.known(options), "provenance")
        with started(binary, file, options, profile) as real:
            play(real, server, steps, texts, tally, f"{seed}/{number} {notation} {options}")
        tally.conversations += 1
    return tally


def main(argv: list[str]) -> int:
    if len(argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    binary, profile, conversations, seed, models = argv
    tally = campaign(Path(binary), profile, int(conversations), int(seed), Path(models))
    for text in tally.differences:
        print(text)
    print(f"{profile}: {tally.conversations} conversations, {tally.requests} requests, {tally.lines} numbers and lines "
          f"compared, {tally.differing} conversations differ")  # fmt: skip
    return 1 if tally.differing else 0


__all__ = ["campaign", "main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
