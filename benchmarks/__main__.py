"""Run one question, or what a source reports, or list all of them.

python -m benchmarks                      all names
python -m benchmarks NAME --help          the options of one
python -m benchmarks NAME [OPTION]...     measure, print and write results/NAME.json
python -m benchmarks list                 tables and figures of sources, with verdicts
python -m benchmarks run ENTRY...         measure some of these, or all
"""

import argparse
import importlib
import sys

from benchmarks import catalogue
from benchmarks.report import parse, print_targets, questions


def main(arguments: list[str]) -> None:
    """Run the question that the first argument names."""
    names = questions()
    if arguments[:1] == ["list"]:
        catalogue.show_list()
        return
    if arguments[:1] == ["run"]:
        run_entries(arguments[1:])
        return
    if not arguments or arguments[0] not in names:
        print("usage: python -m benchmarks NAME [OPTION]...\n")
        for name, asked in names.items():
            print(f"{name:<22}{asked}")
        sys.exit(f"No question {arguments[0]!r}." if arguments else 0)
    question = importlib.import_module(f"benchmarks.{arguments[0]}")
    options = parse(question, *arguments)
    if not hasattr(question, "PARTS"):  # for environments that have no skconvgp
        getattr(question, options.what)(options.path)
        return
    from benchmarks.measure import Record

    record = Record(options, question.PARTS)
    is_merged = getattr(options, "merge", None)
    found = [] if is_merged else question.run(options, record) or []
    is_good = print_targets(found) and not record.left_out
    if options.output:
        print(f"\nwritten to {options.output}")
    if options.check and not is_good:
        sys.exit(1)


def run_entries(arguments: list[str]) -> None:
    """Measure entries of the catalogue."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks run")
    known = list(catalogue.entries())
    parser.add_argument("names", nargs="+", choices=[*known, "all"], metavar="ENTRY")
    parser.add_argument("--scale", choices=catalogue.SCALES, default="small")
    parser.add_argument("--again", action="store_true", help="measure what is done")
    options = parser.parse_args(arguments)
    names = known if "all" in options.names else options.names
    catalogue.run(names, options.scale, again=options.again)


if __name__ == "__main__":
    main(sys.argv[1:])
