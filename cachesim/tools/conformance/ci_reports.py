"""Reports for CI: JUnit XML, and a summary in Markdown."""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cachesim.base.escaping import printable_line, xml_text
from cachesim.tools.conformance.report import MEMBERS, SECTIONS, Finding, Report, Result, SectionCount, unreached_text

# JUnit XML: a test suite per section, a test case per property, or for all histories of a section without properties.

def junit(report: Report, name: str = "cachesim", rules: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """Return the report as JUnit XML. Failed properties (with ``strict``, also if missed) become failures, undecided
    ones errors, all other states except "ok" skipped, with the reason as the message. A fault is one failure, however
    many properties show it. ``rules``: sentences about the rules behind a failed property."""
    root = Element("testsuites", name=xml_text(name))
    for number, section in enumerate(SECTIONS, 1):
        mine = [*(one for one in report.results if one.section == section), *_families(report, section)]
        suite = SubElement(root, "testsuite", name=f"{number} {section}", tests=str(len(mine)))
        for tag, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(key, str(sum(_tag(one, report.strict) == tag for one in mine)))
        for one in mine:
            _case(suite, one, report.strict, rules.get(one.name, ()))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _families(report: Report, section: str) -> Iterator[Result]:
    """Yield a result for the histories of a section that has no properties of its own. What failed there is a failure
    of its property."""
    count = report.counts.get(section, SectionCount())
    if MEMBERS[section] or not (count.histories or section in report.unfinished):
        return
    state, why = report.section(section), report.unfinished.get(section, "")
    if count.failed:
        failed = f"{count.failed} of {count.histories} histories failed: {', '.join(count.names)}"
        state, why = "skipped" if not why else "undecided", "; ".join(filter(None, [failed, why]))
    yield Result("histories", section, SECTIONS[section], state, why=why)


def _case(suite: Element, result: Result, strict: bool, rules: Sequence[str]) -> None:
    case, said = SubElement(suite, "testcase", classname=f"cachesim.{result.section}", name=result.name), result.finding
    if tag := _tag(result, strict):
        state = "" if tag == "failure" else f"{result.state}: "
        found = SubElement(case, tag, message=xml_text(f"{state}{_why(result)}"))
        if said is not None:
            found.text = xml_text("\n".join([*_lines(said), *rules]))


def _tag(result: Result, strict: bool) -> str:
    if result.like:
        return "skipped"
    tags = {"failed": "failure", "undecided": "error", "ok": "", "missed": "failure" if strict else "skipped"}
    return tags.get(result.state, "skipped")


def _why(result: Result) -> str:
    if result.like and result.finding is not None:
        return f"same fault as {result.like}: {result.finding.line}"
    return result.why or result.fault or result.sentence


def _lines(said: Finding) -> list[str]:
    return [said.line, f"request {said.request}: expected {said.expected}", f"got {said.got}", *said.notes,
            f"again: {said.again}"]  # fmt: skip


# Markdown: the verdict, a row per property that was judged, the failures in full.

def summary(report: Report, verdict: str, name: str,
            rules: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:  # fmt: skip
    """Return the report as Markdown, for the summary of a CI job. ``verdict``: a line; ``name``: of the server;
    ``rules``: sentences about the rules behind a failed property."""
    unreached = report.unreached
    shown = [one for one in report.results if one.state not in ("skipped", "unsupported") and one not in unreached]
    rows = [f"| {one.section} | {one.name} | {one.state} | {_cell(_number(one))} |" for one in shown]
    lines = [f"### cachesim check {_cell(name)}: {_cell(verdict)}", "",
             "| section | property | state | |", "| --- | --- | --- | --- |", *rows]  # fmt: skip
    lines += [f"| not reached | | undecided | {_cell(unreached_text(report))} |"] if unreached else []
    for one in shown:
        if one.state == "failed" and one.finding is not None:
            lines += ["", f"**{one.name}**: {_cell(_why(one))}", ""]
            lines += [f"    {printable_line(text)}" for text in (*_lines(one.finding), *rules.get(one.name, ()))]
    return "\n".join(lines) + "\n"


def _number(result: Result) -> str:
    """Return the number of checks, or the reason for the state."""
    checked = f"{result.checked} checks" if result.checked else ""
    return "; ".join(filter(None, [checked, _why(result) if result.state != "ok" else result.why]))


def _cell(text: str) -> str:
    """Return a text in which Markdown and HTML have no effect."""
    plain = printable_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()#|!~" else sign for sign in plain)

