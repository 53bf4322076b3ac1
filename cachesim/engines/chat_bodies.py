"""What a server makes of the messages and tools of a request body before its chat template renders them.

The records are those of OpenAI's chat API. A body of another API is first converted to that form, as the server does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Mapping, Sequence

MEDIA = "media"
"""Type of a content block that stands for an image, a sound or a file: ``text`` identifies its data, ``kind`` is the
type of the block that the client sent."""


class Refused(Exception):
    """The server answers a request with these values with an error."""


class RefusedByTemplate(Refused):
    """The server answers a request with these values with an error if its chat template reads them."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """Message of OpenAI's chat API, and where it comes from."""

    message: Mapping[str, Any]
    path: str                          # its path in the body
    places: tuple[str, ...] = ()       # paths of the values that it was made from, () = its path
    refused: str = ""                  # why the server refuses it, and it is as the client sent it; "" = it does not
    by_template: bool = False          # only a template that reads the refused values refuses it

    def parsed(self, parse: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> SentMessage:
        """Return the message as ``parse`` makes it, which raises Refused for a message that the server refuses."""
        try:
            return SentMessage(parse(self.message), self.path, self.places, self.refused, self.by_template)
        except Refused as refused:
            is_by_template = isinstance(refused, RefusedByTemplate)
            return SentMessage(self.message, self.path, self.places, str(refused), is_by_template)


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """What a chat template does with messages. The defaults hold for a template that is not known."""

    source: str = ""                   # text of the template
    iterates_content: bool = False     # loops over a content, or takes an entry of it
    writes_strings: bool = True        # writes a content that is a string
    reads_system: bool = True          # reads the content of a system message
    reads_calls: bool = True           # reads the tool calls of a message
    reads_arguments: bool = True       # reads an entry of the arguments of a tool call


class Continued(Enum):
    """How the last message of a chat becomes the beginning of the answer."""

    AFTER_OPENING = "after opening"    # its content follows the text that begins an answer
    WITH_REASONING = "with reasoning"  # likewise, after its reasoning between the tags of the template
    RENDERED = "rendered"              # the template renders it; the text after its content is cut off


@dataclass(frozen=True, slots=True)
class ParsedChat:
    """Messages that a chat template receives."""

    messages: tuple[SentMessage, ...]
    opens_answer: bool = True          # the template adds the text that begins an answer
    continued: SentMessage | None = None         # message that the answer continues, not among `messages`
    way: Continued = Continued.AFTER_OPENING
    refused: str = ""                  # why the server refuses the chat, whose messages it takes; "" = it does not


ParseTool = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From the definition of a tool in OpenAI's form to the definition that the template receives."""
ParseMessages = Callable[[Sequence[SentMessage], TemplateUse, Mapping[str, Any]], ParsedChat]
"""From the messages of a body, the use of the template and the other fields of the body to the messages that the
template receives. A message that the server refuses stays as it is."""
ConvertBody = Callable[[Mapping[str, Any]], list[SentMessage]]
"""From a body of another API to messages of OpenAI's chat API. Raises Refused for a body that the server refuses."""


@dataclass(frozen=True, slots=True)
class ChatBodies:
    """How a server reads request bodies."""

    tool: ParseTool | None = None                # None = as sent
    messages: ParseMessages | None = None        # None = as sent
    anthropic: ConvertBody | None = None         # None = the general conversion
    responses: ConvertBody | None = None
