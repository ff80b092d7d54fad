"""PyTorch's times of the sizes of linear_bench.cpp: the least of many calls, in microseconds.

    OMP_NUM_THREADS=2 python3 bench/linear_figures.py [--threads 2]

Prints one line of JSON for each benchmark, with the name that hearth-bench prints.
"""

import argparse
import json
import time

import torch


def least_time(function, seconds=0.5):
    """After two calls that warm it up."""
    function()
    function()
    least = float("inf")
    end = time.perf_counter() + seconds
    calls = 0
    while calls < 7 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - start)
        calls += 1
    return round(least * 1e6, 1)


def linear_calls():
    for batch, n in [(1, 64), (1, 256), (1, 1024), (1000, 8)]:
        shape = [n, n] if batch == 1 else [batch, n, n]
        x = torch.randn(shape)
        s = x @ x.transpose(-1, -2) + n * torch.eye(n)
        label = "/batch:%d/n:%d" % (batch, n)
        yield "BM_Linear_Cholesky" + label, lambda: torch.linalg.cholesky(s)
        yield "BM_Linear_Solve" + label, lambda: torch.linalg.solve(s, x)
        yield "BM_Linear_Inverse" + label, lambda: torch.linalg.inv(s)
        yield "BM_Linear_Slogdet" + label, lambda: torch.linalg.slogdet(s)
        yield "BM_Linear_Triangular" + label, lambda: torch.linalg.solve_triangular(s, x, upper=False)
        if n < 1024:
            yield "BM_Linear_Qr" + label, lambda: torch.linalg.qr(x)
            yield "BM_Linear_Eigh" + label, lambda: torch.linalg.eigh(s)
            yield "BM_Linear_Svd" + label, lambda: torch.linalg.svd(x, full_matrices=False)


def fourier_calls():
    for rows, n in [(1, 1024), (64, 400), (64, 1024), (64, 4096), (16, 4097), (1, 65536), (4, 50257)]:
        label = "/rows:%d/n:%d" % (rows, n)
        c = torch.view_as_complex(torch.randn(rows, n, 2))
        x = torch.randn(rows, n)
        half = torch.fft.rfft(x)
        yield "BM_Fourier_Complex" + label, lambda: torch.fft.fft(c)
        yield "BM_Fourier_Real" + label, lambda: torch.fft.rfft(x)
        yield "BM_Fourier_RealInverse" + label, lambda: torch.fft.irfft(half, n=n)
    plane = torch.view_as_complex(torch.randn(8, 256, 256, 2))
    yield "BM_Fourier_Plane/n:256", lambda: torch.fft.fft2(plane)
    signal = torch.randn(16, 16000)
    window = torch.hann_window(400)
    yield "BM_Fourier_Stft/samples:16000", lambda: torch.stft(signal, 400, 100, window=window, return_complex=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    for calls in (linear_calls, fourier_calls):
        for name, function in calls():
            print(json.dumps({"benchmark": name, "threads": threads, "us": least_time(function)}), flush=True)


if __name__ == "__main__":
    main()
