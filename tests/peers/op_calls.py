"""Random calls of Hearth's ops, compared with PyTorch's: values, element types, shapes, gradients.

    python3 op_calls.py --program build/release/tests/peers/op_calls [--calls 400] [--seed 1]

Draws calls from the seed, lets the program run them, runs each with torch, and compares: integers and
bools exactly, floats within the tolerance of their type. Ends with 0 when all agree, with 77 when there
is no torch. What differs by decision stands in README.md, and is not drawn here.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError:
    DISTRIBUTION = "/usr/bin/python3"
    if os.path.exists(DISTRIBUTION) and os.path.realpath(sys.executable) != os.path.realpath(DISTRIBUTION) \
            and "HEARTH_OP_CALLS_AGAIN" not in os.environ:
        os.environ["HEARTH_OP_CALLS_AGAIN"] = "1"
        os.execv(DISTRIBUTION, [DISTRIBUTION] + sys.argv)
    print("skipped: this Python has no torch and numpy (Debian: python3-torch)")
    sys.exit(77)

import torch.nn.functional as F

TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
         "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "i8": torch.int8, "bool": torch.bool}
NAMES = {kind: name for name, kind in TYPES.items()}
FLOATS = ["f32", "f64"]
INTEGERS = ["i32", "i64", "u8", "i8"]
NUMBERS = FLOATS + INTEGERS
ALL = list(TYPES)
# Relative, and times the largest value of the result for what cancels.
TOLERANCES = {"f64": 1e-11, "f32": 3e-5, "f16": 4e-3, "bf16": 3e-2}


class Draw:
    """Shapes, numbers and arguments from a seed."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def integer(self, low, high):
        """low to high, both among them."""
        return int(self.random.randint(low, high + 1))

    def one_of(self, choices):
        return choices[self.integer(0, len(choices) - 1)]

    def flag(self):
        return self.integer(0, 1) == 1

    def shape(self, least=0, most=3, size=5):
        """An axis in twenty has no elements."""
        return [self.integer(1, size) if self.integer(0, 19) else 0 for _ in range(self.integer(least, most))]

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def tensor(self, dtype, shape, low=-3.0, high=3.0):
        """Floats that the type holds exactly; integers within the bounds."""
        if dtype == "bool":
            data = torch.from_numpy(self.random.randint(0, 2, size=shape).astype(np.int64))
        elif dtype in INTEGERS:
            start = max(0, math.ceil(low)) if dtype == "u8" else math.ceil(low)
            end = max(math.floor(high), start)  # an index of an axis without elements has none itself
            data = torch.from_numpy(np.asarray(self.random.randint(start, end + 1, size=shape), dtype=np.int64))
        else:
            data = torch.from_numpy(np.asarray(self.random.uniform(low, high, size=shape)))
        return data.reshape(shape).to(TYPES[dtype])

    def distinct(self, dtype, shape):
        """No two equal, and none near another."""
        count = int(np.prod(shape, dtype=np.int64))
        return torch.from_numpy(self.random.permutation(count)).reshape(shape).to(TYPES[dtype])

    def broadcast(self, shape):
        """A shape that broadcasts to this one."""
        kept = shape[self.integer(0, len(shape)):] if shape else []
        return [1 if self.integer(0, 3) == 0 else size for size in kept]

    def axes(self, rank):
        """Arguments of a reduction."""
        args = {}
        if rank and self.flag():
            count = self.integer(1, rank)
            args["axes"] = sorted(int(axis) for axis in self.random.permutation(rank)[:count])
        if self.flag():
            args["keep_dims"] = self.flag()
        return args


def dims_of(args, x):
    return args.get("axes", list(range(x.dim())))


# An op: what draws (inputs, args), what torch makes of them, and whether its gradient is compared: with respect to
# all inputs, none, or the first so many.
OPS = {}


def op(name, draw, run, gradient=True):
    OPS[name] = (draw, run, gradient)


def unary(name, run, low=-3.0, high=3.0, types=FLOATS, gradient=True):
    op(name, lambda d: ([d.tensor(d.one_of(types), d.shape(), low, high)], {}), lambda x, args: run(x), gradient)


def add_unary():
    unary("neg", torch.neg, types=NUMBERS)
    unary("abs", torch.abs, types=FLOATS + ["i32", "i64", "i8"])
    for name, low, high in [("exp", -4, 4), ("expm1", -2, 2), ("log", 0.1, 5), ("log1p", -0.5, 4), ("sqrt", 0.1, 9),
                            ("rsqrt", 0.2, 9), ("sin", -9, 9), ("cos", -9, 9), ("tanh", -4, 4), ("erf", -3, 3),
                            ("sigmoid", -6, 6)]:
        unary(name, getattr(torch, name), low, high)
    unary("square", torch.square, types=NUMBERS)
    unary("recip", torch.reciprocal, 0.3, 4)
    unary("relu", torch.relu)
    unary("silu", F.silu)
    for name in ["floor", "ceil", "trunc", "sign"]:
        unary(name, getattr(torch, name), types=NUMBERS)
    op("round", lambda d: ([torch.round(d.tensor(d.one_of(FLOATS), d.shape(), -9, 9) * 4) / 4], {}),
       lambda x, args: torch.round(x))
    op("is_finite", lambda d: ([torch.tensor([1.0, math.inf, -math.inf, math.nan]).to(TYPES[d.one_of(FLOATS)])], {}),
       lambda x, args: torch.isfinite(x), False)
    unary("logical_not", torch.logical_not, types=ALL, gradient=False)
    unary("contiguous", torch.Tensor.contiguous)
    op("cast", lambda d: ([d.tensor(d.one_of(ALL), d.shape(), 0, 9)], {"dtype": d.one_of(ALL)}),
       lambda x, args: x.to(TYPES[args["dtype"]]))
    op("leaky_relu", lambda d: ([d.tensor(d.one_of(FLOATS), d.shape())], {"slope": 0.125}),
       lambda x, args: F.leaky_relu(x, args["slope"]))
    # torch 1.13 has gelu's form as a word
    op("gelu", lambda d: ([d.tensor(d.one_of(FLOATS), d.shape())], {"tanh": d.flag()}),
       lambda x, args: F.gelu(x, approximate="tanh" if args["tanh"] else "none"))


