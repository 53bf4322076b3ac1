"""Values of fields with names of secrets are replaced; prompts, tokens of a model and schemas of tools are kept."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.watch.secret_fields import REDACTED, redacted

MARK = "sk-marked"


@pytest.mark.parametrize("name", [
    "api_key", "apiKey", "OPENAI_API_KEY", "x-api-key", "Ocp-Apim-Subscription-Key", "access_key", "AWS_ACCESS_KEY_ID",
    "secretAccessKey", "private_key", "password", "db.passwd", "passphrase", "client_secret", "Authorization",
    "Proxy-Authorization", "cookie", "Set-Cookie", "cookies", "credentials", "bearer", "token", "api_token", "hf_token",
    "X-Auth-Token", "githubToken", "id_token", "refresh_token", "session", "session_id", "auth", "jwt", "X-XSRF-TOKEN",
])  # fmt: skip
def test_fields_with_names_of_secrets(name):
    found = redacted({"prompt": "a", "metadata": [{name: MARK}], name: [MARK], "pairs": {"name": name, "value": MARK}})
    assert MARK not in json.dumps(found)
    assert found["prompt"] == "a" and found[name] == REDACTED and found["metadata"] == [{name: REDACTED}]


@pytest.mark.parametrize("body", [
    {"headers": {"X-Own": MARK, "Accept": [MARK]}}, {"credentials": {"type": "service_account", "project": MARK}},
    {"auth": {"user": MARK, "more": [{"a": MARK}]}}, {"cookies": [{"name": "a", "value": MARK}]},
    {"tools": [{"type": "mcp", "server_url": f"https://u:{MARK}@h/mcp?key={MARK}#{MARK}"}]},
    {"proxy": f"{MARK}:{MARK}@h:1"}, {"headers": [["X-Own", MARK]]}, {"password": {"a": {"b": MARK}}},
])  # fmt: skip
def test_objects_and_addresses_with_secrets(body):
    assert MARK not in json.dumps(redacted(body))


@pytest.mark.parametrize("kept", [
    {"prompt": [1, 2], "token": 5, "tokens": ["a"], "token_ids": [1], "max_tokens": 4, "max_completion_tokens": 4},
    {"eos_token": "</s>", "stop_token": "a", "bos_token": "<s>", "image_token": "<i>", "token": [1, 2]},
    {"logprobs": [{"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Ho", "logprob": -2}]}]},
    {"messages": [{"role": "user", "content": "password: hunter2, token=abc"}], "prompt_cache_key": "a"},
    {"cache_salt": "a", "signature": "b", "secretary": "c", "tokenizer": "d", "author": "e", "monkey": "f"},
    {"password": None, "image_url": {"url": "https://h/a.png?width=5"}, "logit_bias": {"5": -100}},
    {"tools": [{"function": {"name": "token", "parameters": {"type": "object", "properties": {
        "password": {"type": "string"}, "token": {"$ref": "#/$defs/token"}, "headers": {"type": ["object", "null"]},
        "auth": {"anyOf": [{"type": "string"}]}, "api_key": {"description": "the key"}},
        "$defs": {"token": {"type": "string", "enum": ["a"]}}, "required": ["password", "token"]}}}]},
])  # fmt: skip
def test_prompts_tokens_and_schemas_are_kept(kept):
    assert redacted(kept) == kept


def test_the_rest_of_an_address_stays():
    found = redacted({"server_url": "https://u:p@h:1/mcp?a=b", "base_url": "http://h/v1"})
    assert found == {"server_url": f"https://{REDACTED}@h:1/mcp?{REDACTED}", "base_url": "http://h/v1"}
