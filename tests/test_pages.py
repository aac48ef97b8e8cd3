"""Pages: links lead somewhere, tables of contents are complete, figures are those of tables."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {"_build", "gallery", "reference"}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
    if not GENERATED & {*path.relative_to(ROOT).parts}
)
ON_THE_SITE = [page for page in PAGES if page != "README.md"]


def text_of(page):
    """The page without its blocks of code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"^(```+).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Names of the headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ +(.*)$", text_of(page), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower().strip() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), f"{page} links to {target}"
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), f"{page} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found.resolve().relative_to(ROOT)), f"{page}: {target}"


def listed(page):
    """Pages that the tables of contents of a page name, as paths without suffix."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
        for line in filter(None, block.splitlines()):
            if not line.startswith(":"):
                name = re.sub(r"^.*<(.*)>$", r"\1", line)
                yield name[1:] if name.startswith("/") else f"docs/{name}"


def test_every_page_is_in_the_table_of_contents_once():
    patterns = [entry for page in ON_THE_SITE for entry in listed(page)]
    reached = [
        page
        for pattern in patterns
        for page in {str(path.relative_to(ROOT)) for path in ROOT.glob(f"{pattern}.md")}
        if page in ON_THE_SITE
    ]
    assert {*reached} | {"docs/index.md"} == {*ON_THE_SITE}
    exact = [pattern for pattern in patterns if "*" not in pattern]
    assert len({*exact}) == len(exact)
    for pattern in exact:
        assert (ROOT / f"{pattern}.md").exists(), pattern


@pytest.mark.parametrize("page", ["docs/comparison.md", "docs/when_not.md"])
def test_figures_are_those_of_the_tables(page):
    """A figure with an interval is in a page of benchmarks/ that the page links to."""
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = "".join(
        (ROOT / "docs" / path).read_text(encoding="utf-8")
        for path in {*re.findall(r"\]\((\.\./benchmarks/\w+\.md)", text)}
    )
    figures = re.findall(r"[+-]?\d+\.\d+ (?:± \d+\.\d+|\[[\d., ]+\])", text)
    assert len(figures) > 20
    for figure in figures:
        assert figure in tables, f"{page} has {figure}"
    for row in re.findall(r"^\|.*±.*\|\s*$", text, re.MULTILINE):
        excess = row.rstrip("| \n").split("|")[-1].strip()
        assert "±" in excess or excess.strip("*") in tables, row


def test_descriptions_of_workflows_and_forms_are_sound():
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the files")
    files = sorted((ROOT / ".github").rglob("*.yml"))
    read = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}
    for path in files:
        content = read[path.name]
        if path.parent.name == "workflows":
            assert content[True], f"{path.name} says when it runs"  # YAML takes "on" for true
            for job in content["jobs"].values():
                assert job["runs-on"]
                assert all("uses" in step or "run" in step for step in job["steps"])
        elif path.name != "config.yml":
            assert {"name", "description", "body"} <= {*content}
    matrix = read["tests.yml"]["jobs"]["tests"]["strategy"]["matrix"]
    assert len(matrix["os"]) == 3 and len(matrix["python"]) == 4
