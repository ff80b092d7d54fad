"""What the PyTorch programs here share: the fastest settings that Debian's PyTorch has, Hearth's
order of batches, weight files, and the lines that are printed."""
import csv
import glob
import json
import os
import statistics
import struct
import subprocess
import sys
import time

import numpy as np


PRODUCT = """
import time
import numpy as np
a = np.ones((768, 768), np.float32)
times = []
for _ in range(6):
    start = time.perf_counter()
    a @ a
    times.append(time.perf_counter() - start)
print(min(times))
"""


def fastest_core_type(settings):
    """Debian's OpenBLAS takes a processor younger than itself for one without AVX, and its products
    four times as long: the name of the kernels that multiply fastest here, or what it finds."""
    seconds = {}
    for core in (None, "Haswell", "Zen", "SkylakeX", "Cooperlake"):
        environment = {**os.environ, **settings, **({"OPENBLAS_CORETYPE": core} if core else {})}
        # Kernels that this processor cannot run end the program.
        ran = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, check=core is None,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if ran.returncode == 0:
            seconds[core] = float(ran.stdout)
    best = min(seconds, key=seconds.get)
    return best if seconds[best] < 0.9 * seconds[None] else None


def best_environment(threads):
    """PyTorch at its best: OpenBLAS with OpenMP, bound threads and the kernels of this processor, the
    AVX-512 kernels of PyTorch's own, and memory that malloc keeps instead of giving it back between
    two steps."""
    settings = {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "ATEN_CPU_CAPABILITY": "avx512",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
        "MALLOC_TOP_PAD_": str(1 << 28),
    }
    folders = glob.glob("/usr/lib/*/openblas-openmp")
    if folders:
        settings["LD_LIBRARY_PATH"] = folders[0]
    if "OPENBLAS_CORETYPE" not in os.environ:
        core = fastest_core_type(settings)
        if core is not None:
            settings["OPENBLAS_CORETYPE"] = core
    if threads > 1:
        cores = sorted(os.sched_getaffinity(0))[:threads]
        settings["OMP_PROC_BIND"] = "close"
        settings["OMP_PLACES"] = ",".join("{%d}" % core for core in cores)
    return settings


def start(parser):
    """Parses the command line; begins the program anew in its best environment, once."""
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="PyTorch as it is installed")
    options = parser.parse_args()
    if not options.plain and os.environ.get("HEARTH_PEER_READY") != "1":
        os.environ.update(best_environment(options.threads), HEARTH_PEER_READY="1")
        os.execv(sys.executable, [sys.executable] + sys.argv)
    import torch

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    return options


# ---- Hearth's order of examples: Philox4x32-10 and a shuffle by it (modules/data/epoch_order.cpp) ----


def philox(counter, key):
    """Ten rounds on arrays of four counter words and a key of two: four arrays of 32-bit words."""
    words = [np.asarray(word, dtype=np.uint64) for word in counter]
    low, high = (np.uint64(word) for word in key)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        a = np.uint64(0xD2511F53) * words[0]
        b = np.uint64(0xCD9E8D57) * words[2]
        words = [(b >> half) ^ words[1] ^ low, b & mask, (a >> half) ^ words[3] ^ high, a & mask]
        low = np.uint64((int(low) + 0x9E3779B9) & 0xFFFFFFFF)
        high = np.uint64((int(high) + 0xBB67AE85) & 0xFFFFFFFF)
    return words


def key_of(seed):
    return seed & 0xFFFFFFFF, seed >> 32


def shuffled_order(size, seed, epoch):
    """The order in which Hearth's loaders read a shuffled data set in that epoch."""
    one = lambda value: np.array([value])
    fork = philox([one(epoch & 0xFFFFFFFF), one(epoch >> 32), one(1), one(0)], key_of(seed))
    forked = int(fork[1][0]) << 32 | int(fork[0][0])
    blocks = np.arange(size // 2 + 1, dtype=np.uint64)
    zero = np.zeros_like(blocks)
    words = philox([blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), zero, zero],
                   key_of(forked))
    pairs = [(words[0] << np.uint64(32) | words[1]).tolist(),
             (words[2] << np.uint64(32) | words[3]).tolist()]
    order = list(range(size))
    for left in range(size, 1, -1):
        place = pairs[left % 2][left // 2] * left >> 64
        order[left - 1], order[place] = order[place], order[left - 1]
    return np.array(order)


def batches(size, batch_size, seed, epoch):
    """Example numbers batch by batch."""
    order = shuffled_order(size, seed, epoch)
    return [order[first:first + batch_size] for first in range(0, size, batch_size)]


class Mt19937_64:
    """std::mt19937_64, by which split_rows() draws."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = [seed]
        for i in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ last >> 62) + i) & self.MASK)
        self.place = 312

    def __call__(self):
        if self.place == 312:
            self.turn()
        x = self.state[self.place]
        self.place += 1
        x ^= x >> 29 & 0x5555555555555555
        x ^= x << 17 & 0x71D67FFFEDA60000
        x ^= x << 37 & 0xFFF7EEE000000000
        return x ^ x >> 43

    def turn(self):
        low = (1 << 31) - 1
        for i in range(312):
            x = (self.state[i] & ~low & self.MASK) | (self.state[(i + 1) % 312] & low)
            self.state[i] = self.state[(i + 156) % 312] ^ x >> 1
            if x & 1:
                self.state[i] ^= 0xB5026F5AA96619E9
        self.place = 0


def split_rows(count, share, seed=0):
    """The rows that Hearth's split_rows() gives to train and to test."""
    random = Mt19937_64(seed)
    order = list(range(count))
    for left in range(count, 1, -1):
        place = random() % left
        order[left - 1], order[place] = order[place], order[left - 1]
    cut = int(share * count + 0.5)
    return sorted(order[:cut]), sorted(order[cut:])


# ---- data and weight files (safetensors) ----


def data_file(name):
    """A file in the folder that HEARTH_DATA_DIR names."""
    folder = os.environ.get("HEARTH_DATA_DIR")
    if folder is None:
        sys.exit("HEARTH_DATA_DIR names no folder of data")
    return os.path.join(folder, name)


def read_csv(name):
    with open(data_file(name), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save_weights(file, named_tensors):
    """Writes f32 tensors under these names: what a Hearth program begins with."""
    header, data = {}, []
    offset = 0
    for name, tensor in named_tensors.items():
        raw = tensor.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data))


# ---- figures ----


class StepClock:
    """Times of steps; the first ones warm up."""

    def __init__(self, warm_up=10):
        self.seconds = []
        self.warm_up = warm_up

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *_):
        self.seconds.append(time.perf_counter() - self.begin)

    def median_us(self):
        kept = self.seconds[self.warm_up:] or self.seconds
        return statistics.median(kept) * 1e6


def report(**figures):
    print(json.dumps(figures), flush=True)
