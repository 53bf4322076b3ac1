"""Every command that ``advise`` prints repeats the run that its numbers come from."""

from __future__ import annotations

import json
import shlex

import pytest

from cachesim.cli.main import main
from tests.shared import SHARED, needs

pytestmark = pytest.mark.long

LINE = "S40.A60/B80/S.C50/S.A.D5"
BODIES = "tests/unit/tools/request_bodies/agent.jsonl"
QUICK = [
    (LINE, "--parallel", "1", "--ctx-size", "512", "--limit", "passes=900000"),
    ("A60>8/B60>8/A.C9/B.D5", "-p", "vllm", "--model", "AAAA", "--num-gpu-blocks-override", "8"),
]
LONG = [
    (LINE, "-p", "ik_llama@main", "--model", "GGGA", "--ctx-checkpoints", "2"),
    ("A60>8/B40/A.C9/B.D5", "-p", "mlx_lm", "--model", "A", "--prompt-cache-size", "1"),
    ("A60>8/B40/A.C9/B.D5", "-p", "sglang", "--model", "A", "--max-total-tokens", "160"),
    (LINE, "--sizes", "qwen3-next", "--cache-ram", "100"),
    ("llama-24143-entry-removed-dense", "--set", "-np", "2"),
    (BODIES, "-p", "llama_cpp@b11549", "-np", "1"),
    ("tests/unit/tools/server_logs/excerpt.log", "--model", "GGGA"),
]
OUTSIDE = [
    (str(SHARED / "bodies" / "note-at-fixed-depth.jsonl"), "--cache-ram", "0", "-p", "llama_cpp@b11549"),
    (str(SHARED / "logs" / "llamacpp-2026-02-opencode-19408.log"),),
]


def printed(capsys, *words):
    """Return the JSON that a command prints."""
    main([*words, "--json", "-q"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("words", [
    *QUICK, *(pytest.param(words, marks=pytest.mark.long) for words in LONG),
    *(pytest.param(words, marks=[pytest.mark.long, needs(SHARED / "bodies")]) for words in OUTSIDE),
])  # fmt: skip
def test_every_command_repeats_its_run(words, capsys):
    found = printed(capsys, "advise", *words, "--seconds", "600")
    for data in found["advise"]:
        for one in (*data["advice"], *data["traps"]):
            (again,) = printed(capsys, *shlex.split(one["command"])[1:])["runs"]
            assert [each["prompt_n"] for each in again["requests"]] == one["each"], one["command"]
            assert (again["broken"], again["profile"]) == (one["wrong"], one["profile"])
        sure = [one for one in data["advice"] if one["certain"] and not one["wrong"]]
        assert sure == [] or data["advice"][0]["saved"] == max(one["saved"] for one in sure) or data["base"]["wrong"]


def test_each_option_is_printed_once_and_limits_are_printed(capsys):
    (data,) = printed(capsys, "advise", *QUICK[1], "--limit", "passes=900000")["advise"]
    commands = [one["command"] for one in data["advice"]]
    assert commands and all(command.count("num_gpu_blocks") == 1 for command in commands)
    assert all(command.endswith("--limit passes=900000") for command in commands)


def test_a_build_between_two_rule_sets_is_not_advised_an_older_one(capsys):
    (data,) = printed(capsys, "advise", LINE, "-p", "b9600", "--set", "parallel=1")["advise"]
    builds = [int(change["build"][1:]) for one in data["advice"] for change in one["changes"] if change["build"]]
    assert all(build >= 9600 for build in builds)


@pytest.mark.long
def test_a_log_is_advised_no_change_that_it_contradicts_and_has_no_bound(capsys):
    log = "tests/unit/tools/server_logs/excerpt.log"
    (data,) = printed(capsys, "advise", log)["advise"]
    names = [change["name"] for one in data["advice"] for change in one["changes"]]
    assert "mark messages" not in names and data["bound"]["holds"] is False
    main(["advise", log, "-q"])
    assert "lower bound" not in capsys.readouterr().out


LOG = "tests/unit/tools/server_logs/default_verbosity.log"
DATED = "tests/unit/tools/server_logs/dated_turns.log"


@pytest.mark.long
def test_an_import_prints_the_arguments_of_its_run(capsys):
    given = ["-p", "llama_cpp@b11549", "--model", "GGGA", "--set", "ubatch_size=256", "--limit", "sought=250000"]
    main(["import", DATED, *given])
    text = " ".join(capsys.readouterr().out.split())
    commands = [words for words in text.split("cachesim ")[1:] if words.startswith(("advise", "import"))]
    assert f"cachesim advise {DATED} {' '.join(given)}" in text
    assert all(" ".join(given) in command for command in commands if DATED in command)
    data = printed(capsys, "import", DATED, *given)["logs"][0]
    (advice,) = printed(capsys, "advise", DATED, *data["arguments"])["advise"]
    assert (advice["profile"], advice["model"]) == (data["profile"], data["model"])


def test_a_log_that_prints_its_build_is_judged_by_its_rules_unless_another_is_given(capsys, tmp_path):
    file = tmp_path / "server.log"
    with open(LOG, encoding="utf-8") as log:
        file.write_text("0.00.001.000 I cmn  common_param: common_params_print_info: build 9713 (unknown) with GNU "
                        f"12.2.0 for Linux x86_64\n{log.read()}")  # fmt: skip
    (data,) = printed(capsys, "advise", str(file))["advise"]
    assert (data["profile"], data["log"]["printed_build"]) == ("llama_cpp@b9713", 9713)
    main(["advise", str(file), "-p", "llama_cpp@b11549", "-q"])
    assert "the log prints build 9713; simulated is llama_cpp@b11549" in " ".join(capsys.readouterr().out.split())


def test_a_rule_set_without_a_release_is_no_advice(capsys):
    (data,) = printed(capsys, "advise", "tests/unit/tools/server_logs/verbosity_4.log")["advise"]
    assert data["not_released"] and all(change["released"] for one in data["advice"] for change in one["changes"])
    assert not any(one["certain"] for one in data["not_released"])
