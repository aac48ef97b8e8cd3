"""Constraints in the types of JSON, for model files, and back.

A constraint is written as its fields, under the name of its class in :data:`NAMES`. One of the
user's own has no form as text: a loaded model predicts, and a :class:`LostConstraint` stands in
its place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from fairboost._numbers import is_finite, plain
from fairboost._plain import decode, encode, is_plain, whole
from fairboost._typing import FloatArray
from fairboost.data.windows import smooth, smooth_columns
from fairboost.exceptions import ConstraintError, ModelFileError
from fairboost.fairness.classes import CLASS_RATES, ClassRate
from fairboost.fairness.constraints import Bound, Parity, parity
from fairboost.fairness.label_moments import ERROR, GROUP_LOSS
from fairboost.fairness.means import NumberMoment
from fairboost.fairness.minimax import Minimax, minimax
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import Calibrated, EachAtMost, SameDistribution
from fairboost.fairness.rates import Rate
from fairboost.fairness.ratios import Comparison, Floor, RatioParity, at_least, check_ratio

NAMES: dict[type, str] = {
    Parity: "parity",
    Bound: "bound",
    RatioParity: "ratio_parity",
    Floor: "floor",
    Minimax: "minimax",
    SameDistribution: "distribution",
    Calibrated: "calibrated",
    EachAtMost: "each",
}
"""Constraints by their name in a file."""

AS_A_WHOLE: dict[str, Any] = {NAMES[c]: c for c in (SameDistribution, Calibrated, EachAtMost)}
"""Those that no function makes of a moment: their fields lie under the name."""

LEFT_OUT = "moment", "automatic", "has_own_tolerance"
"""Fields that are written otherwise, or not at all."""

OPTIONAL = "relative", "given"
"""Fields of a parity that are left out where they are empty, as in files of old."""


COLUMNS_AS_GIVEN = "parity", "bound", "minimax"
"""Constraints in whose form a tuple of columns stays a tuple, and is written as one."""


@dataclass(frozen=True)
class LostConstraint:
    """Stands in a loaded model for a constraint of the user's own, which a text file cannot hold.

    The model predicts; only training it again needs the constraint itself.
    """

    description: str
    by: tuple[str, ...] = ()
    moments: tuple[str, ...] = ("ppr",)  # defined on any data, so that violations() is reached

    def violations(self, moments: GroupMoments) -> FloatArray:
        """Refuse: the constraint is not here."""
        raise ConstraintError(
            f"the constraint {self.description} was not stored in the model file; "
            "set_params(constraint=...) before fitting again"
        )

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Refuse: the constraint is not here."""
        return self.violations(moments)


def encode_constraint(constraint: Any) -> Any:
    """What the user asked for, in the types of JSON."""
    if constraint is None or isinstance(constraint, str):
        return constraint
    if isinstance(constraint, list | tuple):
        listed = [encode_constraint(c) for c in constraint]
        return listed if isinstance(constraint, list) else {"all": listed}
    written = _encode_single(constraint)
    if written is None:
        return {"lost": getattr(constraint, "description", repr(constraint))}
    if knots := smooth_columns(constraint.by):
        written["smooth"] = {name: plain(by.knots) for name, by in knots.items()}
    return written


def _encode_single(constraint: Any) -> dict[str, Any] | None:
    """A constraint by its fields; None if they cannot be written."""
    name, fields = NAMES.get(type(constraint)), dict(vars(constraint))
    moment = fields.get("moment")
    if name is None or not (moment is None or name == "minimax" or _is_written(moment)):
        return None
    if name in AS_A_WHOLE:
        return {name: plain(asdict(constraint))}
    parts = {field: plain(value) for field, value in fields.items() if field not in LEFT_OUT}
    if name == "parity":
        parts = {f: value for f, value in parts.items() if value or f not in OPTIONAL}
        parts["tolerance"] = constraint.tolerance if constraint.has_own_tolerance else None
    if not is_plain(parts):
        return None
    if name in COLUMNS_AS_GIVEN:
        parts["by"] = constraint.by
    if name == "minimax":
        return {name: "loss" if moment == GROUP_LOSS else constraint.name, **parts}
    return {name: _encode_moment(constraint.moment), **parts}


