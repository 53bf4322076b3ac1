"""Exported Python tests: their settings, history and flags."""

from __future__ import annotations

import re

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.export.python_test import pytest_file, server_test
from cachesim.tools.live.llama_server.export.script import make_script

PROFILE = "llama_cpp@b11549"


def script(line="A9>r2/A.r", model="A", **server):
    return make_script(from_line(line, model=model, server=server), PROFILE)


def between(text, first, last):
    return text.partition(f"{first}\n")[2].partition(f"\n{last}")[0].splitlines()


def test_a_test_for_a_running_server_sends_the_history_and_compares_it():
    text = pytest_file(script("A9>r2/A.r>4{cancel_after=2}/{save@0 f}/B3"))
    history = between(text, '    assert talk.request("GET", "/health")[0] == 200, f"no llama-server answers at {URL}"',
                      "    said = ")  # fmt: skip
    left = history.pop(2)
    assert history == ["    talk.ask(0, w['A'], n_predict=2)", "    talk.hear(0, 0, 0, w['r'], 0, 2)",
                       "    talk.slot(0, 'save', filename='f.bin')",
                       "    talk.ask(3, w['B'], n_predict=1)"]  # fmt: skip
    assert left.startswith("    talk.ask(1, ") and left.endswith("hang_up=2)")
    assert " for number in [0, 3]}\n" in text and '"TOLERANCE", "0.2"' in text
    assert re.search(r"^def test_\w+\(\):$", text, re.M) and text.startswith('"""') and "TOLERANCE=0.001:" in text


def test_imports_are_sorted_and_plain_ones_first():
    lines = [line for line in pytest_file(script()).splitlines() if re.match(r"import |from ", line)]
    assert lines[0] == "from __future__ import annotations" and "import os" in lines
    plain = [line for line in lines if line.startswith("import")]
    assert lines[1:] == sorted(plain) + sorted(set(lines[1:]) - set(plain))


def test_a_server_with_adapters_is_asked_for_them():
    text = pytest_file(script(lora_scaled="1,0"))
    assert "    assert len(adapters) == 2, f\"expected 2 adapters at {URL}, found {len(adapters)}\"\n" in text
    assert "adapters" not in pytest_file(script()).partition("def test_")[2]


@pytest.mark.parametrize(("line", "said"), [
    ("A5/{restart}", "the scenario restarts the server, which a pytest file cannot do"),
    ("A5/{lora 0:1}", "the scenario sets the server's adapters, which"),
])  # fmt: skip
def test_a_scenario_that_changes_the_server_needs_its_own(line, said):
    with pytest.raises(BadInput, match=said):
        pytest_file(script(line, lora_scaled="1"))


def test_flags_are_fields_of_the_server_or_stay_flags():
    options = {"ctx_size": 512, "parallel": 2, "kv_unified": True, "batch_size": 64, "swa_full": True,
               "slot_prompt_similarity": 0.5, "spec_type": "draft-simple", "model_draft": "A"}  # fmt: skip
    text = server_test(script(**options))
    fields = between(text, '    server.slot_save_path = f"{tmp_path}/"', "    flags = [")
    assert {"    server.n_ctx = 512", "    server.n_slots = 2", "    server.kv_unified = True",
            "    server.n_batch = 64", "    server.swa_full = True",
            "    server.spec_type = 'draft-simple'"} <= {*fields}  # fmt: skip
    assert any(re.fullmatch(r"    server\.model_draft = str\(tmp_path / 'tiny-A\.gguf'\)", line) for line in fields)
    flags = re.search(r"make_server\(tmp_path, (\[.*\])\)\n    server.start\(\)\n    talk", text)[1]
    assert flags.startswith("['-tb', '1', '--no-warmup', '-fit', 'off'")
    assert "'-sps', '0.5'" in flags and "-c" not in flags
    cold = re.search(r"make_server\(tmp_path, (\[.*\])\)\n    server.cache_ram", text)[1]
    assert cold == flags[:-1] + ", '--ctx-checkpoints', '0']" and "TOLERANCE = 0.001 " in text


def test_a_restart_starts_another_server_if_its_flags_change():
    text = server_test(script("A9/{restart}/{restart ctx_size=128}/B9"))
    history = between(text, "    try:", "    finally:")
    at = history.index("        server.stop()")
    assert history[at + 1] == "        server.start()" and history[at + 2] == "        server.stop()"
    assert history[at + 3].startswith("        server = make_server(tmp_path, ['-tb', '1'")
    assert history[at + 4 : at + 6] == ["        server.n_ctx = 128", "        server.start()"]


def test_the_docstring_names_origin_faults_and_deviations():
    text = server_test(script("A9>4{cancel_after=2}/A"))
    assert f"from 'A9>4{{cancel_after=2}}/A', expected numbers: {PROFILE}." in text
    assert "Not as in the simulator: the time at which the server notices a disconnect is not controlled." in text
    assert "In tools/server/tests: ./tests.sh unit/FILE" in text and "Expected: request" not in text
