"""Groups that are known by probability, and windows of a number, in filings."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

from fairboost import FairGBMClassifier, group_probabilities, parity, smooth, tradeoff_curve
from fairboost.datasets import make_loans
from fairboost.exceptions import InvalidInputError
from fairboost.filings import annex_iv, four_fifths, ll144, model_risk
from fairboost.metrics import audit
from fairboost.report import gather

pytestmark = pytest.mark.filterwarnings("ignore::fairboost.exceptions.FairnessWarning")


def sex_by_probability(loans, seed, estimator="corrected"):
    woman = (loans.sensitive["sex"] == "female").to_numpy()
    z = np.random.default_rng(seed).normal(size=len(woman)) + 2 * woman
    odds = woman.mean() / (1 - woman.mean()) * np.exp(2 * z - 2)
    table = pd.DataFrame({"female": odds / (1 + odds), "male": 1 / (1 + odds)})
    return group_probabilities(table.set_index(loans.X.index), "sex", estimator=estimator)


@pytest.fixture(scope="module")
def loans():
    return make_loans(2_000, seed=0), make_loans(1_500, seed=1)


def engine():
    return LGBMClassifier(n_estimators=10, num_leaves=7, verbose=-1, n_jobs=1)


@pytest.fixture(scope="module")
def of_probabilities(loans):
    """By estimator: the model's evidence, and an audit of the same decisions."""
    (train, test), found = loans, {}
    for estimator in ("corrected", "weighted"):
        ours, theirs = (sex_by_probability(x, k, estimator) for k, x in enumerate((train, test)))
        model = FairGBMClassifier(engine(), constraint=parity("fnr", 0.05), random_state=0)
        model.fit(train.X, train.y, sensitive_features=ours)
        band = test.sensitive["age_band"]
        groups = {"sex": theirs, "age_band": band}
        evidence = gather(model, test.X, test.y, sensitive_features=groups)
        rates = audit(
            test.y, model.predict(test.X).astype(float), sensitive_features=theirs, rates="fnr"
        ).rates
        found[estimator] = evidence, rates
    return found


@pytest.mark.parametrize("estimator", ["corrected", "weighted"])
def test_annex_iv_marks_estimates_and_names_the_estimator(of_probabilities, estimator):
    evidence, rates = of_probabilities[estimator]
    filing = annex_iv(evidence, evidence)
    table = filing.tables["rates"].set_index(["by", "group"])
    expected = rates.set_index("group")["value"]
    for group in ("female", "male"):  # the estimates of the audit, and marked
        shown = table.loc[("sex (estimated)", group), "false negative rate"]
        assert shown.startswith(f"{expected[group]:.3f} [")
    assert set(filing.tables["gaps"]["by"]) == {"sex (estimated)", "age_band"}
    page = filing.to_markdown()
    assert f"Rates are {estimator} " in page
    assert "an effective sample size, not a count of people" in page
    assert "By sex (estimated): the" in page
    # Nobody is counted by a group that nobody was asked for.
    assert set(filing.tables["data"]["by"]) == {"everyone", "age_band"}
    assert "People are not counted by sex" in page


def test_windows_of_a_number_are_marked_and_have_no_differences(loans):
    train, test = loans
    ages = [np.random.default_rng(k).integers(18, 80, len(x.y)) for k, x in enumerate(loans)]
    asked = parity("fnr", 0.05, by=smooth("age", knots=3))
    model = FairGBMClassifier(engine(), constraint=asked, random_state=0)
    model.fit(train.X, train.y, sensitive_features={"age": ages[0]})
    curve = tradeoff_curve(
        engine(), train.X, train.y, sensitive_features={"age": ages[0]},
        constraint=parity("fnr", by=smooth("age", knots=3)), tolerances=2,
    )  # fmt: skip
    evidence = gather(model, test.X, test.y, sensitive_features={"age": ages[1]}, curve=curve)
    filing = annex_iv(evidence, evidence)
    assert set(filing.tables["rates"]["by"]) == {"everyone", "age (windows)"}
    assert "over 3 overlapping windows" in filing.to_markdown()
    risk = model_risk(evidence)
    assert not [c for c in risk.tables["candidates"] if c.startswith("standardised")]
    assert "A person belongs to several groups" in risk.to_markdown()


@pytest.mark.parametrize(
    "make",
    [
        lambda sex, other, chosen: four_fifths(sex, chosen),
        lambda sex, other, chosen: four_fifths({"sex": sex, "race": other}, chosen),
        lambda sex, other, chosen: ll144({"sex": sex, "race": other}, selected=chosen),
        lambda sex, other, chosen: ll144({"sex": sex, "race": other}, scores=chosen + 0.5),
    ],
    ids=["four_fifths", "four_fifths of two", "ll144", "ll144 of scores"],
)
def test_documents_that_count_people_refuse_probabilities(loans, make):
    test = loans[1]
    sex, other = sex_by_probability(test, 1), test.sensitive["age_band"]
    with pytest.raises(InvalidInputError, match="'sex' has group probabilities") as error:
        make(sex, other, test.y == 1)
    assert "counts people by categories that were reported or observed" in str(error.value)
    assert "leave it missing where it is not known" in str(error.value)
