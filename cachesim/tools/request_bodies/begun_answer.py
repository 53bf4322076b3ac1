"""Prompt that ends with the beginning of an answer, rendered by a chat template.

Sources: llama.cpp common/chat-auto-parser-generator.cpp generate_parser (b11549, compared with ``POST
/apply-template``), ik_llama.cpp examples/server/server-common.cpp oaicompat_chat_params_parse (8337e4c, read),
huggingface/transformers utils/chat_template_utils.py (continue_final_message).
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.tokens import common_prefix
from cachesim.engines.chat_bodies import Continued

CONTINUED, OPENS, EXAMINE = "__continued__", "__opens_answer__", "__examine__"
"""Keys of a request to the child process beside the variables of a template: the answer that the prompt begins, whether
the prompt has the text that begins an answer, and whether the template is to be examined instead."""
THOUGHT, SAID = "REASONING_MARKER", "CONTENT_MARKER"


def begun_answer(template: Any, chat: Mapping[str, Any], message: Mapping[str, Any], way: str) -> str:
    """Return the prompt of a chat, followed by the beginning of an answer. ``message``: the answer, ``way``: a value of
    ``Continued``."""
    content = message.get("content")
    if way == Continued.RENDERED.value:
        return _cut_after(template.render({**chat, "messages": [*chat["messages"], message],
                                           "add_generation_prompt": False}), content or "")  # fmt: skip
    rest = template.render({**chat, "add_generation_prompt": False})
    whole = template.render({**chat, "add_generation_prompt": True})
    opening = whole[common_prefix(whole, rest) :]
    if way == Continued.WITH_REASONING.value:
        begin, end = reasoning_tags(template, chat)
        if begin:
            head, tag, _ = opening.partition(begin)
            opening = (head if tag else opening) + begin + (message.get("reasoning_content") or "")
            opening += "" if content is None else end
    return str(rest + opening + (content or ""))


def _cut_after(text: str, content: str) -> str:
    """Return a rendered chat up to the end of its last content, whose white space a template may remove."""
    begin = text.rfind(content.strip())
    whole = content.lstrip()
    if text.startswith(whole, begin):
        return text[: begin + len(whole)]
    return text[: begin + len(content.strip())]


def reasoning_tags(template: Any, chat: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts before and after the reasoning of an answer, ("", "") if the template writes none."""
    question = {"role": "user", "content": "User message"}
    plain = {"role": "assistant", "content": SAID}
    texts = []
    for answer in (plain, {**plain, "reasoning_content": THOUGHT}):
        try:
            texts.append(template.render({**chat, "messages": [question, answer], "add_generation_prompt": False}))
        except MemoryError:
            raise
        except Exception:
            return "", ""
    without, text = texts
    at = text.find(THOUGHT)
    said = text.find(SAID, at)
    if at < 0 or said < 0:
        return "", ""
    begin = text[without.find(SAID) : at] if text[: without.find(SAID)] == without[: without.find(SAID)] else ""
    return begin, text[at + len(THOUGHT) : said]
