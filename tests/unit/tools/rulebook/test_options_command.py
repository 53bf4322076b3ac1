"""Tests of ``cachesim options`` and of references to it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.engines.capabilities import Flag
from cachesim.engines.registry import ENGINES
from cachesim.model.layer_kinds import KINDS
from cachesim.tools.rulebook.options_command import prepared
from cachesim.tools.rulebook.options_report import options_data, options_report


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_flag_is_listed_with_its_default_and_what_it_changes(capsys, engine):
    assert main(["options", engine]) == exits.HOLDS
    out = capsys.readouterr().out
    words = " ".join(out.split())
    for flag in ENGINES[engine].manual.flags:
        assert f"{flag.name}: default" in words
        assert " ".join(flag.help.split()) in words
    assert all(model in words for model in ENGINES[engine].manual.models)
    assert all(f"{kind.letter} {kind.words}" in words for kind in KINDS.values())
    assert max(map(len, out.splitlines())) <= 80


def test_one_flag_in_any_spelling(capsys):
    texts = set()
    for word in ("-np", "--parallel", "np", "n_parallel", "parallel"):
        assert main(["options", "llama_cpp", word]) == exits.HOLDS
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1 and "-np, --parallel N" in texts.pop()


def test_the_first_engine_is_meant_where_none_is_named(capsys):
    outs = []
    for argv in ([], ["llama_cpp"], ["-p", "llama_cpp@b10587"], ["llama_cpp@b10587"]):
        assert main(["options", *argv]) == exits.HOLDS
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] and outs[2] == outs[3]


def test_a_rule_set_has_its_own_defaults(capsys):
    told = []
    for name in ("llama_cpp@b8152", "llama_cpp"):
        main(["options", name, "ctx-checkpoints", "--json"])
        told.append(json.loads(capsys.readouterr().out))
    assert [one["flags"][0]["default"] for one in told] == [8, 32]
    assert [[*one] for one in told] == [["schema", "engine", "profile", "flags"]] * 2
    assert [one["profile"] for one in told] == ["llama_cpp@b8152", ""]


def test_as_data(capsys):
    assert main(["options", "mlx_lm", "--json"]) == exits.HOLDS
    data = json.loads(capsys.readouterr().out)
    assert data["engine"] == "mlx_lm" and "qwen3_next" in data["models"]
    assert {"name": "seed", "example": "{seed=True}"}.items() <= next(
        one for one in data["request"] if one["name"] == "seed").items()
    assert not any(one["name"] in ("id_slot", "save") for one in data["request"])


@pytest.mark.parametrize(("argv", "words"), [
    (["options", "lama"], "did you mean 'ik_llama'?"),
    (["options", "llama_cpp", "ctx-chekpoints"], "did you mean 'ctx_checkpoints'? see cachesim options llama_cpp"),
    (["options", "llama_cpp@b10587x"], "did you mean 'llama_cpp@b10587'?"),
    (["options", "llama_cpp", "-p", "mlx_lm@d78bf58e"], "not a rule set of llama_cpp"),
    (["run", "S4", "--set", "xyzzy=3"], "see cachesim options llama_cpp"),
    (["run", "S4", "--set", "np"], "expected key=value"),
])  # fmt: skip
def test_errors_lead_to_the_list(capsys, argv, words):
    assert main(argv) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_help_leads_to_the_list(capsys):
    for command in ("run", "run", "why", "diff", "shrink", "bisect", "record", "fuzz", "repair"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert "cachesim options ENGINE" in " ".join(capsys.readouterr().out.split())


def test_an_engine_whose_flags_say_nothing_is_listed():
    engine = ENGINES["mlx_lm"]
    flags = (Flag("block_size", 16), Flag("eagle", False))
    bare = replace(engine, manual=replace(engine.manual, flags=flags))
    text = as_text(options_report(options_data(bare, None, bare.manual.flags)))
    assert "--set block_size=" in text and "block_size: default 16; at least 0" in text
    assert "eagle: default off" in text


@pytest.mark.parametrize(("release", "spelling"), [
    ("0.5.9", "--mamba-scheduler-strategy"), ("0.5.20", "--mamba-radix-cache-strategy"),
    ("0.5.23", "--mamba-radix-cache-strategy"),
])  # fmt: skip
def test_a_flag_has_the_spelling_of_the_release(capsys, release, spelling):
    assert main(["options", f"sglang@{release}", "mamba_radix_cache_strategy", "--json"]) == exits.HOLDS
    (flag,) = json.loads(capsys.readouterr().out)["flags"]
    assert flag["spellings"] == [spelling]


def test_the_last_rule_set_that_is_given_has_the_defaults(capsys):
    assert main(["options", "-p", "llama_cpp@b8152", "-p", "mlx_lm@0.31.1"]) == exits.HOLDS
    assert capsys.readouterr().out.startswith("server flags of mlx_lm@0.31.1: ")
    assert main(["options", "mlx_lm", "draft-model", "-p", "mlx_lm@0.31.1", "--json"]) == exits.HOLDS
    data = json.loads(capsys.readouterr().out)
    assert (data["engine"], data["profile"], [flag["name"] for flag in data["flags"]]) == (
        "mlx_lm", "mlx_lm@0.31.1", ["draft_model"])  # fmt: skip


def test_a_flag_is_accepted_with_its_dashes():
    assert prepared(["options", "-np", "--cache-ram", "-p", "x@1", "--json"], ["-p", "--json"]) == [
        "options", "np", "cache-ram", "-p", "x@1", "--json"]  # fmt: skip
