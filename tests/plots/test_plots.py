from __future__ import annotations

import io
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.metrics import roc_curve  # noqa: E402

from fairboost import FairGBMClassifier, plots  # noqa: E402
from fairboost.exceptions import ConstraintError, InvalidInputError  # noqa: E402
from fairboost.fairness.operating_points import at_fpr  # noqa: E402
from fairboost.metrics import group_rates  # noqa: E402
from fairboost.plots import (  # noqa: E402
    GroupCalibrationDisplay,
    GroupRatesDisplay,
    GroupRocDisplay,
    GroupScoresDisplay,
    MultipliersDisplay,
    TradeoffDisplay,
)
from fairboost.plots.style import COLOURS, GREY, MOST_LABELLED, fold  # noqa: E402
from fairboost.verdicts.rounds import violations_by_round  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 600
    y = rng.integers(0, 2, n)
    sensitive = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], n), "band": rng.choice(["old", "mid", "young"], n)}
    )
    plain = np.where(rng.random(n) < 0.2 + 0.2 * (sensitive["sex"] == "F"), 1 - y, y)
    fair = np.where(rng.random(n) < 0.3, 1 - y, y)
    return y, {"plain": plain, "fair": fair}, sensitive


def points(ax):
    """The markers drawn for each model, as arrays of (x, y)."""
    return [bars.lines[0].get_xydata() for bars in ax.containers]


def intervals(ax):
    """The bars drawn for each model, as arrays of (low, high)."""
    return [
        np.array([segment[:, 0] for segment in bars.lines[2][0].get_segments()])
        for bars in ax.containers
    ]


