"""Command lines that people posted: each is read as `command_lines.toml` states, or refused with the reason there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shell_words import command_words
from cachesim.engines.registry import engine_of
from cachesim.scenarios.option_checks import model_named
from cachesim.tools.run.pasted_command import model_of, read_pasted

LINES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "command_lines.toml").read_text())["line"]
IDS = [line["address"].removeprefix("https://").removeprefix("github.com/") for line in LINES]


def simulated_layers(model: str, engine: str) -> str:
    """Return the layers that a model's name in a command line stands for, without their sizes."""
    return model_named(model_of(model, engine, real=False).model, engine).model.partition("@")[0]


@pytest.mark.parametrize("line", LINES, ids=IDS)
def test_a_posted_line_is_read_as_stated_or_refused(line: dict[str, Any]) -> None:
    if "rules" not in line:
        with pytest.raises(BadInput) as caught:
            read_pasted(line["command"], line.get("profiles", []))
        assert line["refused"] in str(caught.value)
        return
    found = read_pasted(line["command"], line.get("profiles", []))
    command = found.command
    assert found.profile == line["rules"]
    assert command.options == line["options"]
    assert command.model == line.get("model", "")
    for name in ("ignored", "sized", "limits", "unread", "before"):
        assert getattr(command, name) == line.get(name, []), name


@pytest.mark.parametrize("line", [line for line in LINES if "rules" in line], ids=lambda line: line["address"])
def test_no_flag_of_an_accepted_line_is_left_out(line: dict[str, Any]) -> None:
    command = read_pasted(line["command"], line.get("profiles", [])).command
    words = [word.text.partition("=")[0] for word in command_words(line["command"])]
    given = {word for word in words if word.startswith("--") and not word[2:3].isdigit()}
    derived = [reason.partition("(")[2] for reason in command.derived]
    named = [*command.ignored, *command.sized, *command.limits, *derived]
    table = engine_of(line["rules"]).command_table.of_release(line["rules"])
    others = len(command.options) + bool(command.model)
    own = {word for word in given if word.replace("_", "-") in table or any(n.startswith(word) for n in table)}
    assert len({name.partition(" ")[0] for name in named if name.startswith("-")}) + others >= len(own)


@pytest.mark.parametrize("line", [line for line in LINES if "layers" in line], ids=lambda line: line["address"])
def test_the_name_of_the_model_stands_for_the_stated_layers(line: dict[str, Any]) -> None:
    assert simulated_layers(line["model"], line["rules"].partition("@")[0]) == line["layers"]


@pytest.mark.parametrize(
    "line", [line for line in LINES if "rules" in line and "refused" in line], ids=lambda line: line["address"])
def test_an_unknown_model_is_asked_for(line: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="--model MODEL") as caught:
        simulated_layers(line["model"], line["rules"].partition("@")[0])
    assert line["refused"] in str(caught.value)


def test_the_lines_are_sixty_of_three_engines_with_distinct_addresses() -> None:
    assert len(set(IDS)) == len(LINES) >= 60
    text = [line["command"] for line in LINES]
    for word, least in (("vllm", 20), ("sglang", 15), ("llama", 15)):
        assert sum(word in command for command in text) >= least


@pytest.mark.part(4)
@pytest.mark.parametrize("line", LINES, ids=IDS)
def test_a_damaged_line_is_read_or_refused_in_one_line(line: dict[str, Any]) -> None:
    text = line["command"]
    step = max(1, len(text) // 6)
    damaged = [text[:at] for at in range(step, len(text), step)]
    signs = NASTY[len(text) % 7 :]
    damaged += [text[:at] + sign + text[at:] for at, sign in zip(range(0, len(text), step), signs, strict=False)]
    for one in damaged:
        try:
            read_pasted(one, line.get("profiles", []))
        except BadInput as bad:
            assert "\n" not in str(bad) and str(bad).isprintable()


NASTY = ("\0", "\udc80", "'", '"', "\\", "{", "]", "=", "\x1b[2J", " - ", "--", "$", "\u202e", " -.a ")
