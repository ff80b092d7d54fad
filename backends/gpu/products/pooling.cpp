// A thread computes one element of the result from all its sources, in row-major order, so no two
// threads add to one element. The backward kinds gather from the windows that cover an element.
// Positions passed to max_pool2d_backward may lie outside their windows. A first pass checks them
// all; a plane with such a position is gathered from all of its windows.
#include "pooling.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/movement/movement.hpp"
#include "backends/gpu/space/merged_space.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

enum class Pooling : std::uint32_t { max, max_with_positions, mean, check, max_back, mean_back };

constexpr std::int64_t kMostSide = std::int64_t{1} << 30;
constexpr std::int64_t kChunk = 4096;  // windows that a workgroup of the check reads

constexpr std::string_view kPoolMembers =
    "int height; int width; int rows; int columns; int kernel_y; int kernel_x; int stride_y; "
    "int stride_x; int padding_y; int padding_x; int all_count; int channels; INDEX count; ";

// The range of windows that cover a place, and the range that a window covers.
constexpr std::string_view kWindows = R"(
struct Range { int begin; int end; };
FN Range covered(int at, int stride, int padding, int kernel, int size) {
  const int first = at * stride - padding;
  return NEW2(Range, max(first, 0), min(first + kernel, size));
}
FN Range covering(int place, int stride, int padding, int kernel, int windows) {
  const int last = place + padding;
  const int first = last - kernel + 1;
  return NEW2(Range, first <= 0 ? 0 : (first - 1) / stride + 1, min(last / stride + 1, windows));
}
FN Range rows_of(int y) { return covered(y, p.stride_y, p.padding_y, p.kernel_y, p.height); }
FN Range columns_of(int x) { return covered(x, p.stride_x, p.padding_x, p.kernel_x, p.width); }
FN Range rows_over(int y) { return covering(y, p.stride_y, p.padding_y, p.kernel_y, p.rows); }
FN Range columns_over(int x) { return covering(x, p.stride_x, p.padding_x, p.kernel_x, p.columns); }
FN T window_size(Range rows, Range columns) {
  return p.all_count != 0 ? T(p.all_count)
                          : T((rows.end - rows.begin) * (columns.end - columns.begin));
}
// Element i of planes of this size: its row and column, and where its plane begins in an operand.
FN void split(INDEX i, int height, int width, OUT(INDEX) plane, OUT(int) y, OUT(int) x) {
  const INDEX row = INDEX(UINDEX(i) / UINDEX(width));
  plane = INDEX(UINDEX(row) / UINDEX(height));
  y = int(row - plane * height);
  x = int(i - row * width);
}
#define PLANE(plane, name) (p.name##_start + plane / p.channels * p.name##_n + \
                            plane % p.channels * p.name##_c)
)";

constexpr std::string_view kMax = R"(
FN void main() {
  const INDEX i = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (i >= p.count) {
    return;
  }
  INDEX plane;
  int oy, ox;
  split(i, p.rows, p.columns, plane, oy, ox);
  const INDEX base = PLANE(plane, x);
  const Range rows = rows_of(oy);
  const Range columns = columns_of(ox);
  int place = -1;
  T best = T(0);
  for (int y = rows.begin; y < rows.end; ++y) {
    for (int x = columns.begin; x < columns.end; ++x) {
      const T value = LOAD(p.x, base + INDEX(y) * p.x_h + INDEX(x) * p.x_w);
      if (place < 0 || value > best || (is_nan(value) && !is_nan(best))) {
        best = value;
        place = y * p.width + x;
      }
    }
  }
  STORE(p.y, i, best);
#ifdef POSITIONS
  store_i32(p.positions, i, place);
#endif
}
)";

