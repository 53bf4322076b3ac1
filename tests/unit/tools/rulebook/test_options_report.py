"""Tests of the report of ``options``: the data of a flag, and its paragraph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.console import as_text
from cachesim.engines.capabilities import Flag
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.tools.rulebook.options_report import options_data, options_report
from tests.unit.tools.rulebook.toy_engine import lines_of

ENGINE = ENGINES["sglang"]
PLAIN = {"off": [], "choices": [], "model": False, "help": ""}


def data_of(*flags, rules=None):
    return options_data(ENGINE, rules, flags)["flags"]


@pytest.mark.parametrize(("flag", "data"), [
    (Flag("size", 4, least=1, open=0, spellings=("-s", "--size"), help="Cells."),
     {"spellings": ["-s", "--size"], "type": "integer", "default": 4, "least": 1, "open": 0, "most": None,
      "help": "Cells."}),
    (Flag("share", 0.5, most=2), {"spellings": [], "type": "number", "default": 0.5, "least": 0, "open": None,
                                   "most": 2}),
    (Flag("fast", True, off=("--slow",)), {"spellings": [], "type": "true or false", "default": True, "least": None,
                                           "open": None, "most": None, "off": ["--slow"]}),
    (Flag("kind", "a", choices=("", "a"), model=True),
     {"spellings": [], "type": "text", "default": "a", "least": None, "open": None, "most": None, "choices": ["", "a"],
      "model": True}),
])  # fmt: skip
def test_a_flag_as_data(flag, data):
    assert data_of(flag) == [{"name": flag.name, **PLAIN, **data}]


def test_a_rule_set_has_its_own_defaults_and_spellings():
    rules = replace(rules_of("sglang@0.5.20"), defaults={"page_size": 64})
    page, mamba = (ENGINE.manual.flag(name) for name in ("page_size", "mamba_radix_cache_strategy"))
    page_data, mamba_data = data_of(page, mamba, rules=rules)
    assert (page_data["default"], page_data["spellings"]) == (64, ["--page-size"])
    assert mamba_data["spellings"] == ["--mamba-radix-cache-strategy"]
    assert len(data_of(mamba)[0]["spellings"]) == 2
    made = Flag("made_up", 3, spellings=("--made-up",))
    assert data_of(made, rules=rules)[0]["spellings"] == ["--made-up"]
    whole = options_data(ENGINE, rules, ())
    assert (whole["engine"], whole["profile"], whole["flags"]) == ("sglang", "sglang@0.5.20", [])
    assert options_data(ENGINE, None, ())["profile"] == ""


@pytest.mark.parametrize(("flag", "title", "facts"), [
    (Flag("size", 4, least=1, open=0, spellings=("-s", "--size")), "-s, --size N", "default 4; at least 1, or 0"),
    (Flag("size", 4, least=1, open=1, spellings=("--size",)), "--size N", "default 4; at least 1"),
    (Flag("size", 4, least=1, open=-1, spellings=("--size",)), "--size N", "default 4; at least 1, or -1"),
    (Flag("size", 0), "--set size=", "default 0; at least 0"),
    (Flag("share", 0.5, most=2, spellings=("--share",)), "--share X", "default 0.5; 0 to 2"),
    (Flag("fast", True, spellings=("--fast",), off=("--slow",)), "--fast, --slow", "default on"),
    (Flag("fast", False, spellings=("--fast",)), "--fast", "default off"),
    (Flag("name", "", spellings=("--name",)), "--name WORD", "default none"),
    (Flag("kind", "a", choices=("", "a", "b"), spellings=("--kind",)), "--kind WORD", "default a; one of a, b"),
])  # fmt: skip
def test_a_flag_as_a_paragraph(flag, title, facts):
    lines = lines_of(options_report(options_data(ENGINE, None, [flag]), whole=False))
    head = "server flags of sglang: as on its own command line, or --set NAME=VALUE"
    assert lines == [head, f"  {title}", f"      {flag.name}: {facts}"]


def test_a_paragraph_ends_with_the_help():
    data = options_data(ENGINE, rules_of("sglang@0.5.20"), [Flag("size", 4, help="Cells.")])
    lines = as_text(options_report(data, whole=False)).splitlines()
    assert lines[0].startswith("server flags of sglang@0.5.20: ") and lines[-1].strip() == "Cells."


def test_a_whole_report_ends_with_models_layers_and_fields():
    data = options_data(ENGINE, None, ())
    known = {"name": "big", "layers": "GA", "real": "one of each", "unverified": ["large"]}
    request = {"name": "x", "example": "{x=1}", "help": "a field"}
    lines = lines_of(options_report({**data, "known": [known], "models": [], "request": [request]}))
    assert lines[1:5] == ["", "models (--model)", " big GA. One of each. Not verified: large.",
                          "      tiny ones with layers of their own: none"]  # fmt: skip
    assert lines[5].startswith("      or layers, such as GGGA or W8 A: ")
    assert lines[-3:] == ["", "in a line, after the words of a request", " {x=1} a field"]
    named = as_text(options_report({**data, "known": [], "models": ["m", "n"]}))
    assert "tiny ones with layers of their own: m, n\n" in named


def test_a_flag_without_a_help_takes_two_lines():
    flags = [Flag("size", 4, spellings=("--size",)), Flag("fast", True, spellings=("--fast",), help="Be fast.")]
    lines = lines_of(options_report(options_data(ENGINE, None, [*flags, flags[0]]), whole=False))
    size = ["  --size N", "      size: default 4; at least 0"]
    assert lines[1:] == [*size, "  --fast", "      fast: default on", "      Be fast.", *size]
