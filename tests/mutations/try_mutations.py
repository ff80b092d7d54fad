#!/usr/bin/env python3
"""Makes each mistake of mutations.py once, in a clone of the tree, and tells which test sees it. They come in a
random order, so that a night too short for all tries others each time.

  tests/mutations/try_mutations.py [--work DIR] [WORDS]    only mutations whose name contains WORDS

Ends with a table and the number that no test saw, which is also the exit code.
"""
import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from mutations import MUTATIONS  # noqa: E402

LIMIT_S = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(command, tree, limit_s=None, **settings):
    return subprocess.run(command, cwd=tree, timeout=limit_s, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **settings})


def build(tree, programs):
    return run(["cmake", "--build", "--preset", "release", "--target", *programs], tree)


def first_failure(tree, program):
    """The first test that fails, crashes or does not end; None when all pass."""
    [path] = (tree / "build/release/tests").glob(f"*/{program}")
    try:
        ended = run([path, "--gtest_fail_fast"], tree, LIMIT_S, RANDOM_PROGRAMS="300", STRESS_ROUNDS="60")
        output, how = ended.stdout, "fails" if ended.returncode == 1 else "crashes"
        if ended.returncode == 0:
            return None
    except subprocess.TimeoutExpired as late:
        output, how = (late.stdout or b"").decode(errors="replace"), "does not end"
    failed = re.findall(r"\[  FAILED  \] ([\w/.]+)", output)
    started = re.findall(r"\[ RUN      \] ([\w/.]+)", output)
    return f"{(failed or started[-1:] or [program])[0]} {how}"


def try_one(tree, file, right, wrong, programs):
    path = tree / file
    text = path.read_text()
    if text.count(right) != 1:
        return "STALE: the right text is there %d times" % text.count(right)
    path.write_text(text.replace(right, wrong))
    try:
        built = build(tree, programs)
        if built.returncode != 0:
            errors = [line for line in built.stdout.splitlines() if " error: " in line]
            return "DOES NOT BUILD: " + (errors or ["?"])[0]
        for program in programs:
            if seen := first_failure(tree, program):
                return seen
        return "NOT SEEN"
    finally:
        path.write_text(text)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--work", type=pathlib.Path, help="clone and build here, and keep it")
    options.add_argument("words", nargs="?", default="")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        tree = chosen.work or pathlib.Path(temporary) / "hearth"
        if not tree.exists():
            run(["git", "clone", "-q", ROOT, tree], ROOT).check_returncode()
        configured = run(["cmake", "--preset", "release"], tree)
        if configured.returncode != 0:
            sys.exit(configured.stdout)
        unseen = 0
        for name, file, right, wrong, programs in random.sample(MUTATIONS, len(MUTATIONS)):
            if chosen.words in name:
                result = try_one(tree, file, right, wrong, programs)
                unseen += result.split()[0].isupper()
                print(f"| {name} | `{file}` | {result} |", flush=True)
    print(f"{unseen} not seen")
    sys.exit(min(unseen, 1))


main()
