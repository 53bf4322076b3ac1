"""Tests of ``cachesim import``: what is printed before the log is simulated, and what is imported for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import Terminated
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.tools.advise import saved_tokens
from cachesim.tools.server_logs import cures, import_log
from cachesim.tools.server_logs.command import add_arguments
from tests.shared import ROOT

LOG = Path(__file__).parent / "verbosity_4.log"
ENGINE_OF = {"verbosity_4.log": "llama_cpp", "vllm.log": "vllm"}


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_the_first_lines_are_printed_before_the_log_is_simulated(capsys, monkeypatch):
    main(["import", str(LOG)])
    whole = capsys.readouterr().out
    printed = []

    def solve(*args):
        printed.append(capsys.readouterr().out)

    monkeypatch.setattr(import_log, "solve", solve)
    main(["import", str(LOG)])
    (first,) = printed
    assert whole.startswith(first) and len(first) < len(whole)
    assert first.startswith(str(LOG)[:40]) and first.count("\n") >= 3
    assert "common prefix" in first and "Cause:" not in first


@pytest.mark.parametrize(("module", "name"), [
    (import_log, "solve"), (saved_tokens, "saved_tokens"), (cures, "cures")])  # fmt: skip
def test_an_interrupt_leaves_the_first_lines(capsys, monkeypatch, module, name):
    monkeypatch.setattr(module, name, interrupt)
    code = main(["import", str(LOG)])
    said = capsys.readouterr()
    assert (code, said.err) == (exits.INTERRUPTED, f"cachesim: interrupted: the simulation of {LOG} was not finished\n")
    assert "common prefix" in said.out and "Simulated" not in said.out


def test_a_signal_has_its_own_exit_code(capsys, monkeypatch):
    def terminate(*_):
        raise Terminated(15)

    monkeypatch.setattr(import_log, "solve", terminate)
    assert main(["import", str(LOG)]) == 128 + 15


def test_json_is_one_object_even_after_an_interrupt(capsys, monkeypatch):
    monkeypatch.setattr(import_log, "solve", interrupt)
    assert main(["import", str(LOG), "--json"]) == exits.INTERRUPTED
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["message"]) == ("interrupted", f"the simulation of {LOG} was not finished")


def test_each_of_several_logs_is_reported_when_it_is_known(capsys, monkeypatch):
    printed = []
    solve = import_log.solve
    monkeypatch.setattr(import_log, "solve", lambda *args: printed.append(capsys.readouterr().out) or solve(*args))
    main(["import", str(LOG), str(LOG.with_name("parallel_slots.log"))])
    first, second = printed
    assert "Simulated" not in first and "Simulated" in second and "parallel_slots.log" in second


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
    assert [action.dest for action in parser._actions if not action.help] == []
    assert vars(parser.parse_args(["a.log"])) == {
        "files": ["a.log"], "out": "", "force": False, "model": "", "profiles": [], "settings": [], "pasted": "",
        "limits": [], "tokenizer": "", "template": "", "with_text": False, "json": False, "html": "", "svg": "",
        "trace": ""}  # fmt: skip


def test_the_usage_names_one_file_or_more():
    parser = ArgumentParser(prog="import")
    add_arguments(parser)
    assert " ".join(parser.format_usage().split()).endswith(" FILE [FILE ...]")
