#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

bool is_reduced(std::uint32_t axes, int axis) {
  return (axes >> static_cast<unsigned>(axis) & 1U) != 0;
}

Shape reduced(const Shape& shape, std::uint32_t axes, bool keep_dims) {
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!is_reduced(axes, axis)) {
      out.push_back(shape[axis]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return out;
}

double reduced_count(const Shape& shape, std::uint32_t axes) {
  double count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    count *= is_reduced(axes, axis) ? static_cast<double>(shape[axis]) : 1.0;
  }
  return count;
}

struct Reduced {
  Shape shape;
  std::uint32_t axes;
};

std::vector<Reduced> reduced_shapes() {
  std::vector<Reduced> all{{{}, 0}, {{1}, 1}, {{7}, 1}, {{1031}, 1}, {{70001}, 1}};
  for (const std::uint32_t axes : {1U, 2U, 3U}) {
    for (const Shape& shape : {Shape{3, 5},
                               Shape{1, 6},
                               Shape{6, 1},
                               Shape{129, 67},
                               Shape{4, 515},
                               Shape{515, 4},
                               Shape{150, 1001}}) {
      all.push_back({shape, axes});
    }
  }
  for (std::uint32_t axes = 1; axes < 8; ++axes) {
    all.push_back({{2, 3, 5}, axes});
    all.push_back({{9, 8, 17}, axes});
  }
  all.push_back({{2, 3, 4, 5}, 0b1010});
  all.push_back({{2, 3, 4, 5}, 0b0101});
  all.push_back({{8, 16, 13, 13}, 0b1101});
  all.push_back({{0, 3}, 0b10});
  return all;
}

OpCase reduction(OpKind kind, Precision precision) {
  OpCase out{.kind = kind, .precision = precision, .calls = {}};
  const bool is_mean = kind == OpKind::reduce_mean;
  const bool may_widen = kind == OpKind::reduce_sum || kind == OpKind::reduce_prod;
  const DtypeMask any = may_widen ? kNumberTypes : 0xffff;
  const auto call = [&](const Reduced& each, bool keep_dims, Values values, DtypeMask dtypes) {
    const double count = reduced_count(each.shape, each.axes);
    out.calls.push_back({.inputs = {{.shape = each.shape, .values = values}},
                         .outputs = {{.shape = reduced(each.shape, each.axes, keep_dims)}},
                         .attributes = bytes_of(
                             ReduceAttributes{.axes = each.axes, .keep_dims = keep_dims ? 1U : 0U}),
                         .length = count,
                         .term = is_mean && count > 0 ? 2 / count : 2,
                         .dtypes = dtypes});
  };
  for (const Reduced& each : reduced_shapes()) {
    for (const bool keep_dims : {false, true}) {
      call(each, keep_dims, kind == OpKind::reduce_prod ? Values::near_one : Values::apart, any);
      if (may_widen) {
        call(each, keep_dims, Values::extremes, kNarrowTypes);
        out.calls.back().outputs[0].dtype = DType::i64;
      }
    }
  }
  if (kind != OpKind::reduce_max && kind != OpKind::reduce_min) {
    call({{0}, 1}, false, Values::apart, any);
    call({{0, 3}, 0b01}, false, Values::apart, any);
    call({{3, 0, 2}, 0b010}, true, Values::apart, any);
  }
  for (const std::uint32_t axes : {1U, 2U, 3U}) {
    call({{13, 11}, axes}, false, Values::with_nan, kFloatTypes);
    call({{13, 11}, axes}, false, Values::masked, kFloatTypes);
    call({{13, 11}, axes}, false, Values::extremes, kIntegerTypes);
  }
  return out;
}

OpCase position_case(OpKind kind) {
  OpCase out{.kind = kind, .precision = Precision::exact, .calls = {}};
  const auto call =
      [&](const Shape& shape, int axis, bool keep_dims, Values values, DtypeMask dtypes) {
        out.calls.push_back(
            {.inputs = {{.shape = shape, .values = values}},
             .outputs = {{.shape = reduced(shape, 1U << static_cast<unsigned>(axis), keep_dims),
                          .dtype = DType::i64}},
             .attributes = bytes_of(AxisAttributes{.axis = axis, .keep_dims = keep_dims ? 1 : 0}),
             .dtypes = dtypes});
      };
  for (const Shape& shape : {Shape{1},
                             Shape{7},
                             Shape{1031},
                             Shape{3, 5},
                             Shape{6, 1},
                             Shape{64, 10},
                             Shape{129, 67},
                             Shape{2, 3, 5},
                             Shape{300, 301}}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      call(shape, axis, false, Values::grid, 0xffff);
      call(shape, axis, true, Values::distinct, 0xffff);
      call(shape, axis, false, Values::with_nan, kFloatTypes);
    }
  }
  call({0, 3}, 1, false, Values::grid, 0xffff);
  call({13, 11}, 0, false, Values::extremes, kIntegerTypes);
  return out;
}

}  // namespace

std::vector<OpCase> reduction_cases() {
  return {
      reduction(OpKind::reduce_sum, Precision::sum),
      reduction(OpKind::reduce_mean, Precision::sum),
      reduction(OpKind::reduce_max, Precision::exact),
      reduction(OpKind::reduce_min, Precision::exact),
      reduction(OpKind::reduce_prod, Precision::sum),
      position_case(OpKind::argmax),
      position_case(OpKind::argmin),
  };
}

}  // namespace hearth::conformance
