"""The order of periods that are given by name, such as 03.2026, 2026-Q1, Mar 2026 or 12.

All names are read in the same way: the same words in the same places, and numbers of the same
meaning. Each way that fits every name is a reading. Where all readings give one order, that is the
order of the periods. Where they do not, the names are ambiguous and are refused, since a wrong
order hides changes. Names that no reading fits, and names without a year, have no order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from typing import TypeAlias

from fairboost.exceptions import InvalidInputError

Key: TypeAlias = tuple[int, ...]
Numbers: TypeAlias = tuple[str, ...]

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
MONTH_NAMES = {name: k for k, m in enumerate(MONTHS, 1) for name in (m, m[:3])} | {"sept": 9}
NUMBER, MONTH = "#", "#month"
"""What stands for numbers, and for names of months, among the words of a name."""

ROLES = {
    "Y": (range(1900, 2100), (4,), "year"),
    "y": (range(100), (2,), "year"),
    "p": (range(1, 54), (1, 2), "month"),
    "m": (range(1, 13), (1, 2), "month"),
    "d": (range(1, 32), (1, 2), "day"),
}
"""What a number may be: its values, its digits, and a word for it. ``p`` is any part of a year, up
to 53 weeks."""
READINGS = {
    1: ("Y",),
    2: ("Yp", "pY", "YY", "yp", "py", "md", "dm"),
    3: ("Ymd", "dmY", "mdY", "ymd", "dmy", "mdy"),
}
"""Readings of so many numbers."""
WITHOUT_YEAR = ("md", "dm")
"""It is not known what these have after December, so they only show that names are ambiguous."""
DIGITS = ("Yp", "pY", "Ymd", "dmY", "mdY", "yp", "py", "ymd", "dmy", "mdy")
"""Readings of digits with nothing between them, beside a whole number."""
MOST_YEARS = 10
"""Digits of which two are no year if the years are farther apart."""
CENTURY = 69
"""Years of two digits are 1969 to 2068."""

TIME = re.compile(r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$")
TOKEN = re.compile(r"\d+|[^\W\d_]+")
WHOLE = re.compile(r"([+-]?\d{1,18})(\.0)?")
DECIMAL = re.compile(r"\d+\.\d{1,2}")
FORMATS = "2026-03, 2026-Q1, 2026-W05 or 2026-03-31"


def in_order(names: Sequence[str], column: str) -> list[int] | None:
    """Places of the names in the order of time; None where names have none.

    Parameters
    ----------
    names : sequence of str
        Names of periods, each once.
    column : str
        The column that has them, for messages.

    Examples
    --------
    >>> in_order(["01.2026", "12.2025"], "month"), in_order(["10", "9"], "month")
    ([1, 0], [1, 0])
    >>> in_order(["spring", "autumn"], "season") is None
    True
    """
    found = _readings(names)
    readings = [reading for reading in found if reading not in WITHOUT_YEAR]
    if len(names) < 2 or not readings:
        return [0] if len(names) == 1 else None
    orders = {r: sorted(range(len(names)), key=keys.__getitem__) for r, keys in found.items()}
    order, keys = orders[readings[0]], found[readings[0]]
    for one, other in pairwise(order):
        if keys[one] == keys[other]:
            raise InvalidInputError(
                f"{names[one]!r} and {names[other]!r} of the column {column!r} are the same "
                f"period; write each period in one way, such as {FORMATS}, or, if these are "
                f"dates, name the length of a period: --by {column}:month"
            )
    for reading, own in orders.items():
        if own != order:
            moved = next(k for k in order if keys[k] != found[reading][k])
            raise _ambiguous(names[moved], column, _in_words(readings[0]), _in_words(reading))
    for name in names if all(map(DECIMAL.fullmatch, names)) else ():
        if name.endswith(".1") and f"{name}0" not in names:  # a number has lost its last zero
            raise _ambiguous(name, column, "month 1", "month 10")
    return order


def _ambiguous(name: str, column: str, one: str, other: str) -> InvalidInputError:
    return InvalidInputError(
        f"the order of the periods in the column {column!r} is ambiguous: {name!r} can be {one} "
        f"or {other}; write years first, and in four digits, such as {FORMATS}"
    )


def _in_words(reading: str) -> str:
    """A reading, such as "month-year"."""
    return "a whole number" if reading == "n" else "-".join(ROLES[role][2] for role in reading)


def _readings(names: Sequence[str]) -> dict[str, list[Key]]:
    """Readings that fit all names, and what they sort the names by."""
    if all(map(WHOLE.fullmatch, names)):
        return _of_digits([WHOLE.sub(r"\1", name) for name in names])
    shapes, numbers = zip(*(_tokens(TIME.sub("", name.strip())) for name in names), strict=True)
    if len(set(shapes)) > 1:
        return {}
    months = [token == MONTH for token in shapes[0] if token in (NUMBER, MONTH)]
    n = len(months) // 2 if len(months) in (4, 6) else len(months)  # 4, 6: from when to when
    readings = READINGS.get(n, ())
    if any(token not in (NUMBER, MONTH) for token in shapes[0]) and n == len(months):
        # A word such as Q or W is for parts of a year.
        readings = (*(r for r in readings if r not in WITHOUT_YEAR), *["Ypp"] * (n == 3))
    found: dict[str, list[Key]] = {}
    for reading in readings:
        parts = [
            [_key(each[k : k + n], reading, months[k : k + n]) for each in numbers]
            for k in range(0, len(months), n)
        ]
        if all(map(_all_of, parts)):
            found[reading] = [sum(map(tuple, keys), ()) for keys in zip(*parts, strict=True)]
    return found


def _all_of(keys: Sequence[Key | None]) -> list[Key]:
    """The keys, if there are all of them."""
    found = [key for key in keys if key is not None]
    return found if len(found) == len(keys) else []


def _tokens(name: str) -> tuple[tuple[str, ...], Numbers]:
    """The words of a name, with marks for numbers and names of months; and its numbers."""
    shape, numbers = [], []
    for token in TOKEN.findall(name.casefold()):
        month = MONTH_NAMES.get(token)
        shape.append(NUMBER if token.isdecimal() else MONTH if month else token)
        if month or token.isdecimal():
            numbers.append(str(month or token))
    return tuple(shape), tuple(numbers)


def _of_digits(names: Sequence[str]) -> dict[str, list[Key]]:
    """Readings of whole numbers, such as 12, 2026, 202603 and 032026."""
    whole: dict[str, list[Key]] = {"n": [(int(name),) for name in names]}
    if _all_of([_key((name,), "Y") for name in names]):
        return whole
    found: dict[str, list[Key]] = {}
    for reading in DIGITS:
        keys = _all_of([_key(_split(name, reading), reading) for name in names])
        years = [key[0] for key in keys]
        if keys and ("Y" in reading or max(years) - min(years) <= MOST_YEARS):
            found[reading] = keys
    sizes = {len(name) for name in names}
    # A year of four digits is one, unless a zero may be missing, as in 32026.
    return {r: k for r, k in found.items() if "Y" in r and {_width(r)} == sizes} or whole | found


def _width(reading: str) -> int:
    return 2 * len(reading) + 2 * reading.count("Y")


def _split(digits: str, reading: str) -> Numbers:
    """Digits by what they are; at the end without the year, a zero may be missing."""
    widths = [4 if role == "Y" else 2 for role in reading]
    missing = sum(widths) - len(digits)
    widths[-1 if reading[0] in "Yy" else 0] -= missing
    if missing not in (0, 1):
        return ()
    ends = [sum(widths[: k + 1]) for k in range(len(widths))]
    return tuple(digits[end - width : end] for end, width in zip(ends, widths, strict=True))


def _key(numbers: Numbers, reading: str, months: Sequence[bool] = ()) -> Key | None:
    """What a name is sorted by; None where the reading does not fit it."""
    if len(numbers) != len(reading):
        return None
    found = []
    for k, (text, role) in enumerate(zip(numbers, reading, strict=True)):
        values, digits, _ = ROLES[role]
        of_other_kind = k < len(months) and months[k] and role not in "pm"
        if of_other_kind or not text.isdecimal() or len(text) not in digits:
            return None
        if int(text) not in values:
            return None
        year = 1900 + 100 * (int(text) < CENTURY) if role == "y" else 0
        found.append(("Yympd".index(role), year + int(text)))
    key = tuple(n for _, n in sorted(found, key=lambda pair: pair[0]))
    if "d" in reading:
        try:
            date(*((2000,) * (len(key) == 2)), *key)
        except ValueError:
            return None
    return key
