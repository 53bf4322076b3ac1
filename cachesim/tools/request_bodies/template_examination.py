"""Examination of a chat template: which parts of a chat it uses, seen when it renders small chats whose values record
what the template does with them.

The questions are those that llama.cpp asks (common/jinja/caps.cpp caps_get).
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, Mapping

MARKER = "STRING_MARKER"
"""Text of a content that a template writes."""


class RecordedText(str):
    """Text that records its uses."""

    is_iterated = False          # the template loops over it, or takes an entry of it
    is_tested = False            # the template asks whether it is a string

    def __iter__(self) -> Iterator[str]:
        self.is_iterated = True
        return super().__iter__()

    def __getitem__(self, key: Any) -> str:
        self.is_iterated = self.is_iterated or isinstance(key, int)
        return super().__getitem__(key)


class RecordedList(list[Any]):
    """List that records its uses."""

    is_iterated = False

    def __iter__(self) -> Iterator[Any]:
        self.is_iterated = True
        return super().__iter__()

    def __getitem__(self, key: Any) -> Any:
        self.is_iterated = True
        return super().__getitem__(key)


class RecordedObject(dict[str, Any]):
    """Object that records which of its entries are read."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        self.read.update(self)
        return super().items()

    def values(self) -> Any:
        self.read.update(self)
        return super().values()


def _read_all(value: Any) -> None:
    """Record that a value is read with all that it contains: it is written as JSON."""
    if isinstance(value, dict):
        for entry in value.values():
            _read_all(entry)
    elif isinstance(value, list):
        for entry in list.__iter__(value):
            _read_all(entry)


def _tests_text(value: Any) -> bool:
    """True if a value is a string; a recorded text takes note of the question."""
    if isinstance(value, RecordedText):
        value.is_tested = True
    return isinstance(value, str)


def _tests_iterable(value: Any) -> bool:
    """True if a value can be looped over. Asking is not a loop."""
    return isinstance(value, str | list | dict | tuple)


def _as_json(value: Any, **options: Any) -> str:
    """Return a value as JSON, and record that all of it is read."""
    _read_all(value)
    return json.dumps(value)


def examine(compile_template: Callable[..., Any], source: str) -> dict[str, bool]:
    """Return what a template does with messages, by the names of the fields of ``TemplateUse``. ``compile_template``
    compiles a source with other filters and tests than usual, and with missing values that may be read, as in the
    engine of llama-server."""
    template = compile_template(source, filters={"tojson": _as_json},
                                tests={"string": _tests_text, "iterable": _tests_iterable},
                                undefined=True)  # fmt: skip

    def write(*messages: Any) -> str | None:
        try:
            text: str = template.render(messages=[*messages], tools=[_TOOL], bos_token="", eos_token="",
                                        add_generation_prompt=True)  # fmt: skip
        except MemoryError:
            raise
        except Exception:
            return None
        return text

    return {**_content_use(write), "reads_system": _reads_system(write), **_call_use(write)}


Write = Callable[..., str | None]


def _content_use(write: Write) -> dict[str, bool]:
    """Return the uses of a content: loops over it, and the writing of one that is a string."""
    text = RecordedText(MARKER)
    found = write({"role": "user", "content": text})
    iterates = text.is_iterated
    writes = found is not None and not text.is_iterated
    if text.is_tested:
        listed = RecordedList()
        done = write({"role": "user", "content": listed})
        iterates = iterates or (listed.is_iterated and done is not None)
    return {"iterates_content": iterates, "writes_strings": writes}


def _reads_system(write: Write) -> bool:
    """True if a template reads the content of a system message."""
    system = RecordedObject({"role": "system", "content": "System message"})
    write(system, {"role": "user", "content": "User message"})
    return "content" in system.read


def _call_use(write: Write) -> dict[str, bool]:
    """Return the uses of tool calls: of those of a message, and of entries of their arguments."""
    arguments = RecordedObject({"arg": "value"})
    answer = _answer(arguments)
    done = write(*_conversation(answer))
    if done is not None:
        reads_calls = "tool_calls" in answer.read
        if not reads_calls or "arg" in arguments.read:
            return {"reads_calls": reads_calls, "reads_arguments": reads_calls}
    answer = _answer('{"arg": "value"}')
    done = write(*_conversation(answer))
    return {"reads_calls": done is not None and "tool_calls" in answer.read, "reads_arguments": False}


def _answer(arguments: Any) -> RecordedObject:
    """Return an answer with a tool call."""
    function = {"name": "tool1", "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return RecordedObject({"role": "assistant", "content": "", "tool_calls": [call]})


def _conversation(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a conversation around an answer with a tool call."""
    question = {"role": "user", "content": "User message"}
    result = {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"}
    said = {"role": "assistant", "content": "The tool response was 'tool response'"}
    return [question, answer, result, said, question]


_TOOL = {
    "name": "tool",
    "type": "function",
    "function": {
        "name": "tool1",
        "description": "Tool description",
        "parameters": {
            "type": "object",
            "properties": {"arg": {"type": "string", "description": "Arg description"}},
            "required": ["arg"],
        },
    },
}
