"""Fields of a request body whose values are secrets, by their names.

A field such as ``api_key`` is a secret whatever its value; ``token`` or ``hf_token`` only with a text, because bodies
have tokens of a model, too. JSON schemas of tools are kept: a tool may have a parameter ``password``.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

REDACTED = "(redacted)"
_SECRETS = (
    "apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey", "authkey", "sshkey",
    "accountkey", "subscriptionkey", "licensekey", "sessionkey", "accesskeyid",
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "authorization", "bearer", "cookie", "cookies",
    "credential", "credentials", "connectionstring", "accesstoken", "refreshtoken", "authtoken", "apitoken",
    "bearertoken", "sessiontoken", "securitytoken", "csrftoken", "xsrftoken", "jwt",
)  # fmt: skip
"""Ends of names of secrets, in lower case, without separators."""
_TEXTS = ("token", "auth", "session", "sessionid", "sid", "otp")
"""Names that belong to a secret only if the value is a text, or a list of texts."""
_VOCABULARY = frozenset((
    "add", "assistant", "audio", "begin", "bos", "boi", "bot", "cls", "draft", "end", "eoi", "eom", "eos", "eot",
    "fim", "first", "image", "img", "last", "mask", "max", "middle", "min", "next", "pad", "prefix", "sep", "special",
    "start", "stop", "suffix", "think", "tool", "unk", "video", "vision",
))  # fmt: skip
"""Words before ``token`` in names of a model's tokens."""
_CONTAINERS = frozenset(("headers", "httpheaders", "extraheaders", "requestheaders", "defaultheaders", "auth"))
"""Names of objects whose values are all secrets, besides those with names of secrets."""
_URLS = frozenset(("serverurl", "baseurl", "apibase", "endpoint", "callbackurl", "webhook", "webhookurl", "proxy",
                   "proxyurl", "connectorurl"))  # fmt: skip
"""Names of URLs that are no part of a prompt: their user names, passwords and queries are secrets."""
_SCHEMAS = frozenset(("properties", "patternproperties", "defs", "definitions"))
_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)?(?P<user>[^/?#]*@)?(?P<rest>[^?#]*)(?P<query>.*)", re.S)


def redacted(value: Any) -> Any:
    """Return a JSON value without the secrets in it."""
    if isinstance(value, list):
        return [redacted(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    is_scored = "logprob" in value                           # a token of the model
    kept = {key: entry if is_scored and key == "token" else _field(key, entry) for key, entry in value.items()}
    if "value" in kept and any(_is_secret(value.get(name), value["value"]) for name in ("name", "key", "header")):
        kept["value"] = _blank(value["value"])               # {"name": "Authorization", "value": "Bearer ..."}
    return kept


def _field(key: str, value: Any) -> Any:
    """Return the value of a field without the secrets in it."""
    name = "".join(_words(key))
    if name in _SCHEMAS and isinstance(value, dict):
        return {one: redacted(schema) for one, schema in value.items()}
    if _is_schema(value):
        return redacted(value)
    if _is_secret(key, value) or (name in _CONTAINERS and isinstance(value, dict | list)):
        return _blank(value)
    if name in _URLS and isinstance(value, str):
        return without_secrets(value)
    return redacted(value)


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(name: Any, value: Any) -> bool:
    """True if the value that belongs to a name is a secret."""
    if not isinstance(name, str):
        return False
    words = _words(name)
    joined = "".join(words)
    return joined.endswith(_SECRETS) or (_is_text(value) and (joined in _TEXTS or _names_token(words)))


def _names_token(words: list[str]) -> bool:
    """True for ``hf_token`` and ``X-Auth-Token``, False for ``eos_token`` and ``max_tokens``."""
    return words[-1:] == ["token"] and not _VOCABULARY & set(words)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(isinstance(one, str) for one in value))


def _is_schema(value: Any) -> bool:
    """True for the JSON schema of a parameter."""
    if not isinstance(value, dict):
        return False
    types = value.get("type")
    named = types if isinstance(types, list) else [types]
    return any(isinstance(one, str) and one in _TYPES for one in named) or "$ref" in value or "anyOf" in value


def _blank(value: Any) -> Any:
    """Return a value whose texts and numbers are replaced; the names in an object stay."""
    if isinstance(value, Mapping):
        return {key: _blank(entry) for key, entry in value.items()}
    return None if value is None else REDACTED


def without_secrets(url: str) -> str:
    """Return a URL whose user name, password, query and fragment are replaced."""
    found = _URL.fullmatch(url)
    assert found is not None                                 # every text matches
    user = f"{REDACTED}@" if found["user"] else ""
    query = f"?{REDACTED}" if found["query"] else ""
    return f"{found['scheme'] or ''}{user}{found['rest']}{query}"
