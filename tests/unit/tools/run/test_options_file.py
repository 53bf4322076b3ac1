"""The file of options of a pasted command line: which YAML is read, and where its options stand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import NESTING
from cachesim.base.shell_words import LONGEST, command_words
from cachesim.engines.shared.command_table import ArgumentStyle, CommandTable, table_rows
from cachesim.tools.run.options_file import NOTHING, read_options, with_file_options
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
        "speculative_method": "mtp", "num_speculative_tokens": 2, "gpu_memory_utilization": 0.9,
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
    ("a: '\n", "server.yaml:1: expected `option: value`"), ("a: 'b' c\n", "server.yaml:1: expected `option: value`"),
    ("a: \"b\" c\n", "server.yaml:1: expected `option: value`"),
    ("a: \"b\\q\"\n", "server.yaml:1: expected `option: value`"),
    ("- a\n", "server.yaml:1: expected `option: value`, found '- a'"),
    ("a:\n- b: 1\n", "server.yaml:2: expected `option: value`"),
    ("  a: 1\n", "server.yaml:1: expected `option: value`"),
    ("a: 1\n\tb: 2\n", "server.yaml:2: expected"),
    ("max-num-seqs:\nport: 80\n", "server.yaml:1: option 'max-num-seqs' has no value"),
], ids=range(15))  # fmt: skip
def test_another_file_is_refused_with_its_line(text: str, cause: str, options: Any) -> None:
    with pytest.raises(BadInput) as caught:
        read_pasted(f"vllm serve Qwen/Qwen3-8B --config {options(text)}", ["vllm@0.33.0"])
    assert cause in str(caught.value)


def test_a_file_may_be_as_long_and_as_deep_as_the_limits(options: Any) -> None:
    assert read_options(options("a: 1\n".ljust(LONGEST, "#"))) == [("a", "1", 1)]
    with pytest.raises(BadInput, match=f"server.yaml: a file of options has at most {LONGEST:,} characters"):
        read_options(options("a: 1\n".ljust(LONGEST + 1, "#")))
    deepest = "".join(f"{' ' * n}a:\n" for n in range(NESTING.value + 1))
    (option,) = read_options(options(deepest))
    depth = 0
    while option is not None:
        option, depth = option.value if depth == 0 else option["a"], depth + 1
    assert depth == NESTING.value + 1
    with pytest.raises(BadInput, match="options"):
        read_options(options(f"{deepest}{' ' * (NESTING.value + 1)}a:\n"))


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


def test_a_link_to_another_kind_of_file_is_refused_and_its_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password: hunter2\n:\n")
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "server.yaml").write_text("port: 80\n")
    for name, target in {"link.yaml": "secret.txt", "mounted.yaml": "..data/server.yaml"}.items():
        (tmp_path / name).symlink_to(target)
    with pytest.raises(BadInput, match=r"\.yaml and \.yml only") as bad:
        read_options(str(tmp_path / "link.yaml"))
    assert "hunter2" not in str(bad.value)
    assert [one.name for one in read_options(str(tmp_path / "mounted.yaml"))] == ["port"]


@pytest.mark.parametrize("text", [
    "kv-transfer-config:\n  kv_connector:\n", "kv-transfer-config:\n  a:\n    b:\n  c: []\n",
    "kv-transfer-config:\n  '': {}\n", "kv-transfer-config:\n  \"\":\n",
])  # fmt: skip
def test_an_entry_without_a_value_inside_an_option_is_null(text: str, options: Any) -> None:
    words = [text for text, _, _ in expanded(f"engine --config {options(text)}")]
    assert words[-2] == "--kv-transfer-config" and isinstance(json.loads(words[-1]), dict)


def test_an_argument_without_its_file_is_refused() -> None:
    with pytest.raises(BadInput, match="--config"):
        read_pasted("vllm serve Qwen/Qwen3-8B --config", ["vllm@0.33.0"])


TABLE = CommandTable(
    starts=(("engine",),), positional=True, options_file="--config", style=ArgumentStyle(underscores=True),
    arguments=table_rows("e", options="1 --block -b\n0 --caching --no-caching\n0 --plain\n1 --deep",
                         models="1 --model", sizes="", limits="", not_simulated="", no_effect="+ --names\nj --json"),
)  # fmt: skip


def expanded(line: str, at: int = 1) -> list[tuple[str, int, str]]:
    """Return text, place and origin of each word of a command line after its file of options is read."""
    return [(word.text, word.place, word.origin) for word in with_file_options(command_words(line), at, TABLE)]


def test_an_option_of_a_file_is_as_many_words_as_its_value_has(options: Any) -> None:
    name = options("block: true\ncaching: on\nplain: yes\ncaching: off\nplain: no\nnames: []\nnames: [\"a\", 2]\n"
                   "json: {\"a\": [1, null]}\nmodel: null\ndeep: 1.50\nunknown: False\n")  # fmt: skip
    words = expanded(f"engine -b 1 --config {name} -b 2")
    assert [text for text, _, _ in words] == [
        "engine", "--block", "true", "--caching", "--plain", "--no-caching", "--names", "a", "2",
        "--json", '{"a": [1, null]}', "--deep", "1.50", "-b", "1", "-b", "2"]  # fmt: skip
    assert [words[at] for at in (1, 2, 8, 12, 14, 16)] == [
        ("--block", 22, f"{name}:1"), ("true", 22, f"{name}:1"), ("2", 22, f"{name}:7"),
        ("1.50", 22, f"{name}:10"), ("1", 11, ""), ("2", 37, "")]  # fmt: skip


@pytest.mark.parametrize(("line", "found"), [
    ("engine M --config {0} -b 2", ["engine", "M", "--block", "8", "-b", "2"]),
    ("engine --config {0} -b 2", ["engine", "--model", "N", "--block", "8", "-b", "2"]),
    ("engine --config={0}", ["engine", "--model", "N", "--block", "8"]),
    ("engine -b 2 --config={0} -b 3", ["engine", "--model", "N", "--block", "8", "-b", "2", "-b", "3"]),
    ("engine M -b 2 --config {0}", ["engine", "M", "--block", "8", "-b", "2"]),
    ("engine M --config", ["engine", "M", "--config"]), ("--config {0} engine M", ["--config", "{0}", "engine", "M"]),
])  # fmt: skip
def test_the_options_of_a_file_stand_before_the_arguments_and_a_given_model_wins(
    options: Any, line: str, found: list[str]
) -> None:
    name = options("model: N\nblock: 8\n")
    at = 3 if line.startswith("--config") else 1
    assert [text for text, _, _ in expanded(line.format(name), at)] == [text.format(name) for text in found]
    assert with_file_options(command_words("engine M"), 1, replace(TABLE, options_file="")) == command_words("engine M")


@pytest.mark.parametrize(("text", "found"), [
    ("a:\n  b: 1\n  c:\n    d: -2.5\n    e: x\n  f: 'y'\ng: 3\n",
     [("a", {"b": 1, "c": {"d": -2.5, "e": "x"}, "f": "y"}, 1), ("g", "3", 7)]),
    ("a:\n  - 1\n  - x # y\nb:\n- 'z'\n", [("a", ["1", "x"], 1), ("b", ["z"], 4)]),
    ("a:\n  b:\n    - 1\n    - 2.0\n", [("a", {"b": [1, 2.0]}, 1)]),
    ("---\n# c\n\n'a': \"x\\n\" # y\n\"b\": ~\nc: Null\nd: 'it''s'\n",
     [("a", "x\n", 4), ("b", None, 5), ("c", None, 6), ("d", "it's", 7)]),
    ("a: 1e5\nb: +3\nc: 1.5e-3\nd: x#y\ne: # z\n  - q\n",
     [("a", "1e5", 1), ("b", "+3", 2), ("c", "1.5e-3", 3), ("d", "x#y", 4), ("e", ["q"], 5)]),
])  # fmt: skip
def test_a_file_is_read_whole(options: Any, text: str, found: list[tuple[str, Any, int]]) -> None:
    read = read_options(options(text))
    assert read == found
    assert [type(option.value) for option in read if isinstance(option.value, bool)] == []


def test_an_empty_value_at_the_end_and_inside_is_none(options: Any) -> None:
    values = [option.value for option in read_options(options("a:\nb:\n  c:\nd:\n"))]
    assert values == [NOTHING, {"c": None}, NOTHING]
    with pytest.raises(BadInput, match=r"server\.yaml:1: option 'a' has no value"):
        expanded(f"engine --config {options('a:')}")


@pytest.mark.parametrize(("text", "value"), [
    ("'b'", "b"), ('"b"', "b"), ("'b' # c", "b"), ('"b # c"', "b # c"), ("'it''s'", "it's"), ('"x\\"y"', 'x"y'),
    ("''", ""),
])  # fmt: skip
def test_a_text_in_quotation_marks_may_have_a_comment_after_it(text: str, value: str, options: Any) -> None:
    assert read_options(options(f"a: {text}\n")) == [("a", value, 1)]
