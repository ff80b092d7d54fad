#!/usr/bin/env python3
"""Writes bench/RESULTS.md from the files of figures in this folder.

  bench/results/page.py            writes the page
  bench/results/page.py --check    prints how the page differs from the files, and exits with 1 if it does

A file holds one run on one machine: "section" (of SECTIONS), "title", "rows", and those of ABOUT that are
known. A row has a "name", those of COLUMNS that were measured, and their spreads. A figure is a number, or
[low, high] where only a range is known. A bar is "COLUMN <= LIMIT" or ">=": "ratio <= 0.96", "ours >= 305".
"""
import decimal
import difflib
import json
import operator
import pathlib
import re
import sys
import textwrap

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parent / "RESULTS.md"
SECTIONS = ("Training", "Serving", "Kernels", "GPUs", "Where time goes", "Changes")
ABOUT = {"machine": "Machine", "processor": "Processor", "cores": "Cores", "peak": "FMA peak", "gpu": "GPU",
         "driver": "Driver", "compiler": "Compiler", "peer": "Peer", "commit": "Commit",
         "before_commit": "Commit before", "method": "Method", "command": "Command"}
COLUMNS = {"name": "what", "benchmark": "benchmark", "case": "case", "shape": "shape", "dtype": "type",
           "unit": "unit", "before": "before", "predicted": "predicted", "change": "change", "ours": "ours",
           "peer": "peer", "against": "which peer", "ratio": "ratio", "bar": "bar", "efficiency": "efficiency",
           "p99_ms": "p99, ms", "peer_p99_ms": "peer's p99, ms", "note": "note"}
SPREADS = {"ours": "spread", **{name: f"{name}_spread" for name in ("before", "peer", "ratio")}}
BAR = re.compile(r"([a-z_0-9]+) (<=|>=) ([0-9.]+)")
TESTS = {"<=": ("≤", operator.le), ">=": ("≥", operator.ge)}

INTRODUCTION = """\
# Results

`bench/results/page.py` writes this page from the files of [results](results); edit those. Test
`Results.PageAgreesWithItsFiles` compares both. [PEERS.md](PEERS.md) has the peers' settings and the
commands, [MISSES.md](MISSES.md) the reasons of what is missed.

- A ratio is Hearth's time divided by the peer's, or the peer's rate divided by Hearth's. Below 1
  Hearth is faster. Both sides ran in turns in one session on one machine.
- An efficiency is the inverse: the peer's time divided by Hearth's.
- A range `a–b` holds the least and the largest of several runs. In brackets it is the spread.
- A bar limits the ratio of its row, or the column that it names. A range has missed its bar if one
  of its ends has.
"""


def figure(value):
    if isinstance(value, list):
        return "–".join(map(figure, value))
    return value if isinstance(value, str) else re.sub("^-", "−", f"{value:,}".lower())


def bar(row):
    """The bar, and whether an end of its figure misses it."""
    column, sign, limit = BAR.fullmatch(row["bar"]).groups()
    mark, holds = TESTS[sign]
    text = f"{mark} {limit}" if column == "ratio" else f"{column} {mark} {limit}"
    if column not in row:
        return text
    ends = row[column] if isinstance(row[column], list) else [row[column]]
    return text if all(holds(end, decimal.Decimal(limit)) for end in ends) else f"{text}, **missed**"


def cell(row, column):
    if column not in row:
        return ""
    if column in ("bar", "benchmark"):
        return bar(row) if column == "bar" else f"`{row[column]}`"
    spread = SPREADS.get(column)
    return figure(row[column]) + (f" ({figure(row[spread])})" if spread in row else "")


def table(rows):
    columns = [column for column in COLUMNS if any(column in row for row in rows)]
    lines = [[COLUMNS[column] for column in columns], *([cell(row, column) for column in columns] for row in rows)]
    text = ["| " + " | ".join(line) + " |\n" for line in lines]
    return "".join([text[0], "|" + "---|" * len(columns) + "\n", *text[1:]])


def load(path):
    """Reads a file of figures; numbers keep their digits."""
    run = json.loads(path.read_text(encoding="utf-8"), parse_float=decimal.Decimal, parse_int=decimal.Decimal)
    wrong = ({"section", "title", "rows"} ^ set(run)) - set(ABOUT) | {run.get("section", "")} - {"", *SECTIONS}
    for row in run.get("rows", []):
        wrong |= set(row) - {*COLUMNS, *SPREADS.values()}
        wrong |= {spread for column, spread in SPREADS.items() if spread in row and column not in row}
        wrong |= {row["bar"]} if "bar" in row and not BAR.fullmatch(row["bar"]) else set()
    if wrong:
        sys.exit(f"{path.name}: missing, unknown, or a spread without its figure: {', '.join(sorted(wrong))}")
    return run


def wrapped(text):
    """Lines of at most 100 columns; code stays on one line."""
    whole = re.sub("`[^`]+`", lambda code: code.group().replace(" ", "\0"), text)
    return textwrap.fill(whole, 100, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def part(path, run):
    about = "".join(f"{label}: {figure(run[key])}. " for key, label in ABOUT.items() if key in run)
    return f"\n### {run['title']}\n\n{wrapped(f'{about}File: `{path.name}`.')}\n\n{table(run['rows'])}"


def page():
    runs = [(path, load(path)) for path in sorted(FOLDER.glob("*.json"))]
    text = INTRODUCTION
    for section in SECTIONS:
        text += f"\n## {section}\n" + "".join(part(path, run) for path, run in runs if run["section"] == section)
    return text


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    text = page()
    if not sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return
    written = PAGE.read_text(encoding="utf-8")
    if written != text:
        print(*difflib.unified_diff(written.split("\n"), text.split("\n"), PAGE.name, "the files", n=0, lineterm=""), sep="\n")
        sys.exit("bench/results/page.py writes the page from its files.")


main()
