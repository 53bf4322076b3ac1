"""Tests of exported programs and of ``verify --url`` with adapters; images are refused."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.export.program_text import models_text, standalone_script
from cachesim.tools.live.llama_server.export.python_test import pytest_file, server_test
from cachesim.tools.live.llama_server.export.shell import shell_script
from cachesim.tools.live.llama_server.gguf_adapters import with_adapters
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel
from tests.unit.tools.live.sim_server import simulated
from tests.unit.tools.live.test_export import binary, needs_tools, run, script

MIXED = "A9>2@0{lora=0:1}/B9>2@0{lora=1:1}/A>2@0{lora=1:1}"
WITHOUT_LIST = "A9>2@0{lora=0:1}/A.B3>2@0"
CHANGED = "S5>2{lora=0:1}/S.A1>2/{lora 1:1}/S.B1>2/S.C1>2{lora=0:0}"
__all__ = ["binary"]         # a fixture


def test_every_request_is_sent_cold_under_its_own_adapters(tmp_path, binary):
    """The stand-in's answers depend on the scales; a cold server has those of its start."""
    text = standalone_script(script(CHANGED, lora_scaled="0,0"))
    code, said = run(text, tmp_path, LLAMA_SERVER=str(binary("well")))
    assert code == 0 and said.count("same as cold") == 4, said
    assert text.count("talk.adapters([{'id': 1, 'scale': 1.0}])") == 1


def test_a_program_writes_the_adapters_of_its_model(tmp_path):
    case = script("S5.M2>1{lora=0:1}", lora_scaled="0@M,0.5")
    made = {"Tensor": Tensor, "TinyModel": TinyModel}
    exec(models_text(case), made)
    model, alora, lora = made["MODELS"]
    tokens = ".".join(map(str, case.words["M"]))
    assert (model, alora, lora) == ("tiny-A.gguf", f"tiny-A-alora0-{tokens}.gguf", "tiny-A-lora1.gguf")
    assert f"MODELS/{alora}:0,MODELS/{lora}:0.5" in case.flags
    for file, one in made["MODELS"].items():
        one.write(str(tmp_path / file))
    with_adapters(case.flags, tmp_path / model, tmp_path / "ours")
    for file in (alora, lora):
        assert (tmp_path / file).read_bytes() == (tmp_path / "ours" / file).read_bytes()
    assert (tmp_path / alora).read_bytes() != (tmp_path / lora).read_bytes()


def test_a_server_test_finds_the_adapters_in_its_folder():
    text = server_test(script(MIXED, lora_scaled="0,0"))
    assert "MODELS/tiny-A-lora0.gguf:0,MODELS/tiny-A-lora1.gguf:0" in text
    assert 'word.replace("MODELS/", f"{tmp_path}/") for word in flags' in text and "'tiny-A-lora1.gguf': Tiny" in text


@pytest.mark.parametrize("form", [shell_script, pytest_file])
def test_a_program_for_a_running_server_states_the_files_and_counts_the_adapters(form):
    text = form(script(MIXED, lora_scaled="0,0"))
    assert "--lora-scaled tiny-A-lora0.gguf:0,tiny-A-lora1.gguf:0" in text
    assert "tiny-A-lora0.gguf, tiny-A-lora1.gguf: adapters of the model, in this order" in text
    assert "/lora-adapters" in text and '"scale": 1.0' in text.replace("'", '"')
    assert "/lora-adapters" not in shell_script(script("A9/A"))
    with pytest.raises(BadInput, match="sets the server's adapters") as refused:
        form(script(CHANGED, lora_scaled="0,0"))
    assert "--to script" in refused.value.hint


@needs_tools
def test_a_shell_script_ends_where_the_server_has_other_adapters(tmp_path):
    with simulated("A", options={"lora_scaled": "0"}) as url:
        code, said = run_with_tools(shell_script(script(MIXED, lora_scaled="0,0")), tmp_path, url)
        assert code == 2 and "the server needs 2 adapters" in said
    with simulated("A", options={"lora_scaled": "0,0"}) as url:
        code, said = run_with_tools(shell_script(script(MIXED, lora_scaled="0,0")), tmp_path, url)
        assert code == 1 and "THE FAULT SHOWS" in said, said


def run_with_tools(text, tmp_path, url):
    (tmp_path / "case.sh").write_text(text)
    done = subprocess.run(["sh", "case.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], "URL": url})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def verify(capsys, url, line, *words):
    code = main(["verify", line, "--url", url, "--json", *words])
    out = capsys.readouterr()
    return code, json.loads(out.out) if out.out.startswith("{") else {}, out.out + out.err


@pytest.mark.parametrize("line, wrong", [(MIXED, [2]), (WITHOUT_LIST, [1])])
def test_adapters_are_mixed_up_on_both_sides(capsys, line, wrong):
    with simulated("A", options={"lora_scaled": "0,0"}) as url:
        code, data, text = verify(capsys, url, line, "--set", "lora_scaled=0,0")
    assert code == 0 and data["same"] is True, text
    assert [one["number"] for one in data["requests"] if one["theirs"]["equal"] is False] == wrong


def test_a_repaired_server_differs(capsys):
    with simulated("A", "llama_cpp@b11549-repaired", {"lora_scaled": "0,0"}) as url:
        code, data, _ = verify(capsys, url, WITHOUT_LIST, "--set", "lora_scaled=0,0", "-p", "llama_cpp@b11549")
    assert code == 1 and data["same"] is False


def test_scales_that_a_step_set_are_restored(capsys):
    with simulated("A", options={"lora_scaled": "0.5,0"}) as url:
        code, data, text = verify(capsys, url, CHANGED, "--set", "lora_scaled=0.5,0")
        client = Client(url, 5)
        assert [one["scale"] for one in client.get("/lora-adapters").body] == [0.5, 0.0]
        client.close()
    assert code == 0 and [one["theirs"]["equal"] for one in data["requests"]] == [
        one["ours"]["equal"] for one in data["requests"]], text  # fmt: skip


@pytest.mark.parametrize("scales, line, here, what", [
    ("0", MIXED, "0,0", "expected a server with adapters of the scales 0,0, found 0 (start it with --lora-scaled "
                        "FILE0:0,FILE1:0;"),
    ("", MIXED, "0,0", "found none"), ("1,0", MIXED, "0,0", "found 1, 0"),
    ("0", "A5.M2{lora=0:1}", "0@M", "use --server BIN --model GGUF with a model of cachesim"),
])
def test_a_server_with_other_adapters_is_refused(capsys, scales, line, here, what):
    with simulated("A", options={"lora_scaled": scales}) as url:
        code, _, text = verify(capsys, url, line, "--set", f"lora_scaled={here}")
    assert code == 2 and what in text, text


def test_images_are_refused_with_the_reason(capsys):
    case = from_line("A9.I4x1.B3", model="A", server={"mmproj": "causal"})
    with pytest.raises(BadInput, match="request 0: an image of a scenario is a size without pixels"):
        script("A9.I4x1.B3", mmproj="causal")
    with simulated("A") as url:
        code, _, text = verify(capsys, url, "A9.I4x1.B3", "--set", "mmproj=causal")
    assert code == 2 and "a size without pixels" in text and case.steps
