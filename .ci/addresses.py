"""Write the addresses of the project into every file that states them.

They are constants of skconvgp/_addresses.py. As long as they are empty no file names an
address. Tests compare the files with what this script would write.

    python .ci/addresses.py                         writes the constants as they are
    python .ci/addresses.py PROJECT_URL [DOCS_URL]  changes them first
"""

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTANTS = ROOT / "skconvgp" / "_addresses.py"
AFTER_URLS = "[project.optional-dependencies]\n"
AFTER_ADDRESSES = "license: "
BEFORE_CLONE = "```sh\n"
# Links of Markdown into the checkout, which other sites cannot follow.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")
RESOLVED = r"\]\(https?://\S+?/(?:blob|raw)/main/([^)]+)\)"


def pyproject(text, project, docs):
    """Return pyproject.toml with a table of addresses."""
    text = re.sub(r"\[project\.urls\]\n(?:\w+ = .*\n)+\n", "", text)
    urls = {"Documentation": docs}
    if project:
        urls |= {
            "Source": project,
            "Issues": f"{project}/issues",
            "Changelog": f"{project}/blob/main/CHANGELOG.md",
        }
    lines = [f'{name} = "{url}"\n' for name, url in urls.items() if url]
    table = "".join(["[project.urls]\n", *lines, "\n"]) if lines else ""
    return text.replace(AFTER_URLS, table + AFTER_URLS)


def citation(text, project, docs):
    """Return CITATION.cff with both addresses."""
    text = re.sub(r"^(?:repository-code|url): .*\n", "", text, flags=re.M)
    urls = {"repository-code": project, "url": docs}
    lines = "".join(f'{name}: "{url}"\n' for name, url in urls.items() if url)
    return text.replace(AFTER_ADDRESSES, lines + AFTER_ADDRESSES)


def readme(text, project, docs):
    """Return README.md with a command that clones, and links that hold elsewhere."""
    text = re.sub(RESOLVED, r"](\1)", text)
    text = re.sub(r"^git clone .*\n", "", text, flags=re.M)
    text = re.sub(r"^Documentation: .*\n\n", "", text, flags=re.M)
    if docs:
        text = re.sub(r"\A(# .*\n\n)", rf"\1Documentation: <{docs}>\n\n", text)
    if not project:
        return text
    name = project.rpartition("/")[2].removesuffix(".git")
    clone = f"git clone {project} && cd {name}\n"
    text = text.replace(BEFORE_CLONE, BEFORE_CLONE + clone, 1)

    def resolve(link):
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({project}/{kind}/main/{link[3]})"

    return LINK.sub(resolve, text)


FILES = {"pyproject.toml": pyproject, "CITATION.cff": citation, "README.md": readme}


def main(*given):
    """Change the constants if they are given, and write all files."""
    text = CONSTANTS.read_text(encoding="utf-8")
    for name, url in zip(("PROJECT_URL", "DOCS_URL"), given, strict=False):
        if not re.fullmatch(r"(https://[^\s/]+\.[^\s\"]*[^\s/\"])?", url):
            sys.exit(f"{name} must start with https:// and end without /, got {url!r}.")
        text = re.sub(rf'^{name} = ".*?"', f'{name} = "{url}"', text, flags=re.M)
    CONSTANTS.write_text(text, encoding="utf-8")
    found = runpy.run_path(str(CONSTANTS))
    for name, write in FILES.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        text = write(text, found["PROJECT_URL"], found["DOCS_URL"])
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
