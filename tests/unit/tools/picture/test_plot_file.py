"""``--plot FILE``: a drawing or a page by the suffix, or text, with the numbers of the report; other suffixes are
refused."""

import json
from xml.etree import ElementTree

import pytest

from cachesim.cli.main import main
from tests.unit.tools.picture.test_plot import words

SESSIONS = "tests/workloads/data"
AGENTS = f"{SESSIONS}/agents.json"
BLOCKS = "num_gpu_blocks=8,200"
BODIES = "tests/unit/tools/request_bodies/agent.jsonl"
LOG = "tests/unit/tools/server_logs/excerpt.log"
COMMANDS = {
    "diff": "diff scenarios/llama_cpp/slow -p llama_cpp@b9518 -p llama_cpp@b11549 --provenance -j 1",
    "fuzz": "fuzz -p llama_cpp@b9518 --examples 4 --no-shrink --property warm-equals-cold",
    "bodies": f"import {BODIES} -q",
    "log": f"import {LOG} -q",
    "memory": "memory qwen3-next -c 65536 -np 2 --memory 16GiB",
    "curve": f"workload {SESSIONS} --scale 16 -p vllm --model A --curve {BLOCKS}",
    "curves": f"workload {AGENTS} --scale 16 -p vllm -p sglang --model qwen3-32b --curve memory=1GiB,2GiB",
    "words": f"workload {AGENTS} --scale 16 --model gpt-oss --curve swa_full=true,false",
    "advise": "advise llama-21831-reasoning-removed-hybrid -p llama_cpp@b9518 --sizes qwen3-next",
    "agents": f"advise {SESSIONS}/chat.jsonl --for agents --model qwen3-next --memory 12GiB --clients 2",
}
LABELS = {
    "diff": ["A llama_cpp@b9518", "B llama_cpp@b11549"],
    "fuzz": ["llama_cpp@b9518: nothing found for 1 property", "warm-equals-cold", "✓ nothing found"],
    "bodies": ["~366, ~328 again: the date or time", "same as before, not kept by the simulated server"],
    "log": ["slot 0, task 42", "1,600, 1,500 again", "evaluated again, at least"],
    "memory": ["1.5 GiB, 65,536 cells", "8.0 GiB, 8,192 MiB, host", "given: 16.0 GiB"],
    "curve": ["200: 34.1 %", "lower bound under any rules: 33.1 %"],
    "curves": ["vllm@0.33.0", "sglang@0.5.23"],
    "words": ["on", "off", "52.6 %", "51.3 %"],
    "advise": ["2  -cms 0: 79 (-17%)", "any server, for unchanged requests: at least 75", "1: 153 MiB"],
    "agents": ["memory for caches: 12.0 GiB", "1: 66.72 %"],
}


ROWS = {
    "memory": ["checkpoints 4.7 GiB, 64 checkpoints, host ▒▒▒▒▒▒▒▒▒▒", "| given: 16.0 GiB",
               "together 14.4 GiB ███▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒"],
    "diff": ["○ A llama_cpp@b9518 ● B llama_cpp@b11549"],
    "curves": ["● █████████████████████████████▌ num_gpu_blocks 256 blocks, 1.0 GiB: 33.2 %",
               "● vllm@0.33.0 ■ sglang@0.5.23"],
    "agents": ["▲ of these: none needs less memory and fewer tokens ● ran on all sessions, as",
               "| any server: at least 46.37 %"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_plot_has_the_numbers_of_the_report(capsys, tmp_path, name):
    file = tmp_path / "plot.svg"
    main([*COMMANDS[name].split(), "--plot", str(file)])
    assert f"wrote {file}" in capsys.readouterr().err
    shown = words(ElementTree.parse(file).getroot())
    assert [label for label in LABELS[name] if label not in shown] == []


def test_a_page_has_the_drawing_in_two_widths_and_the_report(capsys, tmp_path):
    file = tmp_path / "plot.html"
    assert main([*COMMANDS["memory"].split(), "--plot", str(file)]) == 0
    page = file.read_text("utf-8")
    assert page.count("given: 16.0 GiB") == 2 and "a checkpoint: 75.376 MiB" in page
    assert "<h1>14.4 GiB at most" in page
    assert 'class="cs wide"' in page and 'class="cs narrow"' in page
    assert "http" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize("line", [*COMMANDS.values()])
def test_another_suffix_is_refused_before_anything_runs(capsys, tmp_path, line):
    assert main([*line.split(), "--plot", str(tmp_path / "plot.png")]) == 2
    out, error = capsys.readouterr()
    assert not out and "--plot: expected a file that ends in .svg or .html, or -, found" in error.splitlines()[-1]


def test_a_plot_needs_numbers_that_are_compared(capsys, tmp_path):
    alone = "diff llama-24143-entry-removed-dense -p llama_cpp@b9518 -p llama_cpp@b10587"
    for line in (f"workload {SESSIONS} --scale 16", "advise --model qwen3-next -p vllm", alone):
        assert main([*line.split(), "--plot", str(tmp_path / "a.svg")]) == 2
    assert "--plot needs --curve" in capsys.readouterr().err


def test_a_log_without_lengths_has_no_plot(capsys, tmp_path):
    file = tmp_path / "a.svg"
    main(["import", "tests/unit/tools/server_logs/vllm.log", "-q", "--plot", str(file)])
    assert "nothing to plot" in capsys.readouterr().err and not file.exists()


@pytest.mark.parametrize("name", ROWS)
def test_a_terminal_gets_a_row_of_blocks_for_each_row_or_point(capsys, name):
    main([*COMMANDS[name].split(), "--plot", "-"])
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [row for row in ROWS[name] if row not in shown] == []


def test_text_is_refused_beside_json(capsys):
    assert main([*COMMANDS["memory"].split(), "--json", "--plot", "-"]) == 2
    assert "--plot - prints text" in capsys.readouterr().out


def test_json_stays_json_beside_a_plot(capsys, tmp_path):
    main([*COMMANDS["memory"].split(), "--json", "--plot", str(tmp_path / "a.svg")])
    assert json.loads(capsys.readouterr().out)["memory"]
