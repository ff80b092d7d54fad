#include "pass_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <hearth/streams/op_table.hpp>

namespace hearth::onnx {
namespace {

constexpr unsigned kScalarFlags =
    static_cast<unsigned>(RecordFlag::scalar_lhs) | static_cast<unsigned>(RecordFlag::scalar_rhs);

// Whether two steps are the same op on the same values. Sizes may differ.
bool is_alike(const PassStep& a, const PassStep& b) {
  const OpRecord& one = a.op->record;
  const OpRecord& other = b.op->record;
  return one.kind == other.kind && (one.flags & kScalarFlags) == (other.flags & kScalarFlags) &&
         a.inputs == b.inputs && a.outputs == b.outputs;
}

bool is_alike(const RecordedPass& a, const RecordedPass& b, ValueNumber value) {
  const PassValue& one = a.values[value];
  const PassValue& other = b.values[value];
  return one.operand.dtype == other.operand.dtype && one.step == other.step &&
         a.shape(value).rank() == b.shape(value).rank();
}

std::string described(const RecordedPass& pass, std::size_t step) {
  return step < pass.steps.size() ? pass.trace.describe(*pass.steps[step].op) : "nothing more";
}

}  // namespace

bool is_fixed(const Sizes& sizes) {
  return std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes.front(); });
}

std::vector<std::byte> attribute_bytes(const TraceOp& op) {
  const std::size_t size = op_info(op.record.kind).attribute_size_bytes;
  if (size <= sizeof op.record.immediate) {
    return {op.record.immediate, op.record.immediate + size};
  }
  const int extra = std::max(op.record.operand_count() - kInlineOperands, 0);
  const auto begin = op.blob.begin() +
                     static_cast<std::ptrdiff_t>(static_cast<std::size_t>(extra) * sizeof(Operand));
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

std::string PassSet::difference() const {
  for (const RecordedPass& other : passes_) {
    if (std::string text = difference(other); !text.empty()) {
      return text;
    }
  }
  return {};
}

std::string PassSet::difference(const RecordedPass& other) const {
  const RecordedPass& one = first();
  const std::size_t steps = std::max(one.steps.size(), other.steps.size());
  for (std::size_t i = 0; i < steps; ++i) {
    if (i >= one.steps.size() || i >= other.steps.size() ||
        !is_alike(one.steps[i], other.steps[i])) {
      return fmt::format("step {} is {} for one size, and {} for another",
                         i,
                         described(one, i),
                         described(other, i));
    }
  }
  if (one.values.size() != other.values.size() || one.inputs != other.inputs ||
      one.weights != other.weights || one.results != other.results) {
    return "the steps use other tensors for other sizes";
  }
  for (ValueNumber value = 0; value < one.values.size(); ++value) {
    if (!is_alike(one, other, value)) {
      return fmt::format("a value is {} for one size, and {} for another",
                         one.trace.describe(one.values[value].operand),
                         other.trace.describe(other.values[value].operand));
    }
  }
  return {};
}

Sizes PassSet::sizes(ValueNumber value, int axis) const {
  Sizes sizes;
  for (const RecordedPass& pass : passes_) {
    sizes.push_back(pass.shape(value)[axis]);
  }
  return sizes;
}

std::vector<Sizes> PassSet::shape(ValueNumber value) const {
  std::vector<Sizes> shape;
  for (int axis = 0; axis < rank(value); ++axis) {
    shape.push_back(sizes(value, axis));
  }
  return shape;
}

std::string PassSet::name_of(const Sizes& sizes) const {
  for (const auto& [name, named] : names_) {
    if (named == sizes) {
      return name;
    }
  }
  return {};
}

bool PassSet::is_constant(ValueNumber value) const {
  const auto bytes = first().bytes(value);
  return std::ranges::all_of(passes_, [&](const RecordedPass& pass) {
    const auto others = pass.bytes(value);
    return pass.shape(value) == first().shape(value) &&
           (!bytes || !others || std::ranges::equal(*bytes, *others));
  });
}

}  // namespace hearth::onnx