class TestGroupRates:
    def test_points_and_intervals_are_those_of_the_table(self, people):
        y, models, sensitive = people
        display = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive)
        assert len(display.ax_.containers) == 2
        for k, decisions in enumerate(models.values()):
            table = group_rates(y, decisions, sensitive_features=sensitive, rates="fnr")
            np.testing.assert_allclose(points(display.ax_)[k][:, 0], table["value"])
            np.testing.assert_allclose(intervals(display.ax_)[k], table[["low", "high"]])

    def test_table_is_kept(self, people):
        y, models, sensitive = people
        display = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive)
        assert display.table["model"].unique().tolist() == ["plain", "fair"]
        assert len(display.table) == 2 * (1 + 2 + 3)

    def test_everyone_has_a_line_per_model(self, people):
        y, models, sensitive = people
        display = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive)
        everyone = display.table.query("group == 'everyone'")["value"]
        lines = [line for line in display.ax_.lines if len(set(line.get_ydata())) == 2]
        vertical = [line.get_xdata()[0] for line in lines if len(set(line.get_xdata())) == 1]
        np.testing.assert_allclose(vertical, everyone)

    def test_labels_name_groups_and_count_rows(self, people):
        y, models, sensitive = people
        ax = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive).ax_
        labels = {
            t.get_text(): place
            for t, place in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True)
        }
        women = int(((sensitive["sex"] == "F") & (y == 1)).sum())
        assert {"sex", "band", f"F  (n = {women})"} <= set(labels)
        assert f"everyone  (n = {y.sum()})" in labels
        assert len(labels) == 2 + 1 + 2 + 3
        # The points of a group lie around its label, whatever the model.
        drawn = np.mean([p[:, 1] for p in points(ax)], axis=0)
        assert np.abs(drawn[1] - labels[f"F  (n = {women})"]) < 1e-9

    def test_first_is_on_top_and_all_are_in_view(self, people):
        y, models, sensitive = people
        ax = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive).ax_
        bottom, top = ax.get_ylim()
        assert bottom > top
        drawn = np.concatenate(points(ax))
        assert (drawn[:, 1] < bottom).all()
        assert (drawn[:, 1] > top).all()

    def test_models_differ_by_colour_and_marker(self, people):
        y, models, sensitive = people
        ax = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive).ax_
        lines = [bars.lines[0] for bars in ax.containers]
        assert [to_hex(line.get_color()).upper() for line in lines] == list(COLOURS[:2])
        assert len({line.get_marker() for line in lines}) == 2
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["plain", "fair"]

    def test_one_model_needs_no_legend(self, people):
        y, models, sensitive = people
        ax = GroupRatesDisplay.from_predictions(
            y, models["plain"], sensitive_features=sensitive["sex"]
        ).ax_
        assert ax.get_legend() is None
        assert len(points(ax)[0]) == 3

    @pytest.mark.parametrize(
        ("rate", "title"), [("fpr", "false positive rate"), ("PPR", "predicted positive rate")]
    )
    def test_rate(self, people, rate, title):
        y, models, sensitive = people
        display = GroupRatesDisplay.from_predictions(
            y, models["fair"], sensitive_features=sensitive, rate=rate
        )
        assert display.ax_.get_xlabel() == title
        assert set(display.table["rate"]) == {rate.lower()}

    def test_options_reach_the_rates(self, people):
        y, models, sensitive = people
        options = {
            "by": ("sex", "band"),
            "sample_weight": np.linspace(1, 2, len(y)),
            "pos_label": 0,
            "confidence": 0.8,
            "interval": "exact",
        }
        display = GroupRatesDisplay.from_predictions(
            y, models["fair"], sensitive_features=sensitive, **options
        )
        expected = group_rates(
            y, models["fair"], sensitive_features=sensitive, rates="fnr", **options
        )
        pd.testing.assert_frame_equal(display.table.drop(columns="model"), expected)

    def test_given_axes_are_used(self, people):
        y, models, sensitive = people
        figure, ax = plt.subplots()
        display = GroupRatesDisplay.from_predictions(
            y, models, sensitive_features=sensitive, ax=ax
        )
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert plt.get_fignums() == [figure.number]

    def test_table_of_metrics_as_it_is(self, people):
        y, models, sensitive = people
        table = group_rates(y, models["fair"], sensitive_features=sensitive, rates="fnr")
        display = GroupRatesDisplay(table).plot()
        np.testing.assert_allclose(points(display.ax_)[0][:, 0], table["value"])
        assert "model" not in table

    def test_undefined_rate_is_left_blank(self):
        table = pd.DataFrame(
            {
                "attribute": ["", "sex", "sex"],
                "group": ["everyone", "F", "M"],
                "rate": "fpr",
                "value": [0.2, 0.2, np.nan],
                "low": [0.1, 0.1, np.nan],
                "high": [0.3, 0.3, np.nan],
                "rows": [5, 5, 0],
            }
        )
        ax = GroupRatesDisplay(table).plot().ax_
        ax.figure.canvas.draw()
        assert np.isnan(points(ax)[0][2, 0])
        assert "M  (n = 0)" in [t.get_text() for t in ax.get_yticklabels()]

    def test_more_models_than_colours(self, people):
        y, models, sensitive = people
        many = {f"model {k}": models["fair"] for k in range(8)}
        display = GroupRatesDisplay.from_predictions(y, many, sensitive_features=sensitive)
        display.figure_.canvas.draw()
        assert len(display.ax_.containers) == 8

    def test_several_rates_are_refused(self, people):
        y, models, sensitive = people
        table = group_rates(y, models["fair"], sensitive_features=sensitive, rates=["fpr", "fnr"])
        with pytest.raises(InvalidInputError, match=r"one rate, found 2 rates \(fpr, fnr\)"):
            GroupRatesDisplay(table).plot()

    def test_empty_table_is_refused(self, people):
        y, models, sensitive = people
        table = group_rates(y, models["fair"], sensitive_features=sensitive, rates="fnr")
        with pytest.raises(InvalidInputError, match="found no rows"):
            GroupRatesDisplay(table.iloc[:0]).plot()

    def test_other_tables_are_refused(self):
        with pytest.raises(InvalidInputError, match="lacks the columns attribute, group"):
            GroupRatesDisplay(pd.DataFrame({"rate": ["fnr"]})).plot()

    def test_no_models(self, people):
        y, _, sensitive = people
        with pytest.raises(InvalidInputError, match="y_pred has no models"):
            GroupRatesDisplay.from_predictions(y, {}, sensitive_features=sensitive)

    def test_unknown_rate(self, people):
        y, models, sensitive = people
        with pytest.raises(ConstraintError, match="unknown rate 'foo'"):
            GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive, rate="foo")


