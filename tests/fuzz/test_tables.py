"""Some hostile tables; ``make fuzz`` tries as many as are asked for."""

import pytest

from tests.fuzz import tables

pytest.importorskip("matplotlib", reason="reports need it")


def test_each_is_refused_in_a_sentence_or_judged_as_by_hand(tmp_path):
    """Here, so that it is quick; the campaign has a process for it that may crash or hang."""
    found = set()
    for k in range(45):
        folder = tmp_path / str(k)
        folder.mkdir()
        for what, why in tables.outcomes(tables.draw(0, k, folder, trained=0.15)):
            assert what.endswith(tables.FINE), (k, what, why)
            found.add(what)
    assert found >= {"audit: refused", "audit: judged as by hand", "train: done", "predict: done"}


def test_a_process_of_its_own_says_the_same():
    assert sum(tables.campaign(2, seed=0).values()) >= 2


def test_the_harness_can_tell(tmp_path, monkeypatch):
    """What it looks for it finds: wrong figures, wrong codes, half of a file, raw escapes."""
    table = next(
        drawn for drawn in (tables.draw(0, k, tmp_path, trained=0.0) for k in range(99))
        if next(tables.outcomes(drawn))[0] == "audit: judged as by hand"
        and drawn.decide == "estimate"
    )  # fmt: skip

    def with_main(main):
        monkeypatch.setattr(tables, "main", main)
        return next(tables.outcomes(table))[0]

    real = tables.main
    wrong_code = with_main(lambda words: 3 - real(words))
    assert wrong_code == "audit: wrong"
    score = table.columns[table.score]
    table.columns[table.score] = [1.0 - s for s in score]
    assert with_main(real) == "audit: wrong"
    table.columns[table.score] = score
    assert with_main(lambda words: print("\x1b[2J") or 1) == "audit: raw '\\x1b' on the terminal"
    assert with_main(lambda words: 1) == "audit: failed in silence"
    assert with_main(lambda words: 77) == "audit: undocumented code 77"
    assert with_main(lambda words: (tmp_path / "y").touch() or 1) == "audit: half-written"
    assert with_main(lambda words: _fail()) == "audit: unexpected error"


def _fail():
    from fairboost.cli.exits import run_guarded

    def work():
        raise KeyError("x")

    return run_guarded(work, debug=False)
