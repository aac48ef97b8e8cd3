"""Ratios, floors, crossings and reference groups on the command line."""

import json

import pytest

import fairboost
from fairboost import at_least, bound, calibrated, minimax, parity
from fairboost.report import Evidence
from tests.grade_files import grades
from tests.loan_files import QUICK
from tests.policy_files import CLAIMS, FEW, policies

LABEL = ("--label", "approved", "--positive", "yes", "--sensitive", "sex")
BOTH = (*LABEL, "--sensitive", "age_band")
TESTED = "test", "chosen"
FOUR_FIFTHS = parity("ppr", ratio=0.8)


@pytest.fixture
def trained(data, tmp_path, run):
    """Train by a command; returns the exit code, the model and what was shown."""

    def command(*words):
        code, out, err = run("train", data, *words, *QUICK, "--out", tmp_path / "m")
        assert code in (0, 3), err
        return fairboost.load(tmp_path / "m" / "model.json"), out

    return command


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("words", "constraint"),
    [
        ((*LABEL, "--constraint", "four_fifths"), "four_fifths"),
        (
            (*LABEL, "--constraint", "four_fifths", "--favourable", "negative"),
            parity("pnr", ratio=0.8),
        ),
        ((*LABEL, "--at-least", "tpr=0.6"), at_least("tpr", 0.6)),
        (
            (*LABEL, "--constraint", "four_fifths", "--constraint", "equal_opportunity"),
            ["four_fifths", "equal_opportunity"],
        ),
        (
            (*BOTH, "--constraint", "four_fifths", "--cross", "sex,age_band"),
            parity("ppr", ratio=0.8, by=("sex", "age_band")),
        ),
        (
            (*BOTH, "--constraint", "equalized_odds", "--cross", "sex,age_band"),
            [parity("fpr", by=("sex", "age_band")), parity("fnr", by=("sex", "age_band"))],
        ),
        (
            (*LABEL, "--constraint", "four_fifths", "--reference", "male"),
            parity("ppr", ratio=0.8, reference="male"),
        ),
        (
            (*BOTH, "--constraint", "four_fifths", "--reference", "sex=male"),
            parity("ppr", ratio=0.8, reference={"sex": "male"}),
        ),
        (
            (*BOTH, "--constraint", "four_fifths", "--cross", "sex,age_band",
             "--reference", "sex=male,age_band=40-59"),
            parity("ppr", ratio=0.8, reference={"sex": "male", "age_band": "40-59"}),
        ),
        (
            (*LABEL, "--constraint", "four_fifths", "--at-least", "tpr=0.6", "--at-least",
             "tnr=0.5"),
            ["four_fifths", at_least("tpr", 0.6), at_least("tnr", 0.5)],
        ),
        (
            (*BOTH, "--constraint", "calibrated", "--cross", "sex,age_band", "--no-trade-off"),
            calibrated(0.01, by=("sex", "age_band")),
        ),
        ((*LABEL, "--minimax", "loss"), minimax("loss")),
        (
            (*BOTH, "--minimax", "fnr", "--cross", "sex,age_band", "--at-positive-rate", "0.4"),
            minimax("fnr", by=("sex", "age_band")),
        ),
        (
            (*LABEL, "--budget", "fpr=0.3", "--constraint", "equal_opportunity", "--no-trade-off"),
            ["equal_opportunity", bound("fpr", 0.3)],
        ),
        (
            (*LABEL, "--minimax", "error", "--constraint", "equal_opportunity", "--tolerance",
             "0.05"),
            ["equal_opportunity", minimax("error")],
        ),
    ],
    ids=lambda found: " ".join(found[6:]) if isinstance(found, tuple) else "",
)  # fmt: skip
def test_options_are_the_librarys_constraints(words, constraint, trained):
    model, _ = trained(*words, "--no-trade-off")
    assert model.constraint == constraint


def test_the_worst_group_is_shown_and_sets_no_exit_code(data, tmp_path, run):
    words = (*LABEL, "--minimax", "fnr", "--budget", "error=0.45", *QUICK)
    code, out, err = run("train", data, *words, "--out", tmp_path / "m")
    assert code == 0, err
    assert "largest false negative rate of a group by sex" in out
    assert "no limit was asked for" in out
    assert "error rate of everyone at most 0.45" in out
    model = fairboost.load(tmp_path / "m" / "model.json")
    assert model.constraint == [minimax("fnr"), bound("error", 0.45)]
    card = (tmp_path / "m" / "card.md").read_text()
    assert "largest false negative rate of a group by sex" in card


