// Chooses the kernel of a product by its layout. Operands are read four at a time where their
// strides and addresses allow. A batch in which every product has the same b becomes one product of
// many rows. A result of few columns is computed as its transpose, which has few rows.
#include "matrix_product.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/space/quads.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "library_call.hpp"
#include "product.hpp"
#include "product_result.hpp"
#include "side_copy.hpp"

namespace hearth::gpu {
namespace {

// The type of the product's own result, before an epilogue.
DType sums_dtype(DType factors) noexcept {
  return factors == DType::i8 ? DType::i32 : factors;
}

// A product, with the further arguments of its kernel.
struct Layouts {
  MatrixProduct product;
  std::int64_t matrices = 1;
  std::int64_t out_row = 0;
  std::int64_t out_column = 1;
  ProductResult result;
};

void transpose(Layouts& layouts) noexcept {
  MatrixProduct& p = layouts.product;
  std::swap(p.a, p.b);
  std::swap(p.rows, p.columns);
  std::swap(p.a_row, p.b_column);
  std::swap(p.a_depth, p.b_depth);
  std::swap(p.bias_row, p.bias_column);
  std::swap(layouts.out_row, layouts.out_column);
  for (int i = 0; i < p.batch_rank; ++i) {
    BatchAxis& axis = p.batch[static_cast<std::size_t>(i)];
    std::swap(axis.a, axis.b);
  }
}

// True if a side can be read `width` elements at a time, along the depth or across it.
bool has_form(const MatrixProduct& p, const SideWalk& walk, int width, SideForm& form) noexcept {
  const std::uintptr_t bytes = width > 4 ? 16 : quad_alignment(p.dtype);
  bool is_aligned = reinterpret_cast<std::uintptr_t>(walk.data) % bytes == 0;  // NOLINT
  for (int i = 0; i < p.batch_rank; ++i) {
    is_aligned &= p.batch[static_cast<std::size_t>(i)].*walk.batch_stride % width == 0;
  }
  const bool along = walk.depth_stride == 1 && p.depth % width == 0 &&
                     (walk.side_size == 1 || walk.side_stride % width == 0);
  const bool across = walk.side_stride == 1 && walk.side_size % width == 0 &&
                      (p.depth == 1 || walk.depth_stride % width == 0);
  form = {.along_depth = along, .width = width};
  return is_aligned && (along || across);
}

SideForm side_form_of(const MatrixProduct& p, const SideWalk& walk) noexcept {
  SideForm form;
  if (has_form(p, walk, 4, form)) {
    return form;
  }
  // Neighbouring threads read memory neighbours; an axis without a stride or of size 1 has none.
  const std::int64_t along = p.depth == 1 ? 0 : std::abs(walk.depth_stride);
  const std::int64_t across = walk.side_size == 1 ? 0 : std::abs(walk.side_stride);
  return {.along_depth = across == 0 || (along != 0 && along <= across), .width = 1};
}

std::int64_t reach(std::int64_t size, std::int64_t stride) noexcept {
  return (size - 1) * std::abs(stride);
}

bool has_wide_matrices(const Layouts& layouts) noexcept {
  const MatrixProduct& p = layouts.product;
  std::int64_t a = reach(p.rows, p.a_row) + reach(p.depth, p.a_depth);
  std::int64_t b = reach(p.columns, p.b_column) + reach(p.depth, p.b_depth);
  for (int i = 0; i < p.batch_rank; ++i) {
    const BatchAxis& axis = p.batch[static_cast<std::size_t>(i)];
    a += reach(axis.size, axis.a);
    b += reach(axis.size, axis.b);
  }
  constexpr std::int64_t kMost = kMostProductAxis;
  return a > kMost || b > kMost || layouts.result.reach() > kMost;
}

// True if each element of a matrix lies at most 2^32 bytes behind its first.
bool has_offsets(const MatrixProduct& p) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 32U;
  const std::int64_t size = size_bytes(p.dtype);
  return p.a_row >= 0 && p.a_depth >= 0 && p.b_depth >= 0 && p.b_column >= 0 &&
         (reach(p.rows, p.a_row) + reach(p.depth, p.a_depth) + 1) * size <= kMost &&
         (reach(p.columns, p.b_column) + reach(p.depth, p.b_depth) + 1) * size <= kMost;
}

// Two classes of shaders: up to one batch axis, and all of them. Missing axes have size 1.
int rank_class(const MatrixProduct& product) noexcept {
  return product.batch_rank <= 1 ? 1 : MatrixProduct::kMostBatchAxes;
}

std::string matrix_members(const Layouts& layouts, bool wide) {
  const std::string_view index = wide ? "int64_t" : "int";
  std::string out = fmt::format(
      "uint64_t a; uint64_t b; uint64_t bias; {0} a_row; {0} a_depth; "
      "{0} b_depth; {0} b_column; {0} out_row; {0} out_column; {0} bias_row; {0} bias_column; ",
      index);
  for (int i = 0; i < rank_class(layouts.product); ++i) {
    out += fmt::format("int size_{0}; {1} a_{0}; {1} b_{0}; {1} bias_{0}; ", i, index);
  }
  return out + layouts.result.members(wide);
}

ParameterBlock matrix_parameters(const Layouts& layouts,
                                 const ProductRequest& request,
                                 const ProductPlan& plan,
                                 std::uint64_t partial) noexcept {
  const MatrixProduct& p = layouts.product;
  ParameterBlock out;
  add_product(out, request, plan, partial);
  const auto address = [&out](const std::byte* data) {
    out.add(std::uint64_t{reinterpret_cast<std::uintptr_t>(data)});  // NOLINT: a device address
  };
  const auto index = [&out, &request](std::int64_t value) {
    if (request.is_wide) {
      out.add(value);
    } else {
      out.add(static_cast<std::int32_t>(value));
    }
  };
  address(p.a);
  address(p.b);
  address(p.bias);
  for (const std::int64_t stride : {p.a_row,
                                    p.a_depth,
                                    p.b_depth,
                                    p.b_column,
                                    layouts.out_row,
                                    layouts.out_column,
                                    p.bias_row,
                                    p.bias_column}) {
    index(stride);
  }
  for (int i = 0; i < rank_class(p); ++i) {
    const BatchAxis& axis = p.batch[static_cast<std::size_t>(i)];
    out.add(static_cast<std::int32_t>(axis.size));
    index(axis.a);
    index(axis.b);
    index(axis.bias);
  }
  layouts.result.add_parameters(out, request.is_wide);
  return out;
}

// {0} element type, {1} and {2}: suffixes of the loads of a and b, {3} to {6} strides that are 1 or
// parameters.
constexpr std::string_view kSides = R"(
struct ASide {{ INDEX first; bool is_inside; }};
struct BSide {{ INDEX first; bool is_inside; }};
FN ASide a_side(int row) {{ return NEW2(ASide, a_first + INDEX(row) * {3}, row < p.rows); }}
FN BSide b_side(int column) {{ return NEW2(BSide, b_first + INDEX(column) * {4}, column < p.columns); }}
FN AVALUE a_at(ASide side, int k) {{
  RETURN_EITHER(AVALUE, !side.is_inside || k >= p.depth, AVALUE(0),
                ({1}_{0}(p.a, side.first + INDEX(k) * {5})))
}}
FN BVALUE b_at(BSide side, int k) {{
  RETURN_EITHER(BVALUE, !side.is_inside || k >= p.depth, BVALUE(0),
                ({2}_{0}(p.b, side.first + INDEX(k) * {6})))
}}
)";

