"""Run a compiler, or copy what the same command made of the same text before.

    compile_once.py FOLDER COMPILER [ARGUMENT]...

The environments and the wheel are built apart, of the same sources, which take minutes
to compile. FOLDER keeps what was made.
"""

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Options that name a place of a build, in the next word or in the same one.
NEXT = ("-o", "-c", "-MF", "-MT", "-isystem")
SAME = ("-I", "-MD", *NEXT)


def main(folder, *command):
    """Run the command, or do what it would do; return its exit status."""
    if "-c" not in command:  # it links
        return subprocess.call(command)
    pairs = list(itertools.pairwise(("", *command)))
    (output,) = (word for before, word in pairs if before == "-o")
    # All that is included, without places; what it depends on is written where asked.
    only_text = [word for before, word in pairs if "-o" not in (before, word)]
    only_text[only_text.index("-c")] = "-E"
    text = subprocess.run([*only_text, "-P"], capture_output=True, check=False)
    if text.returncode:
        return subprocess.call(command)
    version = subprocess.check_output([command[0], "--version"])
    settings = [
        os.fsencode(word)
        for before, word in pairs
        if before not in NEXT and not word.startswith(SAME)
    ]
    key = hashlib.sha256(b"\0".join([version, *settings, text.stdout])).hexdigest()
    kept = Path(folder, key)
    if not kept.exists():
        status = subprocess.call(command)
        if status:
            return status
        kept.parent.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(output, new)
        new.replace(kept)  # others see all of it or nothing
    shutil.copy(kept, output)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
