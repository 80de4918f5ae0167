"""Shipped conditions: what each changes in a key, its scenarios, and what cannot go together."""

from sweeps.conditions import CONDITIONS, VARIANTS, Condition

EXAMPLES, BASE = ("ROD", "MVP-N"), {"hint": False, "history": False, "shots": 0, "reasoned": False, "mode": "play"}
CHANGES = {
    "zero-shot": {}, "hint": {"hint": True}, "history": {"history": True}, "icl-1": {"shots": 1}, "icl-3": {"shots": 3},
    "random-proactive": {"mode": "random-proactive"}, "reference": {"mode": "reference"},
    "icl-2": {"shots": 2}, "icl-1-cot": {"shots": 1, "reasoned": True}, "icl-3-cot": {"shots": 3, "reasoned": True},
    "icl-1-small": {"shots": 1, "small_examples": True}, "icl-3-small": {"shots": 3, "small_examples": True},
    "history-full-size": {"history": True, "resized": False},
    "random-from-IN-C": {"mode": "random-proactive", "source": "IN-C"},
    "random-from-VSOD": {"mode": "random-proactive", "source": "VSOD"},
    "shuffled": {"shuffled": True}, "lenient": {"lenient": True}, "budget": {"budget": True},
    "hint-budget": {"hint": True, "budget": True}, "blank": {"picture": "blank"}, "swapped": {"picture": "swapped"},
    "text-only": {"picture": "none"}, "every-frame": {"every_frame": True}, "every-state": {"every_state": True},
}  # fmt: skip
"""Name -> what differs from ``zero-shot`` in its keys: another value would lose the episodes of older folders."""
SCENARIOS = {
    **dict.fromkeys((name for name in CHANGES if name.startswith("icl")), EXAMPLES),
    "random-from-IN-C": ("ROD", "VSOD", "MVP-N", "QD", "CIT", "COCO"), "random-from-VSOD": ("ROD", "MVP-N", "QD", "COCO"),
}  # fmt: skip


def test_the_papers_conditions_come_first_and_each_has_one_change_in_its_key():
    shipped = {**CONDITIONS, **VARIANTS}

    assert list(shipped) == list(CHANGES) and list(CONDITIONS) == list(CHANGES)[:7]
    for name, condition in shipped.items():
        assert condition.identity == {**BASE, **CHANGES[name]}, name
        assert condition.scenarios == SCENARIOS.get(name, ()), name
        assert condition.name == name and len(condition.description) > 20


def test_defaults_change_nothing_and_orders_are_in_no_key():
    plain = Condition(name="c")

    assert plain.identity == BASE and plain.orders == 4
    assert Condition(name="c", every_state=True, orders=2).identity == Condition(name="c", every_state=True).identity
    assert Condition(name="c", every_state=True, thoughts=2).identity["thoughts"] == 2
    facts = (plain.is_replicate, bool(plain.rules), plain.many_images, plain.shows_pictures, plain.hides_picture)
    assert facts == (False, False, False, True, False)


def test_replicates_are_named_by_what_they_change():
    hint = CONDITIONS["hint"]

    names = [hint.replicate(*pair).name for pair in ((0, 0), (1, 0), (0, 2), (3, 4))]
    assert names == ["hint", "hint-order1", "hint-seed2", "hint-order3-seed4"]
    assert hint.replicate(0, 0) == hint and hint.replicate(3, 4).identity == {**hint.identity, "order": 3, "draw": 4}
    reworded = hint.reword(2, "{question} {options}", {"old": "new"})
    assert (reworded.name, reworded.wording, reworded.template) == ("hint-wording2", 2, "{question} {options}")
    assert reworded.hint_wordings == {"old": "new"} and hint.reword(2, "", {}).hint_wordings == {}
    assert CONDITIONS["history"].reword(1, "", {"old": "new"}).hint_wordings == {}