// {0} element type, {1} and {2}: widths of the loads of a and b, {3} to {6} strides in bytes.
constexpr std::string_view kOffsets = R"(
#define A_SIDE_BYTES {3}u
#define B_SIDE_BYTES {4}u
#define A_DEPTH_BYTES {5}u
#define B_DEPTH_BYTES {6}u
FN AVALUE a_from(uint64_t address) {{ return load{1}_{0}(address, INDEX(0)); }}
FN BVALUE b_from(uint64_t address) {{ return load{2}_{0}(address, INDEX(0)); }}
)";

constexpr std::string_view kPut = R"(
FN INDEX place_of(int row, int column) {{
  return out_first + INDEX(row) * p.out_row + INDEX(column) * p.out_column;
}}
FN C with_bias(int row, int column, C sum) {{
#if HAS_BIAS
  return sum + load_{0}(p.bias, bias_first + INDEX(row) * p.bias_row + INDEX(column) * p.bias_column);
#else
  return sum;
#endif
}}
FN void put(int row, int column, C sum) {{
  store_result(place_of(row, column), with_bias(row, column, sum));
}}
#if PUT_WIDTH > 1
FN void put_many(int row, int column, C sums[PUT_WIDTH]) {{
  UNROLLED for (int i = 0; i < PUT_WIDTH; ++i) {{
    sums[i] = with_bias(row, column + i, sums[i]);
  }}
  store_results(place_of(row, column), sums);
}}
#endif
)";

