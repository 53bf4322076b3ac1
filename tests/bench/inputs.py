"""Inputs of rows: scenarios, logs and request bodies that are generated, and the names of 60 committed recordings.

Scenarios contain only what the oldest commit that is measured reads, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from tests.shared import ROOT

RECORDINGS = Path(__file__).with_name("recordings.txt")
REQUESTS = 1000               # of a generated scenario, and bodies
LETTERS = "abcdefghij"        # for digits: names of words have none
IK_SLOT = 51_124              # tokens in ik_llama.cpp's slot when the request comes


def recordings() -> list[Path]:
    """Return the 60 recordings that are replayed."""
    return [ROOT / "tests" / "data" / line for line in RECORDINGS.read_text("utf-8").split()]


def places(folder: Path) -> dict[str, str]:
    """Write the generated inputs into a folder. Return the paths of all inputs by their names in ``rows``."""
    texts = {
        "{bodies}": ("bodies.jsonl", bodies(REQUESTS)),
        "{llama-log}": ("llama.log", llama_log()),
        "{ik-log}": ("ik.log", ik_log()),
        "{words}": ("bench-words.toml", words("bench-words", REQUESTS)),
    }
    for engine in ENGINES:
        name = f"bench-turns-{engine.name}"
        texts[f"{{turns-{engine.name}}}"] = (f"{name}.toml", turns(name, engine, REQUESTS))
    files = recordings()
    found = {"{recordings}": _lines(files), "{third-of-recordings}": _lines(files[::3])}
    for name, (file, text) in texts.items():
        (folder / file).write_text(text, "utf-8")
        found[name] = str(folder / file)
    return found


def _lines(files: Sequence[Path]) -> str:
    return "\n".join(str(file) for file in files)


class Engine(NamedTuple):
    """Engine of a generated scenario. ``server``: its flags as lines of a TOML table."""

    name: str
    profile: str
    model: str
    server: Sequence[str]


class Prompt(NamedTuple):
    """Request of a generated scenario. ``answer``: a word, "" = one token that the model chooses."""

    words: Sequence[str]
    answer: str = ""


LLAMA = Engine("llama_cpp", "llama_cpp@b11549", "GGGA", ("ctx_size = 2048", "parallel = 1"))
ENGINES = (
    LLAMA,
    Engine("vllm", "vllm@0.33.0", "A", ("num_gpu_blocks = 40000",)),
    Engine("sglang", "sglang@0.5.23", "A", ("max_total_tokens = 800000",)),
)


def scenario(name: str, engine: Engine, lengths: Mapping[str, int], prompts: Sequence[Prompt]) -> str:
    """Return a scenario file. ``lengths``: the tokens of each word."""
    lines = [
        f'id = "{name}"', 'title = "requests of a row"', 'symptom = "memory"', 'source = ["tests/bench"]',
        'why = "A row of the bench."', f'engine = "{engine.name}"', f'model = "{engine.model}"',
        f'profiles = ["{engine.profile}"]', "", "[server]", *engine.server, "", "[words]",
    ]  # fmt: skip
    lines += [f"{word} = {length}" for word, length in lengths.items()]
    for prompt in prompts:
        answer = f'answer = "{prompt.answer}"' if prompt.answer else "n_predict = 1"
        lines += ["", "[[request]]", f'prompt = "{".".join(prompt.words)}"', answer]
    return "\n".join(lines) + "\n"


def words(name: str, n: int) -> str:
    """Return a scenario of llama.cpp with n requests of one word each. A word is a token; no two are the same."""
    names = [_word("W", number) for number in range(n)]
    return scenario(name, LLAMA, dict.fromkeys(names, 1), [Prompt([word]) for word in names])


def turns(name: str, engine: Engine, n: int) -> str:
    """Return a scenario with n turns of four conversations of up to 200 tokens. Every fifth turn restarts its
    conversation."""
    lengths = {_word("S", talk): 20 for talk in range(4)}
    talks = [[word] for word in lengths]
    prompts = []
    for number in range(n):
        talk = talks[number % 4]
        if number % 5 == 0:
            del talk[1:]
        while sum(lengths[word] for word in talk) > 200:
            talk.pop()
        question, answer = _word("Q", number), _word("R", number)
        lengths |= {question: 4, answer: 2}
        prompts.append(Prompt([*talk, question], answer))
        talk += [question, answer]
    return scenario(name, engine, lengths, prompts)


def _word(letter: str, number: int) -> str:
    """Return the name of a word: a letter, and the digits of a number as letters."""
    return letter + "".join(LETTERS[int(digit)] for digit in str(number))


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
