#!/usr/bin/env python3
"""PyTorch's side of the GPU table: the measurements of gpu_bench.cpp under the same names.

Prints one JSON line per measurement. A time is the median of many calls that are queued back to back,
timed by events of the device, after the clocks have been warmed up.

torch_figures.py [SECTION ...]: copy transfers gelu rows matmul layers launch train transformer gpt_types
"""
import functools
import json
import math
import sys
import threading
import time

import torch
from torch import nn

DEVICE = "cuda"
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_heat = torch.randn(4096, 4096, device=DEVICE)


def warm_clocks(seconds=0.4):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            torch.sin(_heat)
        torch.cuda.synchronize()


def say(bench, median_us, work=None, unit=None, **more):
    line = {"bench": bench, "median_us": round(median_us, 2), **more}
    if work:
        line[unit] = round(work / median_us / (1e3 if unit == "GBps" else 1e6), 1)
    print(json.dumps(line), flush=True)


def measure(bench, call, work=None, unit=None, inner=10, repeats=15, **more):
    for _ in range(5):
        call()
    warm_clocks()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / inner)
    say(bench, sorted(times)[repeats // 2], work, unit, **more)


def copy():
    x = torch.randn(1 << 28, device=DEVICE)
    y = torch.empty_like(x)
    measure("copy_1GiB_f32", lambda: y.copy_(x), 8 * x.numel(), "GBps")
    measure("axpy_1GiB_f32", lambda: torch.add(y, x, alpha=2.0), 12 * x.numel(), "GBps")


def transfers():
    def rate(bench, memory, call):
        times = []
        for _ in range(11):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
        say(bench, sorted(times)[len(times) // 2], 4 * (64 << 20), "GBps", memory=memory)

    there = torch.ones(64 << 20, device=DEVICE)
    for memory in ("ordinary", "host_bytes"):
        host = torch.ones(64 << 20, pin_memory=memory == "host_bytes")
        rate("upload_256MiB", memory, lambda: host.to(DEVICE, non_blocking=True))
        rate("download_256MiB", memory, lambda: host.copy_(there, non_blocking=True))

    small = torch.ones(1, device=DEVICE)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()

    def ask():
        start = time.perf_counter()
        with torch.cuda.stream(second):
            (small + 1.0).item()
        return (time.perf_counter() - start) * 1e6

    def say_latency(name, times, upload_s):
        times = sorted(times) or [float("nan")]
        print(json.dumps({"bench": "small_op_" + name, "asked": len(times), "median_us": round(times[len(times) // 2], 1),
                          "p99_us": round(times[len(times) * 99 // 100], 1), "max_us": round(times[-1], 1),
                          "upload_ms": round(upload_s * 1e3, 1)}), flush=True)

    say_latency("alone", [ask() for _ in range(1000)], 0)
    large = torch.ones(256 << 20)

    def upload():
        with torch.cuda.stream(first):
            large.to(DEVICE)
            first.synchronize()

    torch.cuda.synchronize()
    thread = threading.Thread(target=upload)
    start = time.perf_counter()
    thread.start()
    times = []
    while thread.is_alive():
        times.append(ask())
    say_latency("beside_upload_1GiB", times, time.perf_counter() - start)


def gelu():
    def formula(x):
        return x * (torch.erf(x / math.sqrt(2)) + 1) / 2

    compiled = torch.compile(formula)
    for name, dtype in FLOATS.items():
        x = torch.randn(32, 512, 2048, device=DEVICE, dtype=dtype)
        moved = 2 * x.numel() * x.element_size()
        measure("custom_gelu", lambda: formula(x), moved, "GBps", dtype=name, mode="eager")
        measure("custom_gelu", lambda: compiled(x), moved, "GBps", dtype=name, mode="compiled")


def rows():
    x = torch.randn(32, 512, 4096, device=DEVICE)
    for dim in range(3):
        measure("reduce_sum", lambda: x.sum(dim), 4 * x.numel(), "GBps", dim=dim)
    x = torch.randn(64, 1024, 1024, device=DEVICE)
    measure("softmax_last", lambda: torch.softmax(x, -1), 8 * x.numel(), "GBps")
    x = torch.randn(32, 512, 1024, device=DEVICE)
    norm = nn.LayerNorm(1024).to(DEVICE)
    measure("layernorm", lambda: norm(x), 8 * x.numel(), "GBps")


def matmul():
    for name, dtype in FLOATS.items():
        for n in (1024, 2048, 4096, 8192):
            a = torch.randn(n, n, device=DEVICE, dtype=dtype)
            b = torch.randn(n, n, device=DEVICE, dtype=dtype)
            measure("matmul", lambda: a @ b, 2 * n**3, "TFLOPs", dtype=name, n=n)
    if hasattr(torch.backends.cuda.matmul, "allow_fp16_accumulation"):
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        for n in (4096, 8192):
            a, b = (torch.randn(n, n, device=DEVICE, dtype=torch.float16) for _ in range(2))
            measure("matmul", lambda: a @ b, 2 * n**3, "TFLOPs", dtype="f16", sums="f16", n=n)
        torch.backends.cuda.matmul.allow_fp16_accumulation = False
    for n in (1024, 2048, 4096, 8192):
        a = torch.randint(-127, 128, (n, n), device=DEVICE, dtype=torch.int8)
        b = torch.randint(-127, 128, (n, n), device=DEVICE, dtype=torch.int8)
        scale = torch.randn(n, device=DEVICE)
        measure("matmul", lambda: torch._int_mm(a, b), 2 * n**3, "TOPs", dtype="i8", n=n, b="[k, n]")
        measure("matmul", lambda: torch._int_mm(a, b.t()), 2 * n**3, "TOPs", dtype="i8", n=n, b="[n, k]")
        if n >= 4096:
            measure("matmul_scale", lambda: torch._int_mm(a, b.t()).float() * scale, 2 * n**3, "TOPs", dtype="i8", n=n)
    for name, tf32 in (("f32", False), ("f32", True), ("bf16", True)):
        # PyTorch's default for f32 is tf32, which Vulkan does not have.
        torch.backends.cudnn.allow_tf32 = tf32
        x = torch.randn(16, 64, 56, 56, device=DEVICE, dtype=FLOATS[name])
        conv = nn.Conv2d(64, 64, 3, padding=1, bias=False).to(DEVICE, FLOATS[name])
        measure("conv2d_64_56_3x3_b16", lambda: conv(x), 2 * 16 * 64 * 64 * 9 * 56 * 56, "TFLOPs", dtype=name, tf32=tf32)


def both(bench, name, call, *inputs):
    leaves = [x.detach().requires_grad_() for x in inputs]
    measure(bench, lambda: call(*inputs), inner=20, dtype=name)
    weight = torch.randn_like(call(*inputs))
    measure(bench + "_grad", lambda: torch.autograd.grad(call(*leaves), leaves, weight), dtype=name)


def attention():
    for name in ("f32", "bf16"):
        heads = torch.randn(32, 8, 256, 64, device=DEVICE, dtype=FLOATS[name])
        both("attention_b32_h8_s256_w64", name, nn.functional.scaled_dot_product_attention, heads, heads + 0.5, heads + 0.25)
        texts = torch.randn(8, 12, 1024, 64, device=DEVICE, dtype=FLOATS[name])
        causal = functools.partial(nn.functional.scaled_dot_product_attention, is_causal=True)
        both("attention_causal_b8_h12_s1024_w64", name, causal, texts, texts + 0.5, texts + 0.25)


def layers():
    for name in ("f32", "bf16"):
        def make(*shape):
            return torch.randn(*shape, device=DEVICE, dtype=FLOATS[name])

        rows, wide = make(8192, 512), make(8192, 2048)
        both("linear_512_2048", name, nn.functional.linear, rows, make(2048, 512), make(2048))
        both("linear_2048_512", name, nn.functional.linear, wide, make(512, 2048), make(512))
        both("linear_512_512", name, nn.functional.linear, rows, make(512, 512), make(512))
        both("gelu_8192_2048", name, nn.functional.gelu, wide)
        both("layer_norm_8192_512", name, lambda x, w, b: nn.functional.layer_norm(x, (512,), w, b), rows, make(512), make(512))
    table = torch.randn(10000, 512, device=DEVICE, requires_grad=True)
    for filled in (0.0, 0.5, 0.9):
        words = torch.randint(1, 10000, (64, 512), device=DEVICE)
        words[torch.rand(64, 512, device=DEVICE) < filled] = 0
        measure("embedding_grad", lambda: torch.autograd.grad(nn.functional.embedding(words, table).sum(), table), filled=filled)


def launch():
    a = torch.ones(8, 8, 8, device=DEVICE)
    for _ in range(2):
        c = a
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20000):
            c = c + a
        torch.cuda.synchronize()
        spent = time.perf_counter() - start
    print(json.dumps({"bench": "launch_chain", "threads": 1, "total_ns": round(spent / 20000 * 1e9)}), flush=True)


def steps(bench, model, x, y, repeats=20, **more):
    model = model.to(DEVICE)
    adam = torch.optim.Adam(model.parameters(), fused=True)

    def step():
        adam.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x), y).backward()
        adam.step()
        torch.cuda.synchronize()

    for _ in range(8):
        step()
    warm_clocks()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    say(bench, sorted(times)[repeats // 2], **more)


def train():
    y = torch.arange(64, device=DEVICE) % 10
    mlp = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    steps("mlp_b64_step", mlp, torch.rand(64, 784, device=DEVICE), y)
    cnn = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 10))
    steps("cnn_b64_step", cnn, torch.rand(64, 1, 28, 28, device=DEVICE), y)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


def transformer():
    y = torch.zeros(32, dtype=torch.long, device=DEVICE)
    for name in ("f32", "bf16"):
        x = torch.randn(32, 256, 512, device=DEVICE, dtype=FLOATS[name])
        for mode in ("eager", "compiled"):
            model = Encoder().to(FLOATS[name])
            steps("encoder_L12_d512_b32_s256_step", torch.compile(model) if mode == "compiled" else model, x, y, dtype=name, mode=mode)


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, s, width = x.shape
        q, k, v = self.inputs(self.before(x)).view(n, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(n, s, width))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    def __init__(self, words=50257, places=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, text):
        return self.head(self.norm(self.blocks(self.words(text) + self.places.weight[: text.shape[1]])))


def gpt_types():
    text = torch.randint(0, 6000, (8, 512), device=DEVICE)
    following = torch.randint(0, 6000, (8, 512), device=DEVICE)
    for name, dtype in (("bf16", "bf16"), ("tf32", "f32"), ("f32", "f32")):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        torch.cuda.reset_peak_memory_stats()
        model = Gpt().to(DEVICE, FLOATS[dtype])
        adam = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

        def step():
            adam.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(text).flatten(0, 1), following.flatten()).backward()
            adam.step()
            torch.cuda.synchronize()

        for _ in range(4):
            step()
        times = []
        for _ in range(15):
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
        peak = torch.cuda.max_memory_allocated() >> 20
        print(json.dumps({"bench": "gpt2_step", "dtype": name, "ms": round(sorted(times)[7], 2), "peak_MiB": peak}), flush=True)
        del model, adam


SECTIONS = [copy, transfers, gelu, rows, matmul, attention, layers, launch, train, transformer, gpt_types]

if __name__ == "__main__":
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0)}))
    chosen = set(sys.argv[1:])
    for section in SECTIONS:
        if not chosen or section.__name__ in chosen:
            section()