def test_calibration_of_two_labels_is_shown(trained, tmp_path):
    words = ("--constraint", "calibrated", "--tolerance", "0.2", "--no-trade-off")
    model, out = trained(*LABEL, *words)
    assert model.constraint == "calibrated"
    assert "actual over expected by sex within 1 ± 0.2" in out
    evidence = Evidence.load(tmp_path / "m" / "evidence.json")
    assert [f.measure for f in evidence.verdicts[:1]] == ["largest distance"]
    found = {(r.group, r.rate): r for r in evidence.rates if (r.where, r.model) == TESTED}
    figures = "mean probability", "share of positive labels", "A/E"
    page = (tmp_path / "m" / "report.md").read_text()
    for group in ("everyone", "female", "male"):
        expected, actual, ratio = (found[group, name].value for name in figures)
        assert ratio == pytest.approx(actual / expected)
        assert f"{ratio:.3f} [" in out and f"{ratio:.3f} [" in page
    assert "false positive rate" not in out
    assert "share of positive labels" in out and "mean probability" in out


def test_the_report_says_what_was_asked_and_found(trained, tmp_path):
    _, out = trained(*LABEL, "--constraint", "four_fifths", "--at-least", "tpr=0.6")
    assert "predicted positive rate by sex at least 0.8 of the largest" in out
    assert "true positive rate of every group by sex at least 0.6" in out
    evidence = Evidence.load(tmp_path / "m" / "evidence.json")
    assert [f.measure for f in evidence.verdicts[:2]] == ["ratio", "least rate"]
    assert evidence.tradeoff is None  # there is no tolerance to vary
    floor = next(limit for limit in evidence.asked.limits if limit.at_least is not None)
    assert (floor.rate, floor.at_least) == ("tpr", 0.6)
    page = (tmp_path / "m" / "report.md").read_text()
    assert "the lowest rate; at least 60% was asked for." in page
    assert "ratio" in (tmp_path / "m" / "card.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*LABEL, "--constraint", "four_fifths", "--tolerance", "0.05"), "leave --tolerance out"),
        ((*LABEL, "--at-least", "tpr=1.5"), "must lie between 0 and 1"),
        ((*LABEL, "--at-least", "tpr"), "such as tpr=0.8"),
        ((*LABEL, "--at-least", "nonsense=0.5"), "rates are fpr, fnr"),
        ((*LABEL, "--at-least", "recall=0.5"), "--at-least recall is for --task classes"),
        ((*LABEL, "--cross", "sex"), "two columns or more"),
        ((*LABEL, "--cross", "sex,race"), "add --sensitive race"),
        ((*LABEL, "--reference", "male"), "only --constraint four_fifths"),
        ((*BOTH, "--constraint", "four_fifths", "--reference", "male"),
         "--reference sex=GROUP"),
        ((*LABEL, "--constraint", "four_fifths", "--reference", "nobody"),
         "--reference nobody names a group that is not in the data"),
        ((*LABEL, "--constraint", "four_fifths", "--trade-off"), "--trade-off varies a tolerance"),
        ((*LABEL, "--at-least", "tpr=0.9", "--at-least", "fnr=0.2"),
         "no decisions on these rows"),
        ((*LABEL, "--minimax", "fnr"), "such as --budget fpr=0.2 or --budget error=0.25"),
        ((*LABEL, "--minimax", "loss", "--confidence", "0.9"),
         "--confidence 0.9 has no effect on --minimax"),
        ((*LABEL, "--minimax", "tpr"), "invalid choice"),
        ((*LABEL, "--minimax", "loss", "--tolerance", "0.05"), "leave --tolerance out"),
        ((*LABEL, "--minimax", "loss", "--trade-off"), "beside --minimax it cannot be varied"),
        ((*LABEL, "--budget", "error"), "such as error=0.25"),
        ((*LABEL, "--budget", "loss=0.2"), "rates are fpr, fnr"),
        ((*LABEL, "--budget", "error=25"), "--budget must lie between 0 and 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_words_of_the_command(words, said, data, tmp_path, run, capsys):
    try:
        code, _, err = run("train", data, *words, *QUICK, "--out", tmp_path / "m")
    except SystemExit as end:  # said by the parser
        code, err = end.code, capsys.readouterr().err
    assert code in (1, 2)
    assert said in err
    assert not (tmp_path / "m").exists()


def test_a_comparison_needs_a_tolerance(data, run):
    code, _, err = run("compare", data, *LABEL, "--constraint", "four_fifths", *QUICK)
    assert code == 1
    assert "fairboost compare varies a tolerance" in err


def test_a_comparison_keeps_the_ratio_while_it_varies_the_tolerance(data, run):
    words = ("--constraint", "four_fifths", "--constraint", "equal_opportunity", "--models", "3")
    code, out, err = run("compare", data, *LABEL, *words, *QUICK)
    assert code == 0, err
    assert "tolerance" in out


CROSSED = (*BOTH, "--cross", "age_band,sex", "--constraint", "equal_opportunity")


def test_what_is_shown_is_the_crossing_that_was_trained_on(trained, tmp_path):
    _, out = trained(*CROSSED, "--no-trade-off")
    assert "sex, age_band: female, 25-39" in out
    assert "sex=female " not in out
    assert "age_band=25-39 " not in out
    evidence = Evidence.load(tmp_path / "m" / "evidence.json")
    crossed = [r for r in evidence.rates if r.attribute == "sex, age_band" and r.rate == "fnr"]
    assert {r.where for r in crossed} == {"held out", "test"}  # by one name, in one order
    groups = [{r.group for r in crossed if r.where == where} for where in ("held out", "test")]
    assert groups[0] == groups[1]
    page = (tmp_path / "m" / "report.md").read_text()
    table = page.partition("**Rates by group**")[2].partition("## ")[0]
    assert "female, 25-39" in table  # among the main figures, not in the appendix alone
    card = (tmp_path / "m" / "card.md").read_text()
    assert "By sex, age" in card


def test_a_comparison_is_of_the_crossing_that_was_trained_on(data, tmp_path, run):
    words = (*CROSSED, "--models", "2", "--json", *QUICK)
    code, out, err = run("compare", data, *words, "--out", tmp_path / "c")
    assert code == 0, err
    evidence = Evidence.load(tmp_path / "c" / "evidence.json")
    plain = next(
        g for g in evidence.gaps
        if (g.model, g.attribute, g.rate) == ("plain", "sex, age_band", "fnr")
    )  # fmt: skip
    alone = json.loads(out)["models"][0]
    assert (alone["model"], alone["gap"]) == ("engine alone", pytest.approx(plain.gap))
    for point in evidence.tradeoff.points:
        assert any(r.attribute == "sex, age_band" and not r.crossed for r in point.rates)


def test_numbers_and_classes_are_shown_by_the_crossing_too(tmp_path, run):
    policies(1200, seed=0).to_csv(tmp_path / "p.csv", index=False)
    words = (*CLAIMS, "--sensitive", "région", "--cross", "région,gender", *FEW, "--no-trade-off")
    code, out, err = run("train", tmp_path / "p.csv", *words, "--quiet", "--out", tmp_path / "p")
    assert code in (0, 3), err
    assert "gender, région: F, Nord" in out
    assert "gender=F " not in out
    grades(1200, seed=0).drop(columns="level").to_csv(tmp_path / "g.csv", index=False)
    asked = ("--label", "grade", "--sensitive", "sex", "--sensitive", "age", "--cross", "sex,age")
    words = (*asked, "--constraint", "demographic_parity", *FEW, "--no-trade-off", "--quiet")
    code, out, err = run("train", tmp_path / "g.csv", *words, "--out", tmp_path / "g")
    assert code in (0, 3), err
    assert "sex, age: F, old" in out
    assert "sex=F " not in out


def test_calibration_is_compared_with_that_of_the_engine_alone(data, tmp_path, run):
    words = (*LABEL, "--constraint", "calibrated", "--models", "2", "--json", *QUICK)
    code, out, err = run("compare", data, *words, "--out", tmp_path / "c")
    assert code == 0, err
    alone = json.loads(out)["models"][0]
    evidence = Evidence.load(tmp_path / "c" / "evidence.json")
    assert evidence.tradeoff.figure == "farthest A/E from 1"
    assert (alone["gap"], alone["gap_low"], alone["gap_high"]) == evidence.tradeoff.plain
    assert alone["gap_low"] <= alone["gap"] <= alone["gap_high"]
    assert "Accuracy against the farthest A/E from 1" in (tmp_path / "c" / "report.md").read_text()
