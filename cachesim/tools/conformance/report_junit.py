"""The report for machines that read JUnit's XML: a test suite for each section, a test case for each property."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cachesim.tools.conformance.report import Report, Result
from cachesim.tools.conformance.sections import SECTIONS


def junit(report: Report, name: str = "cachesim") -> str:
    """The report as XML. Failed (with ``strict``, missed) properties are failures, undecided ones errors, the others
    that say nothing are skipped."""
    root = Element("testsuites", name=name)
    for number, section in enumerate(SECTIONS, 1):
        mine = [one for one in report.results if one.section == section]
        suite = SubElement(root, "testsuite", name=f"{number} {section}", tests=str(len(mine)))
        for tag, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(key, str(sum(_tag(one, report.strict) == tag for one in mine)))
        for one in mine:
            _case(suite, one, report.strict)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Element, one: Result, strict: bool) -> None:
    case = SubElement(suite, "testcase", classname=f"cachesim.{one.section}", name=one.name)
    if tag := _tag(one, strict):
        found = SubElement(case, tag, message=one.why or one.sentence)
        if one.finding is not None:
            said = one.finding
            found.text = "\n".join([said.line, f"request {said.request}: expected {said.expected}", f"got {said.got}",
                                    *said.notes, f"again: {said.again}"])  # fmt: skip


def _tag(one: Result, strict: bool) -> str:
    if one.state == "missed":
        return "failure" if strict else "skipped"
    tags = {"failed": "failure", "undecided": "error", "ok": ""}
    return tags.get(one.state, "skipped")
