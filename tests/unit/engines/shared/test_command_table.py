"""Tables of the arguments of real servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.engines.capabilities import Flag
from cachesim.engines.registry import BUILTIN
from cachesim.engines.shared.command_table import (
    MODEL,
    NO_EFFECT,
    OPEN,
    OPTION,
    AllowedSizes,
    CommandTable,
    default_table,
    json_object,
    read_human_integer,
    read_model_overrides,
    table_rows,
)

ENGINES = list(BUILTIN)


def test_a_row_has_values_spellings_releases_harmless_values_and_a_variable() -> None:
    (row,) = table_rows("e", not_simulated="\n1 --size -s >=2.0 <=3.0 =1 =Auto $SIZE\n")
    assert row.spellings == ("--size", "-s")
    assert (row.values, row.effect, row.since, row.until) == ("1", OPEN, "e@2.0", "e@3.0")
    assert (row.harmless, row.variable) == (("1", "auto"), "SIZE")


@pytest.mark.parametrize("text", ["one --a", "1 a", "3 --a"])
def test_a_broken_row_is_a_fault_of_cachesim(text: str) -> None:
    with pytest.raises(Crash):
        table_rows("e", options=text)


def test_a_release_has_the_rows_of_its_period() -> None:
    rows = table_rows("e", no_effect="1 --old <=1\n1 --new >=3\n0 --changed <=2\n1 --changed >=3\n1 --all")
    table = CommandTable((("e",),), rows, releases=("e@1", "e@2", "e@3"))
    assert [*table.of_release("e@1")] == ["--old", "--changed", "--all"]
    assert [*table.of_release("e@2")] == ["--changed", "--all"]
    assert table.of_release("e@2")["--changed"].values == "0"
    assert table.of_release("e@3")["--changed"].values == "1"
    assert (table.where("--old"), table.where("--new"), table.where("--changed")) == ("1", "3", "1 to 3")
    assert table.where("--none") == ""


@pytest.mark.parametrize(("text", "number"), [
    ("8192", 8192), ("32k", 32_000), ("32K", 32_768), ("1.5m", 1_500_000), ("2M", 2 << 20), ("0", 0),
])  # fmt: skip
def test_an_integer_may_have_a_unit(text: str, number: int) -> None:
    assert read_human_integer(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "-1", "1e9", "12345678901", "8 k", "٣"])
def test_other_texts_are_no_integers(text: str) -> None:
    with pytest.raises(BadInput, match="expected an integer"):
        read_human_integer(text)


@pytest.mark.parametrize("name", ENGINES)
def test_every_simulated_argument_has_a_flag_or_a_reader(name: str) -> None:
    engine = BUILTIN[name]
    table, manual = engine.command_table, engine.manual
    flags = {word for flag in manual.flags for word in (*flag.spellings, *flag.off)}
    for row in table.arguments:
        if row.effect == OPTION and row.spellings[0] not in table.readers:
            assert {*row.spellings} <= flags, row
    for first in table.readers:
        assert any(row.spellings[0] == first and row.effect == OPTION for row in table.arguments), first


@pytest.mark.parametrize("name", ENGINES)
def test_every_flag_of_the_engine_is_in_its_table_and_keeps_its_meaning(name: str) -> None:
    engine = BUILTIN[name]
    table = engine.command_table
    flags = {word for flag in engine.manual.flags for word in (*flag.spellings, *flag.off)}
    for word in flags & {*table.names}:
        allowed = {OPTION, OPEN}                    # a flag whose only simulated value is "none"
        assert {row.effect for row in table.names[word]} <= allowed, word


@pytest.mark.parametrize("name", ENGINES)
def test_a_table_names_each_spelling_once_in_a_release_and_its_own_releases(name: str) -> None:
    engine = BUILTIN[name]
    table = engine.command_table
    for release in table.releases or ("",):
        for spelling, rows in table.names.items():
            assert sum(table.has(row, release) for row in rows) <= 1, (spelling, release)
    for row in table.arguments:
        assert {row.since, row.until} <= {"", *table.releases}, row
    assert any(row.effect == MODEL for row in table.arguments)
    assert all(release.partition("@")[0] == name for release in table.releases)


def test_an_engine_without_a_table_has_its_flags() -> None:
    manual = BUILTIN["mlx_lm"].manual
    table = default_table("plain_server", manual.flags, manual.silent)
    assert table.starts == (("plain_server",), ("plain-server",))
    assert table.of_release("")["--prompt-cache-size"].effect == OPTION
    assert table.of_release("")["--host"].effect == NO_EFFECT
    assert table.of_release("")["--model"].effect == MODEL
    assert replace(BUILTIN["mlx_lm"], command=lambda: None).command_table.names.keys() == table.names.keys()


def test_an_option_without_a_spelling_is_no_argument_and_a_truth_value_has_no_value() -> None:
    flags = [Flag("size", 4, spellings=("-s", "--size")), Flag("inner", 4), Flag("fast", True, spellings=("--fast",),
                                                                                 off=("--slow",))]  # fmt: skip
    table = default_table("toy", flags, {"--log": 1, "--size": 0, "--quiet": 0})
    assert [(row.spellings, row.values, row.effect) for row in table.arguments] == [
        (("-m", "--model"), "1", MODEL), (("-s", "--size"), "1", OPTION), (("--fast", "--slow"), "0", OPTION),
        (("--log",), "1", NO_EFFECT), (("--quiet",), "0", NO_EFFECT)]  # fmt: skip


def test_only_positions_of_a_configuration_may_be_changed() -> None:
    assert read_model_overrides({"rope_scaling": {"factor": 2}}).ignored == ["rope_scaling"]
    assert read_model_overrides({"num_hidden_layers": 2}).refused == ["num_hidden_layers"]
    assert read_model_overrides({"text_config": {"sliding_window": 2}}).refused == ["sliding_window"]


def test_allowed_sizes_are_listed_or_multiples() -> None:
    listed = AllowedSizes("page_size", (32, 64), 64)
    every = AllowedSizes("block_size", (32, 48), 32, multiples=True)
    assert (listed.words, every.words) == ("32 or 64", "multiples of 32 or 48")
    assert [size for size in (16, 32, 48, 64, 96, 100) if listed.allow(size)] == [32, 64]
    assert [size for size in (16, 32, 48, 64, 96, 100) if every.allow(size)] == [32, 48, 64, 96]


@pytest.mark.parametrize("value", [5, [], "{}", None])
def test_a_json_object_is_no_other_value(value: object) -> None:
    with pytest.raises(BadInput, match="expected a JSON object, found"):
        json_object(value)
    assert json_object({"a": 1}) == {"a": 1}
