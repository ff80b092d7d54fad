""".ci/prose finds the bad example of each rule and nothing in the good ones: the argument is the script."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LONG = " ".join(["the caller sends one more record to the device"] * 3)  # 27 words
SHORT = " ".join(["the caller sends one more record to the device"] * 2)

# Rule, file, text. Each bad text has hits of its rule only.
BAD = [
    ("R1", "a.cpp", "// A value that nobody reads.\nint a;\n"),
    ("R1", "a.cpp", "// Whoever holds a copy keeps its values.\n"),
    ("R1", "a.cpp", "int a;  // Wakes somebody.\n"),
    ("R1", "a.cpp", "/* Someone else\n * waits. */\n"),
    ("R1", "a.cpp", "// Called later. Who works on an element sees it.\n"),
    ("R1", "a.cpp", "// The lane parks; what waits runs later.\n"),
    ("R1", "a.md", "What `conv1d` refuses is in its errors.\n"),
    ("R1", "a.md", "| row | everybody |\n"),
    ("R2", "a.hpp", "/// Of the epilogue.\nint a;\n"),
    ("R2", "a.hpp", "/// As Sgd's and Adam's.\nint a;\n"),
    ("R2", "a.hpp", "/// The same for a view.\nint a;\n"),
    ("R2", "a.hpp", "/// Comes before the memory of its device.\nint a;\n"),
    ("R2", "a.hpp", "int a;  ///< It ends here.\nint b;  ///< Then the rest.\n"),
    ("R2", "a.hpp", "/// What a lane waits for.\nint a;\n"),
    ("R3", "a.cpp", "// Says yes.\n"),
    ("R3", "a.cpp", "// The actor tells the lane.\n"),
    ("R3", "a.cpp", "// Asks each rank.\n"),
    ("R3", "a.hpp", "/// Obeys the limit.\nint a;\n"),
    ("R4", "a.cpp", "// The value is handed on.\n"),
    ("R4", "a.cpp", "// The device comes\n// to rest.\n"),
    ("R4", "a.cpp", "// The record comes again.\n"),
    ("R4", "a.cpp", "// The lane is told.\n"),
    ("R4", "a.cpp", "// The op is given up.\n"),
    ("R4", "a.cpp", "// Lets go of the bytes.\n"),
    ("R4", "a.cpp", "// Takes so many bytes.\n"),
    ("R4", "a.md", "| value | who reads it |\n"),
    ("R4", "a.md", "Ops that stand behind a product.\n"),
    ("R5", "a.cpp", f"// {LONG}.\n"),
    ("R5", "a.cpp", "// " + LONG.replace("record", "record\n//") + ".\n"),
    ("R5", "a.cpp", "int a;  // " + LONG.replace("record", "record\n        //") + ".\n"),
    ("R5", "a.cpp", f"// {SHORT}, e.g. the next nine words of this one sentence.\n"),
    ("R5", "a.hpp", f"/// Errors: none; {LONG}.\nint a;\n"),
    ("R5", "a.hpp", f"// Invariants: (1) none; (2) {LONG}.\n"),
    ("R5", "a.md", "- " + LONG.replace("record", "record\n  ") + ".\n"),
    ("R5", "a.md", f"{SHORT},\n{SHORT}.\n"),
    ("R5", "a.md", f"{SHORT} {SHORT[:20]}.\n".replace(" to ", ". To ").replace("one", "one" + "e" * 20)),
    ("R5", "a.md", "`code();` makes a line of text that is, with its `code();`, some columns wider than `a.cpp` and `b` are.\n"),
    ("R5", "a.md", "| one | " + "wide. " * 25 + "|\n"),
    ("R6", "README.md", "Measured on 2031-03-04.\n".replace("2031", "2026")),
    ("R6", "docs/a.md", "It is fast today.\n"),
    ("R6", "docs/a.md", "Built from `1fb32d6`.\n"),
    ("R6", "a/README.md", "| speed | since March 2026 |\n"),
    ("R7", "a/decisions/0001-a.md", "# A\n\n" + "Line.\n" * 24),
    ("R8", "CHANGELOG.md", "- " + "New. " * 30 + "\n"),
    ("R8", "CHANGELOG.md", "- " + "New. " * 15 + "\n  " + "New. " * 15 + "\n"),
]

GOOD = [
    ("a.cpp", "// The lane that reads the value waits. Who owns it? The actor.\n"),
    ("a.cpp", "// Takes `nobody` and \"somebody\" as names.\n"),
    ("a.cpp", "const char* a = \"nobody\";\nconst char b = '\"'; // Plain.\nconst char* c = \"// who reads it\";\n"),
    ("a.cpp", "const char* a = R\"(\n// nobody reads it\n)\";\nconst char* b = R\"X(// told)X\";\nint c = 1'000; // It's a count.\n"),
    ("a.cpp", "int a;  // NOLINT(somebody): says so\n// clang-format off, says who\n"),
    ("a.cpp", "// Copyright of everybody\n// SPDX-License-Identifier: somebody\n"),
    ("a.cpp", "// Example:\n//\n//     whoever(nobody);\n// ```\n// tell(somebody);\n// ```\n"),
    ("a.cpp", "void f(int /*nobody*/);\n"),
    ("a.hpp", "/// Returns the number of rows.\n///\n/// It is never negative.\nint a;\n"),
    ("a.hpp", "/// Whether the window is open.\nint a;\n/// Element type of the result.\nint b;\n"),
    ("a.hpp", "/// The same type as the input's.\nint a;\n"),
    ("a.hpp", "// Of the epilogue: no docstring.\n"),
    ("a.cpp", "// Calls tell() and ask_rank(); a layer (a Dropout, say) returns a value.\n"),
    ("a.md", "The page says so, and a caller asks.\n"),
    ("a.cpp", "// The same lane. Such a lane, such as the first, leaves so many records that it parks.\n"),
    ("a.cpp", f"// {SHORT}. {SHORT}.\n"),
    ("a.cpp", f"// {SHORT}, e.g. `{LONG}`.\n"),
    ("a.cpp", "// The device took " + "12 34 " * 20 + "us.\n"),
    ("a.cpp", f"// {SHORT}.\n\nint a;  // {SHORT}\nint b;  // {SHORT}\n"),
    ("a.hpp", f"/// Errors: {SHORT}; {SHORT}.\n/// Threads: {SHORT}\n/// Paper: {LONG}.\nint a;\n"),
    ("a.hpp", f"// Invariants: (1) {SHORT}; (2) {SHORT}.\n"),
    ("a.cpp", f"// Order: (1) {SHORT}, (2) {SHORT}.\n"),
    ("a.cpp", f"// {SHORT} of [batch, heads, rows, columns, kept, head, size, other, more].\n"),
    ("a.hpp", f"// Files:\n//   one.hpp   {SHORT}\n//   two.hpp   {SHORT}\n"),
    ("a.md", f"- {SHORT}\n- {SHORT}\n\n{SHORT}\n\n# {'a ' * 26}\n"),
    ("a.md", f"```\nnobody, today, {LONG}\n```\n\n<!-- {LONG}\n{LONG} -->\n\n    nobody\n"),
    ("a.md", f"`{'code(); ' * 20}`,\n  as `{'code(); ' * 20}`.\n"),
    ("a.md", f"A [link](https://host/{'x' * 100}) and https://host/{'y' * 100}.\n| {'| x ' * 60}|\n"),
    ("a.md", "Measured on 2026-03-04, today, at 1fb32d6.\n"),
    ("README.md", "Throws now. A sum of 1234567 takes 0x1fb32d6 and `a1b2c3`; [page](notes/2026-03-04.md).\n"),
    ("docs/a.md", "```\ngit show 1fb32d6 # 2026-03-04\n```\n"),
    ("a/decisions/0001-a.md", "# A\n\n" + "Line.\n" * 23),
    ("a/decisions/archive.md", "# A\n\n" + "Line.\n" * 30),
    ("CHANGELOG.md", "# Changelog\n\n- " + "New. " * 27 + "\n- `a` on 2026-03-04.\n"),
]

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "HEARTH_"))}
ENVIRONMENT.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
failures = []


def expect(is_met, *words):
    if not is_met:
        failures.append(" ".join(map(str, words)))


class Tree:
    """A checkout with .ci/prose and nothing else."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        (self.root / ".ci").mkdir(parents=True)
        shutil.copy(sys.argv[1], self.root / ".ci/prose")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments], cwd=self.root,
                       env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "Change")

    def run(self, *arguments, **variables):
        """Returns the exit status and the lines of the output; the current folder is another one."""
        run = subprocess.run([sys.executable, self.root / ".ci/prose", *arguments], cwd="/", env={**ENVIRONMENT, **variables},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        expect("Traceback" not in run.stderr, arguments, run.stderr)
        return run.returncode, run.stdout.splitlines()


def test_rules(folder):
    tree = Tree(folder)
    bad, good = {}, {}
    for rule, path, text in [*BAD, *((None, *each) for each in GOOD)]:
        number = len(bad) + len(good)
        place = f"docs/{number}{path[4:]}" if path.startswith("docs/") else f"{number}/{path}"
        tree.write(place, text)
        (bad if rule else good)[place] = (rule, text)
    _, lines = tree.run(*bad)
    for place, (rule, text) in bad.items():
        said = [line for line in lines if line.startswith(place + ":")]
        expect(said and all(re.match(rf"\d+: {rule}: ", line[len(place) + 1:]) for line in said),
               f"{rule} does not find, or not alone: {place}:\n{text}\n", said)
    status, lines = tree.run(*good)
    for place, (_, text) in good.items():
        said = [line for line in lines if line.startswith(place + ":")]
        expect(not said, f"a good text has hits: {place}:\n{text}\n", said)
    expect(status == 0 and not lines, "good texts", status, lines)
    expect({rule for rule, _, _ in BAD} == {f"R{number}" for number in range(1, 9)}, "a rule has no bad example")


def test_calls(folder):
    tree = Tree(folder)
    tree.write("a.cpp", "// Plain.\n// Nobody waits.\n\nint a;  // It says so.\n")
    expect(tree.run("a.cpp") == (1, ["a.cpp:2: R1: Plain. Nobody waits.", "a.cpp:4: R3: It says so."]), tree.run("a.cpp"))
    expect(tree.run("--count", "a.cpp") == (1, ["R1 1, R3 1"]), tree.run("--count", "a.cpp"))
    tree.git("init", "-q")
    for call in (["--some"], ["none.cpp"], ["--since"], ["--since", "no-such-revision"], ["--all", "a.cpp"]):
        expect(tree.run(*call)[0] == 2, call)


def test_changed_lines(folder):
    tree = Tree(folder)
    tree.git("init", "-q")
    tree.write("a.cpp", f"// Nobody waits.\nint a;\n// {SHORT}\n// {SHORT}.\nint b;\n")
    tree.write("a/decisions/0001-a.md", "Line.\n" * 25)
    tree.commit()
    tree.write("b.cpp", "// Plain.\n")
    tree.commit()
    expect(tree.run() == (0, []), "a clean commit", tree.run())
    tree.write("a.cpp", f"// Nobody waits.\nint a;\n// {SHORT}\n// {SHORT} here.\nint b;\n")  # its sentence begins above
    tree.write("a/decisions/0001-a.md", "Line.\n" * 26)
    tree.write("new.md", "Nobody waits.\n")
    found = {line.split(": ")[0] + line.split(": ")[1] for line in tree.run()[1]}
    expect(found == {"a.cpp:3R5", "a/decisions/0001-a.md:1R7", "new.md:1R1"}, "changed lines", found)
    tree.commit()
    expect(tree.run()[0] == 1, "the last commit")
    expect(tree.run(HEARTH_BASE="HEAD") == tree.run(), "a base that is the commit itself")
    tree.write("c.cpp", "// Plain.\n")
    tree.commit()
    expect(tree.run() == (0, []), "the commit before is not looked at")
    expect(tree.run(HEARTH_BASE="HEAD~2")[0] == 1 and tree.run("--since", "HEAD~2")[0] == 1, "an earlier base")
    tree.git("update-ref", "refs/remotes/origin/main", "HEAD~2")
    expect(tree.run()[0] == 1, "origin/main")


def test_whole_tree(folder):
    tree = Tree(folder)
    tree.write("runtime/a.cpp", "// Plain.\n" * 199 + "\n// Nobody waits.\n")
    for other in ("tests/a.cpp", "build/runtime/a.md", "build/README.md", "notes.md"):
        tree.write(other, "// Nobody waits.\n")
    status, said = tree.run("--all")
    expect(status == 0 and said[0].startswith("runtime/a.cpp:201: R1: ") and "1 hits in 200 lines" in said[1], status, said)
    tree.write("docs/options.md", "Nobody waits. Nobody reads.\n")
    status, said = tree.run("--all")
    expect(status == 1 and "3 hits in 201 lines" in said[-2], "options.md is a page of the library", status, said)
    tree.write("docs/options.md", "Plain.\n")
    for page in ("docs/a.md", "runtime/README.md", "README.md"):
        tree.write(page, "Nobody waits.\n")
        status, said = tree.run("--all", "--count")
        expect(status == 1 and "docs/: 1 hits, of none (R1 1)" in said[-1], page, status, said)
        tree.write(page, "Plain.\n")
    expect(tree.run("--all")[0] == 0, "no hits in pages")
    expect(tree.run()[0] == 2, "no checkout of git")


with tempfile.TemporaryDirectory() as scratch:
    for test in (test_rules, test_calls, test_changed_lines, test_whole_tree):
        test(pathlib.Path(scratch) / test.__name__)
print("\n".join(failures) or f"{len(BAD)} bad and {len(GOOD)} good texts")
sys.exit(1 if failures else 0)
