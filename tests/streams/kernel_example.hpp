// One kernel call of a test: record, operands and their bytes, dense and contiguous, for the
// reference. Threads: the test's.
#pragma once

#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::testing {

/// Bytes of a dense tensor.
using Bytes = std::vector<std::byte>;

[[nodiscard]] inline std::size_t dense_bytes(const TensorSpec& spec) {
  return static_cast<std::size_t>(spec.shape.element_count() * size_bytes(spec.dtype));
}

class KernelExample {
 public:
  KernelExample(OpKind kind, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    record_.kind = kind;
    record_.input_count = static_cast<std::uint16_t>(inputs_.size());
    record_.output_count = static_cast<std::uint16_t>(outputs_.size());
    blob_.resize(extra_operands() * sizeof(Operand));
    record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
  }
  template <class Attributes>
  KernelExample& with(const Attributes& attributes) {
    const auto bytes = std::as_bytes(std::span(&attributes, 1));
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(record_.immediate, bytes.data(), bytes.size());
    } else {
      blob_.insert(blob_.end(), bytes.begin(), bytes.end());
      record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
    }
    return *this;
  }
  KernelExample& with(RecordFlag flag) {
    record_.set(flag);
    return *this;
  }

  [[nodiscard]] OpKind kind() const noexcept { return record_.kind; }
  [[nodiscard]] OpView view() const noexcept { return {record_, blob_.data()}; }
  [[nodiscard]] const std::vector<TensorSpec>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept { return outputs_; }

  /// The reference's results for the bytes of dense inputs.
  [[nodiscard]] Result<std::vector<Bytes>> evaluate(std::vector<Bytes>& inputs) const {
    std::vector<Bytes> results;
    std::vector<detail::Layout> layouts;
    layouts.reserve(inputs_.size() + outputs_.size());
    std::vector<TensorView> in;
    std::vector<TensorView> out;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      layouts.emplace_back(inputs_[i].shape);
      in.push_back({inputs[i].data(), &layouts.back(), inputs_[i].dtype});
    }
    for (const TensorSpec& spec : outputs_) {
      results.emplace_back(dense_bytes(spec));
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      layouts.emplace_back(outputs_[i].shape);
      out.push_back({results[i].data(), &layouts.back(), outputs_[i].dtype});
    }
    HEARTH_TRY_STATUS(reference::evaluate({view(), in, out}));
    return results;
  }

 private:
  [[nodiscard]] std::size_t extra_operands() const noexcept {
    const int count = record_.operand_count();
    return count > kInlineOperands ? static_cast<std::size_t>(count - kInlineOperands) : 0;
  }

  OpRecord record_;
  Bytes blob_;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
};

}  // namespace hearth::testing
