"""Tests of ``cachesim record``: refusals and recordings, with a stand-in for the server."""

from __future__ import annotations

import json
import stat
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import commits
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live import record_command as record
from cachesim.tools.live.llama_server.real import comparison, real_server
from cachesim.tools.live.llama_server.verify import case, remote
from tests.live.fake import Fake

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
def binary(tmp_path):
    """A program that reports build 11549."""
    file = tmp_path / "llama-server"
    file.write_text("#!/bin/sh\necho 'version: 11549 (abc)' >&2\n", "utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.fixture
def gguf(tmp_path):
    file = tmp_path / "tiny-GGGA.gguf"
    file.write_bytes(b"GGUF")
    return file


@pytest.fixture
def faked(monkeypatch):
    """Replace the recorder by the simulator."""
    import cachesim.tools.live.llama_server.recorder as real

    def recorder(start):
        made = Fake("llama_cpp@b11549", start.gguf.stem.removeprefix("tiny-"), start.flags)
        made.commit = start.commit
        return made

    monkeypatch.setattr(real, "Recorder", recorder)


def test_a_line_becomes_a_recording_that_replays(binary, gguf, faked, tmp_path, capsys):
    out = tmp_path / "one.json"
    words = ["--server", str(binary), "--model", str(gguf), "--out", str(out)]
    line = "S40.A60>r4/S.A.r.B20>2/{restart}/S.A>1"
    assert main(["record", line, *words, "--set", "ctx_checkpoints=2"]) == exits.HOLDS
    assert "4 steps" in capsys.readouterr().out
    assert json.loads(out.read_text("utf-8"))["flags"] == ["-ctxcp", "2"]
    assert main(["replay", str(out), "--mode", "provenance"]) == exits.HOLDS


def test_notes_are_told(binary, gguf, faked, tmp_path, capsys):
    words = ["--server", str(binary), "--model", str(gguf), "--out", str(tmp_path), "--json"]
    assert main(["record", "S40>r4{drafts=1:1}", *words]) == exits.HOLDS
    made = json.loads(capsys.readouterr().out)["recordings"]
    assert made[0]["notes"] == ["drafts come from the server's own drafter"]
    assert made[0]["file"] == str(tmp_path / "try.json")


def test_of_a_folder_what_can_be_recorded_is_and_the_rest_is_counted(binary, gguf, faked, tmp_path, capsys):
    """A file is not a scenario, and another has a request of an unsupported kind."""
    (folder := tmp_path / "cases").mkdir()
    for name, more in (("good", ""), ("other", 'task="embedding"\n'), ("none", "x\n")):
        (folder / f"{name}.toml").write_text(CASE.format(name) + more, "utf-8")
    words = ["--server", str(binary), "--model", str(gguf), "--out", str(tmp_path), "--json"]
    assert main(["record", str(folder), *words]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert ([one["id"] for one in data["recordings"]], data["failed"]) == (["good"], 2)
    assert "none.toml" in err and "found embedding" in err and (tmp_path / "good.json").exists()


@pytest.mark.parametrize(("what", "why"), [
    (["--server", "nowhere", "--model", "GGUF"], "no such server"),
    (["--server", "BIN", "--model", "nowhere"], "no such model"),
    (["--server", "BIN", "--model", "GGUF", "--set", "x=1"], "unknown server option 'x'"),
])  # fmt: skip
def test_bad_input(binary, gguf, capsys, what, why):
    words = [str(binary) if word == "BIN" else str(gguf) if word == "GGUF" else word for word in what]
    assert main(["record", "S40", *words]) == exits.BAD_INPUT
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("said", "name"), [
    ("version: 11549 (3f545be)", "b11549"), ("version: 0.6.0 (build 11549, commit 3f545be)", "b11549"),
    ("version: 0.6.0-dev (build 0, commit unknown)", None), ("version: 4711 (abc)", None), ("", None),
])  # fmt: skip
def test_the_build_is_what_the_server_says(binary, said, name, capsys):
    binary.write_text(f"#!/bin/sh\necho '{said}'\n", "utf-8")
    if name:
        assert record.build_of(binary) == name
    else:
        with pytest.raises(BadInput, match="unknown build: the server reports ") as bad:
            record.build_of(binary)
        known = bad.value.hint.removeprefix("name the build: --commit ").split(", ")
        assert known == [name for name in commits() if name[0] == "b" and name[1:].isdigit()] and "b10809" in known
        assert len(known) < len(commits())           # some recordings are of commits without a build


@pytest.mark.parametrize("given, is_complete", [
    ({"url": "http://x"}, True), ({"server": True, "model": True}, True), ({}, False), ({"server": True}, False),
    ({"model": True}, False), ({"url": "http://x", "server": True, "model": True}, False),
    ({"url": "http://x", "model": True}, False),
])  # fmt: skip
def test_a_server_is_a_url_or_a_program_with_its_model(binary, given, is_complete):
    files = {name: binary if name in given else None for name in ("server", "model")}
    args = Namespace(url=given.get("url", ""), real="", gguf=None, install=False, **files)
    if is_complete:
        record.check_place(args)
    else:
        with pytest.raises(BadInput, match="expected --url URL, --real BUILD, or --server BIN with --model GGUF"):
            record.check_place(args)


@pytest.mark.parametrize("words", [["--gguf", "x.gguf"], ["--install"]])
def test_an_option_of_real_servers_needs_one(capsys, words):
    assert main(["record", "S4", "--url", "http://x", *words]) == exits.BAD_INPUT
    assert f"{words[0]} goes with --real (for example --real b11549)" in capsys.readouterr().err


def test_a_model_file_for_a_real_build_must_exist(recorded, tmp_path, capsys):
    assert main(["record", "S4", "--real", "b9713", "--gguf", str(tmp_path / "x.gguf")]) == exits.BAD_INPUT
    assert f"{tmp_path}/x.gguf: no such model" in capsys.readouterr().err and recorded == []


@pytest.mark.parametrize("what", ["server", "model"])
def test_a_missing_program_or_model_is_named(binary, tmp_path, what):
    args = Namespace(url="", real="", gguf=None, install=False, **{"server": binary, "model": binary, what: tmp_path})
    with pytest.raises(BadInput, match=f"{tmp_path}: no such {what}"):
        record.check_place(args)


def test_several_recordings_need_a_folder(binary, gguf, faked, tmp_path, capsys):
    (folder := tmp_path / "cases").mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(CASE.format(name), "utf-8")
    words = ["record", str(folder), "--server", str(binary), "--model", str(gguf), "--out"]
    assert main([*words, str(tmp_path / "x.json")]) == exits.BAD_INPUT
    assert "x.json: expected a folder for 2 recordings" in capsys.readouterr().err
    assert main([*words, str(tmp_path)]) == exits.HOLDS
    out, err = capsys.readouterr()
    counts = []
    for name in ("one", "two"):
        [step] = json.loads((tmp_path / f"{name}.json").read_text())["steps"]
        counts.append(f"{tmp_path / name}.json: 1 steps, {len(step['events'])} events")
    assert out.splitlines() == counts and err == ""


def test_options_are_added_to_those_of_a_file(binary, gguf, faked, tmp_path, monkeypatch):
    (file := tmp_path / "one.toml").write_text(CASE.format("one").replace("[words]", "[server]\nparallel=1\n[words]"))
    monkeypatch.chdir(tmp_path)
    words = ["record", str(file), "--server", str(binary), "--model", str(gguf), "--set", "ctx_checkpoints=2"]
    binary.write_text("#!/bin/sh\n", "utf-8")
    assert main(words) == exits.BAD_INPUT
    assert main([*words, "--commit", "b10587"]) == exits.HOLDS          # the server does not report its build
    trace = json.loads((tmp_path / "one.json").read_text())
    assert (trace["flags"], trace["name"]) == (["-np", "1", "-ctxcp", "2"], "one")


def test_a_model_of_other_layers_is_noted(binary, gguf, faked, tmp_path, capsys):
    (file := tmp_path / "one.toml").write_text(CASE.format("one").replace("GGGA", "GA"))
    out = str(tmp_path / "out.json")
    assert main(["record", str(file), "--server", str(binary), "--model", str(gguf), "--out", out]) == exits.HOLDS
    assert "written for the model GA, recorded with tiny-GGGA.gguf" in capsys.readouterr().err


@pytest.fixture
def recorded(monkeypatch):
    """Recordings on real servers, which are not started: each has the name and the model of its scenario."""
    asked = []

    def record(scenario, server, gguf):
        asked.append((repr(scenario), scenario.model, server, gguf))
        return {"name": scenario.id, "steps": [{"events": [1, 2]}]}, ["a note"]

    monkeypatch.setattr(comparison, "record_case", record)
    monkeypatch.setattr(real_server, "find_servers", lambda text, may_install: [(text, may_install)])
    return asked


def test_a_real_build_records_a_line_with_the_given_layers(recorded, gguf, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["record", "S4/S", "--real", "b9713"]
    assert main([*words, "--layers", "GA", "--install", "--gguf", str(gguf)]) == exits.HOLDS
    assert main(words) == exits.HOLDS
    assert recorded == [("S4/S", "GA", ("b9713", True), gguf), ("S4/S", "GGGA", ("b9713", False), None)]
    out, err = capsys.readouterr()
    assert out == "try.json: 1 steps, 2 events\n" * 2 and err == "cachesim: try: a note\n" * 2
    assert json.loads((tmp_path / "try.json").read_text())["name"] == "try"


def test_a_recording_is_made_on_a_single_build(recorded, monkeypatch, capsys):
    monkeypatch.setattr(real_server, "find_servers", lambda text, may_install: [1, 2])
    assert main(["record", "S4", "--real", "b9713,b9873"]) == exits.BAD_INPUT
    assert "record takes one build (cachesim real list)" in capsys.readouterr().err and recorded == []


def test_the_usage_names_the_value_of_each_option():
    parser = ArgumentParser(prog="record")
    record.add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[--server BIN]", "[--model GGUF]", "[--url URL]", "[--timeout S]", "[--layers MODEL]",
                 "[--commit NAME]", "[--out FILE]", "[--json]"):  # fmt: skip
        assert text in usage
    assert usage.endswith(" FILE|LINE|FOLDER")
    args = parser.parse_args(["S4"])
    assert (args.server, args.model, args.url, args.timeout, args.layers, args.commit, args.out) == (
        None, None, "", 120.0, "", "", None)
    assert parser.parse_args(["S4", "--timeout", "3"]).timeout == 3.0


@pytest.mark.parametrize(("commit", "kept"), [("", "b1"), ("b2", "b2")])
def test_the_user_of_a_running_server_is_told_that_a_slot_is_cleared(monkeypatch, capsys, commit, kept):
    asked = []

    def record_url(scenario, remote, layers, options):
        asked.append((remote, layers, options, "clears a slot" in capsys.readouterr().err))
        return {"commit": "b1"}, ["a note"]

    monkeypatch.setattr(remote, "Remote", lambda url, flags, timeout: nullcontext((url, timeout)))
    monkeypatch.setattr(case, "record_url", record_url)
    args = Namespace(url="http://x", timeout=3.0, layers="GA", settings=["ctx_size=64"], commit=commit)
    assert record._of_url(from_line("S4"), args) == ({"commit": kept}, ["a note"])
    assert asked == [(("http://x", 3.0), "GA", {"ctx_size": 64}, True)]


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    record.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []


def test_of_a_folder_the_scenarios_of_llama_cpp_are_recorded(tmp_path):
    for name in ("llama-24143-entry-removed-hybrid", "mlx-911-entry-removed-hybrid"):
        (tmp_path / f"{name}.toml").write_text(corpus_files()[name].read_text("utf-8"), "utf-8")
    found, bad = record._scenarios(Namespace(what=str(tmp_path), model=None, layers="", settings=["cache_ram=7"]))
    assert ([one.id for one in found], bad) == (["llama-24143-entry-removed-hybrid"], [])
    assert found[0].server["cache_ram"] == 7
