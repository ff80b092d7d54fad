#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

struct Named {
  int axis;
  Shape whole;
  Shape index;
};

// The table of an embedding, and rows that are short, long, in the middle and at the end.
const std::vector<Named>& lines() {
  static const std::vector<Named> all{{0, {1}, {1}},
                                      {0, {7}, {5}},
                                      {0, {5, 3}, {7}},
                                      {1, {5, 3}, {4}},
                                      {0, {4, 6}, {0}},
                                      {0, {0, 6}, {0}},
                                      {1, {4, 6, 0}, {3}},
                                      {1, {3, 5, 7}, {11}},
                                      {2, {3, 5, 7}, {2}},
                                      {1, {2, 3, 1, 17}, {5}},
                                      {0, {37, 64}, {19}},
                                      {0, {3, 1100}, {8}},
                                      {1, {3, 9, 33}, {40}},
                                      {0, {331, 257}, {1003}},
                                      {0, {5003, 48}, {77}},
                                      {0, {3, 40}, {1500}},  // many indices for one target
                                      {1, {2, 5}, {2100}},
                                      {1, {65, 1031}, {700}}};
  return all;
}

// As long as the indexed tensor off the axis, or shorter.
const std::vector<Named>& points() {
  static const std::vector<Named> all{{0, {1}, {1}},
                                      {0, {7}, {5}},
                                      {0, {5, 3}, {7, 3}},
                                      {1, {5, 3}, {5, 1}},
                                      {1, {5, 3}, {4, 9}},
                                      {0, {4, 6}, {0, 6}},
                                      {0, {0, 6}, {0, 5}},
                                      {1, {4, 6, 0}, {2, 3, 0}},
                                      {1, {3, 5, 7}, {3, 11, 5}},
                                      {2, {3, 5, 7}, {2, 5, 2}},
                                      {3, {2, 3, 1, 17}, {1, 3, 1, 29}},
                                      {0, {129, 67}, {301, 65}},
                                      {1, {3, 4}, {3, 1300}},
                                      {1, {331, 257}, {331, 257}},
                                      {0, {70000}, {90001}}};
  return all;
}

Shape part_of(OpKind kind, const Named& named) {
  if (kind == OpKind::gather || kind == OpKind::scatter_add) {
    return named.index;
  }
  Shape part = named.whole;
  part.set(named.axis, named.index[0]);
  return part;
}

constexpr std::int64_t kSmall = 20'000;
// Sums in the order of the index round more than sums in parts, because their partial sums are
// longer.
constexpr double kInOrder = 4;

OpCase indexing_case(OpKind kind) {
  const bool is_pick = kind == OpKind::gather || kind == OpKind::index_select;
  const bool is_line = kind == OpKind::index_select || kind == OpKind::index_add;
  OpCase out{.kind = kind, .precision = is_pick ? Precision::exact : Precision::sum, .calls = {}};
  for (const Named& named : is_line ? lines() : points()) {
    const Shape part = part_of(kind, named);
    // Narrow indices are widened when they are checked; calls that are split into tasks need one
    // type.
    const bool is_small = named.whole.element_count() < kSmall;
    for (const DType index : {DType::i32, DType::i64}) {
      if (index == DType::i32 && !is_small) {
        continue;
      }
      out.calls.push_back({.inputs = {{.shape = is_pick ? named.whole : part},
                                      {.shape = named.index,
                                       .values = Values::places,
                                       .bound = named.whole[named.axis],
                                       .dtype = index}},
                           .outputs = {{.shape = is_pick ? part : named.whole}},
                           .attributes = bytes_of(AxisAttributes{.axis = named.axis}),
                           .length = kInOrder * static_cast<double>(part[named.axis]),
                           .term = 2});
    }
  }
  return out;
}

OpCase scatter_case() {
  OpCase out{.kind = OpKind::scatter, .precision = Precision::exact, .calls = {}};
  for (const ScatterMode mode :
       {ScatterMode::set, ScatterMode::add, ScatterMode::mul, ScatterMode::min, ScatterMode::max}) {
    const bool is_sum = mode == ScatterMode::add || mode == ScatterMode::mul;
    const Values values = mode == ScatterMode::mul ? Values::near_one : Values::apart;
    for (const Named& named : points()) {
      const bool is_small = named.whole.element_count() < kSmall;
      for (const DType index : {DType::i32, DType::i64}) {
        // Large shapes and both types of index concern the sort, which all modes share.
        if ((index == DType::i32 || mode > ScatterMode::add) && !is_small) {
          continue;
        }
        if (index == DType::i32 && mode != ScatterMode::set) {
          continue;
        }
        out.calls.push_back(
            {.inputs = {{.shape = named.whole, .values = values},
                        {.shape = named.index,
                         .values = Values::places,
                         .bound = named.whole[named.axis],
                         .dtype = index},
                        {.shape = named.index, .values = values}},
             .outputs = {{.shape = named.whole,
                          .dtype = {},
                          .precision = is_sum ? Precision::sum : Precision::exact}},
             .attributes = bytes_of(ScatterAttributes{.axis = named.axis, .mode = mode}),
             .length = kInOrder * static_cast<double>(named.index[named.axis] + 1),
             .term = 2,
             .dtypes = is_sum ? kNumberTypes : DtypeMask{0xffff}});
      }
    }
  }
  return out;
}

}  // namespace

std::vector<OpCase> indexing_cases() {
  return {indexing_case(OpKind::gather),
          indexing_case(OpKind::index_select),
          indexing_case(OpKind::scatter_add),
          indexing_case(OpKind::index_add),
          scatter_case()};
}

}  // namespace hearth::conformance
