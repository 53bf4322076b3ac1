"""Tests of the Markdown parser for lessons."""

from __future__ import annotations

from cachesim.tools.lessons.lesson_files import Block, blocks

TEXT = """# A title

Two lines
of text with <!--= r[1].cache_n -->9<!--/--> tokens.

<!-- r = cachesim run A9 -->
<!-- picture = llama-lesson-hybrid llama_cpp@b10587 -->
![a picture](one.svg)

- first
- second,
  longer

1. one
2. two

| a | b |
|---|---|
| 1 | 2 |

```console
$ cachesim run A9

OK
```

    typed

<details><summary>Answer</summary>

Inside.

</details>

Behind.
"""


def test_every_kind_of_block():
    assert blocks(TEXT) == [
        Block("heading", "A title", level=1),
        Block("text", "Two lines of text with 9 tokens."),
        Block("picture", "a picture", "one.svg"),
        Block("list", rows=[["-", "first"], ["-", "second, longer"]]),
        Block("list", rows=[["1.", "one"], ["2.", "two"]]),
        Block("table", rows=[["a", "b"], ["1", "2"]]),
        Block("code", "$ cachesim run A9\n\nOK", "console"),
        Block("code", "typed"),
        Block("answer", inside=[Block("text", "Inside.")]),
        Block("text", "Behind."),
    ]


def test_an_end_that_is_missing_takes_the_rest():
    assert blocks("```\nopen") == [Block("code", "open")]
    assert blocks("<details>\n\nopen\n") == [Block("answer", inside=[Block("text", "open")])]


def test_nothing_is_no_block():
    assert blocks("") == [] == blocks("\n\n<!-- only\na comment -->\n")
