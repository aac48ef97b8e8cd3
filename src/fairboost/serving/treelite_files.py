"""treelite's checkpoint, which Triton reads, and C source by tl2cgen.

Both return probabilities and know categories by their codes. The decision is in ``decide.json``.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.exceptions import ExportError
from fairboost.serving.optional import needing
from fairboost.serving.served import Answers, CheckedOn, Served

TOOLCHAIN = "gcc"


def write_checkpoint(served: Served, path: Path) -> None:
    """Write treelite's file."""
    _model(served).serialize(path)


def read_checkpoint(served: Served, path: Path, rows: CheckedOn) -> Answers:
    """What treelite itself says."""
    with needing("treelite"):
        import treelite
    model = treelite.Model.deserialize(path)
    found = treelite.gtil.predict(model, rows.codes.astype(model.input_type), nthread=1)
    return served.answers(_flat(found))


def write_source(served: Served, folder: Path) -> None:
    """Write C source into a folder."""
    with needing("c"):
        import tl2cgen
    tl2cgen.generate_c_code(_model(served), folder, {})


def read_source(served: Served, folder: Path, rows: CheckedOn) -> Answers:
    """What the source says, compiled elsewhere."""
    with needing("c"):
        import tl2cgen
    kind = "float32" if served.engine == "xgboost" else "float64"
    if shutil.which(TOOLCHAIN) is None:
        raise ExportError(
            f"C source is compiled and tried before it is kept, and {TOOLCHAIN} was not found on "
            "PATH; install it"
        )
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "source"
        shutil.copytree(folder, copy)
        library = tl2cgen.create_shared(TOOLCHAIN, copy, nthread=1, long_build_time_warning=False)
        predictor = tl2cgen.Predictor(library, nthread=1)
        codes = np.ascontiguousarray(rows.codes, kind)  # tl2cgen does not convert by itself
        found = predictor.predict(tl2cgen.DMatrix(codes, dtype=kind))
        return served.answers(_flat(found))


def _model(served: Served) -> Any:
    """The model as treelite reads it from the engine's own file."""
    with needing("treelite"):
        import treelite
    missing = served.trained.ensemble().missing  # refuses what has no form, by name
    if not math.isnan(missing):
        raise ExportError(
            f"the model takes {missing:g} for a missing value (missing={missing:g}), which "
            "treelite and C code of tl2cgen do not; use format='xgboost' or 'onnx', or train on "
            "rows with NaN in its place"
        )
    text = served.trained.text_for_others()
    try:
        if served.engine == "xgboost":
            # As bytes: of text, treelite counts characters and reads as many bytes.
            return treelite.frontend.from_xgboost_json(text.encode())
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.txt"
            file.write_text(text, encoding="utf-8", newline="\n")
            return treelite.frontend.load_lightgbm_model(file)
    except treelite.TreeliteError as error:
        said = str(error).partition("\n")[0][:300]
        raise ExportError(
            f"treelite {treelite.__version__} does not read the model: {said}; use "
            f"format={served.engine!r} or format='onnx'"
        ) from error


def _flat(found: Any) -> FloatArray:
    """What treelite says of each row: one number, or one for each class."""
    values = np.asarray(found, np.float64)
    values = values.reshape(len(values), -1)
    return values[:, 0] if values.shape[1] == 1 else values
