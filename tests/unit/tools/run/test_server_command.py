"""Reading of pasted server commands with a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shell_words import command_words
from cachesim.engines.capabilities import Flag
from cachesim.engines.shared.command_table import ArgumentStyle, CommandTable, ParsedArgument, table_rows
from cachesim.tools.run.server_command import NotInRelease, Program, ServerCommand, find_program, read_command

FLAGS = (
    Flag("block", 16, spellings=("--block", "-b")),
    Flag("caching", True, spellings=("--caching",), off=("--no-caching",)),
    Flag("policy", "lru", choices=("lru", "lfu"), spellings=("--policy",)),
    Flag("share", 0.5, spellings=("--share",)),
)
ROWS = table_rows(
    "e",
    options="1 --block -b $E_BLOCK\n0 --caching --no-caching $E_CACHING\n1 --policy\n1 --share\nj --draft -d\n"
            "1 --chunk",
    models="1 --model -m",
    sizes="1 --memory",
    limits="1 --queue",
    not_simulated="1 --replicas =1\nj --connector\n0 --mixed",
    no_effect="1 --host\n0 --verbose\n+ --names\n? --token\n* --paths\n2 --range\nj --graph-config\n1 --level\n"
              "0 --old-only <=2\n1 --changed >=2\n0 --changed <=1",
)  # fmt: skip


def read_draft(value: object) -> ParsedArgument:
    """Read a JSON value with a number ``n``."""
    if not isinstance(value, dict):
        raise BadInput("expected a JSON object")
    rest = [key for key in value if key not in ("n", "model")]
    return ParsedArgument({"block": value.get("n", 1)}, [key for key in value if key == "model"], rest)


TABLE = CommandTable(
    starts=(("engine", "serve"), ("-m", "engine.server")),
    arguments=ROWS,
    releases=("e@1", "e@2", "e@3"),
    style=ArgumentStyle(underscores=True),
    positional=True,
    images=("vendor/engine",),
    mark="fork",
    readers={
        "--draft": read_draft,
        "--chunk": lambda text: ParsedArgument(needs={"chunks": "unknown"}, limits=(text,)),
    },
    renamed={"--old-only": "--verbose", "--ancient": ""},
    variables=("E_",),
)
STRICT = CommandTable(starts=TABLE.starts, arguments=TABLE.arguments, style=ArgumentStyle(False, False, False))


def read(line: str, release: str = "e@3", table: CommandTable = TABLE) -> ServerCommand:
    """Return the meaning of a command line."""
    words = command_words(line)
    program = find_program(words, table)
    assert program is not None
    return read_command(words, program, table, FLAGS, release)


@pytest.mark.parametrize("start", [
    "engine serve", "/usr/bin/engine serve", "C:\\bin\\engine.exe serve", "python3 -m engine.server",
    "CUDA_VISIBLE_DEVICES=0 python -u -m engine.server", "export A=1\nengine serve", "sudo nohup engine serve",
    "docker run --rm -it -p 80:80 -v $HOME/x:/x --gpus=all vendor/engine:latest",
    "sudo docker run -d vendor/engine:1 engine serve", "podman run --entrypoint /bin/engine other/image serve",
])  # fmt: skip
def test_a_program_is_found_behind_paths_prefixes_and_containers(start: str) -> None:
    found = read(f"{start.removesuffix(' serve') if 'entrypoint' in start else start} M --block 8")
    assert (found.model, found.options) == ("M", {"block": 8})


@pytest.mark.parametrize("line", [
    "docker", "sudo docker",
    "other serve", "engine bench", "docker run", "docker run -d", "docker run other M", "", "docker run x " * 600,
])  # fmt: skip
def test_other_programs_are_not_found(line: str) -> None:
    assert find_program(command_words(line), TABLE) is None


def test_every_argument_is_an_option_ignored_a_size_or_a_limit() -> None:
    found = read("engine serve org/M --block=8 --no-caching --policy lfu --share 0.25 --memory 0.9 --queue 5 "
                 "--host h --verbose --names a b --token --paths x y --range 1 2 --graph-config '{\"a\": 1}' "
                 "--replicas 1")  # fmt: skip
    assert found.options == {"block": 8, "caching": False, "policy": "lfu", "share": 0.25}
    assert (found.model, found.sized, found.limits) == ("org/M", ["--memory"], ["--queue 5"])
    assert found.ignored == ["--host", "--verbose", "--names", "--token", "--paths", "--range", "--graph-config",
                             "--replicas"]  # fmt: skip


@pytest.mark.parametrize(("line", "block"), [
    ("engine serve M -b 4", 4), ("engine serve M -b=4", 4), ("engine serve M --blo 4", 4),
    ("engine serve M --blo=4", 4),
    ("engine serve M --block 4 --block 5", 5), ("engine serve M --draft.n 3", 3), ("engine serve M -d.n 3", 3),
    ("engine serve M --draft '{\"n\": 3}'", 3), ("engine serve M --dra.n=3 --draft.model x", 3),
])  # fmt: skip
def test_spellings_of_argparse_are_accepted(line: str, block: int) -> None:
    assert read(line).options == {"block": block}


def test_an_argument_may_set_several_options_and_add_to_an_earlier_one() -> None:
    several = Flag("spread", "", spellings=("--spread",), read=lambda text: {"block": len(text), "share": 0.25})
    rows = table_rows("e", options="1 --spread\n1 --block -b\n1 --share")
    table = CommandTable(starts=TABLE.starts, arguments=rows)
    words = command_words("engine serve --share 0.75 --spread abc")
    program = find_program(words, table)
    assert program is not None
    assert read_command(words, program, table, (*FLAGS, several), "e@3").options == {"share": 0.25, "block": 3}


def test_a_missing_value_is_a_matter_of_the_release_only_if_another_one_needs_none() -> None:
    with pytest.raises(BadInput) as refused:
        read("engine serve M --block")
    assert type(refused.value) is BadInput and refused.value.hint == ""


def test_underscores_stand_for_dashes() -> None:
    assert read("engine serve M --graph_config '{}' --old_only", "e@1").ignored == ["--graph-config", "--old-only"]


@pytest.mark.parametrize("line", ["engine serve --block=4", "engine serve --blo 4", "engine serve --no_caching"])
def test_a_strict_parser_accepts_exact_names_only(line: str) -> None:
    with pytest.raises(BadInput, match="unknown flag"):
        read(line, "", STRICT)


@pytest.mark.parametrize(("line", "message"), [
    ("engine serve M --blocks 4", r"character 16: unknown flag '--blocks' of e@3 \(did you mean '--block'\?\)"),
    ("engine serve M --c 4", r"'--c' is ambiguous \(--caching, --changed, --chunk, --connector\)"),
    ("engine serve M --block", "flag '--block': expected a value"),
    ("engine serve M --host --verbose", "flag '--host': expected a value, found '--verbose'"),
    ("engine serve M --host -x", "flag '--host': expected a value, found '-x'"),
    ("engine serve M --block x", "flag '--block': expected a 32-bit integer, found 'x'"),
    ("engine serve M --block 99999999999", "expected a 32-bit integer"),
    ("engine serve M --verbose=1", "flag '--verbose' has no value, found '1'"),
    ("engine serve M other", "character 16: expected a flag, found 'other'"),
    ("engine serve M $F", r"character 16: '\$F' has a shell variable"),
    ("engine serve M --$F", r"character 18: '--\$F' has a shell variable"),
    ("engine serve M --block=$N", "character 24: the value of '--block' is a shell variable"),
    ("engine serve M --block $N", "character 24: the value of '--block' is a shell variable"),
    ("engine serve M --block ${N}", "is a shell variable"),
    ("engine serve M --block <n>", "character 24: the value of '--block' is a placeholder"),
    ("engine serve M --draft '{\"n\": 1'", "character 24: flag '--draft': broken or truncated JSON"),
    ("engine serve M --draft '[1]'", "flag '--draft': expected a JSON object"),
    ("engine serve M --graph-config '{'", "character 31: flag '--graph-config': broken"),
    ("engine serve M --graph-config '" + "[" * 50 + "]" * 50 + "'", "nest"),
    ("engine serve M --draft.n 1 --draft.n.m 2", "is inside a value that is given, too"),
    ("engine serve M --draft" + ".a" * 40 + " 2", "at most 32 levels"),
    ("engine serve M --host.a 1", "flag '--host' has no parts"),
    ("engine serve M --ancient", r"e@3 has no flag '--ancient' \(other releases had it\)"),
    ("engine serve M --old-only", r"e@3 has no flag '--old-only' \(3 has --verbose\)"),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line_with_its_reason(line: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        read(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("line", "named"), [
    ("--replicas 2", "--replicas 2"), ("--mixed", "--mixed"), ("--connector '{}'", "--connector"),
    ("--connector.kind x", "--connector"), ("--policy other", "--policy 'other'"),
    ("--draft '{\"x\": 1}'", "--draft x"),
    ("--mixed --replicas 3", "--mixed, --replicas 3"),
])  # fmt: skip
def test_what_may_change_the_cache_and_is_not_simulated_is_refused(line: str, named: str) -> None:
    with pytest.raises(BadInput, match=f"not simulated, and may change what is reused: {named}"):
        read(f"engine serve M {line}")


def test_the_argument_of_another_release_is_told_from_an_unknown_one() -> None:
    with pytest.raises(NotInRelease):
        read("engine serve M --old-only")
    with pytest.raises(BadInput) as caught:
        read("engine serve M --none")
    assert not isinstance(caught.value, NotInRelease)
    assert read("engine serve M --old-only", "e@2").ignored == ["--old-only"]


def test_the_number_of_values_is_that_of_the_release() -> None:
    assert read("engine serve M --changed --verbose", "e@1").ignored == ["--changed", "--verbose"]
    with pytest.raises(NotInRelease, match=r"'--changed': expected a value, found '--verbose' \(1 has it without\)"):
        read("engine serve M --changed --verbose", "e@3")


@pytest.mark.parametrize("value", ["${HOST}", "$H", "$(hostname)", "`hostname`:80", '"$H $P"'])
def test_a_shell_variable_is_harmless_where_the_value_is(value: str) -> None:
    assert read(f"engine serve M --host {value}").ignored == ["--host"]


@pytest.mark.parametrize(("line", "place"), [
    ("engine serve $M", 14), ("engine serve $D/$M", 14), ("engine serve D/${M:-$N}", 16),
    ("engine serve $(pwd)/`m`", 14),
    ("engine serve $DIR/M", 0), ("engine serve ${D}/o/M.x", 0), ("engine serve M", 0),
])  # fmt: skip
def test_a_model_is_open_if_a_shell_variable_names_its_file(line: str, place: int) -> None:
    assert read(line).open_model == place


def test_variables_whose_defaults_matter_are_named() -> None:
    found = read("engine serve ${M:-o/r} --host ${H:-h} --block ${B:-4} --block=${C:-8}")
    assert (found.model, found.options, found.unset) == ("o/r", {"block": 8}, ["M", "B", "C"])
    assert read("E_BLOCK=${B:-4} engine serve M").unset == ["B"]


def test_environment_variables_are_read_ignored_or_named() -> None:
    found = read("E_BLOCK=4 E_CACHING=0 E_OTHER=1 PATH=$PATH engine serve M")
    assert found.options == {"block": 4, "caching": False}
    assert (found.unread, found.ignored) == (["E_OTHER"], ["PATH"])
    assert read("docker run -e E_BLOCK=4 --env=E_OTHER=2 vendor/engine M").options == {"block": 4}
    with pytest.raises(BadInput, match="E_BLOCK has a shell variable"):
        read("E_BLOCK=$N engine serve M")


def test_an_argument_may_leave_an_option_open() -> None:
    found = read("engine serve M --chunk 3")
    assert (found.needs, found.limits) == ({"chunks": "unknown"}, ["--chunk 3"])


def test_words_before_the_program_are_kept() -> None:
    assert read("numactl --interleave=all engine serve M").before == ["numactl", "--interleave=all"]


def test_a_level_of_optimisation_has_the_effect_of_its_argument() -> None:
    rows = table_rows("e", sizes="1 --optimization-level", models="1 --model")
    table = CommandTable((("e",),), rows, positional=True)
    words = command_words("e M -O3 -O.level=2")
    program = find_program(words, table)
    assert program is not None
    assert read_command(words, program, table, (), "").sized == ["-O3", "-O.level"]


def test_parts_of_a_value_that_changes_nothing_are_ignored_once_and_of_another_refused() -> None:
    found = read("engine serve M --graph-config.a 1 --graph-config.b.c 2 --block 8")
    assert (found.ignored, found.options) == (["--graph-config"], {"block": 8})
    with pytest.raises(BadInput, match="not simulated, and may change what is reused: --connector"):
        read("engine serve M --connector.a 1")


def container(line: str) -> tuple[int, dict[str, str], bool] | None:
    """Return the place of the first argument, the variables and the mark of a program."""
    found = find_program(command_words(line), TABLE)
    return found and (found.at, {name: word.text for name, word in found.variables.items()}, found.is_marked)


@pytest.mark.parametrize(("line", "found"), [
    ("docker run -e E_BLOCK=4 --env=A=1 -e HOST vendor/engine M", (8, {"E_BLOCK": "4", "A": "1"}, False)),
    ("docker run -e A=1 vendor/engine A=2 engine serve M", (8, {"A": "2"}, False)),
    ("docker run --name x vendor/engine-fork M", (5, {}, True)), ("docker run --name", None),
    ("docker run --name vendor/engine", None), ("docker run -it vendor/engine", (4, {}, False)),
    ("docker run -p 80:80 vendor/engine", (5, {}, False)),
    ("docker run --entrypoint /bin/other vendor/engine M", None),
    ("docker run --entrypoint=/bin/engine.exe other", (4, {}, False)),
])  # fmt: skip
def test_options_of_a_container_come_before_its_image(line: str, found: object) -> None:
    assert container(line) == found


@pytest.mark.parametrize(("text", "caching"), [
    ("1", True), ("on", True), ("TRUE", True), ("enabled", True), ("0", False), ("off", False), ("", False),
])  # fmt: skip
def test_the_variable_of_a_switch_has_a_truth_value(text: str, caching: bool) -> None:
    assert read(f"E_CACHING={text} engine serve M").options == {"caching": caching}


def test_an_option_of_sizes_is_read_only_if_it_is_asked_for() -> None:
    words = command_words("engine serve M --memory 9 --block 8 --queue 3 --host h")
    program = find_program(words, TABLE)
    memory = Flag("memory", 1, spellings=("--memory",))
    plain = read_command(words, program, TABLE, FLAGS, "e@3")
    sized = read_command(words, program, TABLE, FLAGS, "e@3", sizes=(memory,))
    assert (plain.options, plain.sized) == ({"block": 8}, ["--memory"])
    assert (sized.options, sized.sized) == ({"memory": 9, "block": 8}, [])
    assert plain.limits == sized.limits == ["--queue 3"] and plain.ignored == sized.ignored == ["--host"]


QUIET = CommandTable(
    starts=(("engine",),), variables=("E_",),
    arguments=table_rows("e", options="1 --block -b $E_BLOCK\n0 --caching --no-caching -nocaching $E_CACHING",
                         models="1 --model", sizes="", limits="", not_simulated="",
                         no_effect="0 --quiet -q --no-quiet --no-q $E_QUIET\n? --token\n"
                                   "1 --note $E_NOTE"),
)  # fmt: skip


def test_a_variable_stands_for_the_first_spelling_of_its_argument() -> None:
    assert read("E_QUIET=1 engine", "", QUIET).ignored == ["--quiet"]
    assert read("E_QUIET=0 engine", "", QUIET).ignored == ["--no-quiet"]
    assert read("E_CACHING=off E_BLOCK=4 engine -b 8", "", QUIET).options == {"caching": False, "block": 8}
    assert read("E_NOTE=x engine", "", QUIET).ignored == ["--note"], "it has a single spelling"


def test_a_word_that_may_be_a_value_is_a_flag_by_its_name_or_its_look() -> None:
    found = read("engine --token '--block=8' --token 'a b' -q", "", QUIET)
    assert (found.options, found.ignored) == ({"block": 8}, ["--token", "--token", "-q"])
    with pytest.raises(BadInput, match="flag '--block': expected a 32-bit integer, found '1 2'"):
        read("engine --token '--block=1 2'", "", QUIET)
    assert read("engine --token '--other value'", "", QUIET).ignored == ["--token"]
    with pytest.raises(BadInput, match="unknown flag '--other'"):
        read("engine --token --other", "", QUIET)
    assert find_program(command_words("x engine"), QUIET) == Program(2, before=("x",))


@pytest.mark.parametrize(("line", "place", "found"), [("engine serve M -", 16, "-"), ("engine serve M -3", 16, "-3"),
                                                      ("engine serve M - -b 2", 16, "-")])  # fmt: skip
def test_a_dash_and_a_number_are_not_flags(line: str, place: int, found: str) -> None:
    with pytest.raises(BadInput) as bad:
        read(line)
    assert bad.value.cause == f"command line at character {place}: expected a flag, found '{found}'"
    assert read("engine serve -").model == "-"


def test_an_argument_that_was_not_renamed_names_the_releases_that_have_it() -> None:
    table = replace(TABLE, renamed={})
    for line, release, has in (("--old-only", "e@3", "1 to 2"), ("--new-only", "e@1", "3")):
        rows = table_rows("e", options="", models="1 --model", sizes="", limits="", not_simulated="",
                          no_effect="0 --old-only <=2\n0 --new-only >=3")  # fmt: skip
        with pytest.raises(NotInRelease) as caught:
            read(f"engine serve M {line}", release, replace(table, arguments=rows))
        assert str(caught.value).endswith(f"{release} has no flag '{line}' ({has} has it)")
