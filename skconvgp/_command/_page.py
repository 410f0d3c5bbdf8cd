"""The page of an audit: HTML that is whole in itself, without a script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from skconvgp._command._folder import Folder
from skconvgp.questions import Audit
from skconvgp.transforms._files import thumbnail

__all__ = ["Pictures", "page_of"]

SIDE = 112  # of a picture on the page, in pixels
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Audit of {title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 75em;
  margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.5em; }} h2 {{ font-size: 1.15em; margin: 2em 0 .2em; }}
p {{ max-width: 46em; margin: .2em 0 1em; }}
.all {{ display: flex; flex-wrap: wrap; gap: 12px; }}
.one {{ display: flex; gap: 6px; padding: 8px; border: 1px solid #ddd;
  border-radius: 6px; }}
.two {{ border: 2px solid #b22222; }}
figure {{ margin: 0; width: {side}px; font-size: 12px; overflow-wrap: anywhere; }}
img {{ width: {side}px; height: {side}px; object-fit: contain; background: #f4f4f4;
  image-rendering: pixelated; }}
b {{ color: #b22222; }} small {{ color: #666; }}
td, th {{ padding: .15em 1em .15em 0; text-align: left; }}
</style>
</head>
<body>
<h1>Audit of {title}</h1>
<p>{summary}</p>
{sections}
<h2>How to read this page</h2>
<p>Each picture was predicted from all the others by a Gaussian process
(<code>ImageClassifier</code> of skconvgp). A finding is a reason to look at a picture,
and no proof: hard pictures are told, too. The lower the share of pictures that are
predicted as they are labelled, the less a proposal says.</p>
</body>
</html>
"""
NONE = "<p>None found.</p>"
WRONG = (
    "The label, and the class that all other pictures speak for, with its probability. "
    "The clearest come first."
)
DOUBTFUL = (
    "The other pictures speak for another class here, too, but not clearly enough for "
    "the list above."
)
LABELS = {
    "wrong_labels": ("Likely wrong labels", WRONG),
    "doubtful_labels": ("Worth a look", DOUBTFUL),
}
COPIES = (
    "Pictures that are the same or nearly so. A red frame marks two labels, of which "
    "one is wrong."
)
STRANGE = "Pictures that look like no other one of their class, the strangest first."
CONFUSED = (
    "Classes whose pictures are taken for others: how many, their share of the class, "
    "and the clearest one."
)
FEW = "Classes with too few pictures to judge their labels well."
LEFT_OUT = "Files and folders that this page says nothing about."


@dataclass(frozen=True)
class Pictures:
    """The pictures of an audit."""

    folder: Folder
    share: float  # of pictures that are predicted as they are labelled

    def figure(self, index: int, text: str) -> str:
        """Return a small picture with its file and a text, which is HTML."""
        path = self.folder.files[index]
        kind, content = thumbnail(path, SIDE)
        data = b64encode(content).decode("ascii")
        name = self.name_of(path)
        return (
            f'<figure><img alt="{name}" src="data:image/{kind};base64,{data}">'
            f"<figcaption>{text}<br><small>{name}</small></figcaption></figure>"
        )

    def name_of(self, path: str) -> str:
        """Return a path in the folder as HTML."""
        return escape(self.folder.name_of(path))


def page_of(audit: Audit, pictures: Pictures, limit: int) -> str:
    """Return the page, with at most so many pictures or pairs of each finding."""
    title = escape(pictures.folder.path.resolve().name)
    summary = (
        f"{audit.n_samples} pictures of {len(pictures.folder.names)} classes. "
        f"{pictures.share:.1%} are predicted as they are labelled."
    )
    sections = (
        _labels(audit, pictures, limit, "wrong_labels"),
        _labels(audit, pictures, limit, "doubtful_labels"),
        _near_copies(audit, pictures, limit),
        _outliers(audit, pictures, limit),
        _confused(audit, pictures, limit),
        _small(audit),
        _left_out(pictures),
    )
    return PAGE.format(
        title=title, summary=summary, sections="\n".join(sections), side=SIDE
    )


