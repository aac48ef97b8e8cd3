"""Ratios, floors, crossings and reference groups on the command line."""

import pytest

import fairboost
from fairboost import at_least, parity
from fairboost.report import Evidence
from tests.loan_files import QUICK

LABEL = ("--label", "approved", "--positive", "yes", "--sensitive", "sex")
BOTH = (*LABEL, "--sensitive", "age_band")
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
    ],
    ids=lambda found: " ".join(found[6:]) if isinstance(found, tuple) else "",
)  # fmt: skip
def test_options_are_the_librarys_constraints(words, constraint, trained):
    model, _ = trained(*words, "--no-trade-off")
    assert model.constraint == constraint


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
