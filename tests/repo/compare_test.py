"""bench/compare.py measures a program that is named twice twice: an argument is the script."""
import json
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    runs = pathlib.Path(folder) / "runs"
    program = pathlib.Path(folder) / "program"
    # Each run is slower than the one before.
    program.write_text(f"""#!/usr/bin/env python3
import json, pathlib
runs = pathlib.Path({str(runs)!r})
count = int(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text(str(count))
print(json.dumps({{"benchmarks": [{{"name": "BM_X", "real_time": 100.0 * count, "time_unit": "ns"}}]}}))
""")
    program.chmod(0o755)
    said = subprocess.run([sys.executable, sys.argv[1], str(program), str(program), "--rounds", "2"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    assert runs.read_text() == "4", "two rounds of two"
    assert "both are the same program" in said, said
    # Old: runs 1 and 4, new: 2 and 3.
    assert said.splitlines()[-1].split()[1:] == ["250.0", "250.0", "ns", "1.00", "2.00", "0.75"], said
