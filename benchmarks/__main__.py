"""Run one question, or list all of them.

python -m benchmarks                      all names
python -m benchmarks NAME --help          the options of one
python -m benchmarks NAME [OPTION]...     measure, print and write results/NAME.json
"""

import importlib
import sys

from benchmarks.report import parse, print_targets, questions


def main(arguments: list[str]) -> None:
    """Run the question that the first argument names."""
    names = questions()
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


if __name__ == "__main__":
    main(sys.argv[1:])