def make_trace(n_labels: int, rounds: int = 30) -> pd.DataFrame:
    """A trace whose k-th multiplier peaks at k."""
    t = np.arange(1, rounds + 1)
    trace = pd.DataFrame({"round": t, "loss": 0.5, "rate: fnr[g=0]": 0.1})
    for k in range(n_labels):
        trace[f"violation: fnr[g={k}]"] = 0.01 * k * np.cos(t / 10)
    for k in range(n_labels):
        trace[f"multiplier: fnr[g={k}]"] = k * t / rounds
    return trace


def labels_of(legend):
    return [text.get_text() for text in legend.get_texts()]


class TestMultipliers:
    def test_lines_are_those_of_the_trace(self):
        trace = make_trace(3)
        top, bottom = MultipliersDisplay(trace).plot().ax_
        for ax, what in ((top, "multiplier"), (bottom, "violation")):
            drawn = {line.get_label(): line for line in ax.lines}
            for k in range(3):
                line = drawn[f"fnr[g={k}]"]
                np.testing.assert_array_equal(line.get_xdata(), trace["round"])
                np.testing.assert_array_equal(line.get_ydata(), trace[f"{what}: fnr[g={k}]"])

    def test_zero_line_under_the_violations(self):
        top, bottom = MultipliersDisplay(make_trace(3)).plot().ax_
        assert len(top.lines) == 3
        assert len(bottom.lines) == 4
        assert list(bottom.lines[-1].get_ydata()) == [0, 0]

    def test_a_label_looks_alike_in_both_panels(self):
        def looks(ax):
            return {
                line.get_label(): (line.get_color(), line.get_linestyle())
                for line in ax.lines
                if line.get_label().startswith("fnr")
            }

        top, bottom = MultipliersDisplay(make_trace(MOST_LABELLED)).plot().ax_
        assert looks(top) == looks(bottom)
        assert len(set(looks(top).values())) == MOST_LABELLED == 12

    def test_largest_are_labelled_and_the_rest_is_grey(self):
        display = MultipliersDisplay(make_trace(20)).plot()
        top = display.ax_[0]
        legend = top.get_legend()
        largest = [f"fnr[g={k}]" for k in range(19, 7, -1)]
        assert labels_of(legend) == [*largest, "8 more"]
        grey = [line for line in top.lines if line.get_color() == GREY]
        assert len(grey) == 8
        assert max(line.get_ydata().max() for line in grey) == 7

    def test_from_estimator(self):
        class Fitted:
            trace_ = make_trace(2)

        display = MultipliersDisplay.from_estimator(Fitted())
        assert display.trace is Fitted.trace_
        assert len(display.ax_[0].lines) == 2

    def test_not_fitted(self):
        class Unfitted:
            pass

        with pytest.raises(NotFittedError, match="this Unfitted has no trace_; fit it"):
            MultipliersDisplay.from_estimator(Unfitted())

    def test_given_axes_side_by_side(self):
        figure, axes = plt.subplots(1, 2)
        display = MultipliersDisplay(make_trace(2)).plot(axes)
        assert list(display.ax_) == list(axes)
        assert display.figure_ is figure
        assert labels_of(axes[0].get_legend()) == ["fnr[g=1]", "fnr[g=0]"]
        assert [ax.get_xlabel() for ax in axes] == ["boosting round"] * 2

    def test_shared_axis_is_named_once(self):
        display = MultipliersDisplay(make_trace(2)).plot()
        assert [ax.get_xlabel() for ax in display.ax_] == ["", "boosting round"]

    def test_one_pair_of_axes_is_needed(self):
        _, ax = plt.subplots()
        with pytest.raises(InvalidInputError, match=r"two axes.*found 1.*subplots\(2, 1"):
            MultipliersDisplay(make_trace(2)).plot(ax)

    def test_violation_may_be_absent(self):
        trace = make_trace(2).drop(columns="violation: fnr[g=0]")
        bottom = MultipliersDisplay(trace).plot().ax_[1]
        assert bottom.lines[0].get_label() == "fnr[g=1]"

    def test_unconstrained_model(self):
        trace = pd.DataFrame({"round": [1, 2], "loss": [0.6, 0.5]})
        with pytest.raises(InvalidInputError, match="trained under a constraint"):
            MultipliersDisplay(trace).plot()

    def test_training_rows_are_dotted_and_the_kept_round_is_marked(self):
        trace = make_trace(2)
        train = trace[["round", "violation: fnr[g=0]", "violation: fnr[g=1]"]].iloc[::10] * 2
        top, bottom = MultipliersDisplay(trace, train, kept=20).plot().ax_
        dotted = [line for line in bottom.lines if line.get_linestyle() == ":"]
        drawn = {tuple(line.get_ydata()) for line in dotted}
        assert drawn == {tuple(train[f"violation: fnr[g={k}]"]) for k in range(2)}
        assert "dotted: training rows" in labels_of(top.get_legend())
        for ax in (top, bottom):
            assert [20, 20] in [list(line.get_xdata()) for line in ax.lines]

    @pytest.mark.parametrize("name", ["g={}", "age_band={}-59] above", "a long name of group {}"])
    def test_legend_stays_in_the_figure(self, name):
        trace = make_trace(12)
        labels = {f"fnr[g={k}]": f"fnr[{name.format(k)}]" for k in range(12)}
        trace.columns = [
            ": ".join([head, labels.get(rest, rest)]) if rest else head
            for head, _, rest in (column.partition(": ") for column in trace.columns)
        ]
        display = MultipliersDisplay(trace).plot()
        display.figure_.canvas.draw()
        box, whole = display.ax_[0].get_legend().get_window_extent(), display.figure_.bbox
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1 + 1

    def test_training_rows_of_an_estimator(self, toy, engine):
        model = FairGBMClassifier(engine(), holdout=0.3).fit(
            toy.X, toy.y, sensitive_features=toy.group
        )
        train = (toy.X, toy.y, toy.group)
        display = MultipliersDisplay.from_estimator(model, train=train)
        expected = violations_by_round(model, toy.X, toy.y, sensitive_features=toy.group)
        pd.testing.assert_frame_equal(display.train, expected)


