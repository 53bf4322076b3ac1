"""A page of small lessons, whose text is in ``page.txt``. After an intended change run
python -m tests.unit.tools.lessons.made_page, and look at the difference."""

from __future__ import annotations

from pathlib import Path

from cachesim.tools.lessons.html_lesson import page
from cachesim.tools.lessons.lesson_files import Lesson, blocks, runs
from tests.unit.tools.picture.whole_pages import body

FILE = Path(__file__).with_name("page.txt")
TEXT = """# 1. One & all

Text with `-c 5`. <!-- step attention 1: n_past = -->

<!-- picture attention, recurrent = llama-lesson-attention llama_cpp@b10587 llama_cpp@b9518 -->
![two runs](x.svg)

## Then

- See [the next](2-one-token.md) <!-- step recurrent 1: n_past = -->
- and [the quiz](quiz.md)

<details><summary>Answer</summary>

It is **9**.

| a | b |
|---|---|
| 1 | `2` |

</details>
"""
SECOND = """# 2. Two

<!-- picture = llama-lesson-attention llama_cpp@b10587 -->
![a run](y.svg)
"""
QUIZ = "# Questions\n\nHow many?\n\n1. one\n2. two\n\n```\n$ typed\n```\n"


def lesson(number: int, title: str, text: str) -> Lesson:
    """Return the lesson of a Markdown text."""
    return Lesson(number, title, FILE, blocks(text), runs(text))


def shown() -> str:
    """Return the contents and the body of the page."""
    some = [lesson(1, "1. One & all", TEXT), lesson(2, "2. Two", SECOND), lesson(-1, "Questions", QUIZ)]
    made = page("A <page>", some)
    contents = made.partition('<nav id="contents"')[2].partition("</nav>")[0]
    title = made.partition("<title>")[2].partition("</title>")[0]
    return f"{title}\n{contents}\n{body(made)}"


if __name__ == "__main__":
    FILE.write_text(shown(), "utf-8")
