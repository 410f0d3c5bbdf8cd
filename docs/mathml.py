"""Formulas as MathML, which browsers draw without a script and without the network."""

from html import unescape
from xml.etree import ElementTree as ET

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

__all__ = ["setup", "to_mathml"]

THIN = "0.17em"
BARS = {"|", "\u2016"}
CLOSING = {")", "]", "}", "\u27e9", *BARS}
PARTIAL = "\u2202"
ACCENTS = {"^": "\u02c6", "\u00af": "\u00af", "~": "\u02dc"}
SCRIPTS = {"msub", "msup", "msubsup"}
PARTS = dict.fromkeys(["mfrac", "msub", "msup", "mover", "munder", "mroot"], 2)
PARTS |= {"msubsup": 3, "munderover": 3}


def to_mathml(formula: str, *, is_block: bool) -> str:
    r"""Return a formula of LaTeX as MathML.

    Spaces and bars get what LaTeX gives them and latex2mathml does not.

    Raises
    ------
    ValueError
        For what is not understood, which latex2mathml prints or leaves out.
    """
    parts = [part.strip() for part in formula.split("\n\n") if part.strip()]
    if len(parts) > 1 or (r"\\" in formula and r"\begin" not in formula):
        lines = r" \\ ".join(parts)
        formula = rf"\begin{{split}}{lines}\end{{split}}"
    root = convert_to_element(formula, display="block" if is_block else "inline")
    for node in root.iter():
        node.text = unescape(node.text or "")
        if "\\" in node.text or node.get("linebreak"):
            lost = node.text or "a new line"
            raise ValueError(f"{lost} of the formula {formula!r}")
        if len(node) != PARTS.get(node.tag, len(node)):
            raise ValueError(f"a part of {node.tag} is missing in {formula!r}")
    for node in list(root.iter()):
        _join_letters(node)
        _tidy_operators(node)
    for node in list(root.iter()):
        _space_functions(node)
        _mark_signs(node)
    return ET.tostring(root, encoding="unicode")


def _join_letters(parent: ET.Element) -> None:
    r"""Make one word of the upright letters of \mathrm."""
    word = None
    for child in list(parent):
        is_letter = child.tag == "mi" and child.get("mathvariant") == "normal"
        if is_letter and word is not None:
            word.text += child.text
            word.attrib.pop("mathvariant", None)  # words are upright
            parent.remove(child)
        else:
            word = child if is_letter else None


def _tidy_operators(node: ET.Element) -> None:
    r"""Correct what \sim, primes, bars, accents, braces and \! become."""
    if node.tag == "mi" and node.text in ("~", "\u2032"):
        node.tag, node.text = "mo", node.text.replace("~", "\u223c")
    elif node.tag == "mo" and (node.text in BARS or node.text == PARTIAL):
        node.attrib |= {"lspace": "0", "rspace": "0"}
        node.attrib.setdefault("stretchy", "false")
    elif node.tag == "mo" and len(node.text) > 1 and node.text.isalpha():
        node.tag = "mi"  # max
    elif node.tag == "mover" and len(node) == 2 and node[1].text in ACCENTS:
        node[1].text = ACCENTS[node[1].text]
        node[1].set("stretchy", "false")
        node.set("accent", "true")
    elif node.tag == "mspace" and node.get("width") == "negativethinmathspace":
        node.set("width", f"-{THIN}")


def _space_functions(parent: ET.Element) -> None:
    """Put a thin space on both sides of the names of functions, as in 2 log n."""
    if parent.tag not in ("math", "mrow", "mtd"):
        return
    children = list(parent)
    for place in range(len(children) - 1, -1, -1):
        if not _is_function(children[place]):
            continue
        after = children[place + 1] if place + 1 < len(children) else None
        if after is not None and not _is_operator(after):
            parent.insert(place + 1, ET.Element("mspace", width=THIN))
        if place and not _is_operator(children[place - 1]):
            parent.insert(place, ET.Element("mspace", width=THIN))


def _mark_signs(parent: ET.Element) -> None:
    """Tell minus as a sign from the operation: a sign has no space after it."""
    before = None
    for child in parent:
        is_minus = child.tag == "mo" and child.text == "\u2212"
        is_first = before is not None and before.tag in ("mo", "mspace")
        if is_minus and is_first and before.text not in CLOSING:
            child.set("form", "prefix")
        before = child


def _is_function(node: ET.Element) -> bool:
    """Say whether a node is a name such as log, with an index or without."""
    if node.tag in SCRIPTS and len(node):
        node = node[0]
    return node.tag == "mi" and len(node.text) > 1


def _is_operator(node: ET.Element) -> bool:
    """Say whether a node has a space of its own, or is a parenthesis."""
    first = node[0] if node.tag == "mrow" and len(node) else node
    return first.tag in ("mo", "mspace")


def _write(translator, node, *, is_block: bool) -> None:
    """Append a formula to a page, or warn where it is not understood."""
    try:
        translator.body.append(to_mathml(node.astext(), is_block=is_block))
    except Exception as error:  # latex2mathml raises many kinds
        text = f"A formula is not understood: {error!r}"
        logging.getLogger(__name__).warning(text, location=node)


def visit_inline(translator, node) -> None:
    """Write a formula within a sentence."""
    translator.body.append(translator.starttag(node, "span", "", CLASS="math"))
    _write(translator, node, is_block=False)
    translator.body.append("</span>")
    raise nodes.SkipNode


def visit_block(translator, node) -> None:
    """Write a formula that stands alone, with its number if it has a label."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, _("Link to this equation"))
        translator.body.append("</span>")
    _write(translator, node, is_block=True)
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
