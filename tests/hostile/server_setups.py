"""Mutated descriptions of servers: models' config.json, command lines, their files of options, and the files that start
servers."""

from __future__ import annotations

import json
import tomllib
from functools import cache

from cachesim.engines.shared.newest_sizes import CONFIGURATIONS
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import INTEGERS, TEXTS, WORDS
from tests.hostile.tame import tame
from tests.hostile.trees import jumbled, mutated
from tests.hostile.written import flipped, to_json
from tests.shared import ROOT

POSTED = ROOT / "tests/unit/tools/run/command_lines.toml"
SOUND = 0.75  # share of mutants that stay valid, or nearly
BYTES = 0.1  # share of the others with changed bytes
CONFIGS = (
    {"model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
     "head_dim": 128, "hidden_size": 4096, "max_position_embeddings": 40960, "sliding_window": None},
    {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
     "hidden_size": 4096, "max_position_embeddings": 131072},
    {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560,
                                             "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                                             "sliding_window": 1024, "sliding_window_pattern": 6}},
    *({"max_position_embeddings": 8192, "hidden_size": 4096, **config} for _, config in CONFIGURATIONS.values()),
)  # fmt: skip
MEASURED = (
    ("memory", "config.json", "--memory", "64GiB"), ("memory", "config.json", "--json", "-np", "2", "-c", "4096"),
    ("memory", "config.json", "-p", "vllm"), ("memory", "config.json", "-p", "sglang", "--tokens", "900"),
    ("advise", "S9.A20/S.B9/S.A", "--sizes", "config.json", "--model", "GA", "--seconds", "1"),
    ("advise", "--for", "agents", "--model", "config.json", "--memory", "80GiB", "--weights", "9GiB", "in.jsonl"),
    ("workload", "in.jsonl", "--model", "config.json", "--scale", "64"),
)  # fmt: skip
SESSION = b'{"blocks": [1, 2, 3]}\n{"blocks": [1, 2, 3, 4, 5]}\n'


def config(rng, number):
    """Return a command that reads a mutated config.json."""
    donor = {"x": list(CONFIGS)}
    data = to_json(mutated(json.loads(json.dumps(rng.choice(CONFIGS))), rng, donor)).encode("utf-8", "surrogatepass")
    if rng.random() < BYTES:
        data = flipped(data, rng)
    files = {"config.json": data, "in.jsonl": SESSION}
    return Mutant("config", number, tame(rng.choice(MEASURED)), files, lines=20)


@cache
def posted():
    """Return the command lines that people posted and that are understood."""
    lines = tomllib.loads(POSTED.read_text())["line"]
    return [line["command"] for line in lines if "refused" not in line and "profiles" not in line]


ASKED = (("run", "A5/B9/A.C3"), ("run", "A5/A", "--json"), ("memory",), ("memory", "--json"), ("bisect", "A5/A"))
FLAGS = (
    "--max-model-len 4096", "--max-num-seqs 4", "--enable-prefix-caching", "--no-enable-prefix-caching", "--port 80",
    "--block-size 32", "--page-size 16", "--ctx-size 8192", "-np 2", "-c 512", "--cache-ram 0", "--swa-full",
    "--gpu-memory-utilization 0.9", "--kv-cache-dtype fp8", "--tensor-parallel-size 2", "--disable-radix-cache",
    "--chunked-prefill-size 512", "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":2}'",
)  # fmt: skip


def bent_command(rng):
    """Return a command line of a server after up to three changes."""
    text = rng.choice(posted())
    if rng.random() < SOUND:
        return f"{text.strip()} {rng.choice((*PLAIN, ''))}"
    words = text.split(" ")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(words) or 1)
        how = rng.randrange(6)
        if how == 0:
            words[at : at + 1] = [rng.choice((*WORDS, *TEXTS[:12]))]
        elif how == 1:
            words[at:at] = rng.choice(FLAGS).split(" ")
        elif how == 2:
            words[at:at] = rng.choice(posted()).split(" ")[-3:]
        elif how == 3:
            jumbled(words, rng)
        elif how == 4:
            words[at : at + 1] = [rng.choice(("'", '"', "\\", "$(id)", "${X}", "`id`", "|", ";", "&&", ">", "#", "\n"))]
        else:
            words[at : at + 1] = [str(rng.choice(INTEGERS))]
        words = words or [""]
    return " ".join(words)


PLAIN = ("--port 81", "--host 127.0.0.1", "--seed 3", "--served-model-name x")


def _asked(rng, text, kind, number, files=None):
    """Return a command about a server. A word of a command line contains no null character."""
    server = text.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")[:100_000]
    return Mutant(kind, number, tame([*rng.choice(ASKED), f"--server={server}"]), files or {}, lines=20)


