#include "elementwise.hpp"

#include "binary_loops.hpp"
#include "cast_loops.hpp"
#include "chunk_walk.hpp"
#include "move_loops.hpp"
#include "unary_loops.hpp"
#include "undefined_integers.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <string>

namespace hearth::cpu {

namespace {

constexpr bool is_costly(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::exp:
    case OpKind::log:
    case OpKind::sin:
    case OpKind::cos:
    case OpKind::tanh:
    case OpKind::erf:
    case OpKind::sigmoid:
    case OpKind::pow:
    case OpKind::log1p:
    case OpKind::expm1:
    case OpKind::atan:
    case OpKind::atan2:
      return true;
    default:
      return false;
  }
}

std::int64_t op_grain(OpKind kind, DType dtype) noexcept {
  if (!is_costly(kind)) {
    return WalkSpec::kCheapGrain;
  }
  // f64 calls the C library for each element, about 20 ns.
  return dtype == DType::f64 ? WalkSpec::kCostlyGrain / 8 : WalkSpec::kCostlyGrain;
}

/// The immediate of a binary op, in the type of its loop.
struct Immediate {
  alignas(8) std::byte bytes[8] = {};

  Immediate(const ScalarAttributes& scalar, DType type) noexcept {
    switch (type) {
      case DType::f32:
        put(static_cast<float>(scalar.real));
        break;
      case DType::f64:
        put(scalar.real);
        break;
      case DType::i32:
        put(static_cast<std::int32_t>(scalar.integer));
        break;
      case DType::i64:
        put(scalar.integer);
        break;
      default:  // i8 has the same byte
        put(static_cast<std::uint8_t>(scalar.integer));
        break;
    }
  }

 private:
  template <class T>
  void put(T value) noexcept {
    std::memcpy(bytes, &value, sizeof(T));
  }
};

class BinaryBody {
 public:
  BinaryBody(OpKind kind, DType type, std::int64_t result_bytes, IsaLevel isa) noexcept
      : kind_(kind),
        type_(type),
        result_bytes_(result_bytes),
        forms_(binary_loops(isa).at(kind, type)),
        moves_(move_loops(isa)),
        checks_((kind == OpKind::div || kind == OpKind::pow) && !is_float(type)) {}

  void operator()(const Chunk& chunk) const {
    if (checks_) {
      const std::int64_t bad = first_undefined(kind_,
                                               type_,
                                               {chunk.in[0], (chunk.one_element & 1U) != 0},
                                               {chunk.in[1], (chunk.one_element & 2U) != 0},
                                               chunk.count);
      if (bad != kNoElement) {
        keep_first(chunk.begin + bad);
        return;
      }
    }
    const std::uint32_t form = chunk.one_element & 3U;
    if (form != 3U) {
      forms_[form](chunk.out[0], chunk.in[0], chunk.in[1], chunk.count);
      return;
    }
    auto* out = static_cast<std::byte*>(chunk.out[0]);
    forms_[0](out, chunk.in[0], chunk.in[1], 1);
    std::byte value[8];
    std::memcpy(value, out, static_cast<std::size_t>(result_bytes_));
    moves_.fills[MoveLoops::size_index(result_bytes_)](out, value, chunk.count);
  }

  [[nodiscard]] Status status() const {
    // Pairs with the exchange in keep_first(); the loops have been joined.
    const std::int64_t element = first_bad_.load(std::memory_order_acquire);
    if (element == kNoElement) {
      return {};
    }
    const char* const what = kind_ == OpKind::div ? "division by zero" : "zero to a negative power";
    const auto op = std::string(op_info(kind_).name);
    return Error{.code = ErrorCode::kernel_failed,
                 .text = fmt::format("{}: {} at element {}", op, what, element),
                 .op = op};
  }

 private:
  void keep_first(std::int64_t element) const noexcept {
    std::int64_t known = first_bad_.load(std::memory_order_acquire);
    while (element < known &&
           !first_bad_.compare_exchange_weak(known, element, std::memory_order_acq_rel)) {
    }
  }

  OpKind kind_;
  DType type_;
  std::int64_t result_bytes_;
  const BinaryLoops::Forms& forms_;
  const MoveLoops& moves_;
  bool checks_;
  mutable std::atomic<std::int64_t> first_bad_{kNoElement};
};

bool is_comparison(OpKind kind) noexcept {
  return kind >= OpKind::equal && kind <= OpKind::greater_equal;
}

}  // namespace

