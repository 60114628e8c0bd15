"""Kept data: a chapter computes it from training runs, and it lies whole in the repository."""

import evidence
import pytest


@pytest.mark.parametrize("name", ["RUNS", "MODELS"])
def test_a_chapter_is_run_with_the_folder_that_it_needs(name, tmp_path):
    chapter = tmp_path / "Z_new.py"
    chapter.write_text(
        f'# %%\n{name} = None  # a folder\ndisplay({name})\nopen({name} + "/seen", "w").close()\n'
    )
    evidence.compute(chapter, {"RUNS": str(tmp_path), "MODELS": str(tmp_path)})
    assert (tmp_path / "seen").exists()
    with pytest.raises(ValueError, match=f"Z_new.py needs {name}"):
        evidence.compute(chapter, {"RUNS": None, "MODELS": None})


def test_a_chapter_that_is_not_there_or_keeps_nothing_is_one_clear_line(tmp_path, refused):
    (tmp_path / "Z_new.py").write_text("# %%\nRUN = None\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no parameter RUNS = None or MODELS = None"):
        evidence.compute(tmp_path / "Z_new.py", {"RUNS": str(tmp_path), "MODELS": str(tmp_path)})
    refused(evidence.main, "nowhere", "--work", tmp_path)
