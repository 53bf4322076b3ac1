"""Tests of ``cachesim advise --for agents``: the command line comes first, errors are a line, JSON has every number."""

import json
import shlex
from pathlib import Path

import pytest

from cachesim.cli.main import main
from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.tools.advise import agents_command
from cachesim.tools.advise.agent_search import AgentSearch
from tests.unit.engines.shared.test_model_sizes import QWEN_KEYS, gguf
from tests.unit.tools.command_arguments import arguments

BODIES = "tests/unit/tools/request_bodies/agent.jsonl"
SESSION = "tests/workloads/data/chat.jsonl"
AGENTS = ("--for", "agents", "--model", "qwen3", "--memory", "12GiB", "--clients", "2")


def told(capsys, *words):
    """Return the exit code, stdout and stderr of ``advise``."""
    code = main(["advise", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(("file", "requests"), [(SESSION, 3), (BODIES, 4)])
def test_the_best_command_line_comes_first_and_sets_the_best_options(capsys, file, requests):
    code, out, _ = told(capsys, *AGENTS, file)
    _, text, _ = told(capsys, *AGENTS, file, "--json")
    data = json.loads(text)["agents"]
    best, line = data["best"], out.splitlines()[0]
    assert (code, line) == (0, best["command"]) and best["requests"] == requests
    program, model, name, *flags = shlex.split(line)
    assert (program, model, name) == ("llama-server", "-m", "MODEL")
    options = {one["name"]: one["value"] for one in best["options"]}
    assert {name: read_flags(flags).options[name] for name in options} == options
    assert data["room"] == data["memory"] == 12 << 30 and data["weights"] is None
    assert best["bytes"] <= data["room"] and best["evaluated"] >= best["bound"] and best["scale"] == 1
    assert f"({best['evaluated']:,} of {best['prompt_tokens']:,})" in " ".join(out.split())
    assert [one["name"] for one in data["reasons"]] == list(options)
    assert len(data["next"]) <= 3 and all(one["command"] in " ".join(out.split()) for one in data["next"])
    assert "weights and compute buffers are not counted" in " ".join(out.split())


@pytest.mark.parametrize(("stage", "lines"), [("compared", 1), ("judged", 2), ("confirmed", 3)])
def test_the_best_setting_so_far_is_noted_before_the_next_stage(capsys, monkeypatch, stage, lines):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(AgentSearch, stage, interrupt)
    code, out, err = told(capsys, *AGENTS, SESSION)
    first, *so_far, last = err.splitlines()
    assert (code, out, last) == (130, "", "cachesim: interrupted: the search for settings was not finished")
    assert first.startswith("cachesim: qwen3 under llama_cpp@") and "requests of up to" in first
    assert len(so_far) == lines - 1
    assert all(line.startswith("cachesim: so far: llama-server -m MODEL -np ") for line in so_far)
    assert told(capsys, *AGENTS, SESSION, "--json")[2] == f"{last}\n"


def test_weights_are_subtracted(capsys):
    _, text, _ = told(capsys, *AGENTS, SESSION, "--weights", "11.5GiB", "--json")
    data = json.loads(text)["agents"]
    assert data["room"] == 1 << 29 and data["best"]["bytes"] <= 1 << 29
    _, out, _ = told(capsys, *AGENTS, SESSION, "--weights", "11.5")
    assert "11.5 GiB of them for weights" in " ".join(out.split())


def test_a_gguf_has_its_weights_and_its_name(capsys, tmp_path):
    file = tmp_path / "a model.gguf"
    Path(gguf(tmp_path, "qwen3next", QWEN_KEYS, b"x" * 1000)).rename(file)
    _, text, _ = told(capsys, "--for", "agents", "--model", str(file), "--memory", "3", SESSION, "--json")
    data = json.loads(text)["agents"]
    assert data["weights"] == file.stat().st_size == data["memory"] - data["room"]
    assert shlex.split(data["best"]["command"])[:3] == ["llama-server", "-m", str(file)]


def test_other_servers_have_their_own_flags(capsys):
    _, out, _ = told(capsys, *AGENTS, SESSION, "-p", "mlx_lm")
    assert out.startswith("mlx_lm.server --model MODEL --prompt-cache-size ")
    _, out, _ = told(capsys, *AGENTS, SESSION, "-p", "ik_llama@main")
    assert out.startswith("llama-server -m MODEL -np ")
    _, out, _ = told(capsys, *AGENTS, SESSION, "-p", "vllm")
    assert out.startswith("vllm serve MODEL --block-size ")
    _, out, _ = told(capsys, *AGENTS, SESSION, "-p", "sglang")
    assert out.startswith("python3 -m sglang.launch_server --model-path MODEL --max-total-tokens ")


@pytest.mark.parametrize(("words", "said"), [
    (("--for", "agents", "--memory", "8"), "--for agents needs --model (such as --model NAME)"),
    (("--for", "agents", "--model", "qwen3"), "--for agents needs --memory (such as --memory 32GiB)"),
    ((*AGENTS, "--seconds", "9"), "--seconds cannot be combined with --for agents"),
    ((*AGENTS, "-np", "2"), "--set cannot be combined with --for agents"),
    ((*AGENTS, "-p", "mlx_lm", "-p", "ik_llama"), "--for agents takes one rule set"),
    ((*AGENTS, "-p", "xyz"), "unknown profile"),
    ((*AGENTS[:2], "--model", "glm-5", *AGENTS[4:], "-p", "mlx_lm"), "mlx_lm: model 'glm-5' is not simulated"),
    ((*AGENTS[:2], "--model", "mamba-2", *AGENTS[4:], "-p", "vllm"), "blocks of models with recurrent layers"),
    ((*AGENTS[:5], "0GiB"), "expected a size such as 32GiB, found '0GiB'"),
    ((*AGENTS[:5], "-3"), "--memory"), ((*AGENTS[:5], "9" * 400), "expected a size"),
    ((*AGENTS, "--clients", "0"), "must be 1 to 64"), ((*AGENTS, "--clients", "65"), "must be 1 to 64"),
    ((*AGENTS, "--tokens", "0"), "must be 1 to"), ((*AGENTS, "--weights", "12"), "the weights take all of the memory"),
    ((*AGENTS, "nowhere.json"), "nowhere.json: no such file or directory"),
    ((*AGENTS, BODIES, BODIES), "several files of request bodies"),
    ((*AGENTS, SESSION, "--tokens", "9"), "every session has requests longer than 9 tokens"),
    ((*AGENTS, BODIES, "--tokens", "9"), "exceeds 9"),
    (("--memory", "8", "A9/A"), "--memory needs --for agents"), (("--clients", "2", "A9/A"), "--clients needs"),
    (("-j", "2", "A9/A"), "--jobs needs --for agents"),
    ((), "expected a file, an id or a line, found 0 arguments"), (("A9", "B9"), "found 2 arguments"),
    (("--for", "people"), "invalid choice"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_line(words, said, capsys):
    code, out, err = told(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(agents_command.add_arguments) == {
        "purpose": None, "memory": None, "weights": None, "clients": 1, "tokens": 0, "jobs": None}  # fmt: skip