def _section(title: str, text: str, cards: list[str] | None, n_found: int) -> str:
    """Return a section of cards, or the text that there are none."""
    if cards is None:
        return f"<h2>{title}</h2>\n<p>{text}</p>"
    if not cards:
        return f"<h2>{title}</h2>\n{NONE}"
    count = str(n_found)
    if len(cards) < n_found:
        count += f", of which {len(cards)} are shown"
    shown = "\n".join(cards)
    return f'<h2>{title}: {count}</h2>\n<p>{text}</p>\n<div class="all">{shown}</div>'


def _labels(audit: Audit, pictures: Pictures, limit: int, finding: str) -> str:
    found = audit.records(finding)
    cards = []
    for one in found[:limit]:
        proposal = f"<b>{_word(one['proposal'])}</b> {one['proposal_probability']:.0%}"
        text = f"{_word(one['label'])} → {proposal}"
        cards.append(_card(pictures.figure(one["index"], text)))
    return _section(*LABELS[finding], cards, len(found))


def _near_copies(audit: Audit, pictures: Pictures, limit: int) -> str:
    title, found = "Near copies", audit.records("near_copies")
    if audit.near_copies is None:
        reason = (
            f"Pictures were not compared: {escape(audit.unanswered['near_copies'])}."
        )
        return _section(title, reason, None, 0)
    cards = []
    for one in found[:limit]:
        labels = one["label"], one["other_label"]
        both = [
            pictures.figure(index, _word(label))
            for index, label in zip((one["index"], one["other"]), labels, strict=True)
        ]
        cards.append(_card(*both, is_marked=labels[0] != labels[1]))
    text = COPIES
    if audit.n_compared < audit.n_samples:
        text += f" {audit.n_compared} of the pictures were compared."
    return _section(title, text, cards, len(found))


def _outliers(audit: Audit, pictures: Pictures, limit: int) -> str:
    found = audit.records("outliers")
    cards = [
        _card(pictures.figure(one["index"], _word(one["label"])))
        for one in found[:limit]
    ]
    return _section("Strange pictures", STRANGE, cards, len(found))


def _confused(audit: Audit, pictures: Pictures, limit: int) -> str:
    found = audit.records("confused_classes")
    cards = []
    for one in found[:limit]:
        text = (
            f"{_word(one['label'])} → {_word(one['proposal'])}: "
            f"{one['count']} ({one['share']:.0%})"
        )
        cards.append(_card(pictures.figure(one["index"], text)))
    return _section("Confused classes", CONFUSED, cards, len(found))


def _small(audit: Audit) -> str:
    rows = [
        (_word(one["label"]), str(one["count"]))
        for one in audit.records("small_classes")
    ]
    return _table("Small classes", FEW, ("Class", "Different pictures"), rows)


def _left_out(pictures: Pictures) -> str:
    rows = [
        (pictures.name_of(path), escape(reason))
        for path, reason in pictures.folder.left_out.items()
    ]
    if not rows:
        return ""
    return _table(f"Left out: {len(rows)}", LEFT_OUT, ("Name", "Reason"), rows)


def _table(
    title: str, text: str, names: Iterable[str], rows: Sequence[Iterable[str]]
) -> str:
    """Return a section with a table of rows, which are HTML."""
    if not rows:
        return _section(title, "", [], 0)
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f"<h2>{title}</h2>\n<p>{text}</p>\n<table>{body}</table>"


def _card(*figures: str, is_marked: bool = False) -> str:
    """Return pictures that belong together."""
    kind = "one two" if is_marked else "one"
    return f'<div class="{kind}">{"".join(figures)}</div>'


def _word(label: Any) -> str:
    """Return the name of a class as HTML."""
    return escape(str(label))
