#include "topk.hpp"

#include "backends/cpu/machine/collapse.hpp"
#include "backends/cpu/products/gemm.hpp"

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kElementsPerTask = std::int64_t{1} << 16;
constexpr std::int64_t kMostTasks = 64;

/// A candidate: ordered by a key that grows with the value, then by place.
struct Chosen {
  std::uint64_t key;
  std::int64_t place;
};

bool is_better(const Chosen& a, const Chosen& b) noexcept {
  return a.key > b.key || (a.key == b.key && a.place < b.place);
}

constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;

// Both zeros share one key; NaN has the largest.
std::uint64_t key_of(double x) noexcept {
  if (x != x) {
    return ~std::uint64_t{0};
  }
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

template <class T>
std::uint64_t key_of(T x) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) ^ kSign;
  } else {
    return key_of(static_cast<double>(static_cast<float>(x)));
  }
}

/// Lines along the axis, and the places of their results.
struct Lines {
  std::int64_t length;
  std::int64_t count;  ///< Results of each line.
  std::int64_t in_step;
  std::int64_t out_step;
  bool smallest;
};

// Keeps the best elements so far in a heap with the worst of them first: most elements need one
// comparison.
template <class T>
void choose_best(const Lines& lines, const T* in, T* values, std::int64_t* places, Chosen* heap) {
  const std::uint64_t turn = lines.smallest ? ~std::uint64_t{0} : 0;
  const auto key_at = [&](std::int64_t i) { return key_of(in[i * lines.in_step]) ^ turn; };
  for (std::int64_t i = 0; i < lines.count; ++i) {
    heap[i] = {key_at(i), i};
  }
  Chosen* const end = heap + lines.count;
  std::make_heap(heap, end, is_better);
  for (std::int64_t i = lines.count; i < lines.length; ++i) {
    const std::uint64_t key = key_at(i);
    if (key > heap->key) {
      std::pop_heap(heap, end, is_better);
      end[-1] = {key, i};
      std::push_heap(heap, end, is_better);
    }
  }
  std::sort_heap(heap, end, is_better);
  for (std::int64_t i = 0; i < lines.count; ++i) {
    values[i * lines.out_step] = in[heap[i].place * lines.in_step];
    places[i * lines.out_step] = heap[i].place;
  }
}

}  // namespace

Status run_topk(const KernelCall& call, KernelContext& context) {
  const TensorView& in = call.inputs[0];
  const TensorView& values = call.outputs[0];
  if (values.element_count() == 0) {
    return {};
  }
  const auto attributes = call.op.attributes<TopkAttributes>();
  const auto axis = static_cast<std::size_t>(attributes.axis);
  const Lines lines{.length = in.shape()[attributes.axis],
                    .count = values.shape()[attributes.axis],
                    .in_step = in.strides()[axis],
                    .out_step = values.strides()[axis],
                    .smallest = attributes.smallest != 0};
  Shape kept = in.shape();
  kept.set(attributes.axis, 1);
  const Strides strides[] = {in.strides(), values.strides()};
  const Collapsed space(kept, strides);
  const std::int64_t line_count = kept.element_count();
  const std::int64_t grain = std::max<std::int64_t>(
      {1, kElementsPerTask / lines.length, (line_count + kMostTasks - 1) / kMostTasks});
  const std::int64_t share = whole_lines(lines.count * static_cast<std::int64_t>(sizeof(Chosen)));
  HEARTH_TRY(std::byte* const scratch,
             context.scratch.take_all(share * ((line_count + grain - 1) / grain)));
  auto* const places = call.outputs[1].as<std::int64_t>();
  visit_dtype(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    context.arena.parallel_for(line_count, grain, [&](std::int64_t begin, std::int64_t end) {
      auto* const heap = reinterpret_cast<Chosen*>(scratch + begin / grain * share);
      const std::int64_t inner = space.inner_size();
      for (std::int64_t line = begin; line < end; ++line) {
        const Place place(space, line / inner);
        const std::int64_t column = line % inner;
        const std::int64_t to = place.offset[1] + column * space.inner_stride(1);
        choose_best(lines,
                    in.as<T>() + place.offset[0] + column * space.inner_stride(0),
                    values.as<T>() + to,
                    places + to,
                    heap);
      }
    });
  });
  return {};
}

}  // namespace hearth::cpu