@pytest.fixture(scope="module")
def scored():
    """Three groups of different scores, weights, and labels in words."""
    rng = np.random.default_rng(0)
    n = 900
    group = rng.choice(["x", "y", "z"], n)
    y = np.where(rng.random(n) < 0.4, "yes", "no")
    score = 1 / (1 + np.exp(-((y == "yes") - 0.5 + 0.4 * (group == "x") + rng.normal(size=n))))
    return y, score, group


class Scorer:
    """What displays ask of an estimator: the features are the probabilities."""

    classes_ = np.array(["no", "yes"])
    threshold_ = 0.4

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return self.classes_[(X[:, 0] >= self.threshold_).astype(int)]


SCORE_DISPLAYS = [GroupRocDisplay, GroupScoresDisplay, GroupCalibrationDisplay]


class TestRoc:
    def test_curves_and_marks(self, scored):
        y, score, group = scored
        ax = GroupRocDisplay.from_predictions(
            y, score, sensitive_features=group, threshold=0.4
        ).ax_
        rates = group_rates(
            y, np.where(score >= 0.4, "yes", "no"), sensitive_features=group, rates=["fpr", "tpr"]
        ).set_index(["group", "rate"])["value"]
        marks = {line.get_label(): line for line in ax.lines if len(line.get_xdata()) == 1}
        for name in "xyz":
            assert marks[name].get_xydata()[0] == pytest.approx(
                [rates[name, "fpr"], rates[name, "tpr"]]
            )
        curves = [line for line in ax.lines if len(line.get_xdata()) > 5]
        assert len(curves) == 3
        fpr, tpr, _ = roc_curve(y[group == "x"], score[group == "x"], pos_label="yes")
        area = np.trapezoid(tpr, fpr)
        assert -np.trapezoid(*curves[0].get_xydata().T[::-1]) == pytest.approx(area, abs=5e-3)

    def test_operating_point_and_no_mark(self, scored):
        y, score, group = scored
        display = GroupRocDisplay.from_predictions(
            y, score, sensitive_features=group, threshold=at_fpr(0.2)
        )
        assert 0.1 < display.points["fpr"].mean() < 0.3
        bare = GroupRocDisplay.from_predictions(y, score, sensitive_features=group, threshold=None)
        assert bare.points is None
        assert not [line for line in bare.ax_.lines if len(line.get_xdata()) == 1]


