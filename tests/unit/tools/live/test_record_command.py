"""Tests of ``cachesim record``: refusals and recordings, with stand-ins for the server."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import commits
from cachesim.scenarios.corpus import corpus_files
from cachesim.tools.live import record_command as record
from cachesim.tools.run.real_option import RealOptions
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher
from tests.unit.tools.live.sim_server import simulated
from tests.unit.tools.live.stand_in import stand_in

__all__ = ["servers"]       # a fixture
CASE = '''id="{}"
title="a"
source=["a"]
why="a"
engine="llama_cpp"
model="GGGA"
profiles=["llama_cpp@b11549"]
[words]
A=40
[[request]]
prompt="A"
'''


@pytest.fixture
def server(tmp_path):
    """Return the options that name a server and its model."""
    (gguf := tmp_path / "tiny-GGGA.gguf").write_bytes(b"GGUF")
    return ["--server", str(stand_in(tmp_path)), "--model", str(gguf)]


@pytest.fixture
def cases(tmp_path):
    """Return a function that writes scenario files into a folder; their texts follow their names."""
    def write(**texts):
        (folder := tmp_path / "cases").mkdir()
        for name, text in texts.items():
            (folder / f"{name}.toml").write_text(text.format(name), "utf-8")
        return str(folder)

    return write


def test_a_line_becomes_a_recording(server, tmp_path, capsys):
    out = tmp_path / "one.json"
    line = "S40.A60>r4/{restart}/S>r4{drafts=1:1}"
    words = ["--out", str(out), "--set", "ctx_checkpoints=2", "--json"]
    assert main(["record", line, *server, *words]) == exits.HOLDS
    [made] = json.loads(capsys.readouterr().out)["recordings"]
    data = json.loads(out.read_text("utf-8"))
    assert (made["file"], made["steps"]) == (str(out), 3) and any("drafter" in note for note in made["notes"])
    assert made["events"] == sum(len(step["events"]) for step in data["steps"]) > 0
    assert data["flags"][-2:] == ["-ctxcp", "2"] and (data["commit"], data["name"]) == ("b11549", "try")


def test_of_a_folder_what_can_be_recorded_is_and_the_rest_is_counted(server, cases, tmp_path, capsys):
    """A file is not a scenario, another has a request of an unsupported kind, the last belongs to another engine."""
    folder = cases(good=CASE, other=CASE + 'task="embedding"\n', none=CASE + "x\n")
    mlx = corpus_files()["mlx-911-entry-removed-hybrid"].read_bytes()
    (tmp_path / "cases" / "mlx-911-entry-removed-hybrid.toml").write_bytes(mlx)
    assert main(["record", folder, *server, "--out", str(tmp_path), "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert ([one["id"] for one in data["recordings"]], data["failed"]) == (["good"], 2)
    assert "none.toml" in err and "embedding" in err and (tmp_path / "good.json").exists()


@pytest.mark.parametrize(("what", "why"), [
    (["--server", "nowhere", "--model", "GGUF"], "nowhere"), (["--server", "BIN", "--model", "nowhere"], "nowhere"),
    (["--server", "BIN", "--model", "GGUF", "--set", "x=1"], "'x'"), ([], "--url"), (["--server", "BIN"], "--url"),
    (["--model", "GGUF"], "--url"), (["--url", "http://x", "--server", "BIN", "--model", "GGUF"], "--url"),
    (["--url", "http://x", "--model", "GGUF"], "--url"), (["--url", "http://x", "--gguf", "x.gguf"], "--gguf"),
    (["--url", "http://x", "--install"], "--install"), (["--real", "b9713", "--gguf", "x.gguf"], "x.gguf"),
])  # fmt: skip
def test_bad_input(server, capsys, what, why):
    named = {"BIN": server[1], "GGUF": server[3]}
    assert main(["record", "S40", *(named.get(word, word) for word in what)]) == exits.BAD_INPUT
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("said", "name"), [
    ("version: 11549 (3f545be)", "b11549"), ("version: 0.6.0 (build 11549, commit 3f545be)", "b11549"),
    ("version: 0.6.0-dev (build 0, commit unknown)", None), ("version: 4711 (abc)", None), ("", None),
])  # fmt: skip
def test_the_build_is_what_the_server_says(tmp_path, said, name):
    binary = stand_in(tmp_path, said)
    if name:
        assert record.build_of(binary) == name
    else:
        with pytest.raises(BadInput) as bad:
            record.build_of(binary)
        known = bad.value.hint.rpartition(" --commit ")[2].split(", ") or bad.value.hint
        assert bad.value.file == str(binary) and "b10809" in known and {*known} < {*commits()}


@pytest.mark.parametrize(("place", "fits"), [
    ({"url": "http://x"}, True), ({"server", "model"}, True), ({}, False), ({"server"}, False)])  # fmt: skip
def test_a_server_is_a_url_or_a_program_with_its_model(tmp_path, place, fits):
    binary = stand_in(tmp_path)
    program, model = (binary if name in place else None for name in ("server", "model"))
    real = RealOptions(servers="", gguf=None, may_install=False)
    server = record.RecordedServer("http://x" if "url" in place else "", program, model, real)
    if fits:
        record.check_place(server)
    else:
        with pytest.raises(BadInput, match="--url"):
            record.check_place(server)


def test_several_recordings_need_a_folder(server, cases, tmp_path, capsys):
    words = ["record", cases(one=CASE, two=CASE), *server, "--out"]
    assert main([*words, str(tmp_path / "x.json")]) == exits.BAD_INPUT
    assert "x.json" in capsys.readouterr().err
    assert main([*words, str(tmp_path)]) == exits.HOLDS
    assert [json.loads((tmp_path / f"{name}.json").read_text())["name"] for name in ("one", "two")] == ["one", "two"]


def test_options_are_added_to_those_of_a_file(cases, server, tmp_path, monkeypatch):
    """The build is named where the server does not report it."""
    file = f"{cases(one=CASE.replace('[words]', '[server]' + chr(10) + 'parallel=2' + chr(10) + '[words]'))}/one.toml"
    monkeypatch.chdir(tmp_path)
    words = ["record", file, "--server", str(stand_in(tmp_path, "")), *server[2:], "--set", "ctx_checkpoints=2",
             "--set", "parallel=1"]  # fmt: skip
    assert main(words) == exits.BAD_INPUT
    assert main([*words, "--commit", "b10587"]) == exits.HOLDS
    trace = json.loads((tmp_path / "one.json").read_text())
    assert (trace["flags"][-4:], trace["name"], trace["commit"]) == (["-np", "1", "-ctxcp", "2"], "one", "b10587")


def test_a_model_of_other_layers_is_noted(cases, server, tmp_path, capsys):
    file = f"{cases(one=CASE.replace('GGGA', 'GA'))}/one.toml"
    assert main(["record", file, *server, "--out", str(tmp_path / "out.json")]) == exits.HOLDS
    assert "GA" in capsys.readouterr().err


def test_a_real_build_records_a_line_with_the_given_layers(servers, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = str(launcher(tmp_path, "b9713", "llama_cpp@b9518"))
    words = ["record", "S4/S", "--layers", "A", "--real"]
    assert main([*words, f"{server},{server}"]) == exits.BAD_INPUT            # it takes one
    assert main([*words, server]) == exits.HOLDS
    data = json.loads((tmp_path / "try.json").read_text())
    assert (data["name"], data["commit"], data["model"], len(data["steps"])) == ("try", "b9713", "tiny-A.gguf", 2)


@pytest.mark.parametrize(("given", "kept"), [([], "b11549"), (["--commit", "b2"], "b2")])
def test_the_user_of_a_running_server_is_told_that_a_slot_is_cleared(tmp_path, capsys, given, kept):
    with simulated("GA") as url:
        words = ["--url", url, "--out", str(tmp_path / "x.json"), "--set", "batch_size=64", *given]
        assert main(["record", "S4", *words]) == exits.HOLDS
        assert url in capsys.readouterr().err
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["commit"] == kept and "64" in data["flags"]