constexpr std::string_view kMean = R"(
FN void main() {
  const INDEX i = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (i >= p.count) {
    return;
  }
  INDEX plane;
  int oy, ox;
  split(i, p.rows, p.columns, plane, oy, ox);
  const INDEX base = PLANE(plane, x);
  const Range rows = rows_of(oy);
  const Range columns = columns_of(ox);
  T sum = T(0);
  T lost = T(0);
  for (int y = rows.begin; y < rows.end; ++y) {
    for (int x = columns.begin; x < columns.end; ++x) {
      add_long(sum, lost, LOAD(p.x, base + INDEX(y) * p.x_h + INDEX(x) * p.x_w));
    }
  }
  STORE(p.y, i, long_sum(sum, lost) / window_size(rows, columns));
}
)";

constexpr std::string_view kMeanBack = R"(
FN void main() {
  const INDEX i = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (i >= p.count) {
    return;
  }
  INDEX plane;
  int y, x;
  split(i, p.height, p.width, plane, y, x);
  const INDEX base = PLANE(plane, x);
  const Range rows = rows_over(y);
  const Range columns = columns_over(x);
  T sum = T(0);
  T lost = T(0);
  for (int oy = rows.begin; oy < rows.end; ++oy) {
    const Range high = rows_of(oy);
    for (int ox = columns.begin; ox < columns.end; ++ox) {
      const T grad = LOAD(p.x, base + INDEX(oy) * p.x_h + INDEX(ox) * p.x_w);
      add_long(sum, lost, grad / window_size(high, columns_of(ox)));
    }
  }
  STORE(p.y, i, long_sum(sum, lost));
}
)";

constexpr std::string_view kPoolCheck = R"(
SHARED_ONE(uint, strays);
FN void main() {
  if (INDEX(GROUP) >= p.count) {
    return;
  }
  const INDEX plane = INDEX(GROUP) / p.chunks;
  const int windows = p.rows * p.columns;
  const int begin = int(INDEX(GROUP) - plane * p.chunks) * 4096;
  if (THREAD == 0u) {
    strays = 0u;
  }
  barrier();
  const INDEX base = PLANE(plane, q);
  for (int at = begin + int(THREAD); at < min(begin + 4096, windows); at += 256) {
    const int oy = at / p.columns;
    const int ox = at - oy * p.columns;
    const int place = load_i32(p.positions, base + INDEX(oy) * p.q_h + INDEX(ox) * p.q_w);
    if (place < 0 || place >= p.height * p.width) {
      fail(p.cell, 2u, int64_t(place), int64_t(plane) * windows + at, int64_t(p.height * p.width));
    }
    const int y = place / p.width;
    const int x = place - y * p.width;
    const Range rows = rows_of(oy);
    const Range columns = columns_of(ox);
    if (y < rows.begin || y >= rows.end || x < columns.begin || x >= columns.end) {
      strays = 1u;
    }
  }
  barrier();
  if (THREAD == 0u) {
    ELEMENT(Words32u, p.flags, INDEX(GROUP), 4l) = strays;
  }
}
)";

constexpr std::string_view kMaxBack = R"(
FN void main() {
  const INDEX i = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (i >= p.count) {
    return;
  }
  INDEX plane;
  int y, x;
  split(i, p.height, p.width, plane, y, x);
  uint strays = 0u;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    strays |= ELEMENT(Words32u, p.flags, plane * p.chunks + chunk, 4l);
  }
  const INDEX base = PLANE(plane, x);
  const INDEX positions = PLANE(plane, q);
  const Range rows = strays != 0u ? NEW2(Range, 0, p.rows) : rows_over(y);
  const Range columns = strays != 0u ? NEW2(Range, 0, p.columns) : columns_over(x);
  const int place = y * p.width + x;
  T sum = T(0);
  T lost = T(0);
  for (int oy = rows.begin; oy < rows.end; ++oy) {
    for (int ox = columns.begin; ox < columns.end; ++ox) {
      if (load_i32(p.positions, positions + INDEX(oy) * p.q_h + INDEX(ox) * p.q_w) == place) {
        add_long(sum, lost, LOAD(p.x, base + INDEX(oy) * p.x_h + INDEX(ox) * p.x_w));
      }
    }
  }
  STORE(p.y, i, long_sum(sum, lost));
}
)";