ProductFunctions matrix_functions(const Layouts& layouts,
                                  const ProductRequest& request,
                                  const ProductPlan& plan) {
  const MatrixProduct& p = layouts.product;
  std::string text = fmt::format("#define HAS_BIAS {}\n", p.bias == nullptr ? 0 : 1);
  text += glsl_quads(p.dtype);
  text += layouts.result.text(request.is_wide);
  text +=
      "INDEX a_first, b_first, bias_first, out_first;\nuint64_t a_base, b_base;\n"
      "FN void set_matrix(int matrix) {\n"
      "  a_first = INDEX(0);\n  b_first = INDEX(0);\n  bias_first = INDEX(0);\n"
      "  out_first = INDEX(matrix) * INDEX(p.rows) * INDEX(p.columns);\n"
      "  uint rest = uint(matrix);\n  INDEX at;\n";
  for (int i = rank_class(p) - 1; i >= 0; --i) {
    text += fmt::format(
        "  at = INDEX(rest % uint(p.size_{0}));\n  rest /= uint(p.size_{0});\n"
        "  a_first += at * p.a_{0};\n  b_first += at * p.b_{0};\n  bias_first += at * "
        "p.bias_{0};\n",
        i);
  }
  const std::int64_t size = size_bytes(p.dtype);
  text += fmt::format(
      "  a_base = p.a + uint64_t(int64_t(a_first) * {0}l);\n"
      "  b_base = p.b + uint64_t(int64_t(b_first) * {0}l);\n}}\n",
      size);
  const std::string_view dtype = glsl_suffix(p.dtype);
  if (plan.is_exact) {
    text += fmt::format(fmt::runtime(kOffsets),
                        dtype,
                        request.a.width,
                        request.b.width,
                        p.a_row * size,
                        p.b_column * size,
                        p.a_depth * size,
                        p.b_depth * size);
    text += fmt::format(fmt::runtime(kPut), dtype);
    return {.members = matrix_members(layouts, request.is_wide), .text = std::move(text)};
  }
  const auto load = [](SideForm form) {
    return form.width == 1 ? std::string("load") : fmt::format("load{}", form.width);
  };
  const auto step = [&request](bool is_one, std::int64_t stride, const char* name) {
    if (is_one) {
      return std::string("INDEX(1)");
    }
    return request.is_baked ? fmt::format("INDEX({})", stride) : std::string(name);
  };
  const auto side = [&step](SideForm form, std::int64_t stride, const char* name) {
    return step(form.width > 1 && !form.along_depth, stride, name);
  };
  const auto depth = [&step](SideForm form, std::int64_t stride, const char* name) {
    return step(form.width > 1 && form.along_depth, stride, name);
  };
  text += fmt::format(fmt::runtime(kSides),
                      dtype,
                      load(request.a),
                      load(request.b),
                      side(request.a, p.a_row, "p.a_row"),
                      side(request.b, p.b_column, "p.b_column"),
                      depth(request.a, p.a_depth, "p.a_depth"),
                      depth(request.b, p.b_depth, "p.b_depth"));
  text += fmt::format(fmt::runtime(kPut), dtype);
  return {.members = matrix_members(layouts, request.is_wide), .text = std::move(text)};
}

/// The forms of both sides, and the sides to copy first. Copies have `depth` places along it.
struct Sides {
  SideForm a = {};
  SideForm b = {};
  std::int64_t depth = 0;
  std::optional<SideCopy> a_copy = {};
  std::optional<SideCopy> b_copy = {};

  [[nodiscard]] std::int64_t copy_bytes() const noexcept {
    return (a_copy ? a_copy->bytes() : 0) + (b_copy ? b_copy->bytes() : 0);
  }
};

Sides sides_in_place(const MatrixProduct& p, const DeviceLimits& limits) noexcept {
  Sides sides{.depth = p.depth};
  const int word = unit_word(p.dtype);
  if (!can_cooperate(p.dtype, p.rows, p.columns, limits) ||
      !has_form(p, a_walk_of(p), word, sides.a) || !has_form(p, b_walk_of(p), word, sides.b)) {
    sides.a = side_form_of(p, a_walk_of(p));
    sides.b = side_form_of(p, b_walk_of(p));
  }
  return sides;
}

