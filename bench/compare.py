#!/usr/bin/env python3
"""Times two builds of hearth-bench in turns, or one against a file of figures.

  bench/compare.py OLD NEW [--rounds 5] [--filter REGEX] [--min-time 0.3]
  bench/compare.py NEW --write FILE.json --note "commit 1234567, idle" ...    the next baseline
  bench/compare.py NEW --against FILE.json ...   beside a baseline of the same machine

OLD and NEW are programs. Each round runs both, in changing order, so that other load on the machine
affects both. The table has medians in the unit of the benchmark, their ratio (below 1: NEW needs
less time), and the ratio of each round, which shows the noise of the machine. A program named twice
is measured twice: its ratios are the noise alone.
Benchmarks of clients have a fixed time; their requests per second are compared.
"""
import argparse
import json
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

STEADY = ("BM_Submit_Add|BM_TapedChain|BM_Submit_Threads|BM_Actor_TinyOps|BM_Pending_RoundTrip|BM_TrainStep|"
          "BM_Infer_(Mlp|Cnn)/(batch:1|clients:16)|BM_Pool_AllocateFree/live:10000|BM_LaunchOverhead|BM_Update_AdamW")


def measure(program, arguments):
    """Runs a program once: {name: (value, unit)}. A higher value is slower, except for rates (unit /s)."""
    ended = subprocess.run([program, f"--benchmark_filter={arguments.filter}", "--benchmark_format=json",
                            f"--benchmark_min_time={arguments.min_time}"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{program} failed:\n{ended.stderr}")
    figures = {}
    for run in json.loads(ended.stdout)["benchmarks"]:
        if run.get("run_type") == "aggregate" or run.get("error_occurred"):
            continue
        if "clients:" in run["name"] and "items_per_second" in run:
            figures[run["name"]] = (run["items_per_second"], "req/s")
        else:
            figures[run["name"]] = (run["real_time"], run["time_unit"])
    return figures


def rounds_of(programs, arguments):
    """Returns a list of rounds for each program, by its index."""
    taken = [[] for _ in programs]
    for number in range(arguments.rounds):
        places = range(len(programs))
        for place in places if number % 2 == 0 else reversed(places):
            taken[place].append(measure(programs[place], arguments))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return taken


def median(rounds, name):
    return statistics.median(figures[name][0] for figures in rounds)


def spread(rounds, name):
    """The spread of the rounds, as a part of their median."""
    values = [figures[name][0] for figures in rounds]
    return (max(values) - min(values)) / statistics.median(values)


def processor():
    """The processor's name, and the number of processors."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        models = []
    return f"{len(models)} x {models[0]}" if models else platform.machine()


def row(name, unit, old, new, ratios):
    def ratio(a, b):
        return a / b if unit.endswith("/s") else b / a
    each = " ".join(f"{ratio(a, b):.2f}" for a, b in ratios)
    print(f"{name:62} {old:12.1f} {new:12.1f} {unit:5}  {ratio(old, new):5.2f}   {each}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filter", default=STEADY)
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds for each benchmark and round")
    parser.add_argument("--write", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--note", default="", help="what was measured, for the file")
    parser.add_argument("--against", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    if len(arguments.programs) > 2 or (len(arguments.programs) == 2 and arguments.against):
        parser.error("compare two programs, or one with a file")
    if len(arguments.programs) == 1 and not (arguments.write or arguments.against):
        parser.error("one program needs --write or --against")
    taken = rounds_of(arguments.programs, arguments)
    new = taken[-1]
    names = [name for name in new[0] if all(name in figures for figures in new)]
    if arguments.write:
        figures = {name: {"median": float(f"{median(new, name):.6g}"), "unit": new[0][name][1],
                          "spread": round(spread(new, name), 3)} for name in names}
        arguments.write.write_text(json.dumps({"note": arguments.note, "machine": processor(),
                                               "rounds": arguments.rounds, "figures": figures}, indent=1) + "\n")
        print(f"{len(names)} figures in {arguments.write}")
    if arguments.against:
        before = json.loads(arguments.against.read_text())["figures"]
        for name in names:
            if name in before:
                row(name, new[0][name][1], before[name]["median"], median(new, name),
                    [(before[name]["median"], each[name][0]) for each in new])
    elif len(arguments.programs) == 2:
        old = taken[0]
        if len({pathlib.Path(shutil.which(program) or program).resolve() for program in arguments.programs}) == 1:
            print("both are the same program: the ratios are the machine's own")
        for name in names:
            if all(name in figures for figures in old):
                row(name, new[0][name][1], median(old, name), median(new, name),
                    [(a[name][0], b[name][0]) for a, b in zip(old, new)])


main()
