"""Inputs of rows: logs and request bodies that are generated, and the names of 60 committed recordings."""

from __future__ import annotations

import json
from pathlib import Path

from tests.shared import ROOT

RECORDINGS = Path(__file__).with_name("recordings.txt")
IK_SLOT = 39_936              # tokens in ik_llama.cpp's slot when the second request comes


def recordings() -> list[Path]:
    """Return the 60 recordings that are replayed."""
    return [ROOT / "tests" / "data" / line for line in RECORDINGS.read_text("utf-8").split()]


def places(folder: Path) -> dict[str, str]:
    """Write the generated inputs into a folder. Return the paths of all inputs by their names in ``rows``."""
    texts = {"{bodies}": ("bodies.jsonl", bodies(1000)), "{llama-log}": ("llama.log", llama_log()),
             "{ik-log}": ("ik.log", ik_log())}  # fmt: skip
    found = {"{recordings}": "\n".join(map(str, recordings()))}
    for name, (file, text) in texts.items():
        (folder / file).write_text(text, "utf-8")
        found[name] = str(folder / file)
    return found


def bodies(n: int) -> str:
    """Return JSON lines of n chat requests: turns of conversations of 20 turns."""
    lines = []
    for number in range(n):
        talk, turn = divmod(number, 20)
        messages = [{"role": "system", "content": f"Assistant {talk}. " + "Answer with care. " * 20}]
        for earlier in range(turn + 1):
            messages.append({"role": "user", "content": f"Question {earlier}: " + f"word{earlier} " * 30})
            if earlier < turn:
                messages.append({"role": "assistant", "content": f"Answer {earlier}: " + f"reply{earlier} " * 30})
        lines.append(json.dumps({"model": "bench", "messages": messages, "max_tokens": 50}))
    return "\n".join(lines) + "\n"


def llama_log() -> str:
    """Return a log of llama.cpp: turns of a conversation whose end is edited, on a model with recurrent layers."""
    lines = list[str]()
    held = restored = 0
    for turn in range(4):
        head, total = f"id  0 | task {70 * turn} |", 3000 + 900 * turn
        lines.append(f"slot update_slots: {head} new prompt, n_ctx_slot = 32768, n_keep = 0, task.n_tokens = {total}")
        start = restored
        if held:
            lines.append(f"slot update_slots: {head} n_past = {held - 40}, slot.prompt.tokens.size() = {held}, "
                         f"seq_id = 0, pos_min = {held - 1}, n_swa = 0")  # fmt: skip
            lines.append(f"slot update_slots: {head} restored context checkpoint ({_state(start)})")
        restored, held = total - 512, total + 59
        lines.append(f"slot create_check: {head} created context checkpoint {turn + 1} of 32 ({_state(restored)})")
        lines.append(f"slot print_timing: {head} prompt eval time = {total}.00 ms / {total - start} tokens")
        lines.append(f"slot print_timing: {head}        eval time = 900.00 ms /    60 tokens")
        lines.append(f"slot      release: {head} stop processing: n_tokens = {held}, truncated = 0")
    return "\n".join(lines) + "\n"


def _state(n: int) -> str:
    """Return a checkpoint of n tokens as the log describes it."""
    return f"pos_min = {n - 1}, pos_max = {n - 1}, n_tokens = {n}, size = 150.019 MiB"


def ik_log() -> str:
    """Return an excerpt of a log of ik_llama.cpp: a prompt diverges early in a long slot of recurrent layers."""
    head = "slot apply_checkp: id  0 | task 900 |"
    lines = [f"{head} n_past = 2528, slot.prompt.tokens.size() = {IK_SLOT}, seq_id = 0, pos_min = {IK_SLOT - 1}",
             f"{head} forcing full prompt re-processing due to lack of cache data"]  # fmt: skip
    for n in range(4096, 20_481, 4096):
        lines.append(f"{head} erased invalidated context checkpoint (pos_min = {n - 1}, pos_max = {n - 1}, "
                     "size = 149.700 MiB)")  # fmt: skip
    return "\n".join(lines) + "\n"
