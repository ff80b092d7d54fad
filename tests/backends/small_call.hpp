// Small tensors by hand and one op on them, for tests of single kernels. Values, any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <hearth/backends/kernel.hpp>

namespace hearth::testing {

/// A contiguous tensor that owns its elements.
class SmallTensor {
 public:
  SmallTensor(DType dtype, const Shape& shape, const std::vector<double>& values = {})
      : dtype_(dtype),
        layout_(std::make_unique<detail::Layout>(shape)),
        bytes_(static_cast<std::size_t>(shape.element_count() * size_bytes(dtype))) {
    visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (requires { T(0.0F).bits; }) {
          view().template as<T>()[i] = T(static_cast<float>(values[i]));
        } else {
          view().template as<T>()[i] = static_cast<T>(values[i]);
        }
      }
    });
  }

  [[nodiscard]] TensorView view() const noexcept {
    return {const_cast<std::byte*>(bytes_.data()), layout_.get(), dtype_};
  }
  /// A view of the bytes under other strides, beginning at `first_element`.
  [[nodiscard]] TensorView view(const detail::Layout& layout,
                                std::int64_t first_element) const noexcept {
    return {view().data + first_element * size_bytes(dtype_), &layout, dtype_};
  }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> out;
    visit_dtype(dtype_, [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t i = 0; i < layout_->shape.element_count(); ++i) {
        if constexpr (requires { zero.bits; }) {
          out.push_back(static_cast<double>(static_cast<float>(view().template as<T>()[i])));
        } else {
          out.push_back(static_cast<double>(view().template as<T>()[i]));
        }
      }
    });
    return out;
  }
  [[nodiscard]] const Shape& shape() const noexcept { return layout_->shape; }

 private:
  DType dtype_;
  std::unique_ptr<detail::Layout> layout_;
  std::vector<std::byte> bytes_;
};

/// Values in [-1, 1) that f16 and bf16 hold exactly.
inline SmallTensor random_tensor(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(static_cast<double>(static_cast<int>(engine() % 256U) - 128) / 128);
  }
  return SmallTensor(dtype, shape, values);
}

/// One op with its operands.
class SmallCall {
 public:
  SmallCall(OpKind kind, std::vector<TensorView> inputs, std::vector<TensorView> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    record_.kind = kind;
    record_.sequence = 1;
    record_.input_count = static_cast<std::uint16_t>(inputs_.size());
    record_.output_count = static_cast<std::uint16_t>(outputs_.size());
  }

  /// The operands of the record stay empty: kernels read the views.
  template <class Attributes>
  SmallCall& with(const Attributes& attributes) {
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(record_.immediate, &attributes, sizeof(Attributes));
    } else {
      const int extra = std::max(record_.operand_count() - kInlineOperands, 0);
      const std::size_t offset = static_cast<std::size_t>(extra) * sizeof(Operand);
      blob_.resize(offset + sizeof(Attributes));
      std::memcpy(blob_.data() + offset, &attributes, sizeof(Attributes));
      record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
    }
    return *this;
  }
  SmallCall& with(RecordFlag flag) {
    record_.set(flag);
    return *this;
  }

  [[nodiscard]] KernelCall call() const noexcept {
    return {OpView(record_, blob_.data()), inputs_, outputs_};
  }

 private:
  OpRecord record_;
  std::vector<std::byte> blob_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
};

}  // namespace hearth::testing
