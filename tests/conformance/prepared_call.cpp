#include "prepared_call.hpp"

#include <hearth/backends/reference/reference.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

namespace hearth::conformance {
namespace {

void add_operand(OpRecord& record, std::vector<std::byte>& blob, int index, Operand operand) {
  if (index < kInlineOperands) {
    record.operands[index] = operand;
    return;
  }
  const std::size_t old_size = blob.size();
  blob.resize(old_size + sizeof(Operand));
  std::memcpy(blob.data() + old_size, &operand, sizeof(Operand));
}

void add_attributes(OpRecord& record,
                    std::vector<std::byte>& blob,
                    const std::vector<std::byte>& attributes) {
  if (attributes.size() <= sizeof(record.immediate)) {
    std::copy(attributes.begin(), attributes.end(), record.immediate);
  } else {
    blob.insert(blob.end(), attributes.begin(), attributes.end());
  }
  record.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
}

std::vector<TensorSpec> specs_of(const std::vector<TensorView>& views) {
  std::vector<TensorSpec> specs;
  for (const TensorView& view : views) {
    specs.push_back({view.dtype, view.shape()});
  }
  return specs;
}

// Attention's second result, for the call of its gradient (grad, q, k, v, y, statistics, optional
// mask).
std::vector<Number> row_statistics(const std::vector<std::byte>& attributes,
                                   const std::vector<TensorView>& inputs) {
  constexpr std::size_t kMask = 6;
  std::vector<TensorView> operands(inputs.begin() + 1, inputs.begin() + 4);
  if (inputs.size() > kMask) {
    operands.push_back(inputs[kMask]);
  }
  CaseTensor y(inputs[4].dtype, inputs[4].shape());
  CaseTensor statistics(inputs[5].dtype, inputs[5].shape());
  const std::array outputs{y.view(), statistics.view()};
  OpRecord record;
  record.kind = OpKind::attention;
  record.input_count = static_cast<std::uint16_t>(operands.size());
  record.output_count = 2;
  std::copy(attributes.begin(), attributes.end(), record.immediate);
  reference::evaluate({OpView(record, nullptr), operands, outputs}).value();
  return statistics.values();
}

}  // namespace

PreparedCall::PreparedCall(OpKind kind, const CallSpec& spec, DType dtype)
    : PreparedCall(
          kind, spec, dtype, std::vector<LayoutKind>(spec.inputs.size(), LayoutKind::dense)) {}

PreparedCall::PreparedCall(OpKind kind,
                           const CallSpec& spec,
                           DType dtype,
                           std::vector<LayoutKind> layouts)
    : kind_(kind), layouts_(std::move(layouts)), record_(std::make_unique<OpRecord>()) {
  record_->kind = kind;
  record_->flags = spec.flags;
  record_->sequence = 1;
  record_->input_count = static_cast<std::uint16_t>(spec.inputs.size());
  record_->output_count = static_cast<std::uint16_t>(spec.outputs.size());
  int operand = 0;
  std::optional<std::size_t> statistics;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].values == Values::row_statistics) {
      statistics = i;
      if (layouts_[i] == LayoutKind::repeated) {
        layouts_[i] = LayoutKind::dense;  // only the scores' own statistics make sense
      }
    }
    const DType type = spec.inputs[i].dtype.value_or(dtype);
    const auto seed = (static_cast<std::uint64_t>(kind) << 8U) + i;
    inputs_.emplace_back(
        type, spec.inputs[i].shape, layouts_[i], case_values(spec.inputs[i], type, seed));
    input_views_.push_back(inputs_.back().view());
    add_operand(*record_,
                blob_,
                operand,
                {.slot = {static_cast<std::uint32_t>(operand)},
                 .shape = {},
                 .dtype = type,
                 .use = Use::read});
    ++operand;
  }
  if (statistics) {
    const TensorView old = input_views_[*statistics];
    inputs_[*statistics] = CaseTensor(old.dtype,
                                      old.shape(),
                                      layouts_[*statistics],
                                      row_statistics(spec.attributes, input_views_));
    input_views_[*statistics] = inputs_[*statistics].view();
  }
  for (const OutputSpec& output : spec.outputs) {
    const DType type = output.dtype.value_or(dtype);
    outputs_.emplace_back(type, output.shape);
    output_views_.push_back(outputs_.back().view());
    add_operand(*record_,
                blob_,
                operand,
                {.slot = {static_cast<std::uint32_t>(operand)},
                 .shape = {},
                 .dtype = type,
                 .use = Use::out});
    ++operand;
  }
  aliased_.assign(spec.outputs.size(), -1);
  add_attributes(*record_, blob_, spec.attributes);
}

void PreparedCall::alias(int output, int input) {
  output_views_[static_cast<std::size_t>(output)].data =
      input_views_[static_cast<std::size_t>(input)].data;
  aliased_[static_cast<std::size_t>(output)] = input;
  if (input < kInlineOperands) {
    record_->operands[input].use = Use::read_last;
  }
}

bool PreparedCall::is_aliased(int input) const noexcept {
  return std::ranges::count(aliased_, input) != 0;
}

bool PreparedCall::has_repeats() const noexcept {
  return std::ranges::count(layouts_, LayoutKind::repeated) != 0;
}

std::vector<Number> PreparedCall::output_values(int output) const {
  const int input = aliased_[static_cast<std::size_t>(output)];
  return input < 0 ? outputs_[static_cast<std::size_t>(output)].values()
                   : inputs_[static_cast<std::size_t>(input)].values();
}

OpCost PreparedCall::cost() const noexcept {
  return op_cost(call().op, specs_of(input_views_), specs_of(output_views_));
}

std::string PreparedCall::to_string() const {
  std::string text(name(kind_));
  for (std::size_t i = 0; i < input_views_.size(); ++i) {
    text += fmt::format("{} {} {}",
                        i == 0 ? "" : ",",
                        describe(input_views_[i].dtype, input_views_[i].shape()),
                        name(layouts_[i]));
  }
  text += " ->";
  for (std::size_t i = 0; i < output_views_.size(); ++i) {
    text += fmt::format(
        "{} {}", i == 0 ? "" : ",", describe(output_views_[i].dtype, output_views_[i].shape()));
    if (aliased_[i] >= 0) {
      text += fmt::format(" in place of input {}", aliased_[i]);
    }
  }
  if (record_->has(RecordFlag::scalar_lhs)) {
    text += ", scalar lhs";
  } else if (record_->has(RecordFlag::scalar_rhs)) {
    text += ", scalar rhs";
  }
  return text;
}

}  // namespace hearth::conformance
