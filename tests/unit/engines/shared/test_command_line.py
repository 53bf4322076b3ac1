"""Command lines of servers, read and written with rows of flags."""

from __future__ import annotations

from dataclasses import make_dataclass

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN
from cachesim.engines.shared.command_line import (
    CommandLine,
    parse_integer,
    parse_on_off,
    read_line,
    unwritten,
    write_line,
)
from cachesim.engines.shared.flags import flag, flags_of


def drafter(text):
    kind, _, most = text.partition(":")
    return {"kind": kind, "drafts": parse_integer(most)}


def sleep(line, text):
    line.sleeps = parse_integer(text) >= 0


ROWS = {
    "size": flag(0, "-c", "--size"), "slots": flag(-1, "-np", unwritten=-1), "similarity": flag(0.1, "-sps"),
    "shift": flag(False, "--shift", off=("--no-shift",)), "flash": flag(True, "-fa", off=("-nfa",), read=parse_on_off),
    "kind": flag("none", "--kind", read=drafter, write=lambda options: ["--kind", f"{options['kind']}:1"]),
    "cache_prompt": flag(True, "--cache", off=("--no-cache",), request=True), "full": flag(False, "--full"),
    "drafts": flag(3, "--drafts", write=unwritten), "ours": flag(1),
}  # fmt: skip
FLAGS = flags_of(make_dataclass("Options", [(name, object, row) for name, row in ROWS.items()]))


def read(*words):
    return read_line(words, FLAGS, CommandLine({"slots": 4}), {"-t": 1, "-v": 0}, {"--sleep": sleep})


@pytest.mark.parametrize("words, options", [
    ("", {}), ("-c 512", {"size": 512}), ("--size -1", {"size": -1}), ("-c 1 -c 2", {"size": 2}),
    ("-sps .5", {"similarity": 0.5}), ("--shift", {"shift": True}), ("--shift --no-shift", {"shift": False}),
    ("-fa off", {"flash": False}), ("-fa on -nfa -c 3", {"flash": False, "size": 3}), ("-np 2", {"slots": 2}),
    ("--kind mtp:4", {"kind": "mtp", "drafts": 4}), ("-v -t 8 -c 5", {"size": 5}), ("--sleep 3", {}),
])  # fmt: skip
def test_a_line_sets(words, options):
    line = read(*words.split())
    assert line.options == {"slots": 4, **options}
    assert (line.request, line.sleeps) == ({}, "--sleep" in words)


def test_a_flag_of_requests_is_the_default_of_their_field():
    assert read("--no-cache").request == {"cache_prompt": False}
    assert read("--no-cache", "--cache").request == {"cache_prompt": True}


@pytest.mark.parametrize("words, error", [
    ("-c", "flag '-c' has no value"), ("-c x", "flag '-c': expected a 32-bit integer, found 'x'"),
    ("-c 2147483648", "flag '-c': expected a 32-bit integer, found '2147483648'"),
    ("-sps 1e999", "flag '-sps': expected a number, found '1e999'"),
    ("-fa yes", "flag '-fa': expected on or off, found 'yes'"), ("-t", "flag '-t' has no value"),
    ("--kind mtp:x", "flag '--kind': expected a 32-bit integer"),
    ("--sleep x", "flag '--sleep': expected a 32-bit integer"),
    ("--sise 3", "unknown flag '--sise' (did you mean '--size'?)"), ("--ours 3", "unknown flag '--ours'"),
])  # fmt: skip
def test_a_line_that_cannot_be_read(words, error):
    with pytest.raises(BadInput) as bad:
        read(*words.split())
    assert str(bad.value).startswith(error)


@pytest.mark.parametrize("text", ["2147483647", "-2147483648", "+5", "0000000000"])
def test_integers_of_32_bits_are_read(text):
    assert parse_integer(text) == int(text)


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "00000000000", "5.", ""])
def test_other_integers_are_refused(text):
    with pytest.raises(BadInput, match="expected a 32-bit integer"):
        parse_integer(text)


def test_the_hint_of_a_refused_value_is_kept():
    def refuse(text):
        raise BadInput("no", hint="try yes")

    with pytest.raises(BadInput) as bad:
        read_line(["--sleep", "x"], FLAGS, CommandLine(), {}, {"--sleep": lambda line, text: refuse(text)})
    assert (bad.value.cause, bad.value.hint) == ("flag '--sleep': no", "try yes")


def test_a_line_is_written_in_the_order_of_the_flags():
    options = {"ours": 2, "full": False, "flash": False, "shift": False, "slots": -1, "size": 0, "kind": "mtp",
               "drafts": 1, "similarity": 0.25, "cache_prompt": False}  # fmt: skip
    words = ["-c", "0", "-sps", "0.25", "--no-shift", "-fa", "off", "--kind", "mtp:1", "--no-cache"]
    assert write_line(options, FLAGS) == words
    line = read(*words)
    assert {**options, **line.options, **line.request} == {**options, "slots": 4}
    assert write_line({"kind": "x", "full": True}, FLAGS) == ["--kind", "x:1", "--full"]


@pytest.mark.parametrize("engine", [name for name, engine in BUILTIN.items() if engine.recorded.read])
def test_every_spelling_of_an_engine_is_read(engine):
    kit = BUILTIN[engine]
    for row in kit.manual.flags:
        value = {bool: (), str: ("none",)}.get(type(row.default), ("1",))
        for word in row.spellings:
            line = kit.recorded.read([word, *(("on",) if row.read is parse_on_off else value)])
            assert row.name in {**line.options, **line.request}
        for word in row.off:
            line = kit.recorded.read([word])
            assert {**line.options, **line.request}[row.name] is False


@pytest.mark.parametrize(("options", "by_model"), [
    ({}, False), ({"spec_type": "none"}, False), ({"spec_type": "ngram-simple"}, False),
    ({"spec_type": "draft-mtp"}, True), ({"spec_type": "ngram-simple,draft-simple"}, True),
])  # fmt: skip
def test_drafts_are_made_by_a_model_if_one_of_their_kinds_is(options, by_model):
    assert CommandLine(options=options).drafts_by_model is by_model
