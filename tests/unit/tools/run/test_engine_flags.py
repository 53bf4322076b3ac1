"""Tests of server flags on cachesim's command line, besides its own options."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import Parser, main
from cachesim.tools.run.engine_flags import take


def tried(capsys, *argv):
    """Runs as data, and stderr."""
    assert main(["run", *argv, "--provenance", "--json"]) in (exits.HOLDS, exits.BROKEN)
    out, err = capsys.readouterr()
    return json.loads(out)["runs"], err


def counts(runs):
    return [[one["cache_n"] for one in run["requests"]] for run in runs]


LINE = "S600.A60/S.A[:50].B5"


def test_the_servers_spelling_is_that_of_set(capsys):
    typed = tried(capsys, LINE, "--ctx-checkpoints", "0", "-np", "2", "-kvu", "-c", "2048", "--cache-ram=0")
    settings = ["ctx_checkpoints=0", "parallel=2", "kv_unified=true", "ctx_size=2048", "cache_ram=0"]
    set_ = tried(capsys, LINE, *(word for one in settings for word in ("--set", one)))
    plain = tried(capsys, LINE)
    assert typed == set_
    assert counts(typed[0]) != counts(plain[0])


def test_our_options_come_first(capsys):
    runs, _ = tried(capsys, "-b", "32", LINE, "-p", "llama_cpp@b10587", "-ub", "8", "--model", "A", "-no-kvu")
    assert [run["profile"] for run in runs] == ["llama_cpp@b10587"]
    assert runs[0]["model"] == "A"


def test_what_changes_nothing_is_told(capsys):
    runs, err = tried(capsys, LINE, "-ngl", "99", "--jinja", "-np", "1")
    assert err == "cachesim: without effect: -ngl, --jinja\n"
    assert runs == tried(capsys, LINE, "-np", "1")[0]


def test_the_engine_of_the_profile_says_what_its_flags_are(capsys):
    runs, _ = tried(capsys, "A20/A", "--model", "A", "--prefill-step-size", "4", "-p", "mlx_lm@d78bf58e")
    assert len(runs) == 1
    runs, _ = tried(capsys, "A20/A", "--model", "A", "-p", "ik_llama@main", "--context-shift", "off", "-crs", "0.2")
    assert len(runs) == 1


@pytest.mark.parametrize(("argv", "words"), [
    (["run", "A20", "-np"], "server flag '-np' has no value"),
    (["run", "A20", "-np", "two"], "parallel must be an integer, not 'two'"),
    (["run", "A20", "--ctx-checkpoint", "8"], "did you mean '--ctx-checkpoints'?"),
    (["run", "A20", "-p", "mlx_lm@d78bf58e", "-np", "2"], "unknown option '-np'"),
    (["run", "A20", "--xyzzy"], "cachesim options ENGINE"),
    (["profiles", "list", "-np", "2"], "unknown option '-np'"),
])  # fmt: skip
def test_what_is_no_flag_of_the_server_is_one_line(capsys, argv, words):
    assert main(argv) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert words in err and err.count("\n") == 1 and not out


def test_run_takes_flags_instead_of_those_of_the_file(capsys):
    def played(*argv):
        main(["run", "llama-lesson-recurrent", *argv, "--json"])
        return json.loads(capsys.readouterr().out)["runs"]

    without, plain = played("--ctx-checkpoints", "0"), played()
    assert counts(without) != counts(plain)
    assert [run["mismatches"] for run in without] == [[]] * len(without)
    assert main(["run", "x.toml", "--complete", "-np", "2"]) == exits.BAD_INPUT


def test_no_cache_prompt_is_the_default_of_requests(capsys):
    assert counts(tried(capsys, "A20/A.B5", "--model", "A", "--no-cache-prompt")[0]) == [[0, 0]]
    assert counts(tried(capsys, "A20/A.B5", "--model", "A")[0]) == [[0, 20]]


@pytest.mark.long
def test_a_search_sets_them_for_every_drawn_server(capsys):
    def found(*argv):
        main(["fuzz", "-p", "b9518", "--examples", "20", "--model", "W", "--no-shrink", *argv, "--json"])
        return json.loads(capsys.readouterr().out)["failures"]

    assert found() and not found("--ctx-checkpoints", "0")
    assert {one["server"]["parallel"] for one in found("-np", "2", "-kvu")} == {2}


def test_a_repair_sets_them_in_files_too(capsys):
    argv = ["repair", "llama_cpp@b10587", "llama-one-token-checkpoint-hybrid", "--examples", "1", "--no-shrink",
        "--json"]
    assert main([*argv, "--ctx-checkpoints", "0"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["failing"] == 0


@pytest.fixture
def ours():
    parser = Parser()
    parser.add_argument("-p", "--profile")
    parser.add_argument("--set")
    parser.add_argument("--json", action="store_true")
    return parser


@pytest.mark.parametrize(("line", "argv", "settings", "silent"), [
    ("A20 -np 2 B", "A20 B", "-np=2", ""), ("-np=2 -c=8", "", "-np=2 -c=8", ""),
    ("-p -np A20", "-p -np A20", "", ""),                                  # the value of our own option
    ("--json -np 2", "--json", "-np=2", ""), ("--profile=-np A20", "--profile=-np A20", "", ""),
    ("-kvu A20", "A20", "-kvu=true", ""), ("-kvu off A20", "A20", "-kvu=off", ""),
    ("-kvu=on A20", "A20", "-kvu=on", ""),
    ("-no-kvu -np 2", "", "-no-kvu=true -np=2", ""), ("A20 -kvu", "A20", "-kvu=true", ""),
    ("-ngl 99 --jinja A20", "A20", "", "-ngl --jinja"), ("-ngl=99 A20", "A20", "", "-ngl=99"),
    ("A20 -- -np 2 -p", "A20 -- -np 2 -p", "", ""), ("- -np 2", "-", "-np=2", ""), ("--xyzzy 2", "--xyzzy 2", "", ""),
    ("-p mlx_lm@0.31.3 -np 2", "-p mlx_lm@0.31.3 -np 2", "", ""),
    ("-p mlx_lm@0.31.3 --prefill-step-size 4", "-p mlx_lm@0.31.3", "--prefill-step-size=4", ""),
    ("-p", "-p", "", ""), ("A --set -np 2", "A", "-np=2", ""), ("--set a=2 -np 2", "--set a=2", "-np=2", ""),
    ("--set --json", "--set --json", "", ""), ("--set", "--set", "", ""),
])  # fmt: skip
def test_a_command_line_is_ours_or_the_servers_word_by_word(ours, line, argv, settings, silent):
    found = take(line.split(), ours)
    assert (found.argv, found.settings, found.silent) == (argv.split(), settings.split(), silent.split())


@pytest.mark.parametrize("line", ["-np", "A20 -c", "-ngl"])
def test_a_flag_without_its_value_is_refused(ours, line):
    with pytest.raises(BadInput, match="has no value"):
        take(line.split(), ours)