def test_scores_that_are_no_probabilities_have_no_mark_at_one_half(scored):
    """Where decisions are made is not known then."""
    y, score, group = scored
    for scale, marked in ((1, True), (100, False)):
        roc = GroupRocDisplay.from_predictions(y, scale * score, sensitive_features=group)
        assert (roc.points is not None) == marked
        scores = GroupScoresDisplay.from_predictions(y, scale * score, sensitive_features=group)
        assert scores.threshold == (0.5 if marked else None)


class TestScores:
    def test_outlines_of_both_labels(self, scored):
        y, score, group = scored
        display = GroupScoresDisplay.from_predictions(y, score, sensitive_features=group)
        assert labels_of(display.ax_.get_legend()) == [
            "negative label (no)",
            "positive label (yes)",
            "threshold",
        ]
        outlines = [p for p in display.ax_.patches if not p.get_fill()]
        assert len(outlines) == 2 * 3
        values, edges, _ = outlines[1].get_data()
        counts, _ = np.histogram(score[(group == "x") & (y == "yes")], edges)
        np.testing.assert_allclose(-values / 0.85, counts / counts.max())

    def test_group_without_a_label(self):
        display = GroupScoresDisplay.from_predictions(
            [0, 1, 0, 0], [0.1, 0.6, 0.3, 0.4], sensitive_features=list("aabb")
        )
        assert len([p for p in display.ax_.patches if not p.get_fill()]) == 3


class TestCalibration:
    def test_points_and_intervals(self, scored):
        y, score, group = scored
        display = GroupCalibrationDisplay.from_predictions(
            y, score, sensitive_features=group, n_bins=4, confidence=0.8
        )
        part = display.table[display.table["group"] == "y"]
        bars = display.ax_.containers[1]
        np.testing.assert_allclose(bars.lines[0].get_xydata(), part[["predicted", "found"]])
        ends = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
        np.testing.assert_allclose(ends, part[["low", "high"]])

    def test_many_groups_have_no_intervals(self, scored):
        y, score, _ = scored
        many = np.arange(len(y)) % 6
        ax = GroupCalibrationDisplay.from_predictions(y, score, sensitive_features=many).ax_
        assert len(ax.containers) == 6
        assert all(not bars.has_yerr for bars in ax.containers)

    def test_scores_that_are_no_probabilities(self, scored):
        y, score, group = scored
        with pytest.raises(InvalidInputError, match=r"probabilities in \[0, 1\], found 0"):
            GroupCalibrationDisplay.from_predictions(y, 3 * score, sensitive_features=group)


