"""Mutated command lines."""

from __future__ import annotations

from tests.hostile.nasty import WORDS

DENSE = "llama-24143-entry-removed-dense.toml"
COMMANDS = tuple(line.replace("DENSE", DENSE) for line in (
    "run DENSE --provenance",
    "run DENSE --json -p llama_cpp@b10587",
    "run --as-expected DENSE",
    "run . -j 2 --provenance",
    "run llama-24143-entry-removed-hybrid --provenance",
    "run A5/A --model GA",
    "run A5/B4/A -p mlx_lm@d78bf58e --json",
    "why DENSE 1",
    "why DENSE 0 -p llama_cpp@b10587 --json",
    "diff DENSE -p llama_cpp@b10587 -p llama_cpp@b11549",
    "explain LC-CKPT-ERASE",
    "explain LC-CKPT --json",
    "profiles list",
    "profiles show llama_cpp@b10587",
    "profiles diff llama_cpp@b10587 llama_cpp@b11549",
    "profiles diff mlx_lm@0.31.0 mlx_lm@d78bf58e --json",
    "bisect A5/A",
    "bisect A5/B3/A --set parallel=2 --model A",
    "fuzz --examples 2",
    "fuzz --examples 3 -p mlx_lm@d78bf58e --model A --seed 7",
    "fuzz --examples 2 --property all --no-shrink --json",
    "fuzz --mode exact --examples 1 --model R",
    "shrink A9.B3/A -p ik_llama@1889-base --model GA",
    "shrink DENSE --property warm-equals-cold --tries 9 --json",
    "scenarios",
    "scenarios --json",
    "memory in.json --memory 8GiB",
    "memory qwen3-next --memory 8GiB -c 4096 -np 2 -ctk q8_0 --json",
    "memory in.gguf -p sglang --tokens 9",
    "workload in.json --scale 64 -np 2",
    "advise --for agents --model qwen3 --memory 8GiB --clients 2 in.json",
    "advise --for agents --model qwen3 --memory 9 --weights 8.5 --tokens 12000 -p mlx_lm --json",
    "replay in.json",
    "replay in.json --mode provenance --json",
    "replay . --in-scope -j 2",
    "replay in.json --mode exact",
    "record A5/A --server /bin/true --model tiny-GGGA.gguf --commit b11549",
    "record DENSE --server in.json --model tiny-GGGA.gguf --out x.json",
    "record A5 --server /dev/null --model DENSE",
    "--version",
    "--help",
    "run --help",
))  # fmt: skip
FLAGS = sorted({word for line in COMMANDS for word in line.split() if word.startswith("-")})


SOFT = 0.5                 # share of command lines whose words are valid
MORE = ("--json", "-q", "-v", "--color never", "")


def _sound(words, rng):
    """Return a command line with another number, or with another option of output."""
    numbers = [at for at, word in enumerate(words) if word.isdigit() and words[at - 1].startswith("--")]
    if numbers and rng.random() < 0.7:
        words[rng.choice(numbers)] = str(rng.randrange(1, 30))
    if words[0] not in ("--version", "--help") and "--json" not in words:
        words += rng.choice(MORE).split()
    return words


def bent_words(rng):
    """Return a valid command line after up to three changes."""
    words = rng.choice(COMMANDS).split()
    if rng.random() < SOFT:
        return _sound(words, rng)
    for _ in range(rng.choices((0, 1, 2, 3), (1, 6, 3, 1))[0]):
        at = rng.randrange(len(words) + 1)
        how = rng.randrange(7)
        if how < 2 and at < len(words):
            words[at] = rng.choice(WORDS)
        elif how == 2 and at < len(words):
            del words[at]
        elif how == 3:
            words.insert(at, rng.choice((*WORDS, *words)))
        elif how == 4 and at < len(words):
            words[at] = rng.choice(rng.choice(COMMANDS).split())
        elif how == 5:
            words.insert(at, rng.choice(FLAGS))
        elif at < len(words) and words[at]:
            k = rng.randrange(len(words[at]))
            words[at] = words[at][:k] + rng.choice(("", words[at][k] * 2, "x", "\x1b")) + words[at][k + 1 :]
    return words
