"""Inputs of rows: logs and request bodies that are generated, and the names of 60 committed recordings."""

from __future__ import annotations

import json
from pathlib import Path

from tests.shared import ROOT

RECORDINGS = Path(__file__).with_name("recordings.txt")
IK_SLOT = 51_124              # tokens in ik_llama.cpp's slot when the request comes


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
    """Return an excerpt of a log of ik_llama.cpp: a prompt that differs near the end of a long slot of recurrent layers
    continues from a checkpoint."""
    head, end = "slot apply_checkp: id  0 | task 3817 |", IK_SLOT - 1
    restored = IK_SLOT - 748
    lines = [
        f"{head} n_past = {restored + 1}, slot.prompt.tokens.size() = {IK_SLOT}, seq_id = 0, pos_min = {end}",
        f"{head} restored context checkpoint took  34.38 ms ({_ik_state(restored)}, n_past = {restored}, "
        "size = 150.012 MiB)",
        f"{head} erased invalidated context checkpoint (pos_min = {end}, pos_max = {end}, size = 150.018 MiB)",
        f"slot create_check: id  0 | task 3817 | created context checkpoint 32 of 32 ({_ik_state(IK_SLOT + 254)}, "
        "size = 150.019 MiB, took 77.24 ms)",
    ]
    return "\n".join(lines) + "\n"


def _ik_state(n: int) -> str:
    """Return the positions of a checkpoint of n tokens as the log describes them."""
    return f"pos_min = {n - 1}, pos_max = {n - 1}, n_tokens = {n}"