// A copy costs its bytes twice; a product without it loses most of its rate. So a copy pays if each
// byte is multiplied often enough. Whole slices of both sides make a long product exact, which is a
// tenth faster. For that even a side that could be read in place is copied.
Sides copied_sides(const Layouts& layouts, const DeviceLimits& limits) noexcept {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 32U;
  constexpr double kWorthOnUnits = 16;  // Multiplications of a byte.
  constexpr double kWorthInTiles = 64;
  constexpr double kWorthExact = 1024;
  constexpr std::int64_t kFewSlices = 16;
  const MatrixProduct& p = layouts.product;
  Sides sides{.depth = p.depth};
  const bool cooperates = can_cooperate(p.dtype, p.rows, p.columns, limits);
  const double of_matrix =
      static_cast<double>(p.rows) * static_cast<double>(p.columns) * static_cast<double>(p.depth);
  const double work = static_cast<double>(layouts.matrices) * of_matrix;
  const int word = cooperates ? unit_word(p.dtype) : 4;
  const SideWalk a = a_walk_of(p);
  const SideWalk b = b_walk_of(p);
  const bool has_a = has_form(p, a, word, sides.a);
  const bool has_b = has_form(p, b, word, sides.b);
  if (work < limits.copied_from || p.rows <= kFewColumns || p.columns <= kFewColumns ||
      (limits.is_cpu && !cooperates) || (has_a && has_b)) {
    return {};
  }
  const std::int64_t slice = cooperates ? std::int64_t{8} * word : kLongestSlice;
  const std::int64_t whole = rounded_up(p.depth, slice);
  const std::int64_t beside = (has_a ? copy_of(p, a, whole, form_of_copy(a, word)).bytes() : 0) +
                              (has_b ? copy_of(p, b, whole, form_of_copy(b, word)).bytes() : 0);
  const bool copies_both = whole != p.depth && of_matrix >= limits.baked_from &&
                           whole >= kFewSlices * slice &&
                           work >= kWorthExact * static_cast<double>(beside);
  sides.depth = copies_both ? whole : p.depth;
  if (!has_a || copies_both) {
    sides.a = form_of_copy(a, word);
    sides.a_copy = copy_of(p, a, sides.depth, sides.a);
  }
  if (!has_b || copies_both) {
    sides.b = form_of_copy(b, word);
    sides.b_copy = copy_of(p, b, sides.depth, sides.b);
  }
  const double least = cooperates ? kWorthOnUnits : kWorthInTiles;
  const bool is_worth = work >= least * static_cast<double>(sides.copy_bytes());
  return is_worth && sides.copy_bytes() <= kMostBytes ? sides : Sides{};
}

// Phases: the kernel's arguments; the plan; scratch for copies and parts; dispatches.
// Errors: out_of_memory before any dispatch; those of the encoder.
Status encode_sides(Layouts layouts, const Sides& sides, KernelEncoder& encoder) {
  MatrixProduct& p = layouts.product;
  const double multiplications =
      static_cast<double>(p.rows) * static_cast<double>(p.columns) * static_cast<double>(p.depth);
  const auto data_at = [](std::uint64_t address) {
    return reinterpret_cast<const std::byte*>(address);  // NOLINT: a device address
  };
  if (sides.a_copy) {
    use_copy(p, *sides.a_copy, sides.a, nullptr, true);
  }
  if (sides.b_copy) {
    use_copy(p, *sides.b_copy, sides.b, nullptr, false);
  }
  p.depth = sides.depth;
  // Products on matrix units put 16 bytes of their result at once, if the layout allows it.
  int put_width = sides.a.width == 8 && sides.b.width == 8 ? 8 : 4;
  while (put_width > 1 && (layouts.out_column != 1 || p.columns % put_width != 0 ||
                           !layouts.result.takes(put_width))) {
    put_width = put_width == 8 ? 4 : 1;
  }
  const bool puts_ragged = put_width == 1 && sides.a.width == unit_word(p.dtype) &&
                           layouts.out_column == 1 && layouts.result.takes_ragged(4);
  ProductRequest request{.dtype = p.dtype,
                         .is_wide = has_wide_matrices(layouts),
                         .is_baked = multiplications >= encoder.limits().baked_from,
                         .has_offsets = has_offsets(p),
                         .has_epilogue = layouts.result.has_epilogue(),
                         .is_alone = sides.copy_bytes() > 0,
                         .put_width = puts_ragged ? 4 : put_width,
                         .puts_ragged = puts_ragged,
                         .a = sides.a,
                         .b = sides.b,
                         .matrices = layouts.matrices,
                         .rows = p.rows,
                         .columns = p.columns,
                         .depth = p.depth};
  HEARTH_TRY(ProductPlan plan, plan_product(request, encoder.limits()));
  const std::optional<ProductPlan> rest = leave_rows(request, plan, encoder.limits());
  if (puts_ragged) {
    layouts.result.set_ragged_width(request.put_width);
  } else {
    layouts.result.set_width(request.put_width);
  }
  std::uint64_t partial = 0;
  if (const std::int64_t bytes = sides.copy_bytes() + plan.scratch_bytes; bytes > 0) {
    HEARTH_TRY(partial, encoder.scratch(bytes));
  }
  const auto copy = [&](const std::optional<SideCopy>& side, const std::byte*& data) -> Status {
    if (!side) {
      return {};
    }
    data = data_at(partial);
    HEARTH_TRY_STATUS(encode_side_copy(*side, partial, encoder));
    partial += static_cast<std::uint64_t>(side->bytes());
    return {};
  };
  HEARTH_TRY_STATUS(copy(sides.a_copy, p.a));
  HEARTH_TRY_STATUS(copy(sides.b_copy, p.b));
  if (sides.copy_bytes() > 0) {
    encoder.barrier();
  }
  KernelKey key(KernelFamily::matmul);
  key.add(rank_class(p)).add(p.bias != nullptr);
  layouts.result.add_words(key);
  if (request.is_baked) {
    for (const std::int64_t stride : {p.a_row, p.a_depth, p.b_depth, p.b_column}) {
      key.add(static_cast<std::uint64_t>(stride));
    }
  }
  const auto dispatch = [&](const ProductPlan& part) {
    return dispatch_product(
        encoder, request, part, key, matrix_parameters(layouts, request, part, partial), [&] {
          return matrix_functions(layouts, request, part);
        });
  };
  HEARTH_TRY_STATUS(dispatch(plan));
  return rest ? dispatch(*rest) : Status();
}

}  // namespace