Status run_unary(const KernelCall& call, KernelContext& context) {
  const OpKind kind = call.op.kind();
  const DType type = compute_dtype(call.inputs[0].dtype);
  const UnaryLoop loop = unary_loops(context.isa).at(kind, type);
  const WalkSpec spec{.inputs = call.inputs,
                      .outputs = call.outputs,
                      .input_types = {type},
                      .output_types = {type},
                      .grain = op_grain(kind, type)};
  walk_chunks(
      spec, context, [loop](const Chunk& chunk) { loop(chunk.out[0], chunk.in[0], chunk.count); });
  return {};
}

Status run_binary(const KernelCall& call, KernelContext& context) {
  const OpKind kind = call.op.kind();
  const DType type = compute_dtype(call.inputs[0].dtype);
  const DType result = is_comparison(kind) ? DType::boolean : type;
  const BinaryBody body(kind, type, size_bytes(result), context.isa);
  const OpRecord& record = call.op.record();
  const bool is_left = record.has(RecordFlag::scalar_lhs);
  WalkSpec spec{.inputs = call.inputs,
                .outputs = call.outputs,
                .input_types = {type, type},
                .output_types = {result},
                .may_be_one_element = 3,
                .grain = op_grain(kind, type)};
  if (!is_left && !record.has(RecordFlag::scalar_rhs)) {
    walk_chunks(spec, context, body);
    return body.status();
  }
  const Immediate immediate(call.op.attributes<ScalarAttributes>(), type);
  spec.may_be_one_element = 0;
  walk_chunks(spec, context, [&](const Chunk& tensor) {
    Chunk chunk = tensor;
    chunk.in[1] = tensor.in[0];
    chunk.in[is_left ? 0 : 1] = immediate.bytes;
    chunk.one_element = is_left ? 1 : 2;
    body(chunk);
  });
  return body.status();
}

Status run_where(const KernelCall& call, KernelContext& context) {
  const DType type = call.outputs[0].dtype;
  const auto size = MoveLoops::size_index(size_bytes(type));
  const auto& selects = move_loops(context.isa).selects[size];
  const WalkSpec spec{.inputs = call.inputs,
                      .outputs = call.outputs,
                      .input_types = {DType::boolean, type, type},
                      .output_types = {type},
                      .may_be_one_element = 6};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    selects[chunk.one_element >> 1U](
        chunk.out[0], chunk.in[0], chunk.in[1], chunk.in[2], chunk.count);
  });
  return {};
}

Status run_cast(const KernelCall& call, KernelContext& context) {
  const DType from = call.inputs[0].dtype;
  const DType to = call.outputs[0].dtype;
  if (from == to) {
    return run_copy(call, context);
  }
  const CastLoop loop = cast_loops(context.isa).at(from, to);
  const WalkSpec spec{
      .inputs = call.inputs, .outputs = call.outputs, .input_types = {from}, .output_types = {to}};
  walk_chunks(
      spec, context, [loop](const Chunk& chunk) { loop(chunk.out[0], chunk.in[0], chunk.count); });
  return {};
}

Status run_fill(const KernelCall& call, KernelContext& context) {
  const TensorView& out = call.outputs[0];
  const auto scalar = call.op.attributes<ScalarAttributes>();
  alignas(8) std::byte value[8] = {};
  const CastLoops& casts = cast_loops(context.isa);
  if (is_float(out.dtype)) {
    casts.at(DType::f64, out.dtype)(value, &scalar.real, 1);
  } else {
    casts.at(DType::i64, out.dtype)(value, &scalar.integer, 1);
  }
  const std::int64_t size = size_bytes(out.dtype);
  const FillLoop fill = move_loops(context.isa).fills[MoveLoops::size_index(size)];
  const WalkSpec spec{.outputs = call.outputs, .output_types = {out.dtype}};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    fill(static_cast<std::byte*>(chunk.out[0]), value, chunk.count);
  });
  return {};
}

