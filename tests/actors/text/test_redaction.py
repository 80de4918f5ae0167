"""No secret of an address or of the environment survives; text that holds none is not changed."""

import html
import json
from string import ascii_lowercase, digits, punctuation
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actors.text.redaction import redact_addresses, redact_environment, redact_key

SCHEMES = st.sampled_from(["http", "https", "postgresql", "mysql+pymysql", "s3", "hf", "redis"])
NAMES = st.text(ascii_lowercase + digits + "-_", min_size=1, max_size=8)
HOSTS = st.one_of(
    st.builds("{}.{}".format, NAMES, st.sampled_from(["org", "example.com"])), st.just("[::1]"), st.just("10.0.0.7")
)
PORTS = st.sampled_from(["", ":5000", ":"])
PASSWORDS = st.text(ascii_lowercase + digits + punctuation, min_size=1, max_size=16)
PATHS = st.sampled_from(["", "/", "/db", "/a/b?c=d#e", "?x=1"])
WORDS = st.sampled_from(
    ["see", "me@x.org,", "user:pass@host", "//", "a//b@c", "@", '"', "(me@x.org)", "\n", "\t", "50%"]
)
BEFORE, AFTER = st.sampled_from(["", "(", '"', "uri=", "<"]), st.sampled_from(["", ".", ",", '"', ">", '", "x'])


@given(SCHEMES, NAMES, PASSWORDS, HOSTS, PORTS, PATHS, WORDS, WORDS)
def test_no_user_and_no_password_survives(scheme, user, password, host, port, path, before, after):
    readable = password.split("/")[0].split("?")[0].split("#")[0].split('"')[0].split("<")[0].split(">")[0]
    assume(
        "@" in readable or not readable.split("`")[0].split("\\")[0].isdigit()
    )  # ``user:12/...`` is a host and a port
    assume(readable.split("`")[0].split("\\")[0] != "")  # ``user:/...`` likewise
    text = f"{before} {scheme}://{user}:{password}@{host}{port}{path} {after}"

    assert redact_addresses(text) == f"{before} {scheme}://***@{host}{port}{path} {after}"
    assert redact_addresses(redact_addresses(text)) == redact_addresses(text)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("http://user:secret@host:5000/x", "http://***@host:5000/x"),
        ("http://user:sec@re/t@host/x", "http://***@host/x"),
        ("https://proxy.org/?to=http://a:b@c/d", "https://proxy.org/?to=http://***@c/d"),
        ('uri = "http://a:b@c"\nnote = "me@x.org"', 'uri = "http://***@c"\nnote = "me@x.org"'),
        ("http://a:b@c and http://d:e@f", "http://***@c and http://***@f"),
    ],
)
def test_userinfo_ends_at_the_last_at_sign_before_a_space(text, redacted):
    assert redact_addresses(text) == redacted


def test_values_of_secret_variables_are_hidden():
    environment = {"OPENAI_API_KEY": "sk-1234567890", "HF_TOKEN": "hf_abcdefgh", "EMPTY_KEY": "", "SHORT_KEY": "none"}

    assert redact_environment("key sk-1234567890, token hf_abcdefgh, none", environment) == "key ***, token ***, none"


@given(
    st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=8, max_size=40),
    st.text(max_size=20),
    st.text(max_size=20),
    st.data(),
)
def test_no_run_of_eight_characters_of_a_key_is_left(key, before, after, data):
    start = data.draw(st.integers(0, len(key) - 8))
    end = data.draw(st.integers(start + 8, len(key)))
    redacted = redact_key(f"{before}{key[start:end]}{after}", key)

    assert "***" in redacted and not any(key[offset : offset + 8] in redacted for offset in range(len(key) - 7))


def test_a_key_goes_out_whole_and_a_short_one_is_no_secret():
    assert redact_key("a sk-1234567890 b 567890zz sk-12345678 c", "sk-1234567890") == "a *** b 567890zz *** c"
    assert redact_key("abcdefghabcdefgh abcdefgh", "abcdefgh") == "*** ***", "neighbors are one"
    assert redact_key("a" * 9 + "b", "a" * 8) == "***b" and redact_key("abcdefghi", "abcdefgh") == "***i"
    assert redact_key("EMPTY and all", "EMPTY") == "EMPTY and all" == redact_key("EMPTY and all", "")


ESCAPES = {
    "plain": str, "json": json.dumps, "json-unicode": lambda key: json.dumps(key, ensure_ascii=False),
    "json-twice": lambda key: json.dumps({"body": json.dumps({"key": key})}), "repr": lambda key: repr(key)[1:-1],
    "quote": quote, "quote-plus": quote_plus, "quote-all": lambda key: quote(key, safe=""), "html": html.escape,
}  # fmt: skip


@pytest.mark.parametrize("key", ['sk-"quoted"-12345', "sk-100%&<b>'apostrophe", "clé-'both\"kinds-ünïcødé"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_escaped_keys_are_hidden(key, escape):
    text, redacted = (f"the key {escape(secret)} is wrong" for secret in (key, "***"))
    assert (
        redact_key(text, key) == redact_environment(text, {"SERVICE_KEY": key}) == redacted.replace(quote("***"), "***")
    )
