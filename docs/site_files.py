"""What sites have beside their pages: descriptions, llms.txt, a sitemap, versions.

Search engines, programs that answer questions, and messages with a link read them.
Addresses are stated only if there are any. The gallery has the sections and the order
of examples/index.rst.
"""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
GALLERY = FOLDER.parent / "examples" / "index.rst"
INDICES = ("user_guide/index", "reference", "project")
PICTURE = "_static/five_marks.png"
VERSIONS = "_static/versions.json"
LONGEST = 160  # characters of a description
ABOUT = (
    "Gaussian processes for images, as scikit-learn estimators: probabilities that can "
    "be relied on, for tens to tens of thousands of images, without settings."
)


def listed_pages() -> list[tuple[str, str, str]]:
    """Return section, name and sentence of each page that the indices list."""
    found = []
    for index in INDICES:
        section = index
        lines = (FOLDER / f"{index}.rst").read_text(encoding="utf-8").splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            if re.fullmatch("[=-]{3,}", below):
                section = line
            if entry := re.fullmatch(r"- :doc:`([\w/]+)`: (.+)", line):
                folder = index.rpartition("/")[0]
                page = f"{folder}/{entry[1]}" if folder else entry[1]
                found.append((section, page, entry[2]))
    return found


def llms_text(address: str) -> str:
    """Return the text of llms.txt: what the package is, and each page in a line."""
    lines, before = ["# skconvgp", "", f"> {ABOUT}"], ""
    for section, page, sentence in listed_pages():
        if section != before:
            lines += ["", f"## {section}", ""]
        before = section
        plain = re.sub(r"``?", "", sentence)
        lines.append(f"- [{page}]({address}{page}.html): {plain}")
    return "\n".join([*lines, ""])


def sitemap_text(pages: list[str], address: str) -> str:
    """Return the text of sitemap.xml."""
    urls = "".join(
        f"<url><loc>{escape(f'{address}{page}.html')}</loc></url>\n"
        for page in sorted(pages)
    )
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{schema}">\n'
    return f"{head}{urls}</urlset>\n"


def versions_text(changelog: str, address: str) -> str:
    """Return what the menu of versions reads: the versions of a changelog.

    The newest one is at the address, and each older one in a folder of its name.
    """
    found = re.findall(r"^## (\d+\.\d+\.\d+)", changelog, flags=re.M)
    return json.dumps(
        [
            {"version": version, "url": f"{address}{version}/" if place else address}
            for place, version in enumerate(found)
        ],
        indent=1,
    )


def theme_options(version: str, address: str) -> dict[str, Any]:
    """Return the theme's options for a menu of versions, none without an address."""
    if not address:
        return {}
    return {
        "switcher": {"json_url": f"{address}{VERSIONS}", "version_match": version},
        "check_switcher": False,  # it would ask the network
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }


def description_of(doctree: Any) -> str:
    """Return the beginning of the first paragraph of a page."""
    for node in doctree.findall():
        if node.tagname != "paragraph":
            continue
        text = " ".join(node.astext().split())
        if len(text) > LONGEST:
            text = text[:LONGEST].rpartition(" ")[0] + " …"
        return text
    return ABOUT


def tags_of(title: str, description: str, address: str) -> str:
    """Return tags for the head of a page."""
    tags = {"og:title": title, "og:description": description, "og:type": "website"}
    if address:
        tags["og:image"] = f"{address}{PICTURE}"
    properties = "\n".join(
        f'<meta property="{name}" content="{escape(text)}" />'
        for name, text in tags.items()
    )
    return f'<meta name="description" content="{escape(description)}" />\n{properties}'


def with_pictures(text: str) -> str:
    """Add a picture of each page below the menu of its section of the gallery."""
    menu = r"\.\. toctree::\n   :hidden:\n\n((?:   plot_\w+\n)+)"

    def pictures(found: re.Match[str]) -> str:
        files = re.sub(r"(plot_\w+)", r"../examples/\1.py", found[1])
        return f"{found[0]}\n.. minigallery::\n\n{files}"

    return re.sub(menu, pictures, text)


def place_in_gallery(path: str) -> int:
    """Return where the gallery has a page: the key by which pictures are sorted."""
    return GALLERY.read_text(encoding="utf-8").find(f"   {Path(path).stem}\n")


def read_gallery(_app, docname, content):
    """Add the pictures to the first page of the gallery."""
    if docname == "auto_examples/index":
        content[0] = with_pictures(content[0])


def add_tags(app, pagename, _template, context, doctree):
    """Describe a page in its head."""
    if doctree is not None:
        is_first = pagename == app.config.root_doc
        description = ABOUT if is_first else description_of(doctree)
        title = re.sub("<[^>]+>", "", context.get("title", "skconvgp"))
        tags = tags_of(title, description, app.config.html_baseurl)
        context["metatags"] = context.get("metatags", "") + tags


def write_files(app, exception):
    """Write what is no page."""
    if exception is None and app.builder.name == "html":
        address, target = app.config.html_baseurl, Path(app.outdir)
        (target / "llms.txt").write_text(llms_text(address), encoding="utf-8")
        if address:
            changelog = (FOLDER.parent / "CHANGELOG.md").read_text(encoding="utf-8")
            versions = versions_text(changelog, address)
            (target / VERSIONS).write_text(versions, encoding="utf-8")
            text = sitemap_text(list(app.env.found_docs), address)
            (target / "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app):
    """Connect all."""
    app.connect("source-read", read_gallery)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True}
