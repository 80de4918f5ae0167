"""Thoughts and answers are told apart by the marks of every family of models."""

from __future__ import annotations

import pytest

from envs.thoughts import opens_thoughts, split_thoughts, strip_thinking

HARMONY = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>A<|return|>"


@pytest.mark.parametrize(
    "text",
    [
        "<think>hm</think>A", "<think>\nhm\n</think>\n\nA", "hm</think>A", "<thinking>hm</thinking> A",
        "<reasoning>hm</reasoning>\n<answer>A</answer>", "<seed:think>hm</seed:think>A", "◁think▷hm◁/think▷A",
        "[THINK]hm[/THINK]A", HARMONY, HARMONY.removesuffix("<|return|>"), "<|channel>thought\nhm<channel|>A",
        "<think>hm</think><answer><|begin_of_box|>A<|end_of_box|></answer>", "<|START_THINKING|>hm<|END_THINKING|>A",
    ],
)  # fmt: skip
def test_every_form_is_split_and_cut_off(text: str):
    assert split_thoughts(text) == split_thoughts(text, is_cut=True) == ("hm", "A")
    cut = text[: text.index("hm") + 1]
    assert split_thoughts(cut, is_cut=True) == ("h", "")


@pytest.mark.parametrize("text", ["A", " A. Fork.\n", "It may <think>."])
def test_a_reply_without_marks_is_the_answer_unless_it_was_cut_off(text: str):
    assert split_thoughts(text) == ("", text.strip())
    assert split_thoughts(text, is_cut=True)[1] == ""


def test_an_unclosed_thought_has_no_answer_even_if_the_model_stopped():
    assert split_thoughts("<think>hm") == ("hm", "") and strip_thinking("<think>hm") is None


def test_stored_thoughts_are_bounded():
    assert len(split_thoughts(f"<think>{'x' * 10**6}</think>A")[0]) == 32_768


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("assistant\n<think>\n\n</think>\n\n", False),
        ("<think> is a tag", False),
    ],
)
def test_a_template_may_open_the_thought(prompt: str, is_open: bool):
    assert opens_thoughts(prompt) is is_open
