"""Rules: single decisions of an engine as pure functions, each with an id, a role, a source and a life time.

    @rule("LC-CKPT-NEED.TH4", Role.NEED, llama_cpp(CONTEXT, "pre_decode", "3f545be"), since="#24110 (b9509)")
    def need_th4(ask: Ask) -> Decision:
        return Decision(Need(thold, search), {"thold": thold})

The id is written once: the decorator enters it in every ``Decision`` that the function returns. Code that handles
decisions of any engine selects them by role, never by a part of an id.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from textwrap import dedent
from typing import Any, Callable, Mapping, NamedTuple, TypeVar

from cachesim.base.errors import BadInput, Crash, quoted

F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, Callable[..., Any]] = {}
"""All rules of the imported engines, by id."""


class Role(StrEnum):
    """Kind of decision, independent of the engine. In brackets: the value of such a decision."""

    SETUP = "setup"               # number or behaviour fixed when the server starts
    PROMPT = "prompt"             # how a request is read: requested slot, truncation of the prompt
    ADMIT = "admit"               # waiting request that starts next
    ASSIGN = "assign"             # slot for the request
    PREEMPT = "preempt"           # running request that is preempted and restarted later
    CONSULT = "consult"           # whether to search the prompt cache, or to store a slot in it, now
    STORE = "store"               # whether a conversation enters the prompt cache
    PUBLISH = "publish"           # moment from which other requests can find the results
    LOAD = "load"                 # stored conversation loaded for a request (number or None)
    HAND = "hand"                 # whether a loaded conversation stays in the cache
    PREFIX = "prefix"             # number of prompt tokens that need no evaluation
    NEED = "need"                 # whether a checkpoint is needed (true = search)
    PICK = "pick"                 # checkpoint to restore (number or None)
    RESUME = "resume"             # position from which evaluation resumes after a restore
    RESET = "reset"               # tokens kept if no checkpoint can be restored
    ENABLE = "enable"             # whether this request creates checkpoints at all (true/false)
    PLAN = "plan"                 # positions at which a checkpoint may be created
    CREATE = "create"             # whether to create a checkpoint here (true/false); because["start"]: tokens before it
    DROP = "drop"                 # checkpoints, entries or rows to remove
    REMOVE = "remove"             # whether positions can be removed from a memory
    FAIL = "fail"                 # reaction to a refusal or a failure
    SHIFT = "shift"               # position and size of a context shift
    DRAFT = "draft"               # drafts: length, state saved before them, rollback
    READ_FILE = "read file"       # content restored from a slot file
    WRITE_FILE = "write file"     # content written to a slot file
    MEMORY = "memory"             # rows or states that a memory keeps, copies or hides
    TOLD = "told"                 # objects that the log names
    END = "end"                   # end of generation


NUMBERED = frozenset({Role.LOAD, Role.HAND, Role.PICK, Role.RESUME})
"""Roles whose value is an object number: 0 is a number too, only None means that nothing was selected."""


def has_effect(role: Role, value: object) -> bool:
    """True if a decision of this role acted; False if it declined."""
    return value is not None if role in NUMBERED else bool(value)


class Source(NamedTuple):
    """Origin of a rule: a file of a public repository at a commit (or build, or release), the function in it and texts
    that locate the statement; or a pull request. ``note`` holds any further remark."""

    project: str
    path: str = ""
    where: str = ""
    commit: str = ""
    pull: int = 0
    note: str = ""

    @property
    def link(self) -> str:
        """URL of the file at that commit, else of the pull request, else ""."""
        commit = self.commit.partition(" ")[0]
        if self.path and commit:
            tag = f"v{commit}" if "." in commit else commit
            return f"https://github.com/{self.project}/blob/{tag}/{self.path}"
        return f"https://github.com/{self.project}/pull/{self.pull}" if self.pull else ""

    def __str__(self) -> str:
        pull = f"{self.project}#{self.pull}" if self.pull else ""
        place = " ".join(filter(None, (self.path, self.where, f"({self.commit})" if self.commit else "")))
        if place and not (pull and not self.path):
            return "; ".join(filter(None, (f"{self.project} {place}".strip(), pull, self.note)))
        return "; ".join(filter(None, (" ".join(filter(None, (pull or self.project, place))), self.note)))


class About(NamedTuple):
    """Metadata of a rule: id, role, source, and the changes that began and ended it ("" = older than the examined
    history, or still in force)."""

    id: str
    role: Role
    source: Source
    since: str = ""
    until: str = ""

    @property
    def cited(self) -> str:
        """Source and life time on a single line."""
        life = f"{self.since} to {self.until}" if self.since and self.until else (
            f"since {self.since}" if self.since else f"before {self.until}" if self.until else "")
        return ", ".join(filter(None, (str(self.source), life)))


@dataclass(slots=True)
class Decision:
    """The result of a rule. ``because`` holds the numbers that the rule used; the sentence is made elsewhere. ``rule``
    is the id of the rule, entered by its decorator: the only field that is set after construction. ``case`` names the
    kind of situation if the value alone does not identify which situations were observed on a real server."""

    value: Any
    because: Mapping[str, Any]
    rule: str = ""
    case: str = ""


def rule(rule_id: str, role: Role, source: Source | str, since: str = "", until: str = "") -> Callable[[F], F]:
    """Register a pure function as the rule ``rule_id``. ``source`` may be a sentence for a user-defined rule. A
    function that returns a ``Decision`` is wrapped so that the decision carries the rule's id; a function that returns
    a plain value is not wrapped.

    Raise Crash if the id already belongs to another function or the source is empty.
    """
    about = About(
        rule_id, role, source=Source("", note=source) if isinstance(source, str) else source, since=since, until=until
    )

    def register(fn: F) -> F:
        if rule_id in RULES and _place(RULES[rule_id]) != _place(fn):
            raise Crash(f"rule id {rule_id} is used twice")
        if not any(about.source):
            raise Crash(f"rule {rule_id} names no source")
        decides = fn.__annotations__.get("return") in ("Decision", Decision)
        named = _stamped(fn, rule_id, checked=isinstance(source, str)) if decides else fn
        named.about = about  # type: ignore[attr-defined]
        named.rule = rule_id  # type: ignore[attr-defined]
        RULES[rule_id] = named
        return named

    return register


def _stamped(fn: F, rule_id: str, checked: bool) -> F:
    """Wrap a function so that its decisions carry ``rule_id``. ``checked``: the rule is user-defined; raise BadInput if
    it does not return a Decision."""
    @wraps(fn)
    def decide(*args: Any) -> Decision:
        decision: Decision = fn(*args)
        if checked and not isinstance(decision, Decision):
            code = inspect.unwrap(fn).__code__
            raise BadInput(f"rule {rule_id} returned {quoted(decision)}, expected a Decision",
                           file=code.co_filename, line=code.co_firstlineno)  # fmt: skip
        decision.rule = rule_id
        return decision

    return decide  # type: ignore[return-value]


def _place(fn: Callable[..., Any]) -> tuple[str, str]:
    """Return file and qualified name of a function. They are equal for a module that is loaded again."""
    code = inspect.unwrap(fn).__code__
    return code.co_filename, code.co_qualname


def about(rule: Callable[..., Any]) -> About:
    """Return the metadata of a rule. Raise Crash if the function is not a rule."""
    found = getattr(rule, "about", None)
    if not isinstance(found, About):
        raise Crash(f"{rule!r} is not a rule")
    return found


def rule_id(rule: Callable[..., Any]) -> str:
    """Return the id under which a function was registered. Raise Crash if the function is not a rule."""
    return about(rule).id


def role_of(rule_id: str) -> Role | None:
    """Return the role of the rule with this id, None if no loaded engine has the id."""
    found = RULES.get(rule_id)
    return None if found is None else found.about.role       # type: ignore[attr-defined]


def rule_text(rule: Callable[..., Any]) -> str:
    """Return the docstring of a rule, "" if it has none. ``python -OO`` strips docstrings; there it is read from the
    source file."""
    if sys.flags.optimize < 2:
        return rule.__doc__ or ""
    try:
        [function] = ast.parse(dedent(inspect.getsource(rule))).body
    except OSError:                     # installed without source files
        return ""
    return ast.get_docstring(function, clean=False) or "" if isinstance(function, ast.FunctionDef) else ""
