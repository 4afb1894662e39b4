"""What the README's generated parts are made of, from records written here."""

from pathlib import Path

from newfound.report.recorded import load_records
from tests.report.test_recorded import record
from tools.readme import digits_section, generated, methods_section


def test_generated_parts_replace_only_what_is_between_their_marks(tmp_path: Path) -> None:
    record(tmp_path, "iic", 0, 0.97, benchmark="digits", recipe="newfound")
    text = "a\n<!-- methods -->\nold\n<!-- /methods -->\nb\n<!-- digits -->\n\n<!-- /digits -->\nc"
    new = generated(text, tmp_path)
    assert new.startswith("a\n<!-- methods -->\n| method")
    assert "old" not in new
    assert "| IIC | 97.0 (n = 1) |  |  |" in new
    assert generated(new, tmp_path) == new
    assert methods_section(load_records(tmp_path)) in new
    assert digits_section(load_records(tmp_path)) in new
