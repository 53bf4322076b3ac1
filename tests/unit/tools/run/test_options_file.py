"""The file of options of a pasted command line: which YAML is read, and where its options stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shell_words import LONGEST
from cachesim.tools.run.options_file import read_options
from cachesim.tools.run.pasted_command import read_pasted

RECIPE = """\
---
# options of a server
model: "Qwen/Qwen3-8B"     # the model
max-model-len: 8192
max_num_seqs: 16
enable-prefix-caching: true
async-scheduling: no
trust-remote-code: yes
enforce-eager: false
revision: null
gpu-memory-utilization: 0.90
served-model-name:
- qwen
- 'qwen''s'
speculative-config:
  method: mtp
  num_speculative_tokens: 2
override-generation-config: '{"temperature": 0.6}'
limit-mm-per-prompt: {"image": 0}
"""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a file and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "server.yaml") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


def test_a_file_has_an_option_per_line_with_lists_and_options_inside(options: Any) -> None:
    found = {option.name: option.value for option in read_options(options(RECIPE))}
    assert found == {
        "model": "Qwen/Qwen3-8B", "max-model-len": "8192", "max_num_seqs": "16", "enable-prefix-caching": True,
        "async-scheduling": False, "trust-remote-code": True, "enforce-eager": False, "revision": None,
        "gpu-memory-utilization": "0.90", "served-model-name": ["qwen", "qwen's"], "limit-mm-per-prompt": {"image": 0},
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 2},
        "override-generation-config": '{"temperature": 0.6}',
    }  # fmt: skip
    assert read_options("server.yaml")[-1].line == 19


def test_vllm_takes_the_options_of_its_file(options: Any) -> None:
    found = read_pasted(f"vllm serve --config {options(RECIPE)} --max-num-seqs 4 --port 80", ["vllm@0.33.0"]).command
    assert found.model == "Qwen/Qwen3-8B"
    assert found.options == {
        "max_model_len": 8192, "max_num_seqs": 4, "enable_prefix_caching": True, "async_scheduling": False,
        "speculative_method": "mtp", "num_speculative_tokens": 2,
    }  # fmt: skip
    assert "--port" in found.ignored and "--trust-remote-code" in found.ignored


def test_the_command_line_takes_precedence_wherever_it_names_the_file(options: Any) -> None:
    name = options("model: other/model\nmax-num-seqs: 16\nblock-size: 32\n")
    line = f"vllm serve Qwen/Qwen3-8B --max-num-seqs 4 --config={name} --block-size 64"
    found = read_pasted(line, ["vllm@0.33.0"]).command
    assert found.model == "Qwen/Qwen3-8B"
    assert found.options == {"max_num_seqs": 4, "block_size": 64}


def test_sglang_reads_its_file_too(options: Any) -> None:
    name = options("model-path: Qwen/Qwen3-8B\npage-size: 16\ndisable-radix-cache: false\nlog-requests: true\n",
                   "s.yml")  # fmt: skip
    found = read_pasted(f"python -m sglang.launch_server --config {name}", ["sglang@0.5.23"]).command
    assert (found.model, found.options) == ("Qwen/Qwen3-8B", {"page_size": 16})


@pytest.mark.parametrize("text, cause", [
    ("model: a\nmax-modl-len: 4\n", "server.yaml:2: unknown flag '--max-modl-len' of vllm@0.33.0"),
    ("max-num-seqs: many\n", "expected a 32-bit integer, found 'many'"),
    ("a: &x 1\n", "server.yaml:1: expected `option: value`, found 'a: &x 1'"),
    ("a: |\n  text\n", "server.yaml:1: expected `option: value`"),
    ("a: [b, c]\n", "server.yaml:1: expected `option: value`"),
    ("a: 'b\n", "server.yaml:1: expected `option: value`"),
    ("a: \"b\\q\"\n", "server.yaml:1: expected `option: value`"),
    ("- a\n", "server.yaml:1: expected `option: value`, found '- a'"),
    ("a:\n- b: 1\n", "server.yaml:2: expected `option: value`"),
    ("  a: 1\n", "server.yaml:1: expected `option: value`"),
    ("a: 1\n\tb: 2\n", "server.yaml:2: expected"),
    ("max-num-seqs:\nport: 80\n", "server.yaml:1: option 'max-num-seqs' has no value"),
], ids=range(12))  # fmt: skip
def test_another_file_is_refused_with_its_line(text: str, cause: str, options: Any) -> None:
    with pytest.raises(BadInput) as caught:
        read_pasted(f"vllm serve Qwen/Qwen3-8B --config {options(text)}", ["vllm@0.33.0"])
    assert cause in str(caught.value)


def test_deep_and_long_files_are_refused(options: Any) -> None:
    deep = "".join(f"{' ' * n}a:\n" for n in range(100))
    for text in (deep, "a: 1\n" * LONGEST):
        with pytest.raises(BadInput):
            read_options(options(text))


def test_a_file_that_is_not_here_names_the_way_out() -> None:
    with pytest.raises(BadInput) as caught:
        read_pasted("vllm serve --config /etc/vllm/server.yaml", ["vllm@0.33.0"])
    assert str(caught.value) == ("/etc/vllm/server.yaml: the file of the server's options is not here (write its "
                                 "options into the command line: `port: 80` is --port 80)")
    with pytest.raises(BadInput, match="the file of '--config' is a shell variable"):
        read_pasted("vllm serve --config ${FILE}", ["vllm@0.33.0"])
    with pytest.raises(BadInput, match=r"options from \.yaml and \.yml only"):
        read_pasted("vllm serve --config server.json", ["vllm@0.33.0"])


def test_an_argument_without_its_file_is_refused() -> None:
    with pytest.raises(BadInput, match="--config"):
        read_pasted("vllm serve Qwen/Qwen3-8B --config", ["vllm@0.33.0"])
