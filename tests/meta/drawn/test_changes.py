"""Changes of a function, their kinds, and what they leave alone."""

import ast

import pytest

from tests.meta.drawn.changes import KINDS, Source, changes, functions, is_fault


def changed(body, head="def f(a, b):"):
    """Return the bodies that the changes of a function make of its body, one line each."""
    source = Source(f"{head}\n    {body}\n")
    ((_, function),) = functions(ast.parse(source.data))
    faults = [change for change in changes(function, source) if is_fault(source, change)]
    assert {change.kind for change in faults} <= {*KINDS}
    return [source.changed(change).removeprefix(f"{head}\n").strip() for change in faults]


@pytest.mark.parametrize("body, others", [
    ("a = a - b", ["a = a + b"]),
    ("a = a * b // 2", ["a = a * b * 2", "a = a // b // 2", "a = a * b // 3", "a = a * b // 1"]),
    ("a += b", ["a -= b"]),
    ("a = a < b <= 1", ["a = a <= b <= 1", "a = a < b < 1", "a = a < b <= 2", "a = a < b <= 0"]),
    ("a = a is not None", ["a = a is None"]),
    ("a = a and not b", ["a = a or not b", "a = a and  b"]),
    ("a = -b", ["a = b"]),
    ("a = min(a, b)", ["a = max(a, b)", "a = min(a)"]),
    ("a = a[b:2]", ["a = a[:2]", "a = a[b:]", "a = a[b:3]", "a = a[b:1]"]),
])  # fmt: skip
def test_operators_are_turned(body, others):
    assert sorted(changed(body)) == sorted(others)


@pytest.mark.parametrize("body, others", [
    ("a = 1 if b else 2", ["a = 1 if True else 2", "a = 1 if False else 2"]),
    ("a = [x for x in a if x]", ["a = [x for x in a if True]", "a = [x for x in a if False]"]),
    ("while a: b()", ["while False: b()", "while a: pass"]),
    ("if (a := b): pass", []),
])  # fmt: skip
def test_conditions_are_made_constant(body, others):
    assert [one for one in changed(body) if "True" in one or "False" in one or "pass" in one] == others


@pytest.mark.parametrize("body, others", [
    ("return a", ["return None"]),
    ("return a == b", ["return None", "return not (a == b)", "return a != b"]),
    ("return None", []),
    ("a.append(b)", ["pass"]),
    ("a.b = b", ["pass"]),
    ("for x in a: continue", ["for x in a: break"]),
])  # fmt: skip
def test_results_and_statements_are_forgotten(body, others):
    assert changed(body) == others


@pytest.mark.parametrize("body, others", [
    ("a = f(b, c=a)", ["a = f(b)"]),
    ("a = f(c=a, d=b)", ["a = f(d=b)", "a = f(c=a)"]),
    ("a = f(*b, c=a)", ["a = f(*b)"]),
    ("a = a.get(a, b)", ["a = a.get(a)"]),
    ("a = f(a, b)", []),                    # would fail at once
    ("a = zip(a, b, strict=True)", []),     # an assertion
])  # fmt: skip
def test_an_argument_that_a_call_may_lack_is_dropped(body, others):
    assert changed(body) == others


@pytest.mark.parametrize("body", [
    '"""1 + 1"""', 'a = f"{a + 1}"', 'raise ValueError(a + 1, b or 2)', 'assert a < 1, a', 'a = "one" + b',
    "a: Tuple[1, 2] = b",
])  # fmt: skip
def test_texts_and_annotations_are_left_alone(body):
    assert changed(body) == []


def test_default_values_are_changed_and_the_decorator_is_not():
    source = Source("@rule(1)\ndef f(a: 2, b=3) -> 4:\n    b\n")
    ((_, function),) = functions(ast.parse(source.data))
    assert [source.data[change.start : change.stop] for change in changes(function, source)] == [b"3", b"3"]


def test_methods_are_functions_and_functions_in_functions_are_parts_of_them():
    tree = ast.parse("class C:\n    def m(self):\n        def inner(): pass\nif C:\n    def g(): pass\nx = lambda: 1\n")
    assert [name for name, _ in functions(tree)] == ["C.m", "g"]


def test_a_change_stands_where_the_text_stands_even_after_other_alphabets():
    source = Source('def f(a):\n    return ("é", a + 1,\n        a - 2)\n')
    ((_, function),) = functions(ast.parse(source.data))
    spoilt = {source.changed(change) for change in changes(function, source)}
    assert 'def f(a):\n    return ("é", a - 1,\n        a - 2)\n' in spoilt
    assert 'def f(a):\n    return ("é", a + 1,\n        a - 3)\n' in spoilt
    assert "def f(a):\n    return None\n" in spoilt


def test_the_default_of_a_parameter_that_is_not_read_is_left_alone():
    source = Source("def f(a, b=1, c=2, *, d=3, e=4):\n    a(c, e)\n")
    ((_, function),) = functions(ast.parse(source.data))
    lines = {source.changed(change).partition("\n")[0] for change in changes(function, source) if change.start < 34}
    assert lines == {"def f(a, b=1, c=3, *, d=3, e=4):", "def f(a, b=1, c=1, *, d=3, e=4):",
                     "def f(a, b=1, c=2, *, d=3, e=5):", "def f(a, b=1, c=2, *, d=3, e=3):"}  # fmt: skip
