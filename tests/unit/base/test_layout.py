"""Tables print every cell whole at every width."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.base.layout import ROOMY, FittedRenderable, WholeTable, indented, lean_table, shortened

counts = st.integers(0, 10**12).map(lambda number: f"{number:,}")
ranges = st.tuples(counts, counts).map("-".join)
numbers = st.lists(st.one_of(counts, ranges, st.just("-")), min_size=1, max_size=9)


def printed(table: RenderableType, width: int) -> str:
    """Return the output of a console of this width, which is not a terminal."""
    console = Console(width=width, file=io.StringIO(), force_terminal=False, highlight=False)
    console.print(table)
    return console.file.getvalue()


def number_table(rows: list[list[str]], text: str = "") -> WholeTable:
    """Return a table of a text column and one column for each number."""
    table = WholeTable()
    table.add_column("request")
    for place in range(max(map(len, rows))):
        table.add_column(f"count {place}", justify="right")
    for row in rows:
        table.add_row(Text(text or "slot 0, task 4"), *row)
    return table


@settings(max_examples=40)
@given(rows=st.lists(numbers, min_size=1, max_size=4), width=st.integers(30, 130))
def test_every_number_is_printed_whole(rows, width):
    assume(max(len(cell) for row in rows for cell in row) <= width)
    length = max(map(len, rows))
    output = printed(number_table([[*row, *["-"] * (length - len(row))] for row in rows]), width)
    words = re.split(r"\s+", output)
    assert [cell for row in rows for cell in row if cell != "-" and cell not in words] == []
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= max(width, 2 + len("count 0 ") + 31)


def test_a_table_that_fits_has_a_line_for_each_row():
    output = printed(number_table([["1,234", "5"], ["6", "7,890"]]), 80)
    assert [line.split() for line in output.splitlines()] == [
        ["request", "count", "0", "count", "1"], ["slot", "0,", "task", "4", "1,234", "5"],
        ["slot", "0,", "task", "4", "6", "7,890"],
    ]  # fmt: skip


def test_a_table_that_does_not_fit_has_pairs_of_heading_and_value():
    row = ["5,650", "4,546-4,553", "4,546-4,553", "4,548", "1,102", "-", "5,689"]
    assert printed(number_table([row]), 50).splitlines() == [
        "slot 0, task 4  count 0 5,650  count 1 4,546-4,553",
        "  count 2 4,546-4,553  count 3 4,548",
        "  count 4 1,102  count 6 5,689",
    ]


def test_headings_are_dim_and_cells_are_not():
    table = number_table([["5"]])
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False,
                      highlight=False)  # fmt: skip
    console.print(table)
    headings, row = console.file.getvalue().splitlines()
    assert [text.plain for text in map(Text.from_ansi, (headings, row))] == printed(table, 80).splitlines()
    dim = {headings[span.start : span.end] for span in Text.from_ansi(headings).spans}
    assert {str(span.style) for span in Text.from_ansi(headings).spans} == {"dim"} and dim
    assert not Text.from_ansi(row).spans


def test_texts_wrap_before_numbers_move():
    output = printed(number_table([["1,000,000"]], "a long name of a request that needs two lines"), 40)
    assert len(output.splitlines()) > 2
    assert "1,000,000" in output.splitlines()[1]


@pytest.mark.parametrize(("text", "most", "short"), [
    ("S.A.q", 5, "S.A.q"), ("S40.A60.B70.C9.D1", 14, "S40.A60.….D1"), ("S40.A60.B70.C9.D1", 13, "S40.….D1"),
    ("S40.A60.B70.C9.D1", 10, "S40.….D1"), ("S40.A60.B70.C9.D1", 9, "S40.…"), ("S40.A60.B70.C9.D1", 7, "S40.…"),
    ("S40.A60.B70.C9.D1", 6, "S40.A…"), ("S4000000.A", 6, "S4000…"),
])  # fmt: skip
def test_a_long_prompt_loses_words_of_its_middle(text, most, short):
    assert shortened(text, most) == short and len(short) <= most


def test_a_cell_that_is_wider_than_the_console_is_printed_whole_without_padding_too():
    table = WholeTable(show_header=False, padding=(0, 0))
    table.add_column(no_wrap=True)
    table.add_row("x" * 90)
    assert printed(table, 40).count("x") == 90


@pytest.mark.parametrize("width, space", [(0, 1), (ROOMY - 1, 1), (ROOMY, 2), (ROOMY + 1, 2)])
def test_columns_of_a_lean_table_have_more_space_where_there_is_room(width, space):
    table = lean_table(width)
    for name in ("a", "b", "c"):
        table.add_column(name)
    table.add_row("one", "2", "three")
    between = " " * space
    assert printed(table, 80).splitlines()[-1].rstrip() == f"one{between}2{between}three"


def test_the_style_of_a_row_is_that_of_its_pairs():
    table = WholeTable()
    for name in ("name", "other"):
        table.add_column(name, justify="right")
    table.add_row("x" * 20, "y" * 20, style="red")
    table.add_row("z" * 20, Text("-"))
    console = Console(width=30, file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False,
                      highlight=False)  # fmt: skip
    console.print(table)
    lines = console.file.getvalue().splitlines()
    assert [line.count("\x1b[31m") > 0 or "31m" in line for line in lines] == [True, True, False]
    assert printed(table, 30).splitlines() == ["x" * 20, f"  other {'y' * 20}", "z" * 20]


def test_a_table_without_rows_and_headings_is_empty():
    table = WholeTable(show_header=False)
    table.add_column("a")
    assert printed(table, 40).strip() == ""


def test_values_without_headings_stand_side_by_side_too():
    table = WholeTable(show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_row("a" * 20, "b" * 20, Text("c" * 20), "d" * 20)
    assert printed(table, 45).splitlines() == [f"{'a' * 20}  {'b' * 20}", f"  {'c' * 20}  {'d' * 20}"]


def test_a_table_is_padded_at_its_edges_unless_they_are_left_bare():
    tables = WholeTable("a", "bb"), WholeTable("a", "bb", pad_edge=False)
    for table in tables:
        table.add_row("1", "22")
    assert [printed(table, 40).splitlines() for table in tables] == [[" a  bb ", " 1  22 "], ["a  bb", "1  22"]]


@pytest.mark.parametrize(("width", "lines"), [(10, [" a    b   ", " xxx  yyy "]), (9, ["xxx", "  b yyy"])])
def test_a_table_stays_one_while_its_cells_and_their_padding_fit(width, lines):
    table = WholeTable()
    for name in ("a", "b"):
        table.add_column(name, no_wrap=True)
    table.add_row("xxx", "yyy")
    assert printed(table, width).splitlines() == lines


def test_a_text_keeps_its_indent_where_it_wraps():
    def lines(text, **more):
        return [line.rstrip() for line in printed(indented(text, **more), 8).splitlines()]

    assert lines("one two three") == ["  one", "  two", "  three"]
    assert lines(Text("one two"), by=4) == ["    one", "    two"]


def test_what_is_fitted_is_built_for_the_width_of_the_console():
    assert printed(FittedRenderable(lambda width: Text(f"{width} columns")), 37) == "37 columns\n"


def test_a_styled_cell_keeps_its_style_in_a_pair():
    table = WholeTable()
    for name in ("name", "other"):
        table.add_column(name, no_wrap=True)
    table.add_row("x" * 20, Text("y" * 20, style="red"))
    console = Console(width=30, file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False,
                      highlight=False)  # fmt: skip
    console.print(table)
    assert f"\x1b[31m{'y' * 20}" in console.file.getvalue().splitlines()[1]


cells = st.tuples(st.sampled_from(["", "·", "a b", "12,345", "日本", "[x]"]), st.sampled_from(["", "bold red"]))
columns = st.fixed_dictionaries({
    "justify": st.sampled_from(["left", "right"]), "style": st.sampled_from(["", "dim"]),
    "min_width": st.sampled_from([None, 7]),
})  # fmt: skip


@settings(max_examples=60)
@given(
    kinds=st.lists(columns, min_size=1, max_size=4), rows=st.lists(st.lists(cells, min_size=4, max_size=4), max_size=3),
    header=st.booleans(), edge=st.booleans(), padding=st.sampled_from([(0, 1), (0, 2, 0, 0)]),
)
def test_a_table_that_fits_is_printed_as_rich_prints_it(kinds, rows, header, edge, padding):
    ours = WholeTable(padding=padding, show_header=header, pad_edge=edge)
    theirs = Table(box=None, header_style="dim", padding=padding, show_header=header, pad_edge=edge)
    for table in (ours, theirs):
        for kind in kinds:
            # Without padding at the edges, rich 13.0 counts it for the least width all the same.
            table.add_column("head", **{**kind, "min_width": kind["min_width"] if edge else None})
        for row in rows:
            texts = [Text(plain or "-" * (not header), style) for plain, style in row]
            table.add_row(*texts[: len(kinds)], style="blue")
    consoles = [Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard") for _ in range(2)]
    for console, table in zip(consoles, (ours, theirs), strict=True):
        console.print(table)
    found, wanted = (Text.from_ansi(console.file.getvalue()) for console in consoles)
    assert found.markup == wanted.markup


@given(text=st.sampled_from(["", "a b c", " a", "日本", "word " * 5]), by=st.integers(0, 4), width=st.integers(6, 30))
def test_an_indented_text_is_printed_as_rich_prints_it(text, by, width):
    assert printed(indented(text, "dim", by), width) == printed(Padding(text, (0, 0, 0, by), expand=False), width)
