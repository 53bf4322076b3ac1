"""The lessons are correct and can be followed: outputs, numbers and pictures are made again and compared."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain

import pytest

from cachesim.tools.lessons import lesson_files, quiz, terminal_lesson
from cachesim.tools.lessons.lesson_runs import lesson_runs, step_lines
from tests.docs.examples import BLOCK, examples
from tests.docs.fields import FIELD, without_fields
from tests.docs.here import run_here
from tests.docs.lessons import LESSONS, NAMED, drawn, names, pictures, renewed, scene_of
from tests.docs.toy import state
from tests.shared import ROOT

TEXTS = {one.stem: one.read_text("utf-8") for one in LESSONS}
NUMBERED = [one.number for one in lesson_files.lessons() if one.number]
PICTURES = {str(stem.relative_to(ROOT)): (stem, *shown) for stem, *shown in pictures()}
each = pytest.mark.parametrize("name", TEXTS)

CODE = re.compile(r"```.*?```|^    .*?$|`[^`]*`|<!--.*?-->|\]\([^)]*\)", re.S | re.M)
NAMES = re.compile(r"#\d+|\bb\d{3,}|[a-z_]+@\S+|\b[0-9a-f]{9}\b|mlx-lm \d[\d.]+|ik_llama\.cpp \w{9}\b|8337e4c", re.I)
PLACES = re.compile(r"\b(lessons?|questions?|requests?|row) \d|^#+ .*$|^ *(- )?\d+[.:] |^- \d:", re.I | re.M)


@cache
def runs_of(number):
    """Return the runs of a lesson by name."""
    return lesson_runs(lesson_files.lesson(str(number)))


@each
@pytest.mark.part(6)
def test_outputs_and_numbers_are_current(name):
    assert renewed(TEXTS[name], moved=False) == TEXTS[name], "make docs renews them"


@pytest.mark.parametrize(("stem", "case", "profiles"), PICTURES.values(), ids=PICTURES)
def test_pictures_are_current(stem, case, profiles):
    svg, letters = drawn(case, profiles)
    assert stem.with_suffix(".svg").read_text("utf-8") == svg, "make docs renews it"
    assert stem.with_suffix(".txt").read_text("utf-8") == letters


def test_every_picture_is_made_by_the_product():
    shown = {found for text in TEXTS.values() for found in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)}
    made = {f"{stem.name}.svg" for stem, *_ in PICTURES.values()}
    there = {file.name for file in lesson_files.folder().glob("*.svg")}
    assert shown == made == there
    assert {file.stem for file in lesson_files.folder().glob("*.txt")} == {stem.name for stem, *_ in PICTURES.values()}


@each
def test_every_number_in_prose_is_computed_or_was_typed(name):
    """A number outside of fields occurs in a command of the lesson: it is an input, not a result."""
    text = TEXTS[name]
    commands = [*(command for command, _ in examples(text)), *(found[2] for found in NAMED.finditer(text)),
                *(" ".join(found.groups("")) for found in lesson_files.PICTURE.finditer(text)),
                *re.findall(r"^    .*$", text, re.M)]  # fmt: skip
    typed = set(re.findall(r"\d+", " ".join(commands)))
    typed |= set(re.findall(r"\d+", " ".join(re.findall(r"(?:state|rows|span)\(.*?\)", text))))
    prose = PLACES.sub("", NAMES.sub("", CODE.sub("", BLOCK.sub("", without_fields(text)))))
    loose = [number for number in re.findall(r"\d+(?:[.,]\d+)*", prose) if number.replace(",", "") not in typed]
    assert loose == []


@each
def test_every_run_that_is_named_is_used(name):
    hows = " ".join(found["how"] for found in FIELD.finditer(TEXTS[name]))
    runs = [found[1] for found in NAMED.finditer(TEXTS[name])]
    assert [run for run in runs if not re.search(rf"\b{run}\b", hows)] == []


@each
def test_links_have_targets(name):
    targets = re.findall(r"\]\(([^)#:]+)\)", TEXTS[name])
    assert [one for one in targets if not (lesson_files.folder() / one).exists()] == []


@pytest.mark.parametrize("number", NUMBERED)
def test_a_lesson_has_its_parts(number):
    """A lesson has an idea, a picture, three exercises with answers, and a reference to the real code."""
    lesson = lesson_files.lesson(str(number))
    kinds = [block.kind for block in lesson.blocks]
    heads = [block.text for block in lesson.blocks if block.level == 2]
    assert lesson.title.startswith(f"{number}. ") and "picture" in kinds
    assert kinds.count("answer") == 3 + (number == 1)          # lesson 1: an exercise on paper
    assert heads[-2:] == ["Exercises", "Where to read the real code"]
    typed = [block.text for block in lesson.blocks if block.kind == "code" and block.text.startswith("cachesim run ")]
    answered = [inner.text.split("\n")[0] for block in lesson.blocks for inner in block.inside if inner.kind == "code"]
    assert [f"$ {command}" for command in typed] == answered
    assert len(typed) == 3


def test_there_are_ten_lessons_and_seven_questions():
    assert NUMBERED == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    questions = [block for block in lesson_files.quiz().blocks if block.level == 2]
    assert len(questions) == 7 == sum(block.kind == "answer" for block in lesson_files.quiz().blocks)


def test_what_a_question_expects_is_computed():
    """The terminal compares the input with the bold words of an answer: each of them is a field."""
    answers = re.findall(r"<details>.*?</details>", TEXTS["quiz"], re.S)
    bold = [word for answer in answers for word in re.findall(r"\*\*(.+?)\*\*", answer)]
    assert all(FIELD.fullmatch(word) for word in bold) and all("**" in answer for answer in answers)
    parts = lesson_files.quiz().parts
    found = [word for number in range(len(parts)) for word in quiz.expected(parts, number)]
    assert found == [FIELD.fullmatch(word)["value"] for word in bold]
    assert {answer for word in found for answer in quiz.read(word)} == set(found)


@pytest.mark.parametrize("lesson", [*lesson_files.lessons(), lesson_files.quiz()], ids=lambda lesson: lesson.file.stem)
def test_a_terminal_of_eighty_columns_shows_it(lesson):
    """Outputs of commands are exempt: their first line may be long."""
    rest = [block for part in lesson.parts for block in part if block.kind not in ("code", "answer")]
    lines = terminal_lesson.lines(rest, lesson.file.parent)
    assert [line for line in lines if len(line) > 80 or not line.isascii()] == []


@pytest.mark.parametrize("number", [0, *NUMBERED])
def test_every_step_names_an_event_and_fits_a_terminal(number):
    """A lesson has a timeline that its text steps through; each step is shown as text in 80 columns, too."""
    lesson = lesson_files.lesson(str(number))
    runs = runs_of(number)
    asked = [step for part in lesson.parts for block in part for text in (block.text, *chain(*block.rows))
             for step in lesson_files.steps(text)]  # fmt: skip
    assert len(asked) >= 4 * bool(number) and {step.run for step in asked} == (set(runs) if number else set())
    for step in asked:
        lines = step_lines(runs[step.run], step)
        assert [line for line in lines if len(line) > 80 or not line.isascii()] == []
    assert TEXTS[lesson.file.stem].count("<!-- step ") == len(asked)


def test_only_the_discussed_request_of_the_batch_is_wrong():
    run = runs_of(6)["key"]
    assert [row.number for row in scene_of(run.shown.case, run.shown.profile).rows if row.is_wrong] == [3]


def test_two_prompts_of_the_toy_lead_to_the_same_state():
    assert state([4, 2]) == state([5, 2]) and state([4]) != state([5])
    assert state([4, 2]) not in (state([3, 2]), state([6, 2]))


def test_the_fields_know_the_commands_that_they_name():
    assert names("<!-- r = cachesim run A9/A --model S -->")["r"][1].prompt == 9
    assert run_here("cachesim lesson 1").startswith("1. Rows and states\n")