void MatrixProduct::add_batch(const BatchAxis& axis) noexcept {
  if (axis.size == 1) {
    return;
  }
  if (batch_rank > 0) {
    BatchAxis& last = batch[static_cast<std::size_t>(batch_rank - 1)];
    if (last.a == axis.a * axis.size && last.b == axis.b * axis.size &&
        last.bias == axis.bias * axis.size) {
      last = {last.size * axis.size, axis.a, axis.b, axis.bias};
      return;
    }
  }
  batch[static_cast<std::size_t>(batch_rank++)] = axis;
}

void MatrixProduct::join_rows() noexcept {
  while (batch_rank > 0) {
    const BatchAxis& axis = batch[static_cast<std::size_t>(batch_rank - 1)];
    const bool is_walk = rows == 1 || axis.a == a_row * rows;
    const bool has_walk_of_bias = bias == nullptr || (axis.bias == 0 && bias_row == 0);
    if (axis.b != 0 || !is_walk || !has_walk_of_bias || axis.size * rows > kMostProductAxis) {
      return;
    }
    a_row = rows == 1 ? axis.a : a_row;
    rows *= axis.size;
    --batch_rank;
  }
}

Status encode_product(MatrixProduct product, const KernelCall& call, KernelEncoder& encoder) {
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  product.join_rows();
  Layouts layouts{.product = product,
                  .out_row = product.columns,
                  .result = ProductResult(call, sums_dtype(product.dtype), encoder.limits())};
  MatrixProduct& p = layouts.product;
  for (int i = 0; i < p.batch_rank; ++i) {
    layouts.matrices *= p.batch[static_cast<std::size_t>(i)].size;
  }
  if (p.rows > kMostProductAxis || p.columns > kMostProductAxis || p.depth > kMostProductAxis ||
      layouts.matrices > kMostProductAxis) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("{} products of {} x {} x {}: an axis has more than {} places",
                                     layouts.matrices,
                                     p.rows,
                                     p.depth,
                                     p.columns,
                                     kMostProductAxis)};
  }
  HEARTH_TRY(const bool is_by_library, encode_by_library(p, layouts.result, call, encoder));
  if (is_by_library) {
    return {};
  }
  if (p.columns <= kFewColumns && p.columns < p.rows) {
    transpose(layouts);
  }
  if (const Sides copied = copied_sides(layouts, encoder.limits()); copied.copy_bytes() > 0) {
    const Status status = encode_sides(layouts, copied, encoder);
    if (status.has_value() || status.error().code != ErrorCode::out_of_memory) {
      return status;
    }
  }
  return encode_sides(layouts, sides_in_place(p, encoder.limits()), encoder);
}

}  // namespace hearth::gpu
