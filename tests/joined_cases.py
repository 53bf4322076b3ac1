"""Cases of a parametrised test that run as one test, where pytest needs more time for a case than the case itself.

A process of ``make test`` joins the cases that need no fixture. A process that runs single files or cases does not.
"""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

import pytest


def joined(items: Iterable[pytest.Item], after_each: Callable[[], None]) -> list[pytest.Item]:
    """Return tests in their order, with one in place of all cases of a test that have neither a fixture nor a mark that
    pytest must handle. ``after_each``: called after each case."""
    found: dict[object, list[pytest.Item]] = {}
    for item in items:
        key = (item.parent, item.originalname) if _is_plain_case(item) else item
        found.setdefault(key, []).append(item)
    return [cases[0] if len(cases) == 1 else _one_test(cases, after_each) for cases in found.values()]


def _is_plain_case(item: pytest.Item) -> bool:
    """True for a case of a parametrised test whose arguments are its parameters."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    marks = list(item.iter_markers())
    return (
        set(item.fixturenames) <= set(item.callspec.params)
        and {mark.name for mark in marks} <= {"parametrize", "part"}
        and not any(mark.kwargs.get("indirect") for mark in marks)
        and not getattr(item.obj, "is_hypothesis_test", False)
    )


def _one_test(cases: Sequence[pytest.Function], after_each: Callable[[], None]) -> pytest.Function:
    """Return a test that runs all cases and fails with the failures of all."""

    def run_cases() -> None:
        failures: list[BaseException] = []
        for case in cases:
            try:
                case.obj(**case.callspec.params)
            except pytest.skip.Exception:
                pass
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"case {case.name}")
                failures.append(error)
            finally:
                after_each()
        if failures:
            raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases failed", failures)

    first = cases[0]
    return pytest.Function.from_parent(first.parent, name=first.originalname, callobj=run_cases)