def operands(d, types, low=-3.0, high=3.0, second=None):
    """Two that broadcast, of two types; one of them may be a number."""
    shape = d.shape()
    a = d.tensor(d.one_of(types), shape, low, high)
    b = d.tensor(d.one_of(types), d.broadcast(shape), *(second or (low, high)))
    pick = d.integer(0, 5)
    if pick == 0:
        b = d.integer(2, 3) if d.flag() else 1.75
    elif pick == 1:
        a, b = (d.integer(2, 3) if d.flag() else 1.75), b
    elif pick == 2:
        a, b = b, a
    return [a, b]


def in_one_type(a, b):
    """Both as tensors, in the type in which torch says they meet: some functions of 1.13 take no others."""
    kind = torch.result_type(a, b)
    return [x.to(kind) if torch.is_tensor(x) else torch.tensor(x, dtype=kind) for x in (a, b)]


def with_tensors(run):
    return lambda a, b, args: run(*in_one_type(a, b))


def add_binary():
    halves = NUMBERS + ["f16", "bf16"]
    op("add", lambda d: (operands(d, halves), {}), lambda a, b, args: a + b)
    op("sub", lambda d: (operands(d, halves), {}), lambda a, b, args: a - b)
    op("mul", lambda d: (operands(d, halves + ["bool"]), {}),
       lambda a, b, args: None if bools(a, b) else a * b)
    op("div", lambda d: (operands(d, FLOATS + ["i64"], 0.5, 3, (1, 3)), {}),
       lambda a, b, args: None if integral(a, b) else a / b)
    op("pow", lambda d: (operands(d, NUMBERS, 0.5, 2.5, (1, 3)), {}), lambda a, b, args: torch.pow(a, b))
    # Steps of integers, and floats away from them.
    op("floor_divide", lambda d: (operands(d, NUMBERS, -9, 9, (1, 4)), {}),
       lambda a, b, args: None if near_step(a, b) else torch.floor_divide(*in_one_type(a, b)), False)
    op("remainder", lambda d: (operands(d, NUMBERS, -9, 9, (1, 4)), {}),
       lambda a, b, args: None if near_step(a, b) else torch.remainder(*in_one_type(a, b)))
    for name in ["minimum", "maximum"]:
        op(name, lambda d: (operands(d, ALL, -30, 30), {}), with_tensors(getattr(torch, name)))
    for name, run in [("equal", torch.eq), ("not_equal", torch.ne)]:
        op(name, lambda d: (operands(d, ALL), {}), with_tensors(run), False)
    for name, run in [("less", torch.lt), ("less_equal", torch.le), ("greater", torch.gt), ("greater_equal", torch.ge)]:
        op(name, lambda d: (operands(d, halves), {}), with_tensors(run), False)
    for name in ["logical_and", "logical_or", "logical_xor"]:
        op(name, lambda d: (operands(d, ALL), {}), with_tensors(getattr(torch, name)), False)
    for name, run in [("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)]:
        op(name, lambda d: ([d.tensor("bool", [3, 4]), d.tensor("bool", [4])], {}), lambda a, b, args, run=run: run(a, b),
           False)
    op("where", draw_where, lambda c, a, b, args: torch.where(c, *in_one_type(a, b)))
    op("masked_fill", lambda d: masked(d), lambda x, mask, value, args: x.masked_fill(mask, value))
    op("clamp", draw_clamp, run_clamp)


def bools(a, b):
    return all(torch.is_tensor(x) and x.dtype == torch.bool for x in (a, b))


def integral(a, b):
    return all(not x.is_floating_point() if torch.is_tensor(x) else isinstance(x, int) for x in (a, b))


def near_step(a, b):
    """A quotient so near a whole number that rounding decides; or an integer by 0."""
    if integral(a, b):
        return not torch.is_tensor(b) and b == 0 or torch.is_tensor(b) and bool((b == 0).any())
    quotient = in_one_type(a, b)[0].detach().double() / in_one_type(a, b)[1].detach().double()
    return bool(((quotient - quotient.round()).abs() < 1e-4).any())


def promoted(*operands):
    """torch.result_type of more than two: what has axes counts most, then rank 0, then numbers."""
    kinds = [None, None, None]
    for operand in operands:
        level = 2 if not torch.is_tensor(operand) else 0 if operand.dim() else 1
        kind = operand.dtype if torch.is_tensor(operand) else torch.int64 if isinstance(operand, int) else torch.float32
        kinds[level] = kind if kinds[level] is None else torch.promote_types(kinds[level], kind)
    result = None
    for kind in kinds:
        if kind is not None:
            result = kind if result is None else torch.result_type(torch.ones(1, dtype=result), torch.ones((), dtype=kind))
    return result


def draw_where(d):
    shape = d.shape()
    a, b = operands(d, ALL)
    shape = list(torch.broadcast_shapes(*(x.shape if torch.is_tensor(x) else () for x in (a, b))))
    return [d.tensor("bool", d.broadcast(shape)), a, b], {}


def masked(d):
    dtype = d.one_of(NUMBERS)
    shape = d.shape()
    value = 2.5 if dtype in FLOATS else 7
    return [d.tensor(dtype, shape), d.tensor("bool", d.broadcast(shape)), value], {}


def draw_clamp(d):
    dtype = d.one_of(NUMBERS)
    x = d.tensor(dtype, d.shape(), -9, 9)
    bound = lambda value: value if d.flag() else d.tensor(d.one_of(NUMBERS), d.broadcast(list(x.shape)), value, value + 1)
    low, high = (bound(1), bound(4)) if d.flag() else (bound(1.5), bound(4.5))
    which = d.integer(1, 3)
    return [x, low, high], {"low": which & 1 != 0, "high": which & 2 != 0}


def run_clamp(x, low, high, args):
    bounds = ([low] if args["low"] else []) + ([high] if args["high"] else [])
    kind = promoted(x, *bounds)
    tensors = [y.to(kind) if torch.is_tensor(y) else torch.tensor(y).to(kind) for y in (low, high)]
    return torch.clamp(x.to(kind), tensors[0] if args["low"] else None, tensors[1] if args["high"] else None)


def view(name, args, run, least=1, most=3):
    def draw(d):
        x = d.tensor(d.one_of(FLOATS + ["i32", "i8", "bool"]), d.shape(least, most))
        return [x], args(d, x)
    op(name, draw, run)


def draw_slice(d, x):
    axis = d.axis(x.dim())
    size = x.shape[axis]
    start = d.integer(0, max(size - 1, 0))
    return {"axis": axis, "start": start, "stop": d.integer(start, size), "step": d.integer(1, 3)}


def run_slice(x, args):
    index = [slice(None)] * x.dim()
    index[args["axis"]] = slice(args["start"], args["stop"], args["step"])
    return x[tuple(index)]


def draw_pad(d):
    x = d.tensor(d.one_of(FLOATS), [2, 3, d.integer(3, 5)])
    args = {"mode": d.one_of(["constant", "reflect", "replicate", "circular"]),
            "last": [d.integer(0, 2), d.integer(0, 2)]}
    if args["mode"] == "constant":
        args["value"] = 1.5
    return [x], args


def run_pad(x, args):
    if args["mode"] == "constant":
        return F.pad(x, args["last"], value=args["value"])
    if args["mode"] == "circular":  # 1.13's own fails without padding on one side
        before, after = args["last"]
        return torch.cat([x[..., x.shape[-1] - before:], x, x[..., :after]], -1)
    return F.pad(x, args["last"], mode=args["mode"])


def draw_joined(d):
    shape = d.shape(1)
    parts = [d.tensor(d.one_of(ALL), shape) for _ in range(d.integer(1, 4))]
    return parts, {"axis": d.axis(len(shape))}


def add_views():
    view("reshape", lambda d, x: {"shape": d.one_of([[-1], [1, -1], [x.numel(), 1]])},
         lambda x, args: x.reshape(args["shape"]))
    view("flatten", lambda d, x: {"axis": d.axis(x.dim())}, lambda x, args: x.flatten(args["axis"]))
    view("permute", lambda d, x: {"axes": [int(a) for a in d.random.permutation(x.dim())]},
         lambda x, args: x.permute(args["axes"]))
    view("transpose", lambda d, x: {"axis": d.axis(x.dim()), "other": d.axis(x.dim())},
         lambda x, args: x.transpose(args["axis"], args["other"]))
    view("slice", draw_slice, run_slice)
    view("expand", lambda d, x: {"shape": [2] + list(x.shape)}, lambda x, args: x.expand(args["shape"]))
    view("unsqueeze", lambda d, x: {"axis": d.axis(x.dim() + 1)}, lambda x, args: x.unsqueeze(args["axis"]))
    op("squeeze", lambda d: ([d.tensor("f32", [2, 1, 3])], {"axis": 1}), lambda x, args: x.squeeze(args["axis"]))
    view("split", lambda d, x: {"size": d.integer(1, 3), "axis": d.axis(x.dim())},
         lambda x, args: x.split(args["size"], args["axis"]))
    view("chunk", lambda d, x: {"count": d.integer(1, 4), "axis": d.axis(x.dim())},
         lambda x, args: x.chunk(args["count"], args["axis"]))
    for name in ["tril", "triu"]:
        view(name, lambda d, x: {"diagonal": d.integer(-2, 2)},
             lambda x, args, name=name: getattr(torch, name)(x, args["diagonal"]), 2)
    op("concat", draw_joined, lambda *given: torch.cat(given[:-1], given[-1]["axis"]))
    op("stack", draw_joined, run_stack)
    view("repeat", lambda d, x: {"counts": [d.integer(1, 2)] + [d.integer(1, 3) for _ in x.shape]},
         lambda x, args: x.repeat(args["counts"]))
    op("pad", draw_pad, run_pad)


def run_stack(*given):
    kind = given[0].dtype
    for tensor in given[:-1]:
        kind = torch.promote_types(kind, tensor.dtype)
    return torch.stack([tensor.to(kind) for tensor in given[:-1]], given[-1]["axis"])


def draw_gather(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    index_shape = list(shape)
    index_shape[axis] = d.integer(1, 4) if shape[axis] else 0
    return shape, axis, index_shape, d.tensor("i64", index_shape, 0, shape[axis] - 1)


def indexed(d, with_source):
    shape, axis, index_shape, index = draw_gather(d)
    dtype = d.one_of(FLOATS + ["i32", "i8"])
    inputs = [d.tensor(dtype, shape), index]
    return inputs + ([d.tensor(dtype, index_shape)] if with_source else []), {"axis": axis}


def selected(d, with_source):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    count = d.integer(1, 4) if shape[axis] else 0
    dtype = d.one_of(FLOATS + ["i32", "i8"])
    inputs = [d.tensor(dtype, shape), d.tensor("i64", [count], 0, shape[axis] - 1)]
    shape = list(shape)
    shape[axis] = count
    return inputs + ([d.tensor(dtype, shape)] if with_source else []), {"axis": axis}


def ordered(d):
    shape = d.shape(1)
    return d.distinct(d.one_of(FLOATS + ["i32", "i8"]), shape), d.axis(len(shape))


def draw_topk(d):
    x, axis = ordered(d)
    return [x], {"axis": axis, "count": d.integer(min(1, x.shape[axis]), x.shape[axis]), "largest": d.flag()}


def draw_sort(d):
    x, axis = ordered(d)
    return [x], {"axis": axis, "descending": d.flag()}


def add_indexing():
    op("gather", lambda d: indexed(d, False), lambda x, i, args: torch.gather(x, args["axis"], i))
    op("scatter_add", lambda d: indexed(d, True), lambda x, i, s, args: x.scatter_add(args["axis"], i, s))
    op("index_select", lambda d: selected(d, False), lambda x, i, args: x.index_select(args["axis"], i))
    op("index_add", lambda d: selected(d, True), lambda x, i, s, args: x.index_add(args["axis"], i, s))
    op("embedding", lambda d: ([d.tensor(d.one_of(FLOATS), [5, 3]), d.tensor("i64", d.shape(1, 2), 0, 4)], {}),
       lambda w, i, args: F.embedding(i, w))
    op("one_hot", lambda d: ([d.tensor("i64", d.shape(1, 2), 0, 3)], {"classes": 4}),
       lambda i, args: F.one_hot(i, args["classes"]), False)
    op("topk", draw_topk, lambda x, args: tuple(torch.topk(x, args["count"], args["axis"], args["largest"])))
    op("sort", draw_sort, lambda x, args: tuple(torch.sort(x, args["axis"], args["descending"])))


def reduction(name, run, types=NUMBERS, distinct=False, gradient=True, more=None, low=-3.0, high=3.0):
    def draw(d):
        shape = d.shape(1)
        dtype = d.one_of(types)
        x = d.distinct(dtype, shape) if distinct else d.tensor(dtype, shape, low, high)
        return [x], {**d.axes(len(shape)), **(more(d) if more else {})}
    op(name, draw, run, gradient)


def reduced(function):
    return lambda x, args: function(x, dims_of(args, x), args.get("keep_dims", False))


def axis_by_axis(function):
    """For what torch reduces along one axis only."""
    def run(x, args):
        for axis in sorted(dims_of(args, x), reverse=True):
            x = function(x, axis, True)
        if not args.get("keep_dims", False):
            for axis in sorted(dims_of(args, x), reverse=True):
                x = x.squeeze(axis)
        return x
    return run


def add_reductions():
    reduction("sum", reduced(torch.sum), NUMBERS + ["bool"])
    reduction("mean", reduced(torch.mean), FLOATS)
    reduction("max", reduced(torch.amax), FLOATS + ["i32", "i8"], distinct=True)
    reduction("min", reduced(torch.amin), FLOATS + ["i32", "i8"], distinct=True)
    reduction("prod", axis_by_axis(torch.prod), NUMBERS + ["bool"])
    reduction("any", axis_by_axis(torch.any), ["bool", "f32", "i32", "i8"], gradient=False)
    reduction("all", axis_by_axis(torch.all), ["bool", "f32", "i32", "i8"], gradient=False)
    correction = lambda d: {"correction": float(d.integer(0, 1))}
    enough = lambda x, args: np.prod([x.shape[a] for a in dims_of(args, x)]) > args["correction"]
    for name, function in [("var", torch.var), ("stddev", torch.std)]:
        reduction(name, lambda x, args, function=function:
                  function(x, dims_of(args, x), bool(args["correction"]), args.get("keep_dims", False))
                  if enough(x, args) else None, FLOATS, more=correction, distinct=name == "stddev")
    reduction("logsumexp", reduced(torch.logsumexp), FLOATS)
    for name in ["argmax", "argmin"]:
        op(name, lambda d: arguments_of_position(d),
           lambda x, args, name=name: getattr(torch, name)(x, args["axis"], args["keep_dims"]), False)
    for name, function in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax), ("cumsum", torch.cumsum)]:
        types = FLOATS if name != "cumsum" else NUMBERS + ["bool"]
        op(name, lambda d, types=types: along_axis(d, types), lambda x, args, function=function: function(x, args["axis"]))


def arguments_of_position(d):
    x, axis = ordered(d)
    return [x], {"axis": axis, "keep_dims": d.flag()}


def along_axis(d, types):
    x = d.tensor(d.one_of(types), d.shape(1))
    return [x], {"axis": d.axis(x.dim())}


def draw_matmul(d):
    dtype = d.one_of(FLOATS)
    m, k, n = (d.integer(1, 5) for _ in range(3))
    form = d.integer(0, 4)
    if form == 0:
        return [d.tensor(dtype, [k]), d.tensor(dtype, [k, n])], {}
    if form == 1:
        return [d.tensor(dtype, [2, m, k]), d.tensor(dtype, [k])], {}
    if form == 2:
        return [d.tensor(dtype, [3, 1, m, k]), d.tensor(dtype, [2, k, n])], {}
    if form == 3:
        return [d.tensor(dtype, [2, m, k]), d.tensor(dtype, [k, n]), d.tensor(dtype, [n])], {}
    return [d.tensor(dtype, [m, k]), d.tensor(dtype, [k, n])], {}


def run_matmul(*given):
    product = torch.matmul(given[0], given[1])
    return product + given[2] if len(given) == 4 else product


def draw_einsum(d):
    dtype = d.one_of(FLOATS)
    sizes = {letter: d.integer(1, 4) for letter in "bijk"}
    equation = d.one_of(["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "i,j->ij", "ij->", "bij,kj->bik", "ij,ij->i",
                         "bi,bj->bij", "ij,jk,k->i"])
    inputs = equation.split("->")[0].split(",")
    return [d.tensor(dtype, [sizes[letter] for letter in term]) for term in inputs], {"equation": equation}


def draw_conv2d(d):
    dtype = d.one_of(FLOATS)
    groups = d.integer(1, 2)
    channels, outputs = groups * d.integer(1, 2), groups * d.integer(1, 3)
    kernel = [d.integer(1, 3), d.integer(1, 3)]
    inputs = [d.tensor(dtype, [d.integer(1, 3), channels, d.integer(5, 8), d.integer(5, 8)]),
              d.tensor(dtype, [outputs, channels // groups] + kernel), d.tensor(dtype, [outputs])]
    return inputs, {"stride": [d.integer(1, 2), d.integer(1, 2)], "padding": [d.integer(0, 2), d.integer(0, 2)],
                    "dilation": [d.integer(1, 2), d.integer(1, 2)], "groups": groups}


def draw_conv1d(d):
    dtype = d.one_of(FLOATS)
    inputs = [d.tensor(dtype, [2, 4, 9]), d.tensor(dtype, [6, 2, d.integer(1, 4)]), d.tensor(dtype, [6])]
    return inputs, {"stride": d.integer(1, 3), "padding": d.integer(0, 2), "groups": 2}


def draw_pool(d, distinct):
    shape = [2, 2, d.integer(4, 6), d.integer(4, 6)]
    x = d.distinct("f32", shape) if distinct else d.tensor(d.one_of(FLOATS), shape)
    kernel = [d.integer(2, 3), d.integer(2, 3)]
    return [x], {"kernel": kernel, "stride": [d.integer(1, 3), d.integer(1, 3)],
                 "padding": [d.integer(0, 1), d.integer(0, 1)], "count_include_pad": d.flag()}


def draw_attention(d):
    dtype = d.one_of(FLOATS)
    queries, keys = d.integer(1, 4), d.integer(4, 6)
    inputs = [d.tensor(dtype, [2, 2, queries, 3]), d.tensor(dtype, [2, 2, keys, 3]), d.tensor(dtype, [2, 2, keys, 5])]
    causal = d.flag()
    if not causal and d.flag():
        mask = d.tensor("bool", [queries, keys])
        mask[:, 0] = True
        inputs.append(mask)
    return inputs, {"causal": causal}


def run_attention(*given):
    query, key, value = given[:3]
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    mask = given[3] if len(given) == 5 else None
    if given[-1]["causal"]:
        n, m = query.shape[-2], key.shape[-2]
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, -1) @ value


def add_contractions():
    op("matmul", draw_matmul, run_matmul)
    op("einsum", draw_einsum, lambda *given: torch.einsum(given[-1]["equation"], *given[:-1]))
    op("conv2d", draw_conv2d, lambda x, w, b, args: F.conv2d(x, w, b, args["stride"], args["padding"], args["dilation"],
                                                             args["groups"]))
    op("conv1d", draw_conv1d, lambda x, w, b, args: F.conv1d(x, w, b, args["stride"], args["padding"], 1, args["groups"]))
    op("max_pool2d", lambda d: draw_pool(d, True),
       lambda x, args: F.max_pool2d(x, args["kernel"], args["stride"], args["padding"]))
    op("avg_pool2d", lambda d: draw_pool(d, False),
       lambda x, args: F.avg_pool2d(x, args["kernel"], args["stride"], args["padding"],
                                    count_include_pad=args["count_include_pad"]))
    op("adaptive_avg_pool2d", lambda d: ([d.tensor(d.one_of(FLOATS), [2, 2, d.integer(1, 7), d.integer(1, 7)])],
                                         {"size": [d.integer(1, 4), d.integer(1, 4)]}),
       lambda x, args: F.adaptive_avg_pool2d(x, args["size"]))
    op("attention", draw_attention, run_attention)


def draw_layer_norm(d):
    dtype = d.one_of(FLOATS)
    x = d.tensor(dtype, [3, 4, 5])
    count = d.integer(1, 2)
    return [x, d.tensor(dtype, x.shape[-count:]), d.tensor(dtype, x.shape[-count:])], {"axis_count": count}


def draw_classes(d, weighted):
    dtype = d.one_of(FLOATS)
    shape = [4, 3] if d.flag() else [2, 3, 5]
    logits = d.tensor(dtype, shape)
    targets = d.tensor("i64", shape[:1] + shape[2:], 0, 2)
    args = {"label_smoothing": 0.25 if d.flag() else 0.0}
    if d.flag():
        args["ignore_index"] = 1
        targets.view(-1)[0] = 0
    return [logits, targets] + ([d.tensor(dtype, [3], 0.5, 2)] if weighted and d.flag() else []), args


def draw_weighted_logits(d):
    dtype, shape = d.one_of(FLOATS), d.shape(1)
    return [d.tensor(dtype, shape, -4, 4), d.tensor(dtype, shape, 0, 1), d.tensor(dtype, shape[-1:], 0.5, 4)], {}


def run_cross_entropy(*given):
    weight = given[2] if len(given) == 4 else None
    args = given[-1]
    return F.cross_entropy(given[0], given[1], weight, ignore_index=args.get("ignore_index", -100),
                           label_smoothing=args["label_smoothing"])


def alike(d, low=-3.0, high=3.0, second=None):
    dtype, shape = d.one_of(FLOATS), d.shape(1)
    return [d.tensor(dtype, shape, low, high), d.tensor(dtype, shape, *(second or (low, high)))]


def add_norms_and_losses():
    op("layer_norm", draw_layer_norm, lambda x, w, b, args: F.layer_norm(x, w.shape, w, b))
    op("rms_norm", lambda d: (lambda t: ([d.tensor(t, [3, 5]), d.tensor(t, [5])], {}))(d.one_of(FLOATS)),
       lambda x, w, args: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w)
    op("group_norm", lambda d: (lambda t: ([d.tensor(t, [2, 4, 3, 3]), d.tensor(t, [4]), d.tensor(t, [4])],
                                           {"groups": d.one_of([1, 2, 4])}))(d.one_of(FLOATS)),
       lambda x, w, b, args: F.group_norm(x, args["groups"], w, b))
    op("cross_entropy", lambda d: draw_classes(d, True), run_cross_entropy, 1)
    op("nll_loss", lambda d: ([d.tensor(d.one_of(FLOATS), [4, 3], -3, 0), d.tensor("i64", [4], 0, 2)], {}),
       lambda x, t, args: F.nll_loss(x, t))
    op("mse_loss", lambda d: (alike(d), {}), lambda x, t, args: F.mse_loss(x, t))
    op("l1_loss", lambda d: (alike(d), {}), lambda x, t, args: F.l1_loss(x, t))
    op("huber_loss", lambda d: (alike(d), {"delta": 0.75}), lambda x, t, args: F.huber_loss(x, t, delta=args["delta"]))
    op("smooth_l1_loss", lambda d: (alike(d), {"beta": 0.75}),
       lambda x, t, args: F.smooth_l1_loss(x, t, beta=args["beta"]))
    op("kl_div_loss", lambda d: (alike(d, -3, -0.1, (0.1, 1)), {}),
       lambda x, t, args: F.kl_div(x, t, reduction="batchmean"))
    op("binary_cross_entropy_with_logits", draw_weighted_logits,
       lambda x, t, w, args: F.binary_cross_entropy_with_logits(x, t, pos_weight=w), 2)


def batch_of(d):
    return [[], [2], [3, 1]][d.integer(0, 2)]


def regular(d, shape):
    """Square matrices away from singular ones."""
    x = d.tensor(d.one_of(FLOATS), shape, -1, 1)
    return x + 3 * torch.eye(shape[-1], dtype=x.dtype)


def draw_positive(d):
    n = d.integer(1, 6)
    x = d.tensor(d.one_of(FLOATS), batch_of(d) + [n, n], -1, 1)
    return [x @ x.transpose(-1, -2) + torch.eye(n, dtype=x.dtype)], {}


def draw_regular(d):
    n = d.integer(1, 6)
    return [regular(d, batch_of(d) + [n, n])], {}


def draw_system(d):
    n = d.integer(1, 6)
    a = regular(d, batch_of(d) + [n, n])
    kind = NAMES[a.dtype]
    # torch 1.13 has no gradient of one vector for several matrices
    return [a, d.tensor(kind, [n] if a.dim() == 2 and d.flag() else [n, d.integer(1, 3)])], {}


def draw_triangle(d):
    n = d.integer(1, 6)
    a = regular(d, batch_of(d) + [n, n])
    args = {"upper": d.flag(), "left": d.flag(), "unit": d.flag()}
    return [a, d.tensor(NAMES[a.dtype], [n, 2] if args["left"] else [2, n])], args


def apart(d, shape):
    """Matrices with singular values apart from one another, of independent columns and rows."""
    x = d.tensor(d.one_of(FLOATS), shape, -0.4, 0.4)
    count = min(shape[-2:])
    x[..., range(count), range(count)] += 2 * torch.arange(1, count + 1, dtype=x.dtype)
    return x


def draw_apart(d):
    return [apart(d, batch_of(d) + [d.integer(1, 5), d.integer(1, 5)])], {}


def draw_apart_square(d):
    n = d.integer(1, 5)
    return [apart(d, batch_of(d) + [n, n])], {}


def draw_least_squares(d):
    m = d.integer(3, 6)
    a = apart(d, [m, d.integer(1, 3)])
    return [a, d.tensor(NAMES[a.dtype], [m, 2])], {}


def run_svd(x, args):
    u, values, vt = torch.linalg.svd(x, full_matrices=False)
    return u.square(), values, vt.square()


def run_eigh(x, args):
    values, vectors = torch.linalg.eigh(x + x.transpose(-1, -2))
    return values, vectors.square()


def run_least_squares(a, b, args):
    return torch.linalg.pinv(a) @ b


def draw_fourier(d, is_complex, is_real_result=False):
    shape = [d.integer(1, 7) for _ in range(d.integer(1, 3))]
    args = {"axis": d.axis(len(shape)), "norm": d.one_of(["backward", "ortho", "forward"])}
    if is_real_result or d.flag():
        args["length"] = d.integer(1, 9)
    return [d.tensor(d.one_of(FLOATS), shape + ([2] if is_complex else []))], args


def fourier(name, reads_complex, gives_complex):
    function = getattr(torch.fft, name)

    def run(x, args):
        y = function(torch.view_as_complex(x.contiguous()) if reads_complex else x, args.get("length"), args["axis"],
                     args["norm"])
        return torch.view_as_real(y) if gives_complex else y
    op(name, lambda d: draw_fourier(d, reads_complex, name == "irfft"), run)


def draw_stft(d):
    size = d.integer(2, 9)
    dtype = d.one_of(FLOATS)
    return [d.tensor(dtype, [2, d.integer(12, 30)]), d.tensor(dtype, [size], 0.1, 1)], \
        {"size": size, "hop": d.integer(1, 6), "center": d.flag()}


def run_stft(x, window, args):
    return torch.view_as_real(torch.stft(x, args["size"], args["hop"], window=window, center=args["center"],
                                         return_complex=True))


def add_linear():
    op("cholesky", draw_positive, lambda x, args: torch.linalg.cholesky(x))
    op("inverse", draw_regular, lambda x, args: torch.linalg.inv(x))
    op("determinant", draw_regular, lambda x, args: torch.linalg.det(x))
    op("slogdet", draw_regular, lambda x, args: tuple(torch.linalg.slogdet(x)))
    op("solve", draw_system, lambda a, b, args: torch.linalg.solve(a, b))
    op("solve_triangular", draw_triangle,
       lambda a, b, args: torch.linalg.solve_triangular(a, b, upper=args["upper"], left=args["left"],
                                                        unitriangular=args["unit"]))
    op("qr", draw_apart, lambda x, args: tuple(torch.linalg.qr(x)))
    op("eigh", draw_apart_square, run_eigh)
    op("svd", draw_apart, run_svd)
    op("lstsq", draw_least_squares, run_least_squares)
    fourier("fft", True, True)
    fourier("ifft", True, True)
    fourier("rfft", False, True)
    fourier("irfft", True, False)
    op("stft", draw_stft, run_stft)


def add_creations():
    op("arange", lambda d: ([], {"start": d.integer(-3, 3), "stop": d.integer(4, 9), "step": d.integer(1, 3),
                                 "dtype": d.one_of(NUMBERS[:4] + ["i8"])}),
       lambda args: torch.arange(args["start"], args["stop"], args["step"], dtype=TYPES[args["dtype"]]), False)
    op("linspace", lambda d: ([], {"start": -1.5, "stop": float(d.integer(0, 5)), "count": d.integer(1, 9),
                                   "dtype": d.one_of(FLOATS)}),
       lambda args: torch.linspace(args["start"], args["stop"], args["count"], dtype=TYPES[args["dtype"]]), False)
    op("eye", lambda d: ([], {"rows": d.integer(1, 5), "columns": d.integer(1, 5)}),
       lambda args: torch.eye(args["rows"], args["columns"]), False)
    op("full", lambda d: ([], {"shape": d.shape(), "value": d.integer(0, 1), "dtype": d.one_of(ALL)}),
       lambda args: torch.full(args["shape"], args["value"], dtype=TYPES[args["dtype"]]), False)


def fill_table():
    for add in (add_unary, add_binary, add_views, add_indexing, add_reductions, add_contractions, add_norms_and_losses,
                add_linear, add_creations):
        add()


# ---- one call ----

def number_out(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def tensor_out(tensor):
    if not torch.is_tensor(tensor):
        return tensor
    flat = tensor.detach().reshape(-1)
    data = flat.double().tolist() if tensor.is_floating_point() else flat.to(torch.int64).tolist()
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data": [number_out(v) for v in data]}


def numbers_in(data):
    words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return torch.tensor([words.get(v, v) if isinstance(v, str) else v for v in data], dtype=torch.float64)


def is_differentiated(gradient, i):
    return gradient if isinstance(gradient, bool) else i < gradient


class Call:
    """A call that torch can run, with what torch makes of it."""

    def __init__(self, name, draw):
        self.name = name
        self.refusal = "they all differ by decision"
        drawn, run, has_gradient = OPS[name]
        inputs, self.args = drawn(draw)
        self.inputs = [x.clone().contiguous() if torch.is_tensor(x) else x for x in inputs]
        for i, x in enumerate(self.inputs):
            if is_differentiated(has_gradient, i) and torch.is_tensor(x) and x.is_floating_point():
                x.requires_grad_(True)
        try:
            result = run(*self.inputs, self.args)
        except (RuntimeError, IndexError) as error:  # torch has no such call: of i8, or the largest of no elements
            self.is_drawn = False
            self.refusal = str(error)
            return
        self.is_drawn = result is not None  # else it is one of those that differ by decision, or too close to a step
        if not self.is_drawn:
            return
        self.outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        self.is_drawn = all(y.dtype in NAMES for y in self.outputs)  # u8 and i8 meet in i16 there, and in i32 here
        if not self.is_drawn:
            return
        self.cotangents = []
        self.gradients = []
        if has_gradient and any(torch.is_tensor(x) and x.requires_grad for x in self.inputs):
            self.differentiate(draw)

    def differentiate(self, draw):
        is_real = [y.is_floating_point() for y in self.outputs]
        self.cotangents = [draw.tensor("f64", list(y.shape), 0.5, 1.5) if real else None
                           for y, real in zip(self.outputs, is_real)]
        if not any(is_real):
            self.cotangents = []
            return
        total = sum((y.double() * c).sum() for y, c in zip(self.outputs, self.cotangents) if c is not None)
        if total.requires_grad:
            total.backward()
        for x in self.inputs:
            real = torch.is_tensor(x) and x.requires_grad
            self.gradients.append((x.grad if x.grad is not None else torch.zeros_like(x)) if real else None)

    def line(self):
        return json.dumps({"op": self.name, "inputs": [tensor_out(x) for x in self.inputs], "args": self.args,
                           "cotangents": [tensor_out(c) if c is not None else None for c in self.cotangents]})

    def text(self):
        inputs = ", ".join("%s%s" % (NAMES[x.dtype], list(x.shape)) if torch.is_tensor(x) else str(x) for x in self.inputs)
        return "%s(%s) %s" % (self.name, inputs, self.args or "")


def coarsest(call):
    """The tolerance of gradients where types meet: on its way back one may be rounded to any of them."""
    return max(TOLERANCES.get(NAMES[x.dtype], TOLERANCES["f32"]) for x in call.inputs if torch.is_tensor(x))


def difference(what, got, want, least=0.0):
    """A sentence, or nothing when they agree."""
    dtype = NAMES[want.dtype]
    if got["dtype"] != dtype or got["shape"] != list(want.shape):
        return "%s is %s%s, torch's %s%s" % (what, got["dtype"], got["shape"], dtype, list(want.shape))
    mine = numbers_in(got["data"])
    theirs = want.detach().reshape(-1).double()
    if dtype not in TOLERANCES:
        return None if torch.equal(mine, theirs) else "%s is %s, torch's %s" % (what, mine.tolist(), theirs.tolist())
    finite = torch.isfinite(theirs)
    scale = float(theirs[finite].abs().max()) if bool(finite.any()) else 1.0
    limit = max(TOLERANCES[dtype], least)
    if torch.allclose(mine, theirs, rtol=limit, atol=limit * max(scale, 0.1), equal_nan=True):
        return None
    return "%s is %s, torch's %s" % (what, mine.tolist()[:8], theirs.tolist()[:8])


def compare(call, result):
    if "error" in result:
        return result["error"]
    if len(result["outputs"]) != len(call.outputs):
        return "%d outputs, torch has %d" % (len(result["outputs"]), len(call.outputs))
    for i, (got, want) in enumerate(zip(result["outputs"], call.outputs)):
        problem = difference("output %d" % i, got, want)
        if problem:
            return problem
    for i, want in enumerate(call.gradients):
        if want is not None:
            problem = difference("gradient of input %d" % i, result["gradients"][i], want, coarsest(call))
            if problem:
                return problem
    return None


def draw_calls(count, seed):
    """Each op in turn, so that none is left out; a call that torch does not take is drawn anew."""
    draw = Draw(seed)
    names = sorted(OPS)
    calls = []
    refused = 0  # in a row
    while len(calls) < count:
        call = Call(names[len(calls) % len(names)], draw)
        refused = 0 if call.is_drawn else refused + 1
        if call.is_drawn:
            calls.append(call)
        elif refused > 1000:
            sys.exit("torch takes no call of %s: %s" % (call.name, call.refusal))
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True, help="op_calls, as built")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    fill_table()
    calls = draw_calls(options.calls, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = os.path.join(folder, "calls"), os.path.join(folder, "results")
        with open(asked, "w") as file:
            file.writelines(call.line() + "\n" for call in calls)
        subprocess.run([options.program, asked, answered], check=True)
        with open(answered) as file:
            results = [json.loads(line) for line in file]
    if len(results) != len(calls):
        sys.exit("%d calls, %d results" % (len(calls), len(results)))
    differing = 0
    for number, (call, result) in enumerate(zip(calls, results)):
        problem = compare(call, result)
        if problem:
            differing += 1
            print("call %d of seed %d: %s: %s" % (number, options.seed, call.text(), problem))
    of_i8 = sum(1 for call in calls if any(torch.is_tensor(x) and x.dtype == torch.int8 for x in call.inputs))
    empty = sum(1 for call in calls if any(torch.is_tensor(x) and x.numel() == 0 for x in call.inputs))
    with_gradients = sum(1 for call in calls if call.gradients)
    print("%d of %d calls of %d ops agree with torch %s (seed %d); %d of them with gradients, %d with i8, "
          "%d with an axis of size 0" %
          (len(calls) - differing, len(calls), len(set(c.name for c in calls)), torch.__version__, options.seed,
           with_gradients, of_i8, empty))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
