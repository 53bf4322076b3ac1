"""Words of pasted command lines."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shell_words import LONGEST, MOST_WORDS, command_words, shell_words


def texts(line: str) -> list[str]:
    """Return the texts of the words of a command line."""
    return [word.text for word in command_words(line)]


@pytest.mark.parametrize(("line", "words"), [
    ("a  b\tc\n d", ["a", "b", "c", "d"]),
    ("a \\\n  --b \\  \n --c", ["a", "--b", "--c"]),
    ("a b\\\nc `\nd^\r\ne", ["a", "bc", "de"]), ("a b`\nc", ["a", "b", "c"]),
    ("a -b 1\\\n-c 2^\n--d", ["a", "-b", "1", "-c", "2", "--d"]), ('a "b\\\nc"', ["a", "bc"]),
    ("a --j '{\"k\": \"v w\"}'", ["a", "--j", '{"k": "v w"}']),
    ('a "b \\"c\\" \\\\ d"', ["a", 'b "c" \\ d']),
    ("a b'c d'\"e\"f", ["a", "bc def"]),
    ("a ''", ["a", ""]),
    ("a # no word\n b", ["a", "b"]),
    ("a b#c", ["a", "b#c"]),
    ("a \\$HOME \\& b", ["a", "$HOME", "&", "b"]),
    (".\\llama-server.exe -m C:\\models\\Q.gguf", [".\\llama-server.exe", "-m", "C:\\models\\Q.gguf"]),
    ("a b \\", ["a", "b"]), ("a b\\", ["a", "b"]), ("a <port> --h http://<ip of a>:80", ["a", "<port>", "--h",
                                                                                "http://<ip of a>:80"]),
    ("", []),
])  # fmt: skip
def test_words_are_split_as_a_shell_splits_them(line: str, words: list[str]) -> None:
    assert texts(line) == words


@pytest.mark.parametrize(("line", "place"), [
    ("a && b", 3), ("a & b", 3), ("a; b", 2), ("a || b", 3), ("a << b", 3), ("a <(b)", 3), ("a >(b)", 3),
    ("a >", 3), ("a > \n b", 3), ("a 2>", 3), ("a > | b", 3), ("a >& >b", 3),
    ("a `b", 3), ("a $(b", 3), ("a $(b $(c))", 3), ('a "$(b"', 4), ('a "`b"', 4), ("a 'b", 3), ('a "b', 3),
    ("a --j '{\"k\": \"it's\"}'", 19),
    ("(a)", 1),
])  # fmt: skip
def test_what_is_not_one_simple_command_is_refused_with_its_place(line: str, place: int) -> None:
    with pytest.raises(BadInput, match=f"at character {place}:"):
        shell_words(line, 0)


@pytest.mark.parametrize("rest", [
    " | tee log", " > log", " 2>&1", " > log 2>&1 &", " &> log", " 2>> 'a b' &", " < b", ";", " >| $(date).log",
    " 2>&1 | grep 'x' && y",
])  # fmt: skip
def test_where_the_output_goes_is_left_out(rest: str) -> None:
    assert texts(f"a -b 5{rest}") == ["a", "-b", "5"]


def test_a_redirection_may_stand_between_words() -> None:
    assert texts("a >log -b 2>&1 5 &>> x") == ["a", "-b", "5"]
    assert texts("a -b>log 5> log") == ["a", "-b"]
    assert texts("a b2>log c") == ["a", "b2", "c"], "the digit belongs to the word"


@pytest.mark.parametrize(("line", "word", "place"), [
    ("a $(pwd)/b", 1, 3), ('a "$(pwd)/b"', 1, 4), ("a x`pwd`", 1, 4), ('a "`pwd`"', 1, 4), ("a '$(pwd)'", 1, 0),
    ("a $B", 1, 3), ("a x${B}y", 1, 4), ("a x${B}y$C", 1, 4),
    ('a "x $B"', 1, 6), ("a '$B'", 1, 0), ("a $1", 1, 3), ("a 5$", 1, 0),
    ("a $$B", 1, 3),
])  # fmt: skip
def test_a_shell_variable_is_marked_with_its_place(line: str, word: int, place: int) -> None:
    assert shell_words(line, 0)[word].variable == place


@pytest.mark.parametrize(("text", "words"), [
    ("M=/x\n\na ${M} $M/y", ["a", "/x", "/x/y"]),
    ("export M=/x N='b c'; a $M \"$N\" $N", ["export", "M=/x", "N=b c", "a", "/x", "b c", "b", "c"]),
    ("M=x && N=$M$M\na \\\n --b=$N", ["a", "--b=xx"]),
    ("M=x\na '$M' \\$M", ["a", "$M", "$M"]),
    ("M=x\nM=\na $M b", ["a", "b"]),
    ("cd b && M=x && a $M", ["a", "x"]), ("cd b\nsource c; ulimit -l 1\na\n-b", ["a", "-b"]),
    ("export M=x\ncd b\na $M", ["export", "M=x", "a", "x"]),
    ("export M=x\nexport N=y; P=z\na $M$N$P", ["export", "M=x", "export", "N=y", "a", "xyz"]),
    ("conda activate x\na", ["a"]), ("conda run a\n", ["conda", "run", "a"]), ("cdb\na", ["cdb", "a"]),
    ("PS C:\\b c> .\\a.exe -b", [".\\a.exe", "-b"]), ("D:\\>a -b > c", ["a", "-b"]),
])  # fmt: skip
def test_a_variable_that_an_earlier_line_sets_is_replaced(text: str, words: list[str]) -> None:
    assert texts(text) == words
    assert [word.variable for word in command_words(text)] == [0] * len(words)


@pytest.mark.parametrize(("text", "place"), [
    ("M=x a $M", 7), ("M=x\na $N", 7), ("M=$N\na $M", 8), ("M=x\nM=$N\na $M", 12),
    ("a M=x\nb $M", 9),
])  # fmt: skip
def test_a_variable_whose_value_is_not_known_stays_marked(text: str, place: int) -> None:
    assert command_words(text)[-1].variable == place


@pytest.mark.parametrize(("text", "word", "unset"), [
    ("a ${N:-8192}", "8192", ("N",)), ("a ${N-8192}", "8192", ("N",)), ('a "${N:-8 k}"', "8 k", ("N",)),
    ("a x=${N:-1},${M:-2}", "x=1,2", ("N", "M")), ("a b${N:-}", "b", ("N",)), ("a ${N:-o/r}", "o/r", ("N",)),
    ("N=4\na ${N:-8}", "4", ()), ("N=\na ${N:-8}", "8", ("N",)), ("N=4\na ${N-8}", "4", ()),
    ('["a", "${N:-8192}"]', "8192", ("N",)), ("- a\n- b=${N:-1}", "b=1", ("N",)), ("command: a ${N:-3}", "3", ("N",)),
    ("a '${N:-8}'", "${N:-8}", ()),
])  # fmt: skip
def test_the_default_of_a_variable_holds_unless_a_line_sets_it(text: str, word: str, unset: tuple[str, ...]) -> None:
    last = command_words(text)[-1]
    assert (last.text, last.unset, last.variable) == (word, unset, 0)


def test_a_default_that_has_blanks_is_several_words_outside_of_quotes() -> None:
    assert [word.text for word in command_words("a ${FLAGS:--c 8 -np 2} b")] == ["a", "-c", "8", "-np", "2", "b"]


def test_a_placeholder_is_marked_and_no_redirection() -> None:
    assert [word.variable for word in command_words("a <port> b <in >out")] == [0, 3, 0]
    assert command_words("a --n=<number of-tokens>")[1].variable == 7


@pytest.mark.parametrize("text", ["a ${N:-$M}", "a ${N:-${M}}", "a ${N:+8}", "a ${N:?8}", "a ${N:-`b`}"])
def test_a_default_that_depends_on_another_value_stays_marked(text: str) -> None:
    assert command_words(text)[-1].variable


def test_values_of_variables_are_limited_together() -> None:
    doubled = "".join(f"V{number + 1}=$V{number}$V{number}\n" for number in range(60))
    with pytest.raises(BadInput, match="values of variables have more than 20,000 characters"):
        command_words(f"V0=xxxxxxxxxx\n{doubled}a $V60")


@pytest.mark.parametrize("text", [
    'command: ["--model", "a b", "--port", 8000]',
    "command:\n  - --model\n  - a b\n  - --port\n  - 8000 # web\n",
    "  - --model\n  - 'a b'\n  - --port\n  - \"8000\"",
    "command: >\n  --model 'a b'\n  --port 8000\n",
    "cmd: |\n  --model 'a b' \\\n  --port 8000\n",
    "command: \"--model 'a b' --port 8000\"",
    '["--model", "a b", "--port", "8000"]',
    "--model 'a b' --port 8000",
])  # fmt: skip
def test_values_of_compose_files_are_the_same_words(text: str) -> None:
    assert texts(text) == ["--model", "a b", "--port", "8000"]


def test_places_count_from_the_beginning_of_the_pasted_text() -> None:
    assert [word.place for word in command_words("command: a b")] == [10, 12]
    assert command_words("command: a $B")[1].variable == 12


@pytest.mark.parametrize("text", ["[", '["a"', "[1, [2]]", '{"a": 1}]['[2:], "[true]", "[null]", "[" * 40 + "]" * 40])
def test_a_broken_list_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadInput, match="at character"):
        command_words(text if text.startswith("[") else f"[{text}")


def test_a_list_that_is_no_json_says_so() -> None:
    with pytest.raises(BadInput) as bad:
        command_words('command: ["a", b]')
    assert bad.value.cause == "command line at character 10: broken or truncated JSON: Expecting value"
    assert bad.value.hint == "a list is written as JSON"


def test_a_variable_of_compose_is_marked_in_a_list() -> None:
    assert command_words('["--model", "${MODEL}"]')[1].variable


def test_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadInput, match="20,001 characters"):
        command_words("a" * (LONGEST + 1))
    with pytest.raises(BadInput, match="words"):
        command_words("a " * (MOST_WORDS + 1))


def test_an_item_of_a_list_has_its_place_in_the_whole_text() -> None:
    text = "command:\n  - --model\n  - \"a $B\"\n\n  - ${PORT} # web\n"
    words = command_words(text)
    assert [text[word.place - 1 :].partition("\n")[0] for word in words] == ["--model", '"a $B"', "${PORT} # web"]
    assert [text[word.variable - 1 :][:2] if word.variable else "" for word in words] == ["", "$B", "${"]


@pytest.mark.parametrize(("text", "words"), [
    ("['a', 'it''s $X', '${N:-1}']", [("a", 2, 0, ()), ("it's $X", 7, 7, ()), ("1", 19, 0, ("N",))]),
    ("command: ['a',\n  'b']", [("a", 11, 0, ()), ("b", 18, 0, ())]),
    ('command: ["a", "b $C", 5]', [("a", 10, 0, ()), ("b $C", 10, 10, ()), ("5", 10, 0, ())]),
    ("- a\n   \n- b", [("a", 3, 0, ()), ("b", 11, 0, ())]), ("command: ", []),
    ("- a\n\n  - 'b $C' # x\n- d $E", [("a", 3, 0, ()), ("b $C", 10, 0, ()), ("d $E", 23, 23, ())]),
    ('command:\n  - "x\\"y" z', [('x"y', 14, 0, ()), ("z", 21, 0, ())]),
    ("command: 'a  b $C'", [("a", 11, 0, ()), ("b", 14, 0, ()), ("$C", 16, 16, ())]),
    ('command: ""', []), ("command: 'a'b", [("ab", 10, 0, ())]),
    ("command:\n- a\n-b", [("-", 10, 0, ()), ("a", 12, 0, ()), ("-b", 14, 0, ())]),
    ("args: >-\n  a $B\n", [("a", 12, 0, ()), ("$B", 14, 14, ())]), ("x: 1", [("x:", 1, 0, ()), ("1", 4, 0, ())]),
    ("a ${N:-1}$X${M:-2} b", [("a", 1, 0, ()), ("1$X2", 3, 10, ("N", "M")), ("b", 20, 0, ())]),
    ("M=1\na $M$X '$Y'", [("a", 5, 0, ()), ("1$X", 7, 9, ()), ("$Y", 12, 0, ())]),
    ("a '' \"\" >x b 2>&1 c", [("a", 1, 0, ()), ("", 3, 0, ()), ("", 6, 0, ()), ("b", 12, 0, ()), ("c", 19, 0, ())]),
])  # fmt: skip
def test_a_word_has_its_place_that_of_a_variable_and_the_defaults_in_it(
    text: str, words: list[tuple[str, int, int, tuple[str, ...]]]
) -> None:
    assert [word[:4] for word in command_words(text)] == words


@pytest.mark.parametrize(("text", "message"), [
    ("[{}]", "command line at character 1: expected a word in the list, found {}"),
    ("  [true]", "command line at character 3: expected a word in the list, found True"),
    ("a; b", "command line at character 2: ';' is shell syntax"),
    ('a "x $(b', "command line at character 6: expected text, found a command substitution"),
    ("a 2> | b", "command line at character 3: no file follows the redirection"),
    ("a 'b", "command line at character 3: this quotation mark has no end"),
    ("command: '", "command line at character 10: this quotation mark has no end"),
])  # fmt: skip
def test_an_error_is_whole(text: str, message: str) -> None:
    with pytest.raises(BadInput) as bad:
        command_words(text)
    assert bad.value.cause == message


def test_as_many_words_and_characters_are_read_as_are_allowed() -> None:
    assert len(command_words("a " * MOST_WORDS)) == MOST_WORDS
    assert len(command_words("a" * LONGEST)[0].text) == LONGEST
    assert command_words(f"M={'x' * (LONGEST // 2 - 50)}\na $M$M")[1].text == "x" * (LONGEST - 100)
    assert command_words(f"M={'x' * (LONGEST // 4)}\na $M$M$M$M")[1].text == "x" * LONGEST
    with pytest.raises(BadInput, match="at character 5018: values of variables have more than"):
        command_words(f"M={'x' * (LONGEST // 4)} N=y\na $M$M$M$M$N")
