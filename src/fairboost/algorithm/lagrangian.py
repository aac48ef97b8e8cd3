"""Algorithm 1 of the paper: scores in, gradient and Hessian out.

The problem (paper, Eq. 1) is to minimise a loss L(f) subject to constraints c_k(f) <= 0 on group
rates. Its Lagrangian is ``L(f) + sum_k multiplier_k c_k(f)`` (Eq. 2). The c_k count rows on the
wrong side of a threshold, so they have no derivative; the model therefore descends on the *proxy*
Lagrangian (Eq. 7), in which each rate's 0/1 events are replaced by a smooth step, while the
multipliers ascend on the exact one::

    round t, on the scores f_{t-1}:
      (line 5)  gradient of  L + sum_k multiplier_k proxy_c_k,  with the multipliers of t-1
      (line 6)  exact violations c_k(f_{t-1})
      (7, 8)    the engine fits a tree to the gradient and adds it to f
      (line 9)  the multipliers answer to the violations

With n the weight of all training rows, W_g that of the rows of group g that count, and d the
direction of the rate, the gradient handed to the engine is n times the derivative::

    w_i (p_i - y_i)
      + sum over rates that row i counts for:  (n / W_g) coef_g w_i d phi'(d (f_i - t))

with ``coef`` from the constraint's pullback. The same lines are played in two ways:

* **the paper's**: ``coef`` is taken at the proxy rates, and the Hessian is the loss's own,
  ``w_i p_i (1 - p_i)``;
* **convex** (the default): where ``coef`` is negative, the constraint wants the rate to *rise*,
  and ``-phi`` is concave. Its place is taken by the bound ``1 - phi(-u)`` of the same event: a
  negative weight on a positive decision becomes a positive weight on a negative one. Then the
  problem is convex if phi is, and the curvature of the proxies belongs into the Hessian. ``coef``
  is taken at the exact rates: no proxy rate is needed, and one pass over the rows serves a round.

Rates are read on the rows *held out*, if there are any (:mod:`fairboost.data.holdout`): the
engine keeps their scores, and nothing is predicted twice. In cross-fitting, further boosters each
leave out a fold, whose rows have gradient and Hessian 0.

At an operating point such as "false positive rate 5%" the threshold t is a function of the scores:
the quantile of those of the rows seen, found anew in every round. Rates are evaluated at it, and
proxies are centred there.

Rows may lie on several machines (:mod:`fairboost.fairness.all_reduce`). Each makes the
gradients of its own rows; sums by cell are added up over all of them, and so all take the same
step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import expit

from fairboost._typing import Float32Array, FloatArray, IntArray, ScoreArray
from fairboost.algorithm import multipliers
from fairboost.fairness.all_reduce import ONE_MACHINE, AllReduce, share_near, threshold_over
from fairboost.data.holdout import NOTHING_HELD_OUT, Holdout
from fairboost.algorithm.margins import Sampling
from fairboost.algorithm.multipliers import DualPlayer
from fairboost.algorithm.trace import Trace
from fairboost.data.cells import Cells
from fairboost.fairness.binding import RateMap, bind, distinct, slices
from fairboost.fairness.constraints import Constraint
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.proxies import Proxy
from fairboost.fairness.realised_rate import Realised, realise
from fairboost.kernel.row_pass import Look, RowPass, SoftWeights
from fairboost.kernel.threads import Threads

NO_MEMBERSHIPS: Mapping[tuple[str, ...], Float32Array] = MappingProxyType({})


class Lagrangian:
    """The proxy Lagrangian of a data set, and the multipliers as they stand.

    Parameters
    ----------
    cells : Cells
        All rows that the engine trains on, by cell. Where rows lie on several machines, codes are
        those of the rows here; counts, weights and squares are those of all.
    constraints : sequence of Constraint
        The constraints; none makes this the plain logistic loss.
    proxy : Proxy
        The smooth step.
    player : DualPlayer
        Moves the multipliers.
    holdout : Holdout, optional
        The rows that rates are read on; the training rows by default.
    convex : bool, default=False
        Use the convex form.
    memberships : dict of tuple of str to (n, n_groups) float32, optional
        For some sensitive columns (crossed), the probability of each row's group. In gradients it
        takes the place of the group itself; rates go by the groups observed.
    confidence : float, optional
        Add to each violation what it may be larger on all people, at this confidence.
    threshold : float or OperatingPoint, default=0.0
        The decision threshold in log-odds, or what it follows from.
    sample_weight : (n,) float32, optional
        Weights of the rows.
    label_weights : (float, float), default=(1.0, 1.0)
        Factors on the loss of the negative and the positive class. Rates do not know them.
    threads : Threads, optional
        Those that share the rows; one by default.
    dtype : dtype, default=float32
        Precision of the gradients.
    machines : AllReduce, optional
        Those that hold the rows; this one alone by default.
    """

    def __init__(
        self,
        cells: Cells,
        constraints: Sequence[Constraint],
        proxy: Proxy,
        player: DualPlayer,
        *,
        holdout: Holdout = NOTHING_HELD_OUT,
        convex: bool = False,
        memberships: Mapping[tuple[str, ...], Float32Array] = NO_MEMBERSHIPS,
        confidence: float | None = None,
        threshold: float | OperatingPoint = 0.0,
        sample_weight: Float32Array | None = None,
        label_weights: tuple[float, float] = (1.0, 1.0),
        threads: Threads | None = None,
        dtype: Any = np.float32,
        machines: AllReduce = ONE_MACHINE,
    ) -> None:
        self.cells, self.holdout, self.convex, self.player = cells, holdout, convex, player
        self.machines = machines
        seen = cells if holdout.seen is None else holdout.seen
        ours: Any = "trained" if holdout.cuts else "all"
        self.terms = tuple(bind(c, cells, ours) for c in constraints)
        which: Any = "all" if holdout.seen is None else "held out"
        self.seen_terms = tuple(bind(c, seen, which) for c in constraints)
        self.map, self.seen_map = RateMap(cells, self.terms), RateMap(seen, self.seen_terms)
        self.trained_weight, self.seen_weight = cells.total_weight, seen.total_weight
        # Of each cell, on its loss: class weights, and what makes up for the rows held out.
        self.loss_weights, self.seen_loss_weights = (
            (np.asarray(label_weights) * np.asarray(factors))[cells.labels]
            for factors in (holdout.trained_labels, holdout.seen_labels)
        )
        self.seen_shares = np.asarray(holdout.seen_labels)[cells.labels]
        self.seen_squares = float(self.seen_shares**2 @ seen.squares)
        self.rate_slices = slices([t.counted.size for t in self.terms])
        self.dual_slices = slices([len(t.inequalities) for t in self.terms])
        self.inequalities = distinct([name for t in self.terms for name in t.inequalities])
        self.dual = multipliers.start(len(self.inequalities))
        self.confidence = confidence
        self.sampling = Sampling(self.map.per_row, self.seen_terms, confidence)
        labels = [label for t in self.terms for label in t.moment_labels]
        # Several constraints may read the same rate; the trace shows it once.
        self.shown = [k for k, label in enumerate(labels) if label not in labels[:k]]
        self.rate_labels = tuple(labels[k] for k in self.shown)
        moving = isinstance(threshold, OperatingPoint)
        self.trace = Trace(self.rate_labels, self.inequalities, holdout.seen is not None, moving)
        self.errors: list[FloatArray] = []  # of f_0, f_1 and so on, like the trace
        self.seen_rates: list[FloatArray] = []
        self.seen_positive: list[FloatArray] = []  # weight of positive decisions, by cell
        self.placed_positive: list[FloatArray] = []  # the same of the rows behind the threshold
        self.aimed: list[FloatArray] = []  # violations of what is aimed at
        self.thresholds: list[float] = []
        self.point = threshold if isinstance(threshold, OperatingPoint) else None
        self.threshold = 0.0 if isinstance(threshold, OperatingPoint) else threshold
        self._placing: Any = None
        if self.point is not None:
            self._placing = _who_counts(self.point, seen, holdout.placed)
        self.spread = 1.0  # of the scores around a threshold that follows them
        self.rates = np.full(len(self.map.counted), 0.5)  # where coefficients are taken
        self.coefficients = np.zeros(len(self.map.counted))
        self.memberships = memberships
        self.observed = np.concatenate(
            [np.full(t.counted.size, t.groups.columns not in memberships) for t in self.terms]
            or [np.empty(0, bool)]
        )
        self._passes: list[RowPass] = []
        # Multipliers answer to the weight they put on a row's decision: a steeper proxy has more.
        self.steepness = float(proxy.slope(np.zeros(1))[0] / 0.25)
        fixed = None if self.point is not None else self.threshold
        self.threads = Threads() if threads is None else threads
        self._options = (label_weights, proxy, fixed, dtype)
        self.sample_weight = sample_weight
        self.rows = self._pass(cells.codes, sample_weight)
        self.seen_weights = sample_weight
        if holdout.seen is not None:
            if holdout.kind != "cross":
                self.seen_weights = holdout.outside_weight
            self.outside = self._pass(seen.codes, self.seen_weights, holdout.seen_labels)
        self._out_of_fold = np.empty(len(seen.codes) if holdout.kind == "cross" else 0)
        self._watched: Look | None = None
        self._placed: FloatArray | None = None

    def resume(self, dual: FloatArray, threshold: float | None = None) -> None:
        """Start from given multipliers instead of zeros, and from the threshold they are for."""
        self.dual = multipliers.resume(dual)
        if threshold is not None:
            self._move_threshold(threshold)
        self.coefficients = self._pullbacks(self.rates)

    def followers(self) -> list[Follower]:
        """The objectives of the boosters that each leave out a fold."""
        codes = self.holdout.fold_codes(self.cells)
        passes = [self._pass(c, self.sample_weight, twice=True) for c in codes]
        return [Follower(self, rows, len(self.cells)) for rows in passes]

    def watch(self, scores: ScoreArray) -> None:
        """Take the scores of the rows held out."""
        self._place_threshold(scores)
        self._watched = self.outside.look(scores)
        if self.point is not None and (placed := self.holdout.placed) is not None:
            last = slice(len(scores) - len(placed.codes), None)
            weight = None if self.seen_weights is None else self.seen_weights[last]
            self._placed = placed.weight_of(scores[last] >= self.threshold, weight)

    def take_fold(self, fold: IntArray, scores: ScoreArray) -> None:
        """Take the scores of a fold by the booster that left it out."""
        self._out_of_fold[fold] = scores[fold]

    def threshold_of(self, scores: ScoreArray) -> float:
        """Threshold that follows from scores of the rows seen."""
        if self.point is None:
            return self.threshold
        return threshold_over(self.machines, self.point, *self._counted(scores))

    def realised(self, iterate: int) -> Realised | None:
        """What the operating point came to for f_iterate."""
        if self.point is None:
            return None
        placed = self.holdout.placed or self.holdout.seen or self.cells
        threshold, positive = self.thresholds[iterate], self.placed_positive[iterate]
        return realise(self.point, threshold, placed, positive)

    def __call__(self, scores: ScoreArray) -> tuple[Float32Array, Float32Array]:
        """One round of Algorithm 1 on the engine's scores; records it in the trace.

        Parameters
        ----------
        scores : (n,) float64 or float32
            Raw log-odds of the rows that the engine trains on, as it has them.

        Returns
        -------
        gradient, hessian : (n,) float32
            Buffers that the next call overwrites.
        """
        self._gather(scores)
        loss, seen = self._descend(scores)
        violations, units = self._look(loss, seen, self.trace.append)
        self.dual = self.player.step(self.dual, violations, units)
        self.coefficients = self._pullbacks(self.rates)
        return self.rows.gradient, self.rows.hessian

    def observe(self, scores: ScoreArray) -> None:
        """Look at the scores after the last round; no gradient is wanted any more."""
        self._gather(scores)
        now = self.rows.look(scores)
        self._look(now.loss, self._watched or now, self.trace.close)

    def close(self) -> None:
        """Let the threads go."""
        self.threads.close()

    def forget_rows(self) -> None:
        """Let go of all that is as long as the rows: what is left is a record of the training."""
        nothing = self.cells.codes[:0]
        self.cells, seen = replace(self.cells, codes=nothing), self.holdout.seen
        placed = self.holdout.placed
        seen, placed = (c and replace(c, codes=nothing) for c in (seen, placed))
        self.holdout = replace(
            self.holdout, folds=None, seen=seen, placed=placed, outside_weight=None
        )
        self.sample_weight = self.seen_weights = self._placing = None
        self.memberships, self._out_of_fold = NO_MEMBERSHIPS, np.empty(0)
        self.machines, self._passes, self.threads = ONE_MACHINE, [], Threads()
        for name in ("rows", "outside"):
            vars(self).pop(name, None)

    @property
    def on_rows(self) -> tuple[FloatArray, FloatArray]:
        """What constraints weigh on the proxies of a row's decisions, up and down, by cell."""
        up, down = self.map.pull_back(self.coefficients * self.observed)
        if not self.convex:
            return up, down
        return (
            np.maximum(up, 0.0) + np.maximum(-down, 0.0),
            np.maximum(down, 0.0) + np.maximum(-up, 0.0),
        )

    @property
    def soft(self) -> list[SoftWeights]:
        """What constraints weigh on rows by the probability of their groups."""
        out = []
        for columns, probabilities in self.memberships.items():
            on_groups = np.zeros((probabilities.shape[1], 4))
            for t, part in zip(self.terms, self.rate_slices, strict=True):
                if t.groups.columns != columns:
                    continue
                on_rows = self.coefficients[part] * self.map.per_row[part]
                for rate, row in zip(t.moments, on_rows.reshape(t.counted.shape), strict=True):
                    side = 0 if rate.direction > 0 else 1
                    for label in (0, 1) if rate.label is None else (rate.label,):
                        on_groups[:, 2 * label + side] += row
            out.append(SoftWeights(probabilities, on_groups))
        return out

    def _gather(self, scores: ScoreArray) -> None:
        """See to the rows that rates are read on, unless the engine has shown them already."""
        if self.holdout.seen is None:
            self._place_threshold(scores)
        elif self.holdout.kind == "cross":
            self.watch(self._out_of_fold)

    def _place_threshold(self, scores: ScoreArray) -> None:
        if self.point is None:
            return
        self._move_threshold(self.threshold_of(scores))
        if self.convex:
            near = share_near(self.machines, self.threshold, *self._counted(scores))
            self.spread = self.point.spread(near)

    def _counted(self, scores: ScoreArray) -> tuple[FloatArray, Any]:
        """Scores and weights of the rows seen that count towards the operating point."""
        weight = None if self.seen_weights is None else self.seen_weights[self._placing]
        return scores[self._placing].astype(np.float64, copy=False), weight

    def _move_threshold(self, threshold: float) -> None:
        self.threshold = threshold
        for rows in self._passes:
            rows.threshold = threshold

    def _descend(self, scores: ScoreArray) -> tuple[float, Look]:
        """Fill in the gradient of the proxy Lagrangian; return the loss, and what rates go by.

        In the paper's form its coefficients depend on the proxy rates, which are known after the
        pass over the rows only. For parity and bounds they depend on little, on which group has
        the largest rate, and that often stays from one round to the next: so the pass is made with
        the rates of the last round, and its gradient is corrected if their coefficients turn out
        to differ.
        """
        if self.convex:
            loss = self.rows.descend(scores, *self.on_rows, self.soft)
            return loss, self._watched or self.rows.look(scores)
        sums = self.rows.evaluate(scores, *self.on_rows)
        self.rates = self.map.proxy(*self._of_all(sums.up, sums.down))
        now = self._pullbacks(self.rates)
        if not np.array_equal(now, self.coefficients):
            self.coefficients = now
            if not self.rows.correct(*self.on_rows):
                sums = self.rows.evaluate(scores, *self.on_rows)
        loss = float(self.loss_weights @ sums.loss)
        return loss, self._watched or Look(sums.positive, loss)

    def _of_all(self, *sums: FloatArray) -> list[FloatArray]:
        """The sums over the rows of all machines, in one go."""
        if self.machines is ONE_MACHINE:
            return list(sums)
        total = self.machines.total(np.concatenate(sums))
        return np.split(total, np.cumsum([len(s) for s in sums])[:-1])

    def _look(self, loss: float, seen: Look, record: Any) -> tuple[FloatArray, FloatArray]:
        """Read the rates, record them, and return violations and the units of multipliers."""
        # The engine has shown the scores of the rows held out, if there are any.
        assert self.holdout.seen is None or self._watched is not None
        self._watched = None
        losses, positive = self._of_all(np.array([loss, seen.loss]), seen.positive)
        exact = self.seen_map.exact(positive)
        violations = self._violations(exact)
        if self.convex:
            self.sampling.look(exact)
        errors = self.sampling.errors(exact)
        record(
            loss=float(losses[0]) / self.trained_weight,
            held_out_loss=float(losses[1]) / self.seen_weight,
            held_out_accuracy=self._accuracy(positive),
            threshold=float(expit(self.threshold)),
            rates=exact[self.shown],
            violations=violations,
            multipliers=self.dual.multipliers,
        )
        self.thresholds.append(self.threshold)
        self.seen_positive.append(positive)
        self.placed_positive.append(positive if self._placed is None else self._placed)
        self.errors.append(errors)
        self.seen_rates.append(exact)
        aimed = violations + self.sampling.margin(errors)
        self.aimed.append(aimed)
        if not self.convex:
            return violations, self.sampling.units(exact)
        self.rates = exact
        return aimed, self.sampling.units(exact) * self.stiffness / self.steepness

    def _accuracy(self, positive: FloatArray) -> float:
        negative = self.seen_map.total - positive
        right = np.where(self.cells.labels == 1, positive, negative)
        return float(self.seen_shares @ right / self.seen_weight)

    @property
    def stiffness(self) -> float:
        """Weight that it takes to move a rate at the threshold, over that at even odds.

        A leaf moves by gradient over curvature: where the loss is flat, little weight moves much.
        But where scores have flown apart (a learning rate that is too high for rare positives), a
        threshold that follows them comes to lie where the loss is flat, and there few rows are
        within reach of the proxy, and they have further to go: both take more weight.
        """
        curvature = 1.0 / math.cosh(min(abs(self.threshold), 50.0) / 2) ** 2
        return min(curvature * self.spread**2, 1.0)

    @property
    def untrained_loss(self) -> float:
        """Held-out loss of a model that gives everyone the same probability."""
        weights = np.bincount(
            self.cells.labels, self.seen_loss_weights * self.seen_map.total, minlength=2
        )
        share = weights / weights.sum()
        return float(-(weights @ np.log(np.maximum(share, 1e-15))) / self.seen_weight)

    @property
    def wrong(self) -> FloatArray:
        """Mean of the false positive and false negative rate of everyone, of each iterate seen."""
        positive, total = np.array(self.seen_positive), self.seen_map.total
        share = [
            positive[:, counts].sum(axis=1) / max(total[counts].sum(), 1e-300)
            for counts in (self.cells.labels == 0, self.cells.labels == 1)
        ]
        out: FloatArray = (share[0] + 1.0 - share[1]) / 2
        return out

    @property
    def seen_rows(self) -> float:
        """As many rows of equal weight tell as much as those that rates are read on."""
        return float(self.seen_weight**2 / self.seen_squares)

    def _violations(self, rates: FloatArray) -> FloatArray:
        """Violations of all terms, evaluated on exact rates."""
        out = np.empty(len(self.inequalities))
        for t, r, d in zip(self.seen_terms, self.rate_slices, self.dual_slices, strict=True):
            out[d] = t.constraint.violations(t.read(rates[r]))
        return out

    def _pullbacks(self, rates: FloatArray) -> FloatArray:
        """Coefficients on all rates, differentiated at the given ones."""
        out = np.empty(len(rates))
        for t, r, d in zip(self.terms, self.rate_slices, self.dual_slices, strict=True):
            out[r] = t.constraint.pullback(t.read(rates[r]), self.dual.multipliers[d]).ravel()
        return out

    def _pass(
        self,
        codes: IntArray,
        weight: Float32Array | None,
        label_factors: tuple[float, float] | None = None,
        twice: bool = False,
    ) -> RowPass:
        """A pass over rows given by their cells; twice as many if some of them are left out."""
        label_weights, proxy, threshold, dtype = self._options
        factors = self.holdout.trained_labels if label_factors is None else label_factors
        weights = label_weights[0] * factors[0], label_weights[1] * factors[1]
        up, down = self.map.needs
        if self.convex:  # the sign of a coefficient decides between the two
            up = down = up | down
        labels = np.tile(self.cells.labels, 1 + twice)
        rows = RowPass(
            codes, labels, weight, weights, up, down, proxy, threshold, self.threads, dtype,
            n_trained=len(self.cells), with_curvature=self.convex,
        )  # fmt: skip
        rows.threshold = self.threshold
        self._passes.append(rows)
        return rows


class Follower:
    """The objective of a booster that leaves out a fold: same multipliers, its own rows.

    The multipliers see its scores of the rows left out; the booster itself is not kept.
    """

    def __init__(self, leader: Lagrangian, rows: RowPass, n_cells: int) -> None:
        self.leader, self.rows = leader, rows
        self.fold = np.flatnonzero(rows.cells >= n_cells)

    def __call__(self, scores: ScoreArray) -> tuple[Float32Array, Float32Array]:
        """Gradient and Hessian of the rows that this booster trains on."""
        self.observe(scores)
        self.rows.descend(scores, *self.leader.on_rows, self.leader.soft)
        return self.rows.gradient, self.rows.hessian

    def observe(self, scores: ScoreArray) -> None:
        """Show the multipliers the scores of the rows left out."""
        self.leader.take_fold(self.fold, scores)


def _who_counts(point: OperatingPoint, seen: Cells, placed: Cells | None) -> Any:
    """The rows on which the threshold is placed: those seen that count, or the last of them."""
    counts, rows = point.rate.counts(seen.labels), placed or seen
    first = len(seen.codes) - len(rows.codes)
    return slice(first, None) if counts.all() else first + np.flatnonzero(counts[rows.codes])
