"""No control character of foreign text reaches a terminal or a log; what is plain text stays as it is."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from actors.text.printable import UNSAFE, one_line, printable, spell_invisible, strip_colors
from orchestrator.execution.attempt_log import open_attempt_log
from tests.actors.hostile import CONTROL


@given(st.text(st.characters(), max_size=60))
def test_cleaning_is_safe_and_idempotent(text):
    assert not UNSAFE.search(printable(text)) and printable(printable(text)) == printable(text)
    assert not UNSAFE.search(one_line(text)) and "\n" not in one_line(text)


def test_colours_go_and_anything_else_becomes_visible():
    assert printable(strip_colors("\x1b[1;31mred\x1b[0m\x1b]52;c;eA==\x07")) == "red\\x1b]52;c;eA==\\x07"
    assert printable("\x1b[1;31mred\x1b[0m") == "\\x1b[1;31mred\\x1b[0m"
    assert printable("10%\r100%\r\n") == "10%\\x0d100%\n"


def test_reordering_and_invisible_characters_are_spelled():
    assert printable("a\u202eb\u2028") == "a\\u202eb\\u2028"
    assert spell_invisible("a\u202e\x1b\u200b b\n") == "a⟨U+202E⟩⟨U+001B⟩⟨U+200B⟩ b⟨U+000A⟩"
    assert printable("\x00\x08\t\n\x0b\x1f \x7e\x7f\x9f\xa0") == "\\x00\\x08\t\n\\x0b\\x1f ~\\x7f\\x9f\xa0"
    assert spell_invisible("\ufeff\U000e0041") == "⟨U+FEFF⟩⟨U+E0041⟩"
    assert spell_invisible("THE QUICK BROWN FOX") == "THE QUICK BROWN FOX"
    assert spell_invisible("a\nb\t", keep="\n") == "a\nb⟨U+0009⟩"


def test_logs_and_the_terminal_get_no_control_character(tmp_path, capsys):
    with open_attempt_log(tmp_path) as log:
        logging.getLogger("orchestrator.x").error("said %s", CONTROL)
    written = "".join(path.read_text() for path in log.iterdir()) + capsys.readouterr().err

    assert "\\x1b]52" in written and not UNSAFE.search(written)
    assert log.stat().st_mode & 0o077 == 0
