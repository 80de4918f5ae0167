"""The documentation builds as a site with no dead link or anchor, shows every page, and asks no other host for anything."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import orchestrator
from orchestrator.datasets.download import TERMS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md") if "template" not in path.parts
)


def build_site(root, into):
    """The finished process of ``make docs``'s command."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(into)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=200)


@pytest.mark.slow
@pytest.mark.long
def test_the_site_builds_strictly_and_holds_the_api(tmp_path):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    done = build_site(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr

    api = (tmp_path / "site/api/index.html").read_text()
    for name in orchestrator.__all__:
        assert re.search(rf'id="[\w.]+\.{name}"', api), name
    assert "raises KeyboardInterrupt" in api, "docstrings are there"
    pages = [path.read_text() for path in (tmp_path / "site").rglob("index.html")]
    assert len(pages) == len(PAGES)
    loaded = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="https?://')
    assert not any(loaded.search(page) for page in pages), "nothing is loaded from elsewhere"


@pytest.mark.slow
def test_a_dead_link_stops_the_build(tmp_path):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    (tmp_path / "docs").mkdir()
    text = (ROOT / "mkdocs.yml").read_text().partition("plugins:")[0]
    shutil.copy(ROOT / "docs/film-strip.png", tmp_path / "docs")
    for link, code in {"film-strip.png": 0, "nowhere.md": 1, "index.md#nowhere": 1}.items():
        (tmp_path / "docs/index.md").write_text(f"# One\n\n[a]({link})\n")
        validation = "validation:\n  links:\n    not_found: warn\n    anchors: warn\n"
        (tmp_path / "mkdocs.yml").write_text(text + validation)
        assert build_site(tmp_path, tmp_path / "site").returncode == code, link


def test_every_page_but_decisions_is_in_the_menu_once():
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]

    assert sorted(re.findall(r"[\w./-]+\.md", menu)) == [page for page in PAGES if not page.startswith("decisions/")]


def test_licence_table_matches_data_fetch():
    page = (ROOT / "docs/data-sources.md").read_text()

    for name, (source, address, terms) in ((name, own.values()) for name, own in TERMS.items()):
        assert f"| {name} | [{source}]({address}) | {terms} |" in page


def test_version_and_licence_agree_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()

    assert f"version: {project['version']}\n" in citation and f"license: {project['license']}\n" in citation
    assert re.search(rf"^## {re.escape(project['version'])} \(", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
