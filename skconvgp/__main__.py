"""Commands of the package: ``python -m skconvgp``."""

from skconvgp._command import main

if __name__ == "__main__":
    raise SystemExit(main())
