"""LightGBM's number of threads, one for the process: nothing runs beside calls with another."""

import multiprocessing
import threading
import time

import lightgbm
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from fairboost import FairGBMClassifier, LinearStage, load
from fairboost.engines.group_model import CodedRows, cross_fit
from fairboost.engines.lightgbm import threads
from fairboost.engines.lightgbm.group_model import LightGBMGroupModel
from fairboost.engines.lightgbm.threads import number_of_threads
from fairboost.kernel.threads import thread_count
from tests.fuzz.threads import fit, rows

X, Y, GROUP = rows(0, 1_500)


@pytest.fixture
def numbers(monkeypatch):
    """What calls of LightGBM are told: their number of threads and the one in force."""
    found = []
    as_text = lightgbm.basic._param_dict_to_str

    def spy(params):
        asked = (params or {}).get("num_threads", 0)
        found.append((asked, threads._process.number if threads._process.users else None))
        return as_text(params)

    monkeypatch.setattr(lightgbm.basic, "_param_dict_to_str", spy)
    return found


def test_small_boosters_side_by_side_have_the_number_of_their_data(numbers):
    coded = CodedRows(X, Y, GROUP, 2, LightGBMGroupModel(threads=4), np.ones(len(Y)))
    list(cross_fit(coded, np.arange(len(Y)) % 2, np.random.default_rng(0)))
    assert {asked for asked, _ in numbers} == {2}


@pytest.mark.filterwarnings("ignore:The base model predicts the rows passed to fit far better")
@pytest.mark.parametrize("kind", ["folds", "share and metrics", "stage", "stage on a forest"])
def test_every_call_of_a_fit_has_the_number_in_force(kind, numbers, tmp_path):
    estimator = LGBMClassifier(n_estimators=3, n_jobs=3, verbose=-1)
    options = {"memberships": "honest", "holdout": "cross", "random_state": 0}
    fit_options = {}
    if kind == "share and metrics":
        estimator.set_params(subsample=0.8, subsample_freq=1, n_jobs=-1)
        options["holdout"] = 0.3
        fit_options = {"eval_set": [(X, Y)], "callbacks": [lambda env: env.model.predict(X)]}
    elif kind == "stage":
        estimator = FrozenEstimator(estimator.fit(X, Y))
    elif kind == "stage on a forest":
        options["stage"] = LinearStage(n_jobs=2)
        del options["memberships"]
        estimator = FrozenEstimator(RandomForestClassifier(5, random_state=0).fit(X, Y))
    numbers.clear()
    model = FairGBMClassifier(estimator, **options)
    model.fit(X, Y, sensitive_features=GROUP, **fit_options)
    model.predict(X)
    model.save(tmp_path / "model.json")
    base = estimator if kind == "stage on a forest" else None
    assert (load(tmp_path / "model.json", base=base).predict(X) == model.predict(X)).all()
    by_user = 3 if fit_options else 0  # predictions in the callback
    wrong = [pair for pair in numbers if pair[0] != pair[1]]
    assert len(numbers) > 10
    assert len(wrong) == by_user


def test_the_model_says_the_number_that_was_asked_for():
    for asked, written in ((3, 3), (0, 0), (-1, thread_count(-1))):
        model = FairGBMClassifier(LGBMClassifier(n_estimators=2, n_jobs=asked, verbose=-1))
        model.fit(X, Y, sensitive_features=GROUP)
        assert f"[num_threads: {written}]" in model.booster_.model_to_string()


def test_other_numbers_wait_and_the_same_do_not():
    inside, log = threading.Barrier(2), []

    def run(number, **options):
        with number_of_threads(number, **options) as found:
            log.append(found)
            if number == 2:
                inside.wait(10)  # both are inside, or this breaks
                time.sleep(0.05)
            log.append(-found)

    pair = [threading.Thread(target=run, args=(2,)) for _ in range(2)]
    pair[0].start()
    while not log:
        time.sleep(0.001)
    other = threading.Thread(target=run, args=(5,))
    other.start()
    pair[1].start()
    for thread in (*pair, other):
        thread.join(10)
    assert log == [2, 2, -2, -2, 5, -5]


def test_predictions_take_the_number_in_force_and_so_do_calls_within():
    with number_of_threads(3) as number, number_of_threads(7) as within:
        assert (number, within) == (3, 3)
        found = []

        def predict():
            with number_of_threads(7, any_number=True) as joined:
                found.append(joined)

        thread = threading.Thread(target=predict)
        thread.start()
        thread.join(10)
        assert found == [3]
    with number_of_threads(7, any_number=True) as alone:
        assert alone == 7


def test_a_fork_in_the_middle_of_a_training_of_another_thread_does_not_wait():
    with number_of_threads(3):
        child = multiprocessing.get_context("fork").Process(target=_in_child)
        child.start()
        child.join(20)
        assert child.exitcode == 0


def _in_child():
    threads._thread.number = 0  # as in a child of another thread
    with number_of_threads(5) as number:
        assert number == 5


def test_two_fits_at_a_time_give_the_same_bits():
    alone = [fit("lightgbm", n, 0, long=False) for n in (2, 8)]
    found = {}

    def one(k, n):
        found[k] = fit("lightgbm", n, 0, long=False)

    started = [threading.Thread(target=one, args=(k, (2, 8)[k % 2])) for k in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert [found[k] for k in range(4)] == alone * 2
