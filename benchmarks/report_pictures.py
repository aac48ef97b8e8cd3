"""Pictures of docs/report.md and docs/plots.md: a part of a report in Chromium, and the displays.

    python -m benchmarks.report_pictures

Needs chromium and chromedriver (``make browser``) and selenium; takes about a minute.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from PIL import Image

from fairboost import FairGBMClassifier, FairGBMRegressor, tradeoff_curve
from fairboost.datasets import make_loans
from fairboost.plots import (
    GroupCalibrationDisplay,
    GroupPredictionsDisplay,
    GroupRatesDisplay,
    GroupRocDisplay,
    GroupScoresDisplay,
    MultipliersDisplay,
)
from fairboost.report import gather, write_report

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 760


def main() -> None:
    mpl.use("Agg")
    draw_decisions()
    draw_numbers()


def draw_decisions() -> None:
    """Loans that are granted or not."""
    loans, new = make_loans(12_000, seed=0), make_loans(6_000, seed=1)
    engine = LGBMClassifier(n_estimators=60, verbose=-1, n_jobs=1)
    asked = {"constraint": "equal_opportunity", "tolerance": 0.03}
    model = FairGBMClassifier(engine, **asked, holdout="cross")
    model.fit(loans.X, loans.y, sensitive_features=loans.sensitive)
    curve = tradeoff_curve(
        engine, loans.X, loans.y, sensitive_features=loans.sensitive,
        constraint="equal_opportunity", tolerances=8,
    )  # fmt: skip
    evidence = gather(
        model, new.X, new.y, sensitive_features=new.sensitive, curve=curve,
        title="Loan approvals: fairness report", label="approved",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(evidence, folder)[0]
        save(photograph(page, "#in-short", 525), "report.png")
        save(photograph(page, "#alternatives-considered", 1220), "report_slider.png")
    by_age = {"sensitive_features": new.sensitive, "by": "age_band"}
    scored = (model, new.X, new.y)
    models = {"this model": model, "plain engine": curve.models[0]}
    displays = [
        GroupRatesDisplay.from_estimator(
            models, new.X, new.y, sensitive_features=new.sensitive, rate="fnr"
        ),
        curve.plot(chosen=curve.within(0.1)),
        GroupScoresDisplay.from_estimator(*scored, **by_age),
        MultipliersDisplay.from_estimator(model),
        GroupRocDisplay.from_estimator(*scored, **by_age),
        GroupCalibrationDisplay.from_estimator(*scored, **by_age),
    ]
    save(sheet([draw(display) for display in displays]), "plots.png")


def draw_numbers() -> None:
    """Claims that are predicted per year insured."""
    rng = np.random.default_rng(0)

    def policies(n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        gender = rng.choice(["F", "M"], n)
        power = rng.normal(80, 20, n) + 40 * (gender == "M")
        features = pd.DataFrame({"age": rng.integers(18, 80, n), "power": power})
        years = rng.uniform(0.1, 1.0, n)
        rate = np.exp(-1.5 + 0.004 * power) * np.where(gender == "M", 1.25, 1.0)
        return features, rng.poisson(rate * years), years, {"gender": gender}

    X, claims, years, gender = policies(40_000)
    new_X, new_claims, new_years, new_gender = policies(20_000)
    engine = LGBMRegressor(objective="poisson", n_estimators=60, num_leaves=7, verbose=-1)
    model = FairGBMRegressor(engine, constraint="calibrated", tolerance=0.05, random_state=0)
    model.fit(X, claims, sensitive_features=gender, exposure=years)
    plain = FairGBMRegressor(engine, constraint=None).fit(X, claims, exposure=years)
    rows = {"sensitive_features": new_gender, "exposure": new_years}
    evidence = gather(
        model, new_X, new_claims, **rows, plain=plain, title="Motor claims", label="claims",
        exposure_name="years",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(evidence, folder)[0]
        save(photograph(page, "#actual-and-expected", 1180), "report_numbers.png")
    models = {"this model": model, "plain engine": plain}
    displays = [
        GroupRatesDisplay.from_estimator(models, new_X, new_claims, **rows, rate="A/E"),
        GroupPredictionsDisplay.from_estimator(model, new_X, **rows),
        GroupCalibrationDisplay.from_estimator(model, new_X, new_claims, **rows),
        MultipliersDisplay.from_estimator(model),
    ]
    save(sheet([draw(display) for display in displays]), "plots_numbers.png")


def photograph(page: Path, selector: str, height: int) -> Image.Image:
    """A part of a page, from an element on."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-background-networking", "--disable-component-update",
                     f"--user-data-dir={profile}", f"--window-size=1000,{height}"):  # fmt: skip
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        size = {"width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        driver.execute_script(f"document.querySelector('{selector}').scrollIntoView()")
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        driver.quit()
    return Image.open(BytesIO(base64.b64decode(shot))).convert("RGB")


def draw(display: object) -> Image.Image:
    out = BytesIO()
    display.figure_.savefig(out, format="png", dpi=75)  # type: ignore[attr-defined]
    return Image.open(out).convert("RGB")


def sheet(images: list[Image.Image]) -> Image.Image:
    """Two beside each other, each as wide as half a page."""
    half = 500
    sized = [im.resize((half, im.height * half // im.width), Image.LANCZOS) for im in images]
    pairs = [sized[k : k + 2] for k in range(0, len(sized), 2)]
    heights = [max(im.height for im in pair) for pair in pairs]
    whole = Image.new("RGB", (2 * half, sum(heights)), "white")
    top = 0
    for pair, height in zip(pairs, heights, strict=True):
        for k, im in enumerate(pair):
            whole.paste(im, (k * half, top))
        top += height
    return whole


def save(image: Image.Image, name: str) -> None:
    small = image.resize((WIDTH, image.height * WIDTH // image.width), Image.LANCZOS)
    small.quantize(256, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)


if __name__ == "__main__":
    main()