Status run_arange(const KernelCall& call, KernelContext& context) {
  const auto range = call.op.attributes<ArangeAttributes>();
  // Places are counted in the widest type; the walk's cast rounds them once.
  if (is_float(call.outputs[0].dtype)) {
    const WalkSpec spec{.outputs = call.outputs, .output_types = {DType::f64}};
    walk_chunks(spec, context, [&](const Chunk& chunk) {
      auto* out = static_cast<double*>(chunk.out[0]);
      for (std::int64_t i = 0; i < chunk.count; ++i) {
        out[i] = range.start + static_cast<double>(chunk.begin + i) * range.step;
      }
    });
    return {};
  }
  const auto start = static_cast<std::uint64_t>(static_cast<std::int64_t>(range.start));
  const auto step = static_cast<std::uint64_t>(static_cast<std::int64_t>(range.step));
  const WalkSpec spec{.outputs = call.outputs, .output_types = {DType::i64}};
  walk_chunks(spec, context, [&](const Chunk& chunk) {
    auto* out = static_cast<std::int64_t*>(chunk.out[0]);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      out[i] =
          static_cast<std::int64_t>(start + static_cast<std::uint64_t>(chunk.begin + i) * step);
    }
  });
  return {};
}

std::span<const KernelRow> elementwise_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {OpKind::fill, run_fill, nullptr, 0},
      {OpKind::arange, run_arange, nullptr, 0},
      {OpKind::cast, run_cast, nullptr, 1},
      {OpKind::neg, run_unary, nullptr, 1},
      {OpKind::abs, run_unary, nullptr, 1},
      {OpKind::exp, run_unary, nullptr, 1},
      {OpKind::log, run_unary, nullptr, 1},
      {OpKind::sqrt, run_unary, nullptr, 1},
      {OpKind::rsqrt, run_unary, nullptr, 1},
      {OpKind::square, run_unary, nullptr, 1},
      {OpKind::sin, run_unary, nullptr, 1},
      {OpKind::cos, run_unary, nullptr, 1},
      {OpKind::tanh, run_unary, nullptr, 1},
      {OpKind::erf, run_unary, nullptr, 1},
      {OpKind::sigmoid, run_unary, nullptr, 1},
      {OpKind::recip, run_unary, nullptr, 1},
      {OpKind::relu, run_unary, nullptr, 1},
      {OpKind::log1p, run_unary, nullptr, 1},
      {OpKind::expm1, run_unary, nullptr, 1},
      {OpKind::floor, run_unary, nullptr, 1},
      {OpKind::ceil, run_unary, nullptr, 1},
      {OpKind::round, run_unary, nullptr, 1},
      {OpKind::trunc, run_unary, nullptr, 1},
      {OpKind::atan, run_unary, nullptr, 1},
      {OpKind::add, run_binary, nullptr, 3},
      {OpKind::sub, run_binary, nullptr, 3},
      {OpKind::mul, run_binary, nullptr, 3},
      {OpKind::div, run_binary, nullptr, 3},
      {OpKind::pow, run_binary, nullptr, 3},
      {OpKind::min, run_binary, nullptr, 3},
      {OpKind::max, run_binary, nullptr, 3},
      {OpKind::equal, run_binary, nullptr, 3},
      {OpKind::not_equal, run_binary, nullptr, 3},
      {OpKind::less, run_binary, nullptr, 3},
      {OpKind::less_equal, run_binary, nullptr, 3},
      {OpKind::greater, run_binary, nullptr, 3},
      {OpKind::greater_equal, run_binary, nullptr, 3},
      {OpKind::relu_backward, run_binary, nullptr, 3},
      {OpKind::atan2, run_binary, nullptr, 3},
      {OpKind::bitwise_and, run_binary, nullptr, 3},
      {OpKind::bitwise_or, run_binary, nullptr, 3},
      {OpKind::bitwise_xor, run_binary, nullptr, 3},
      {OpKind::shift_left, run_binary, nullptr, 3},
      {OpKind::shift_right, run_binary, nullptr, 3},
      {OpKind::where, run_where, nullptr, 7},
      {OpKind::copy, run_copy, nullptr, 1},
      {OpKind::concat, run_concat, nullptr, 0},
      {OpKind::slice_scatter, run_slice_scatter, nullptr, 0},
  };
  return kRows;
}

}  // namespace hearth::cpu
