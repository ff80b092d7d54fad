"""`hearth-bench page` writes each figure as it is in its file and finds each difference: an argument is the program."""
import pathlib
import subprocess
import sys
import tempfile

RUN = """{
 "section": "Serving", "title": "Clients", "machine": "M", "cores": 2, "before_commit": "1fb32d6",
 "command": "`hearth-bench --benchmark_filter='BM_Infer_(Mlp|Cnn)/clients'`", "rows": [
  {"name": "met", "unit": "requests/s", "ours": 40700, "spread": [40100, 41000], "ratio": 0.70, "bar": "ratio <= 0.7"},
  {"name": "missed", "benchmark": "BM_A", "ours": [0.9, 1.10], "peer": -2, "ratio": [0.9, 1.1], "bar": "ratio <= 1"},
  {"name": "rate", "ours": 304.9, "bar": "ours >= 305"},
  {"name": "not measured", "peer": 3.9e-7, "bar": "ratio <= 1", "note": "no ratio"}
 ]
}
"""
TABLE = """\
### Clients

Machine: M. Cores: 2. Commit before: 1fb32d6. Command:
`hearth-bench --benchmark_filter='BM_Infer_(Mlp|Cnn)/clients'`. File: `clients.json`.

| what | benchmark | unit | ours | peer | ratio | bar | note |
|---|---|---|---|---|---|---|---|
| met |  | requests/s | 40,700 (40,100–41,000) |  | 0.70 | ≤ 0.7 |  |
| missed | `BM_A` |  | 0.9–1.10 | −2 | 0.9–1.1 | ≤ 1, **missed** |  |
| rate |  |  | 304.9 |  |  | ours ≥ 305, **missed** |  |
| not measured |  |  |  | 3.9e-7 |  | ≤ 1 | no ratio |
"""


class Folder:
    """A folder with one file of figures, and its page."""

    def __init__(self, root):
        self.file = root / "results/clients.json"
        self.page = root / "RESULTS.md"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(RUN, encoding="utf-8")

    def run(self, *arguments):
        ended = subprocess.run([sys.argv[1], "page", self.file.parent, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               encoding="utf-8")
        return ended.returncode, ended.stdout


with tempfile.TemporaryDirectory() as scratch:
    folder = Folder(pathlib.Path(scratch))
    assert folder.run("--some")[0] == 2, "an unknown argument"
    assert not folder.page.exists()
    assert folder.run() == (0, "")
    page = folder.page.read_text(encoding="utf-8")
    assert TABLE in page, page
    assert page.index("## Training") < page.index("## Serving") < page.index("### Clients") < page.index("## Kernels"), page
    assert folder.run("--check") == (0, "")

    # Each difference of the page or of a file is found, and --check writes nothing.
    for text in (page.replace("0.70", "0.71"), page.replace(", **missed**", "", 1), page.replace(" (40,100–41,000)", ""),
                 page + "\n", page.rstrip("\n")):
        assert text != page
        folder.page.write_text(text, encoding="utf-8")
        assert folder.run("--check")[0] == 1, text
        assert folder.page.read_text(encoding="utf-8") == text
    folder.page.write_text(page, encoding="utf-8")
    folder.file.write_text(RUN.replace("0.70", "0.71"), encoding="utf-8")
    status, said = folder.run("--check")
    assert status == 1 and "-| met |  | requests/s | 40,700 (40,100–41,000) |  | 0.70 | ≤ 0.7 |  |" in said, said
    assert "+| met |  | requests/s | 40,700 (40,100–41,000) |  | 0.71 | ≤ 0.7, **missed** |  |" in said, said

    # A file with a mistake writes no page.
    for right, wrong, name in (('"unit"', '"units"', "units"), ('"title": "Clients", ', "", "title"),
                               ('"machine"', '"host"', "host"), ('"Serving"', '"Servers"', "Servers"),
                               ('"ours": 40700, ', "", "spread"), ('"ratio <= 0.7"', '"ratio < 0.7"', "ratio < 0.7")):
        assert RUN.count(right) == 1
        folder.file.write_text(RUN.replace(right, wrong), encoding="utf-8")
        status, said = folder.run()
        assert status == 1 and "clients.json" in said and name in said, said
        assert folder.page.read_text(encoding="utf-8") == page