@pytest.mark.parametrize("display", SCORE_DISPLAYS)
class TestDisplaysOfScores:
    def test_from_estimator(self, display, scored):
        y, score, group = scored
        one = display.from_estimator(Scorer(), score[:, np.newaxis], y, sensitive_features=group)
        options = {} if display is GroupCalibrationDisplay else {"threshold": 0.4}
        two = display.from_predictions(
            y, score, sensitive_features=group, pos_label="yes", **options
        )
        pd.testing.assert_frame_equal(one.table, two.table)

    def test_given_axes_are_used(self, display, scored):
        y, score, group = scored
        figure, ax = plt.subplots()
        found = display.from_predictions(y, score, sensitive_features=group, ax=ax)
        assert (found.ax_, found.figure_) == (ax, figure)

    def test_one_of_several_columns(self, display, scored):
        y, score, group = scored
        table = {"group": group, "half": np.arange(len(y)) % 2}
        found = display.from_predictions(y, score, sensitive_features=table, by="half")
        assert set(found.table["group"]) == {"0", "1"}
        with pytest.raises(InvalidInputError, match=r"by must name the column.*by='group'"):
            display.from_predictions(y, score, sensitive_features=table)
        with pytest.raises(InvalidInputError, match=r"by='age' is not among"):
            display.from_predictions(y, score, sensitive_features=table, by="age")

    def test_without_matplotlib(self, display, scored, monkeypatch):
        y, score, group = scored
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r'pip install "fairboost\[plots\]"'):
            display.from_predictions(y, score, sensitive_features=group)


def overlaps(boxes):
    """Pairs of boxes that share more than a pixel."""
    return [
        (a, b)
        for a, b in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


@pytest.mark.parametrize("n_groups", [2, 20])
@pytest.mark.parametrize("display", [GroupRatesDisplay, *SCORE_DISPLAYS])
def test_no_text_lies_on_another(display, n_groups):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2_000)
    score = rng.random(2_000)
    names = [f"{k}: a group whose name takes more than one line to write" for k in range(n_groups)]
    said = score >= 0.5 if display is GroupRatesDisplay else score
    found = display.from_predictions(
        y, said.astype(float), sensitive_features=rng.choice(names, 2_000)
    )
    found.figure_.canvas.draw()
    ax = found.ax_
    inside = ax.get_window_extent()
    ticks = [  # those out of view are there, but not drawn
        tick.label1
        for axis, low, high in ((ax.xaxis, inside.x0, inside.x1), (ax.yaxis, inside.y0, inside.y1))
        for tick in axis.get_major_ticks()
        if low <= ax.transData.transform([tick.get_loc()] * 2)[int(axis is ax.yaxis)] <= high
    ]
    legend = ax.get_legend()
    texts = [*ticks, ax.xaxis.label, ax.yaxis.label, *(legend.get_texts() if legend else ())]
    boxes = [t.get_window_extent() for t in texts if t.get_text()]
    assert len(boxes) > min(n_groups, MOST_LABELLED)
    assert overlaps(boxes) == []
    whole = found.figure_.bbox
    assert all(box.x0 >= -1 and box.x1 <= whole.width + 1 for box in boxes)
    assert inside.width > 0.35 * whole.width
    assert inside.height > 0.35 * whole.height


@pytest.mark.parametrize(
    ("name", "after", "expected"),
    [
        ("short", "  (n = 5)", "short  (n = 5)"),
        ("one two three", "  (n = 5)", "one two three\n(n = 5)"),
        ("one two three four five", "  (n = 5)", "one two three\nfour …  (n = 5)"),
        ("one two three four", "", "one two three\nfour"),
        ("abcdefghijklmnopqrstuvwxyz", "", "abcdefghijklmnop\nqrstuvwxyz"),
    ],
)
def test_fold(name, after, expected):
    assert fold(name, 16, after=after) == expected


