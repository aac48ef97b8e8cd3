"""Some hundred damaged and tampered model files; ``make fuzz`` tries as many as are asked for."""

import pytest

from tests.fuzz import model_files

pytest.importorskip("xgboost")


def test_none_is_taken_for_sound_and_none_ends_the_process():
    for k, seal, what, detail in model_files.run(250, seed=0):
        assert what in model_files.FINE, (k, seal, what, detail)


def test_the_harness_can_tell(tmp_path):
    """What it looks for it finds: another model, a file that is no model, the model itself."""
    model_files.write_models(tmp_path)
    one, other = tmp_path / "linear.json", tmp_path / "dart.pickle"
    assert model_files.outcome(one, one.with_suffix(".pickle")) == ("same scores", "")
    assert model_files.outcome(one, other)[0] == "other scores"
    number = tmp_path / "absolute.json"
    assert model_files.outcome(number, number.with_suffix(".pickle")) == ("same scores", "")
    assert model_files.outcome(number, tmp_path / "quantile.pickle")[0] == "other scores"
    assert model_files.outcome(number, one.with_suffix(".pickle"))[0] == "other scores"
    assert model_files.outcome(other, other)[0] == "refused"
    assert model_files.outcome(tmp_path / "none", other)[0] == "refused"
    assert model_files.outcome(one, tmp_path / "xgboost.pickle")[0] == "other error"
