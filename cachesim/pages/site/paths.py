"""Places of pages in the site, by what they are about."""

from __future__ import annotations

from cachesim.pages.site.source_page import file_name


def rule_path(rule: str) -> str:
    """Return the page of a rule."""
    return f"rules/{file_name(rule)}"


def flag_path(engine: str, flag: str) -> str:
    """Return the page of a server flag. ``flag``: its name in cachesim."""
    return f"flags/{engine}-{file_name(flag)}"


def line_path(engine: str, kind: str) -> str:
    """Return the page of a kind of log line."""
    return f"lines/{engine}-{file_name(kind)}"


def engine_path(engine: str) -> str:
    """Return the page of an engine."""
    return f"engines/{engine}"


def release_path(profile: str) -> str:
    """Return the page of a rule set."""
    return f"releases/{file_name(profile.replace('@', '-'))}"


def scenario_path(scenario: str) -> str:
    """Return the page of a scenario."""
    return f"scenarios/{file_name(scenario)}"


def report_path(entry: str) -> str:
    """Return the page of a reported bug."""
    return f"reports/{file_name(entry)}"


def term_path(term: str) -> str:
    """Return the page of a term of the glossary."""
    return f"terms/{file_name(term)}"