/// `large` has the planes' shape, `small` that of the windows.
struct Sizes {
  const Shape* large;
  const Shape* small;
};

void add_sizes(ParameterBlock& block,
               const KernelCall& call,
               const Sizes& sizes,
               std::int64_t count,
               bool wide) {
  const auto pool = call.op.attributes<PoolAttributes>();
  const auto add = [&block](std::int64_t value) {
    block.add(static_cast<std::int32_t>(std::min(value, kMostSide)));
  };
  add((*sizes.large)[2]);
  add((*sizes.large)[3]);
  add((*sizes.small)[2]);
  add((*sizes.small)[3]);
  for (const auto& pair : {pool.kernel, pool.stride, pool.padding}) {
    add(pair[0]);
    add(pair[1]);
  }
  add(pool.count_include_pad != 0 ? pool.kernel[0] * pool.kernel[1] : 0);
  add((*sizes.large)[1]);
  add_index(block, count, wide);
}

/// A strided operand [n, c, h, w]: the offset of its first element from its lowest, and its
/// strides.
struct Planes {
  explicit Planes(const TensorView& view) noexcept
      : start(0), strides(view.strides()), shape(view.shape()) {
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const std::int64_t all = strides[axis] * (shape[static_cast<int>(axis)] - 1);
      start -= std::min<std::int64_t>(all, 0);
      reach += all < 0 ? -all : all;
    }
    address = lowest_address(view, start, static_cast<int>(size_bytes(view.dtype)));
  }
  void add_to(ParameterBlock& block, bool wide) const noexcept {
    add_index(block, start, wide);
    for (std::size_t axis = 0; axis < 4; ++axis) {
      add_index(block, strides[axis], wide);
    }
  }

  std::int64_t start;
  std::int64_t reach = 0;
  Strides strides;
  Shape shape;
  std::uint64_t address = 0;
};

std::string planes_members(char name) {
  return fmt::format("INDEX {0}_start; INDEX {0}_n; INDEX {0}_c; INDEX {0}_h; INDEX {0}_w; ", name);
}

std::string pooling_defines(DType dtype) {
  return fmt::format("#define T {0}\n#define LOAD load_{1}\n#define STORE store_{1}\n{2}",
                     glsl_compute_type(dtype),
                     glsl_suffix(dtype),
                     glsl_long_sum(glsl_compute_type(dtype)));
}

KernelKey pooling_key(Pooling what, DType dtype, bool wide) {
  KernelKey key(KernelFamily::pooling);
  key.add(static_cast<std::uint32_t>(what)).add(dtype).add(wide);
  return key;
}

std::string pooling_text(DType dtype,
                         bool wide,
                         const std::string& members,
                         std::size_t size_bytes) {
  return fmt::format("{}{}{}{}{}{}",
                     glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
                     glsl_uindex(wide),
                     glsl_parameters(members, size_bytes),
                     pooling_defines(dtype),
                     glsl_fail(),
                     kWindows);
}

std::int64_t groups(std::int64_t count) {
  return (count + kGroupThreads - 1) / kGroupThreads;
}

/// Encodes the kernels with one input and one thread for each element of output 0.
Status encode_plain(const KernelCall& call,
                    const Sizes& sizes,
                    Pooling what,
                    std::string_view body,
                    KernelEncoder& encoder) {
  const TensorView& y = call.outputs[0];
  const std::int64_t count = y.element_count();
  const DType dtype = y.dtype;
  if (count == 0) {
    return {};
  }
  const Planes x(call.inputs[0]);
  const bool wide = is_wide(std::max(count, x.reach));
  ParameterBlock block;
  block.add(x.address).add(y);
  block.add(call.outputs.size() > 1 ? address_of(call.outputs[1]) : std::uint64_t{0});
  add_sizes(block, call, sizes, count, wide);
  x.add_to(block, wide);
  const auto text = [&] {
    return pooling_text(dtype,
                        wide,
                        fmt::format("uint64_t x; uint64_t y; uint64_t positions; {}{}",
                                    kPoolMembers,
                                    planes_members('x')),
                        block.size_bytes()) +
           (what == Pooling::max_with_positions ? "#define POSITIONS\n" : "") + std::string(body);
  };
  return encoder.dispatch(
      pooling_key(what, dtype, wide), text, block, encoder.linear(groups(count)));
}

}  // namespace

