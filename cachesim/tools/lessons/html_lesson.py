"""Lessons as an HTML page that needs no network access: each has a timeline that its text steps through, and hidden
answers. JavaScript is optional."""

from __future__ import annotations

import itertools
import re
from string import Template
from typing import Callable, Mapping, Sequence

from markdown_it.tree import SyntaxTreeNode

from cachesim.base.escaping import attribute, markup
from cachesim.base.progress_bar import progress
from cachesim.tools.lessons.lesson_files import Block, Lesson, LessonStep, inline_nodes, with_steps
from cachesim.tools.lessons.lesson_runs import LessonRun, lesson_runs
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.timeline import script, style, timeline


def page(title: str, some: Sequence[Lesson]) -> str:
    """Return a page of lessons, each with a timeline of its runs."""
    contents = "".join(f'<li><a href="#{one.anchor}">{markup(one.title)}</a></li>' for one in some)
    bodies = (f'<article id="{one.anchor}">{_article(one, not number)}{_ways(some[number + 1 :])}</div></article>'
              for number, one in enumerate(progress(some, len(some), "drawing lessons")))  # fmt: skip
    here = {one.anchor for one in some}
    text = re.sub(r'<a href="#(lesson-\d|quiz)">(.*?)</a>', lambda m: m[0] if m[1] in here else m[2], "\n".join(bodies))
    return Template(asset(__file__, "page.html")).substitute(
        title=markup(title), style=f"{style()}\n{asset(__file__, 'page.css')}", contents=contents, articles=text,
        script=f"{script()}\n{asset(__file__, 'steps.js')}",
    )  # fmt: skip


def _article(lesson: Lesson, first: bool) -> str:
    """Return the timeline of a lesson and its text, whose element is left open. Each step is a button that shows its
    event; so is the caption of each picture, which shows the end of its run."""
    found = lesson_runs(lesson)
    names, count = [*found], itertools.count(1)

    def button(step: LessonStep) -> str:
        run, number = found[step.run], next(count)
        k = run.event(step) if step.says else len(run.log.says)
        data = f'data-run="{names.index(step.run)}" data-event="{k}" aria-label="step {number}: show it in the picture"'
        return f' <button type="button" class="step" {data}>&#9654; {number}</button>'

    def caption(block: Block) -> str:
        ends = "".join(LessonStep(one.name).marked for one in lesson.runs.get(block.name, ()))
        said = inline(f"{block.text[:1].upper()}{block.text[1:]}.")         # the alternative text as a sentence
        return f'<p class="caption">{said}{ends}</p>'

    title, *rest = (_block(block, caption) for block in lesson.blocks)
    text = with_steps("\n".join(rest), button)
    return f"{title}{_timeline(lesson, found, first)}<div class='text'>{text}"


def _timeline(lesson: Lesson, found: Mapping[str, LessonRun], first: bool) -> str:
    """Return the timeline of a lesson's runs, "" without runs."""
    scenes = [one.scene for one in found.values()]
    logs = [one.log for one in found.values()]
    name = f"{lesson.anchor}-"
    return timeline(scenes, logs, name=name, tabs=[*found], signs=first) if found else ""


def _ways(after: Sequence[Lesson]) -> str:
    """Return the links at the end of an article."""
    ways = [f'<a href="#{one.anchor}">Next: {markup(one.title)}</a>' for one in after[:1]]
    ways.append('<a href="#contents">Contents</a>')
    return f'<p class="ways">{" &middot; ".join(ways)}</p>'


def _block(block: Block, caption: Callable[[Block], str]) -> str:
    if block.kind == "heading":
        return f"<h{block.level}>{inline(block.text)}</h{block.level}>"
    if block.kind == "code":
        one = "" if "\n" in block.text else ' class="line"'
        return f'<pre{one} tabindex="0"><code>{markup(block.text)}</code></pre>'
    if block.kind == "picture":
        return caption(block)
    if block.kind == "answer":
        inside = "\n".join(_block(one, caption) for one in block.inside)
        return f"<details><summary>Answer</summary>{inside}</details>"
    if block.kind == "list":
        name = "ul" if block.rows[0][0] == "-" else "ol"
        return f"<{name}>{''.join(f'<li>{inline(text)}</li>' for _, text in block.rows)}</{name}>"
    if block.kind == "table":
        heads, *rows = ("".join(f"<{tag}>{inline(cell)}</{tag}>" for cell in row)
                        for row, tag in zip(block.rows, ["th", *["td"] * len(block.rows)], strict=False))  # fmt: skip
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<table tabindex="0"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f"<p>{inline(block.text)}</p>"


def inline(text: str) -> str:
    """Return text with HTML elements for code, bold, italics and links."""
    return "".join(map(_inline, inline_nodes(text)))


def _inline(node: SyntaxTreeNode) -> str:
    if node.type == "code_inline":
        return _code(node.content)
    inside = "".join(map(_inline, node.children)) or markup(node.content, quotes=False)
    if node.type == "link":
        return _link(str(node.attrs["href"]), inside)
    return f"<{node.tag}>{inside}</{node.tag}>" if node.type in ("strong", "em") else inside


def _code(text: str) -> str:
    """Return inline code; a flag is not broken at its hyphens."""
    flag = ' class="flag"' if text.startswith("-") and " " not in text else ""
    return f"<code{flag}>{markup(text)}</code>"


def _link(target: str, text: str) -> str:
    """Return a link to another site or another lesson; a link to a file beside the lessons becomes text."""
    if lesson := re.fullmatch(r"(\d)-[\w-]+\.md|quiz\.md", target):
        return f'<a href="#{f"lesson-{lesson[1]}" if lesson[1] else "quiz"}">{text}</a>'
    return f'<a href="{attribute(target)}">{text}</a>' if target.startswith("https://") else text
