"""Plug-in for pytest: runs the tests for each fault of the file WISH in a child process with the faulty function.

Modules are imported and tests collected once; then every test runs once to see which statements it reaches. A child
runs the tests that reach the statement of a fault until one fails. The effect of code that ran before the first test is
not undone: such a fault is reported as LEFT, and must be planted in its module.
"""

import ast
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

WISH = json.loads(Path(os.environ["WISH"]).read_text())
PACKAGE = WISH["package"]            # folder of the package, with a slash at the end
LEFT = "left"
PATIENCE = 30                        # seconds that all tests may take longer than without fault
LONGEST_WORK = 10                    # seconds of computing that they may take longer
NOTES = {"failed": "", "is_child": False, "ends": False}
RAN = set()                          # (module, function) that ran before the first test


def pytest_runtest_logstart(nodeid):
    if NOTES["is_child"]:
        Path(WISH["running"]).write_text(nodeid, "utf-8")


def pytest_runtest_logreport(report):
    if NOTES["is_child"] and report.failed:
        NOTES["failed"] = report.nodeid
        if NOTES["ends"]:
            os._exit(1)


def pytest_runtestloop(session):
    sys.settrace(None)
    threading.settrace(None)
    for file in {fault["file"] for fault in WISH["faults"]}:
        parts = Path(file).with_suffix("").parts
        import_module(".".join((Path(PACKAGE).name, *(parts[:-1] if parts[-1] == "__init__" else parts))))
    functions = _functions()
    reached, seconds = _reached(session.items, functions)
    with open(WISH["out"], "a", encoding="utf-8") as file:
        for fault in WISH["faults"]:
            result = _result(fault, session.items, functions, reached, seconds)
            file.write(json.dumps({"fault": fault["name"], "test": result}) + "\n")
            file.flush()
    return True


def _key(code):
    """Return the module and the outermost function of a code object of the package, with the class before its name."""
    return code.co_filename[len(PACKAGE):], code.co_qualname.partition(".<locals>")[0]


def _note_call(frame, event, argument):
    if frame.f_code.co_filename.startswith(PACKAGE):
        RAN.add(_key(frame.f_code))


def _functions():
    """Return the functions of the package by name of the code and its first line."""
    gc.unfreeze()
    found = {}
    for one in gc.get_objects():
        if type(one) is type(_functions) and one.__code__.co_filename.startswith(PACKAGE):
            code = one.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(one)
    return found


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _codes(constant)


def _replace(functions, tree, file, names):
    """Give the functions with these names, and those in them, the code of another text. Return how many got it."""
    n = 0
    for code in _codes(compile(tree, PACKAGE + file, "exec", dont_inherit=True)):
        if _key(code)[1] in names:
            for function in functions.get((code.co_filename, code.co_qualname, code.co_firstlineno), ()):
                if len(function.__code__.co_freevars) == len(code.co_freevars):
                    function.__code__ = code
                    n += 1
    return n


def _in_child(work, seconds):
    """True if a work ends without a failure in the given time, in a child process."""
    child = os.fork()
    if not child:
        try:
            os.setsid()
            NOTES["is_child"] = True
            work()
            os._exit(0)
        except BaseException:
            os._exit(2)
    end, pause = time.monotonic() + seconds, 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > end:
            break
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)         # including servers that a test left behind
    if not ended:
        os.waitpid(child, 0)
    return bool(ended) and status == 0


def _run(item):
    NOTES["failed"] = ""
    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    return not NOTES["failed"]


def _reached(items, functions):
    """Return the numbers of the tests that reach each statement of the wanted functions and pass, by module and line,
    and the seconds of every test."""
    file = Path(WISH["out"] + ".reached")
    wanted = {}
    for fault in WISH["faults"]:
        wanted.setdefault(fault["file"], set()).add(fault["function"])

    def work():
        met = set()
        sys.modules["builtins"].__reached__ = met.add
        for module, names in wanted.items():
            tree = ast.parse(Path(PACKAGE + module).read_text("utf-8"))
            for name, function in _definitions(tree):
                if name in names:
                    _note_statements(function, module)
            _replace(functions, ast.fix_missing_locations(tree), module, names)
        rows = []
        for item in items:
            met.clear()
            begun = time.monotonic()
            passed = _run(item)
            rows.append((sorted(met) if passed else [], time.monotonic() - begun))
        file.write_text(json.dumps(rows), "utf-8")

    if not _in_child(work, WISH["longest"]):
        raise RuntimeError("the tests do not run without a fault")
    rows = json.loads(file.read_text("utf-8"))
    reached = {}
    for n, (places, _) in enumerate(rows):
        for place in places:
            reached.setdefault(place, []).append(n)
    return reached, [seconds for _, seconds in rows]


def _note_statements(node, module):
    """Put a call before every statement in a node that tells its place."""
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
            setattr(node, field, [part for one in statements for part in _noted(one, module)])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        _note_statements(part, module)


def _noted(statement, module):
    _note_statements(statement, module)
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if not is_text:
        yield ast.copy_location(ast.parse(f"__reached__({_place(module, statement.lineno)!r})").body[0], statement)
    yield statement


def _place(module, line):
    return f"{module} {line}"


def _definitions(tree, name=""):
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _definitions(child, f"{name}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from _definitions(child, name)


def _result(fault, items, functions, reached, seconds):
    """Return the test that finds a fault, "" = none, or LEFT."""
    if (fault["file"], fault["function"]) in RAN:
        return LEFT
    where = _place(fault["file"], fault["line"])
    own = {n for n in reached.get(where, ()) if items[n].nodeid.partition("::")[0] in fault["own"]}
    numbers = sorted(own if WISH["only_own"] else reached.get(where, ()), key=lambda n: (n not in own, seconds[n]))
    if not numbers:
        return ""

    def work():
        if not _replace(functions, ast.parse(fault["text"]), fault["file"], {fault["function"]}):
            os._exit(3)
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + LONGEST_WORK + 5 * sum(seconds[n] for n in numbers))
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        Path(WISH["running"]).write_text("", "utf-8")
        NOTES["ends"] = True
        for n in numbers:
            _run(items[n])

    Path(WISH["running"]).write_text(LEFT, "utf-8")
    passed = _in_child(work, PATIENCE + 5 * sum(seconds[n] for n in numbers))
    return "" if passed else Path(WISH["running"]).read_text("utf-8")


sys.settrace(_note_call)
threading.settrace(_note_call)
