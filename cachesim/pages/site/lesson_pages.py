"""The lessons: a page for each, with its pictures, and the same lesson with moving pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from cachesim.pages.site.guide_pages import with_links, without_comments
from cachesim.pages.site.repository import document
from cachesim.pages.site.source_page import SearchEntry, SourcePage, first_sentence, link, plain
from cachesim.tools.lessons.html_lesson import page
from cachesim.tools.lessons.lesson_files import Lesson, lessons, quiz

INDEX = "lessons/index"


@dataclass(frozen=True)
class MovingLesson:
    """A lesson with moving pictures. ``path``: its file in the site. ``html``: the page."""

    path: str
    html: str


def lesson_path(lesson: Lesson) -> str:
    """Return the page of a lesson."""
    return f"lessons/{'quiz' if lesson.number < 0 else lesson.file.stem.lower()}"


def lesson_pages() -> Iterator[SourcePage]:
    """Yield the pages of the lessons, and their list."""
    items = []
    for lesson in [*lessons(), quiz()]:
        here = lesson_path(lesson)
        moving = f'<a class="walk" href="{moving_name(lesson)}">The same lesson with moving pictures</a>'
        file = f"scenarios/lessons/{lesson.file.name}"
        text = with_links(without_comments(document(file)), file, here)
        head, rest = text.split("\n", 1)
        entry = SearchEntry(kind="lesson", title=lesson.title, says=first_sentence(rest.strip()))
        parts = [head, moving, rest] if lesson.number >= 0 else [head, rest]
        yield SourcePage(path=here, text="\n\n".join(parts), entry=entry)
        items.append(f"- {link(plain(lesson.title), INDEX, here)}")
    yield SourcePage(INDEX, "\n".join(["# Lessons\n", *items]), is_listed=True)


def moving_lessons() -> Iterator[MovingLesson]:
    """Yield the lessons with moving pictures, a page for each."""
    for lesson in lessons():
        yield MovingLesson(path=f"lessons/{moving_name(lesson)}", html=page(lesson.title, [lesson]))


def moving_name(lesson: Lesson) -> str:
    """Return the file of a lesson with moving pictures."""
    return f"lesson-{lesson.number}-moving.html"