def command_line(rng, number):
    """Return a command about a mutated command line of a server."""
    return _asked(rng, bent_command(rng), "command-line", number)


COLONS = (":", ": |\n", ": &a ", ": !x ", ": [", ": {", " : ")


def _compose(command):
    quoted = "\n".join(f"      {line}" for line in command.strip().splitlines())
    return f'services:\n  model:\n    image: vendor/engine:1\n    command: >\n{quoted}\n    ports:\n      - "80:80"\n'


def _pod(command):
    return ("spec:\n  containers:\n  - name: model\n    image: a/b:1\n    command: [\"/bin/sh\", \"-c\"]\n"
            f"    args:\n    - {json.dumps(command.strip())}\n    ports:\n    - containerPort: 80\n")  # fmt: skip


def _unit(command):
    joined = command.strip().replace("\\\n", " ").replace("\n", " ")
    return f'[Service]\nUser=llm\nEnvironment="HOME=/srv"\nExecStart=-{joined}\nRestart=always\n'


def _dockerfile(command):
    return f'FROM a AS build\nCMD ["make"]\nFROM b\nEXPOSE 80\nCMD {command.strip()}\n'


def start_file(rng, number):
    """Return a command about a mutated file that starts a server: compose, Kubernetes, systemd, Docker."""
    text = rng.choice((_compose, _pod, _unit, _dockerfile))(rng.choice(posted()))
    if rng.random() > SOUND:
        lines = text.split("\n")
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(lines))
            how = rng.randrange(5)
            if how == 0:
                jumbled(lines, rng)
            elif how == 1:
                lines[at] = lines[at].replace(": ", rng.choice(COLONS), 1)
            elif how == 2:
                lines[at] = " " * rng.randrange(9) + lines[at].lstrip()
            elif how == 3:
                made = (f"command: {bent_command(rng)}", "args:", "- x", "---", "\t- y", "CMD []")
                lines.insert(at, rng.choice(made))
            else:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            lines = lines or [""]
        text = "\n".join(lines)
    return _asked(rng, text, "start-file", number)


OPTIONS = (
    "max-model-len: 4096", "max-num-seqs: 4", "enable-prefix-caching: true", "enable-prefix-caching: false",
    "port: 8000", "block-size: 32", "gpu-memory-utilization: 0.9", "tensor-parallel-size: 2", "seed: 3",
    "served-model-name:\n  - a\n  - b", "trust-remote-code: yes", "dtype: bfloat16",
    "speculative-config:\n  method: mtp\n  num_speculative_tokens: 2", "load-format: null", "# a comment",
    'speculative-config: {"method": "mtp", "num_speculative_tokens": 1}', "host: \"0.0.0.0\"  # all",
    "max-num-batched-tokens: 2048", "enable-chunked-prefill: true",
)  # fmt: skip
SGLANG_OPTIONS = ("page-size: 16", "mem-fraction-static: 0.8", "disable-radix-cache: true",
                  "port: 80", "tp-size: 2",
                  "chunked-prefill-size: 2048", "context-length: 4096", "host: 0.0.0.0", "# a comment")  # fmt: skip
ODD = ("served-model-name: [a, b]", "a: &x 1", "b: *x", "<<: *x", "c: |\n  text", "? d\n: e", "- f",
       "g: [1, [2, {h: 3}]]",
       "i: !!python/name:os.system", "\tj: 1", "k:", "l: 'm", "n: {", "o: 0x10", "p: 1_000", "q: .inf",
       "r: 2026-11-28", "---", "...", "%YAML 1.2",
       "max-model-len: " + "9" * 400, "s: " + "[" * 200, "kv-transfer-config:\n  t:", "model: u", "config: in.yaml",
       "max-model-len:\n    - 1\n  - 2")  # fmt: skip
SGLANG = "python -m sglang.launch_server --model-path Qwen/Qwen3.5-4B --config in.yaml"
SERVED = ("vllm serve Qwen/Qwen3.5-4B --config in.yaml", "vllm serve Qwen/Qwen3.5-4B --port 9 --config=in.yaml",
          SGLANG)  # fmt: skip


def options_file(rng, number):
    """Return a command about a server with a mutated file of options."""
    server = rng.choice(SERVED)
    lines = rng.sample(SGLANG_OPTIONS if server == SGLANG else OPTIONS, rng.randrange(1, 6))
    if rng.random() > SOUND:
        for _ in range(rng.randrange(1, 3)):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(ODD))
        if rng.random() < 0.3:
            jumbled(lines, rng)
    data = "\n".join(lines).encode()
    if rng.random() < BYTES:
        data = flipped(data, rng)
    return _asked(rng, server, "options-file", number, {"in.yaml": data})