class TestTradeoff:
    def test_chosen_is_ringed(self):
        table = pd.DataFrame(
            {
                "tolerance": [np.nan, 0.1, 0.0],
                "accuracy": [0.8, 0.79, 0.78],
                "gap": [0.2, 0.1, 0.01],
            }
        )
        for name in ("accuracy", "gap"):
            table[f"{name} low"], table[f"{name} high"] = table[name] - 0.01, table[name] + 0.01
        ax = TradeoffDisplay(table, 1, "test rows").plot().ax_
        assert ax.get_xlabel() == "gap between groups, test rows"
        (ring,) = (line for line in ax.lines if line.get_label() == "chosen")
        assert ring.get_xydata().tolist() == [[0.1, 0.79]]
        assert "chosen" not in labels_of(TradeoffDisplay(table).plot().ax_.get_legend())


def test_rates_of_estimators(scored):
    y, score, group = scored
    models = {"one": Scorer(), "two": Scorer()}
    display = GroupRatesDisplay.from_estimator(
        models, score[:, np.newaxis], y, sensitive_features=group, rate="fpr"
    )
    expected = group_rates(
        y, Scorer().predict(score[:, np.newaxis]), sensitive_features=group, rates="fpr"
    )
    np.testing.assert_allclose(points(display.ax_)[1][:, 0], expected["value"])
    single = GroupRatesDisplay.from_estimator(
        Scorer(), score[:, np.newaxis], y, sensitive_features=group
    )
    assert single.ax_.get_legend() is None


class TestBothDisplays:
    def test_ground_and_text_are_left_to_the_theme(self, people):
        y, models, sensitive = people
        with plt.style.context("dark_background"):
            one = GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive)
            two = MultipliersDisplay(make_trace(3)).plot()
            for ax in (one.ax_, *two.ax_):
                assert to_hex(ax.get_facecolor()) == "#000000"
                assert {to_hex(t.get_color()) for t in ax.get_yticklabels()} == {"#ffffff"}

    def test_without_matplotlib(self, people, monkeypatch):
        y, models, sensitive = people
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r'pip install "fairboost\[plots\]"'):
            MultipliersDisplay(make_trace(1)).plot()
        with pytest.raises(ImportError, match=r'pip install "fairboost\[plots\]"'):
            GroupRatesDisplay.from_predictions(y, models, sensitive_features=sensitive)

    def test_public_face(self):
        assert plots.__all__ == sorted(plots.__all__)


@pytest.mark.parametrize("display", [GroupRocDisplay, GroupCalibrationDisplay, GroupScoresDisplay])
def test_names_are_shown_as_they_are(display):
    """Dollars are no mathematics, a line below hides nothing, and control characters are seen."""
    names = ["$10%-$20%", "$20k-$40k", "_hidden", "", "a\x1b[1m"]
    y, score = np.tile([0, 1, 1, 0], 50), np.linspace(0, 1, 200)
    drawn = display.from_predictions(y, score, sensitive_features={"$g$": names * 40})
    drawn.figure_.savefig(io.BytesIO(), format="svg")
    texts = drawn.ax_.get_legend().get_texts()
    if display is GroupScoresDisplay:
        texts = drawn.ax_.get_yticklabels()
    assert {text.get_text() for text in texts} == {*names[:4], "a\\x1b[1m"}
    assert not any(text.get_parse_math() for text in texts)


def test_names_of_models_and_columns_are_shown_as_they_are():
    y, groups = np.tile([0, 1, 1, 0], 50), {"$p$": ["$1$", "_"] * 100}
    models = {"_m$1$": y, "$b$": 1 - y}
    drawn = GroupRatesDisplay.from_predictions(y, models, sensitive_features=groups)
    drawn.figure_.savefig(io.BytesIO(), format="svg")
    assert [text.get_text() for text in drawn.ax_.get_legend().get_texts()] == list(models)
    texts = [text.get_text() for text in drawn.ax_.get_yticklabels()]
    assert texts[0] == "$p$" and texts[2].startswith("$1$  (n")
    assert not any(text.get_parse_math() for text in drawn.ax_.get_yticklabels())