def decode_constraint(value: Any, of_numbers: bool) -> Any:
    """What the user asked for, from a file of a model that predicts a number or does not."""
    if isinstance(value, list):
        return [decode_constraint(v, of_numbers) for v in value]
    if not isinstance(value, dict):
        return value
    if "all" in value:  # of a tuple
        return tuple(decode_constraint(v, of_numbers) for v in value["all"])
    if "lost" in value:
        moments = {"moments": ("prediction",)} if of_numbers else {}
        return LostConstraint(value["lost"], **moments)
    knots = value.get("smooth", {})
    for name in AS_A_WHOLE:
        if name in value:
            made = _decode_as_a_whole(name, value[name])
            return replace(made, by=_with_knots(made.by, knots)) if knots else made
    by = _with_knots(_columns(value["by"]), knots)
    if "floor" in value:
        return at_least(_decode_moment(value["floor"]), value["at_least"], by=by)
    if "ratio_parity" in value:
        return _decode_ratio(value, by)
    if "minimax" in value:
        return minimax(value["minimax"], by=by, weight=value["weight"])
    if "parity" in value:
        further = {"relative": value.get("relative", False), "given": _columns(value.get("given"))}
        return parity(_decode_moment(value["parity"]), value["tolerance"], by=by, **further)
    return Bound(_decode_moment(value["bound"]), value["at_most"], by, tuple(value["group"]))


def _decode_ratio(value: dict[str, Any], by: Any) -> RatioParity:
    """A parity up to a ratio."""
    if value["of"] not in get_args(Comparison):
        raise ModelFileError(f"its ratio is compared with {value['of']!r:.80}")
    given, reference = tuple(value["given"]), tuple(value["reference"])
    ratio, moment = check_ratio(value["ratio"]), _decode_moment(value["ratio_parity"])
    return RatioParity(moment, ratio, by, given, value["of"], reference)


def _decode_as_a_whole(name: str, fields: dict[str, Any]) -> Any:
    """A constraint that has no function to make it, and does not look at what it is made of."""
    parts = {field: _columns(value) for field, value in fields.items()}
    if "moment" in parts:
        parts["moment"] = _decode_moment(parts["moment"])
    for limit in {"tolerance", "at_most"} & set(parts):
        if not is_finite(parts[limit]):
            raise ModelFileError(f"{limit} of its constraint is {parts[limit]!r:.80}")
    whole(parts.get("count", 1), "count of its constraint", 1)
    return AS_A_WHOLE[name](**parts)


def _is_written(moment: Any) -> bool:
    """Whether a moment has a form as text; that of a class has one if its labels have."""
    of_class = isinstance(moment, ClassRate) and is_plain(plain(moment.of))
    return of_class or isinstance(moment, Rate | NumberMoment)


def _encode_moment(moment: Rate | NumberMoment | ClassRate) -> dict[str, Any]:
    """What a constraint is about; labels as JSON has them."""
    parts = asdict(moment)
    return {**parts, "of": encode(plain(parts["of"]))} if "of" in parts else parts


def _decode_moment(parts: dict[str, Any]) -> Rate | NumberMoment | ClassRate:
    """A rate, which has a direction or a class, or the mean of a number."""
    if "of" in parts:
        if parts["name"] not in CLASS_RATES:
            raise ModelFileError(f"its constraint is about {parts['name']!r:.80}")
        return ClassRate(parts["name"], decode(parts["of"]))
    if "direction" in parts:
        return ERROR if parts["name"] == ERROR.name else Rate(**parts)
    whole(parts["quantity"], "quantity of its moment", 0)
    return NumberMoment(**parts)


def _columns(by: Any) -> Any:
    """Names of sensitive columns; several are a tuple."""
    return tuple(by) if isinstance(by, list) else by


def _with_knots(by: Any, knots: dict[str, Any]) -> Any:
    """The same, with the columns that are compared as numbers."""
    if isinstance(by, tuple):
        return tuple(_with_knots(name, knots) for name in by)
    return smooth(by, knots[by]) if by in knots else by
