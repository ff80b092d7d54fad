// The texts of all kernels: those of the calls of the conformance cases, and of example kernels.
// Threads: one.
#pragma once

#include "backends/gpu/kernel_table.hpp"
#include "backends/gpu/pointwise/pointwise_text.hpp"
#include "backends/gpu/pointwise/rows_text.hpp"
#include "tests/conformance/prepared_call.hpp"
#include "tests/streams/kernel/example_kernels.hpp"

#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::gpu::testing {

/// Calls of a kind and type: all calls would take a minute and repeat most texts.
inline constexpr std::size_t kMostCalls = 2;

/// The limits of Mesa's llvmpipe.
inline constexpr DeviceLimits kSoftware{.subgroup_size = 8,
                                        .most_group_threads = 1024,
                                        .is_cpu = true,
                                        .has_f64 = true,
                                        .has_f16_arithmetic = true,
                                        .is_exact_f16 = true,
                                        .emulates_matrix_units = true,
                                        .multiprocessors = 2};

/// Keeps the text of each dispatch.
class TextKeeper final : public KernelEncoder {
 public:
  explicit TextKeeper(const DeviceLimits& limits) : limits_(limits) {}

  const DeviceLimits& limits() const noexcept override { return limits_; }
  Status dispatch(const KernelKey&, KernelText text, const ParameterBlock&, Grid) override {
    texts.push_back(text());
    return {};
  }
  void barrier() override {}
  Result<std::uint64_t> scratch(std::int64_t) override { return std::uint64_t{1} << 32U; }
  std::uint64_t error_cell() const noexcept override { return 64; }
  std::uint64_t guard() const noexcept override { return 0; }
  std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  std::vector<std::string> texts;

 private:
  DeviceLimits limits_;
};

/// Keeps the texts of a call's dispatches; none for a call that the kernel does not take.
inline void encode_call(OpKind kind,
                        const conformance::CallSpec& spec,
                        DType dtype,
                        conformance::LayoutKind layout,
                        TextKeeper& keeper) {
  keeper.texts.clear();
  const conformance::PreparedCall prepared(
      kind, spec, dtype, std::vector(spec.inputs.size(), layout));
  const KernelCall call = prepared.call();
  const bool is_empty = std::ranges::any_of(
      call.outputs, [](const TensorView& view) { return view.element_count() == 0; });
  if (is_empty || !supports_kernel(call, keeper.limits()).yes) {
    return;
  }
  const Status status = kernel_row(kind).encode(call, keeper);
  ASSERT_TRUE(status.has_value()) << prepared.to_string() << ": " << status.error().text;
}

/// Gives `take(kind, texts)` the texts of the first kMostCalls calls of each op and type.
template <class Take>
void take_texts(const DeviceLimits& limits, const Take& take) {
  using conformance::LayoutKind;
  TextKeeper keeper(limits);
  const auto take_call = [&](const conformance::OpCase& each,
                             const conformance::CallSpec& spec,
                             DType dtype,
                             LayoutKind layout) {
    encode_call(each.kind, spec, dtype, layout, keeper);
    take(op_info(each.kind).name, std::span<const std::string>(keeper.texts));
  };
  for (const conformance::OpCase& each : conformance::op_cases()) {
    for (const DType dtype : each.dtypes()) {
      std::vector<const conformance::CallSpec*> calls;
      for (const conformance::CallSpec& spec : each.calls) {
        if ((spec.dtypes & dtype_bit(dtype)) != 0 && calls.size() < kMostCalls) {
          calls.push_back(&spec);
        }
      }
      for (const conformance::CallSpec* spec : calls) {
        take_call(each, *spec, dtype, LayoutKind::dense);
      }
      if (!calls.empty()) {  // each input stored in reverse order of axes
        take_call(each, *calls.front(), dtype, LayoutKind::transposed);
      }
    }
  }
  const RowForm rows{.threads = 256, .row_threads = 8, .vector = 4, .chunks = 2};
  const std::vector<std::string> examples{
      pointwise_text(hearth::testing::scale_bias_relu(), {}, 64),
      pointwise_text(hearth::testing::columns_as_planes(), {}, 64),
      rows_text(hearth::testing::root_mean_square(), rows, 64)};
  take(std::string_view("example_kernels"), std::span<const std::string>(examples));
}

}  // namespace hearth::gpu::testing