Support supports_pooling(const KernelCall& call, const DeviceLimits& limits) {
  if (call.outputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  for (const TensorView* view : {&call.inputs[0], &call.outputs[0]}) {
    const std::int64_t height = view->shape()[2];
    const std::int64_t width = view->shape()[3];
    if (width != 0 && height >= kMostSide / width) {
      return {.yes = false, .reason = "a plane has 2^30 elements or more"};
    }
  }
  const auto pool = call.op.attributes<PoolAttributes>();
  if (pool.kernel[0] >= kMostSide || pool.kernel[1] >= kMostSide / pool.kernel[0]) {
    return {.yes = false, .reason = "a window covers 2^30 places or more"};
  }
  return {};
}

Status encode_pool(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const Sizes sizes{&call.inputs[0].shape(), &call.outputs[0].shape()};
  if (call.op.kind() == OpKind::avg_pool2d) {
    return encode_plain(call, sizes, Pooling::mean, kMean, encoder);
  }
  return encode_plain(call,
                      sizes,
                      call.outputs.size() > 1 ? Pooling::max_with_positions : Pooling::max,
                      kMax,
                      encoder);
}

Status encode_avg_pool_backward(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  return encode_plain(call,
                      {&call.outputs[0].shape(), &call.inputs[0].shape()},
                      Pooling::mean_back,
                      kMeanBack,
                      encoder);
}

Status encode_max_pool_backward(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& result = call.outputs[0];
  const Sizes sizes{&result.shape(), &call.inputs[0].shape()};
  const std::int64_t count = result.element_count();
  if (count == 0) {
    return {};
  }
  const std::int64_t windows = (*sizes.small)[2] * (*sizes.small)[3];
  const std::int64_t chunks = (windows + kChunk - 1) / kChunk;
  const std::int64_t checks = (*sizes.large)[0] * (*sizes.large)[1] * chunks;
  const DType dtype = result.dtype;
  const Planes grad(call.inputs[0]);
  const Planes positions(call.inputs[1]);
  const bool wide = is_wide(std::max({count, checks, grad.reach, positions.reach}));
  HEARTH_TRY(const std::uint64_t flags, encoder.scratch(4 * checks));
  const auto block_for = [&](std::int64_t items) {
    ParameterBlock block;
    block.add(grad.address).add(result).add(positions.address).add(flags);
    block.add(encoder.error_cell());
    add_sizes(block, call, sizes, items, wide);
    add_index(block, chunks, wide);
    grad.add_to(block, wide);
    positions.add_to(block, wide);
    return block;
  };
  const auto make = [&](std::size_t size_bytes, std::string_view body) {
    return pooling_text(dtype,
                        wide,
                        fmt::format("uint64_t x; uint64_t y; uint64_t positions; uint64_t flags; "
                                    "uint64_t cell; {}INDEX chunks; {}{}",
                                    kPoolMembers,
                                    planes_members('x'),
                                    planes_members('q')),
                        size_bytes) +
           std::string(body);
  };
  const ParameterBlock check = block_for(checks);
  HEARTH_TRY_STATUS(encoder.dispatch(
      pooling_key(Pooling::check, dtype, wide),
      [&] { return make(check.size_bytes(), kPoolCheck); },
      check,
      encoder.linear(checks)));
  encoder.barrier();
  const ParameterBlock gather = block_for(count);
  return encoder.dispatch(
      pooling_key(Pooling::max_back, dtype, wide),
      [&] { return make(gather.size_bytes(), kMaxBack); },
      gather,
      encoder.linear(groups(count)));
}

}  // namespace hearth::gpu
