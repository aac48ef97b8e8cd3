"""One table of loan applications, and one model trained on it by the command."""

import pytest

from fairboost._text import escape_html
from fairboost.cli import main
from fairboost.report.pictures import DRAWN
from tests.loan_files import ASKED, QUICK, loans


@pytest.fixture(scope="session")
def table():
    return loans(3_000, seed=0)


@pytest.fixture(scope="session")
def data(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("data") / "loans.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory, data):
    """The folder of a trained model."""
    out = tmp_path_factory.mktemp("trained") / "model"
    assert main(["train", str(data), *ASKED, *QUICK, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def scored(tmp_path_factory, model):
    """Scores of the model on new rows, with labels and groups beside them."""
    folder = tmp_path_factory.mktemp("scored")
    loans(2_000, seed=1).to_parquet(folder / "new.parquet")
    kept = [word for name in ("id", "approved", "sex", "age_band") for word in ("--keep", name)]
    out = folder / "scores.parquet"
    assert main(["predict", str(model), str(folder / "new.parquet"), *kept, "--quiet",
                 "--out", str(out)]) == 0  # fmt: skip
    return out


@pytest.fixture
def run(capsys):
    """Run a command; returns exit code, standard output and standard error."""

    def command(*words):
        code = main([str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


@pytest.fixture
def no_pictures(monkeypatch):
    """Pages without pictures, where no test looks at them: they take four fifths of a command.

    They are drawn for the models that tests of a module share, for audits, for names that are hard
    to draw, for commands of the docs, in processes of their own, and in ``tests/report``.
    """

    def leave_out(picture, evidence, name):
        assert picture.name in DRAWN
        return f'<svg role="img" aria-label="{escape_html(picture.alt)}"></svg>'

    monkeypatch.setattr("fairboost.report.pages.draw", leave_out)
