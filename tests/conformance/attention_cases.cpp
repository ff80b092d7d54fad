#include "case_families.hpp"

#include <cstddef>
#include <iterator>

namespace hearth::conformance {
namespace {

using testing::Precision;

constexpr DtypeMask kDoubles = dtype_bit(DType::f64);
constexpr auto kOthers = static_cast<DtypeMask>(kFloatTypes & ~kDoubles);

struct Sizes {
  Shape batch;  // the axes before the heads
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t width;
  std::int64_t value_width;

  [[nodiscard]] Shape shape(std::int64_t heads_of, std::int64_t rows, std::int64_t columns) const {
    Shape out = batch;
    for (const std::int64_t size : {heads_of, rows, columns}) {
      out.push_back(size);
    }
    return out;
  }
  [[nodiscard]] Shape q() const { return shape(heads, queries, width); }
  [[nodiscard]] Shape k() const { return shape(key_heads, keys, width); }
  [[nodiscard]] Shape v() const { return shape(key_heads, keys, value_width); }
  [[nodiscard]] Shape y() const { return shape(heads, queries, value_width); }
  [[nodiscard]] Shape scores() const { return shape(heads, queries, keys); }
  [[nodiscard]] Shape statistics() const { return shape(heads, queries, 2); }
};

// Single queries, groups, several blocks of queries and of keys, enough heads for one task each,
// rows of eights for matrix units.
const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> kAll{{{2}, 3, 3, 7, 7, 8, 8},
                                       {{1}, 4, 2, 5, 9, 16, 6},
                                       {{2}, 4, 4, 1, 33, 20, 20},
                                       {{1}, 6, 2, 2, 300, 24, 17},
                                       {{}, 2, 1, 34, 258, 12, 20},
                                       {{2}, 8, 8, 66, 6, 5, 9},
                                       {{}, 4, 2, 20, 70, 16, 24},
                                       {{}, 2, 1, 90, 280, 40, 36},
                                       {{1}, 1, 1, 70, 70, 32, 33},
                                       {{1}, 1, 1, 40, 36, 8, 72},
                                       {{2, 1}, 2, 2, 3, 4, 1, 1},
                                       {{1}, 2, 2, 4, 0, 3, 3},
                                       {{1}, 2, 2, 0, 4, 3, 3},
                                       {{1}, 0, 2, 4, 4, 3, 3},
                                       {{1}, 1, 1, 3, 5, 3, 1},
                                       {{2}, 2, 1, 3, 5, 0, 4}};
  return kAll;
}

// Whole tiles and ragged ones, of widths that kernels with fragments in registers take.
const std::vector<Sizes>& tile_sizes() {
  static const std::vector<Sizes> kAll{{{}, 2, 1, 70, 200, 64, 64},
                                       {{1}, 2, 2, 200, 170, 64, 64},
                                       {{}, 2, 2, 65, 100, 24, 64},
                                       {{1}, 1, 1, 140, 150, 128, 120},
                                       {{}, 4, 2, 90, 96, 64, 40},
                                       {{}, 1, 1, 70, 80, 72, 128}};
  return kAll;
}

enum class Mask { none, causal, bools, bool_line, floats };
constexpr Mask kMasks[] = {Mask::none, Mask::causal, Mask::bools, Mask::bool_line, Mask::floats};

// With more queries than keys, half of the queries precede all keys.
AttentionAttributes attributes_of(const Sizes& sizes, Mask mask) {
  return {.scale = sizes.width > 8 ? 0.25 : 0.5,
          .causal = mask == Mask::causal || mask == Mask::bool_line ? 1 : 0};
}

void add_mask(CallSpec& call, const Sizes& sizes, Mask mask) {
  switch (mask) {
    case Mask::bools:
      call.inputs.push_back({.shape = sizes.scores(), .dtype = DType::boolean});
      break;
    case Mask::bool_line:
      call.inputs.push_back({.shape = {sizes.keys}, .dtype = DType::boolean});
      break;
    case Mask::floats:  // by query, equal for all heads
      call.inputs.push_back({.shape = {sizes.queries, sizes.keys}, .values = Values::masked});
      break;
    default:
      break;
  }
}

// Each of the sizes with two of the masks, each of the masks with some of the sizes.
template <class Make>
void for_each_call(const std::vector<Sizes>& all, const Make& make) {
  std::size_t number = 0;
  for (const Sizes& sizes : all) {
    for (const std::size_t turn : {std::size_t{0}, std::size_t{2}}) {
      const Mask mask = kMasks[(number + turn) % std::size(kMasks)];
      make(sizes, mask, DType::f64, kDoubles);
      make(sizes, mask, DType::f32, kOthers);
    }
    ++number;
  }
}

OpCase forward_case(const std::vector<Sizes>& all) {
  OpCase out{.kind = OpKind::attention, .precision = Precision::sum, .calls = {}};
  for_each_call(all, [&](const Sizes& sizes, Mask mask, DType statistics, DtypeMask dtypes) {
    CallSpec call{.inputs = {{.shape = sizes.q()}, {.shape = sizes.k()}, {.shape = sizes.v()}},
                  .outputs = {{.shape = sizes.y()}},
                  .attributes = bytes_of(attributes_of(sizes, mask)),
                  .length = static_cast<double>(sizes.keys + sizes.width),
                  .term = 4,
                  .dtypes = dtypes};
    add_mask(call, sizes, mask);
    if (mask != Mask::causal) {
      call.outputs.push_back({.shape = sizes.statistics(), .dtype = statistics});
    }
    out.calls.push_back(std::move(call));
  });
  return out;
}

OpCase backward_case(const std::vector<Sizes>& all) {
  OpCase out{.kind = OpKind::attention_backward, .precision = Precision::sum, .calls = {}};
  for_each_call(all, [&](const Sizes& sizes, Mask mask, DType statistics, DtypeMask dtypes) {
    CallSpec call{.inputs = {{.shape = sizes.y()},
                             {.shape = sizes.q(), .values = Values::probability},
                             {.shape = sizes.k(), .values = Values::probability},
                             {.shape = sizes.v()},
                             {.shape = sizes.y()},
                             {.shape = sizes.statistics(),
                              .values = Values::row_statistics,
                              .dtype = statistics}},
                  .outputs = {{.shape = sizes.q()}, {.shape = sizes.k()}, {.shape = sizes.v()}},
                  .attributes = bytes_of(attributes_of(sizes, mask)),
                  .length = static_cast<double>(sizes.heads * sizes.queries + sizes.keys),
                  .term = 400,
                  .dtypes = dtypes};
    add_mask(call, sizes, mask);
    out.calls.push_back(std::move(call));
  });
  return out;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  return {forward_case(all_sizes()), backward_case(all_sizes())};
}

std::vector<OpCase> attention_tile_cases() {
  return {forward_case(tile_sizes()), backward_case(tile_sizes())};
}

}  // namespace hearth::conformance
