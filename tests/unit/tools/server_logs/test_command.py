"""Tests of ``cachesim import``: what is printed before the log is simulated, and what is imported for it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits, progress_bar
from cachesim.base.errors import Terminated
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.tools.run.arguments import CaseOptions
from cachesim.tools.server_logs.command import add_arguments, log_case
from cachesim.tools.server_logs.rebuild import candidate_server as replay_candidates
from tests.shared import ROOT

LOG = Path(__file__).parent / "verbosity_4.log"
LINES = 2                    # of a file that is read with a bar
ENGINE_OF = {"verbosity_4.log": "llama_cpp", "vllm.log": "vllm"}


def stop_simulation(monkeypatch, error):
    """Let the first request of the simulation raise an error."""

    class Expressions:
        def __getattr__(self, name):
            raise error

    monkeypatch.setattr(replay_candidates, "re", Expressions())


def lines_of(text):
    return [line for line in text.splitlines() if line.strip()]


def test_what_the_log_alone_shows_is_printed_before_the_simulation(capsys):
    main(["import", str(LOG), "-q"])
    whole = lines_of(capsys.readouterr().out)
    refused = ["-p", "llama_cpp@b1573", "--model", "I2048", "--set", "parallel=2"]
    assert main(["import", str(LOG), *refused]) == exits.BAD_INPUT
    first = lines_of(capsys.readouterr().out)
    assert first == whole[: len(first)] and 2 <= len(first) < len(whole) and first[0].startswith(str(LOG)[:40])


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), exits.INTERRUPTED), (Terminated(15), 128 + 15)])
def test_an_interrupt_leaves_the_first_lines_and_names_the_log(capsys, monkeypatch, error, code):
    stop_simulation(monkeypatch, error)
    assert main(["import", str(LOG)]) == code
    said = capsys.readouterr()
    assert said.out.startswith(str(LOG)[:40]) and len(lines_of(said.out)) >= 2
    assert code != exits.INTERRUPTED or str(LOG) in said.err
    with pytest.raises(KeyboardInterrupt) as found:
        log_case(LOG, CaseOptions())
    assert code != exits.INTERRUPTED or str(LOG) in str(found.value)


def test_json_is_one_object_even_after_an_interrupt(capsys, monkeypatch):
    stop_simulation(monkeypatch, KeyboardInterrupt())
    assert main(["import", str(LOG), "--json"]) == exits.INTERRUPTED
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "interrupted" and str(LOG) in error["message"]


def test_each_of_several_logs_is_reported_before_the_next_is_read(capsys):
    main(["import", str(LOG), "-q"])
    whole = lines_of(capsys.readouterr().out)
    assert main(["import", str(LOG), "missing.log", "-q"]) == exits.BAD_INPUT
    assert lines_of(capsys.readouterr().out) == whole


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINE_OF)
def test_only_the_engine_of_a_log_is_imported(name):
    """The default engine is always imported: its newest rule set is the default of a scenario."""
    code = ("import sys\nfrom cachesim.cli.main import main\nmain(['import', sys.argv[1]])\n"
            "print(*sys.modules, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code, str(LOG.with_name(name))], capture_output=True, text=True,
                          check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout.startswith(str(LOG.with_name(name)))
    imported = {engine for engine in ENGINES if f"cachesim.engines.{engine}.engine" in done.stderr.split()}
    assert imported == {ENGINE_OF[name], "llama_cpp"}
    others = [module for module in done.stderr.split() for engine in ENGINES if engine not in imported
              if module.startswith(f"cachesim.engines.{engine}.")]  # fmt: skip
    assert all(module.rpartition(".")[2].startswith("log_") for module in others)


def test_every_argument_of_an_import_has_its_default():
    parser = ArgumentParser()
    add_arguments(parser)
    assert vars(parser.parse_args(["a.log"])) == {
        "files": ["a.log"], "out": "", "force": False, "model": "", "profiles": [], "settings": [], "pasted": "",
        "limits": [], "tokenizer": "", "template": "", "with_text": False, "json": False, "html": "", "svg": "",
        "trace": "", "plot": ""}  # fmt: skip


def test_the_usage_names_one_file_or_more():
    parser = ArgumentParser(prog="import")
    add_arguments(parser)
    assert " ".join(parser.format_usage().split()).endswith(" FILE [FILE ...]")


@pytest.mark.parametrize(("command", "file", "bar"), [
    ("import", "request_bodies/agent.jsonl", "comparing requests"),
    ("import", "server_logs/kv_events/unnumbered.jsonl", "reading"),
    ("advise", "request_bodies/agent.jsonl", "comparing requests"),
    ("explain", "server_logs/verbosity_4.log", "reading"),
])  # fmt: skip
def test_requests_and_events_have_a_bar_while_they_are_read(command, file, bar, monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_bar, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    part = tmp_path / Path(file).name
    part.write_bytes(b"".join((ROOT / "tests/unit/tools" / file).read_bytes().splitlines(keepends=True)[:LINES]))
    main([command, str(part)])
    assert bar in sys.stderr.getvalue()
