"""Command lines, replies and log lines of llama-servers from before b6160, and the same of a simulated one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence
from unittest.mock import patch

from cachesim import events as ev
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.vocab import PIECES
from cachesim.tools.live.llama_server import gguf_models

HEAD = r"id +(\d+) \| task -?\d+ \| "
SINCE_2024_09 = {
    "rm": HEAD + r"kv cache rm \[(\d+), end\)",
    "shift": HEAD + r"slot context shift, n_keep = (-?\d+), n_left = (-?\d+), n_discard = (-?\d+)",
    "moved": HEAD + r"reusing chunk with size (\d+), shifting KV cache \[(\d+), (\d+)\) -> \[(\d+), (\d+)\)",
    "ends": HEAD + r"stop processing: n_past = (\d+), truncated = (\d+)",
}
EARLY_2024 = {
    "rm": r'"msg":"kv cache rm \[p0, end\)","id_slot":(\d+),"id_task":\d+,"p0":(\d+)',
    "shift": r'"msg":"slot context shift","id_slot":(\d+),"id_task":\d+,'
             r'"n_keep":(-?\d+),"n_left":(-?\d+),"n_discard":(-?\d+)',
    "ends": r'"msg":"slot released","id_slot":(\d+),"id_task":\d+,"n_ctx":\d+,"n_past":(\d+),'
            r'"n_system_tokens":\d+,"n_cache_tokens":\d+,"truncated":(true|false)',
}
IN_2023 = {
    "rm": r"slot (\d+) : kv cache rm - \[(\d+), end\)",
    "shift": r"slot (\d+): context shift - n_keep = (-?\d+), n_left = (-?\d+), n_discard = (-?\d+)",
    "ends": r"slot (\d+) released \((\d+) tokens in cache\)",
}


LINE_FEED = len(PIECES) - 1      # a piece that no request uses becomes the byte of a line feed


def spm_vocabulary() -> dict[str, Any]:
    """Return the recorded models' vocabulary as the type that servers of 2023 load without all 256 bytes."""
    keys = {name: value for name, value in VOCABULARY().items() if name not in (
        "tokenizer.ggml.pre", "tokenizer.ggml.merges", "tokenizer.chat_template")}  # fmt: skip
    tokens = ["\u2581" if piece == " " else piece for piece in PIECES]
    tokens[LINE_FEED] = "<0x0A>"
    types = [6 if at == LINE_FEED else 1 for at in range(len(tokens))]
    return keys | {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
                   "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": [0] * len(tokens)}  # fmt: skip


VOCABULARY = gguf_models.vocabulary


@dataclass(frozen=True)
class Dialect:
    """What a build understands and says. ``lines``: patterns of log lines; the first number is the slot."""

    lines: Mapping[str, str]
    models_of: Sequence[str]
    slot: str = "id_slot"            # the request field that names a slot
    health: str = "/health"
    reuse: bool = True               # --cache-reuse
    no_shift: bool = True            # --no-context-shift
    slot_files: bool = True
    micro: bool = True               # -ub
    early: bool = False              # counts as the server of 2023 does
    spm: bool = False                # needs a vocabulary of the type "llama"
    more: Sequence[str] = ()         # further flags

    def flags(self, options: Mapping[str, Any]) -> list[str]:
        """Return the command line."""
        words = ["-c", str(options["ctx_size"]), "-np", str(options["parallel"]), "-b", str(options["batch_size"])]
        words.append("-cb")
        if self.micro:
            words += ["-ub", str(options["ubatch_size"])]
        if options.get("cache_reuse"):
            words += ["--cache-reuse", str(options["cache_reuse"])]
        return words if options.get("context_shift", True) else [*words, "--no-context-shift"]

    def known(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the simulated server."""
        return dict(options) if self.micro else {**options, "ubatch_size": options["batch_size"]}

    def models(self, folder: Path) -> list[tuple[str, Path]]:
        """Return the models that the build loads, each with its file, which is written if it is missing."""
        found = []
        folder = folder / "spm" if self.spm else folder
        for notation in self.models_of:
            model = gguf_models.find_model(notation)
            if not (folder / model.file).exists():
                folder.mkdir(parents=True, exist_ok=True)
                with patch.object(gguf_models, "vocabulary", spm_vocabulary if self.spm else gguf_models.vocabulary):
                    gguf_models.write_model(notation, folder / model.file)
            found.append((notation, folder / model.file))
        return found

    def summary(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of a reply that are compared."""
        if reply.get("status") != 200:
            return {"status": reply.get("status")}
        timings = reply["timings"]
        slot = reply.get("id_slot", reply.get("slot_id"))
        return {"status": 200, "slot": slot, "prompt_n": max(1, timings["prompt_n"]),
                "predicted": reply["tokens_predicted"],
                "evaluated": reply["tokens_evaluated"], "cached": reply["tokens_cached"],
                "truncated": bool(reply["truncated"])}  # fmt: skip

    def summary_of(self, request: Request, answer: Answer) -> dict[str, Any]:
        """Return the same numbers of a simulated answer."""
        if answer.died or answer.status != 200:
            return {"status": 0 if answer.died else answer.status}
        return {"status": 200, "slot": answer.id_slot, "prompt_n": answer.prompt_n,
                "predicted": answer.predicted_n - self.early,
                "evaluated": len(prompt_of(request, answer)), "cached": answer.tokens_cached,
                "truncated": answer.truncated}  # fmt: skip


DIALECTS = {
    "b5833": Dialect(SINCE_2024_09, ("A", "AAAA"), more=("--no-warmup",)),
    "b4094": Dialect(SINCE_2024_09, ("A", "AAAA"), more=("--no-warmup",)),
    "b2781": Dialect(EARLY_2024, ("A", "AAAA"), reuse=False, no_shift=False, spm=True),
    "b1573": Dialect(IN_2023, ("A", "AAAA"), slot="slot_id", health="/props", reuse=False, no_shift=False,
                     slot_files=False, micro=False, spm=True, early=True),
}  # fmt: skip


def dialect(profile: str) -> Dialect:
    """Return the dialect of a build: that of the newest one listed which is not newer."""
    number = int(profile.removeprefix("b"))
    return DIALECTS[max((name for name in DIALECTS if int(name[1:]) <= number), key=lambda name: int(name[1:]))]


def sim_lines(events: Sequence[Any], ways: Dialect) -> list[tuple[Any, ...]]:
    """Return the lines that the real server would log for these events, those that the build has."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, slot_ev.Batch):
            out.append(("rm", event.slot, event.p0))
        elif isinstance(event, llama_ev.TrimRefused):
            out[-1] = ("rm", event.slot, 0)
        elif isinstance(event, slot_ev.CtxShift):
            out.append(("shift", event.slot, event.n_keep - ways.early, event.n_left, event.n_discard))
        elif isinstance(event, slot_ev.ReuseChunk):
            out.append(("moved", event.slot, event.n, event.c0, event.c1, event.p0, event.p1))
        elif isinstance(event, ev.Release):
            ends = (event.n_tokens + 1,) if ways.early else (event.n_tokens, event.truncated)
            out.append(("ends", event.slot, *ends))
    return [line for line in out if line[0] in ways.lines]
