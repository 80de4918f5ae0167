"""Lists in a sentence."""

from actors.text.printable import list_first


def test_other_entries_are_counted_only_where_there_are_some():
    assert list_first(["a", "b", "c"]) == "a, b, c"
    assert list_first(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert list_first([str(n) for n in range(1_002)], 2) == "0, 1 and 1,000 more"
    assert list_first(["a: 1", "b: 2", "c: 3"], 1, "; ") == "a: 1; and 2 more"
    assert list_first([]) == ""
