// A runtime with one device of each kind in turn, for tests of composed ops beside plain loops.
// Threads: the test's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/tested_devices.hpp"

namespace hearth::testing {

class ComposedTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] const Runtime& runtime() const { return runtime_; }
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }

  [[nodiscard]] Tensor f64(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor f64(const std::vector<double>& values) const {
    return Tensor::from(device(), values);
  }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values) const {
    return Tensor::from(device(), values);
  }
  /// 0, 1, 2, ... in f64.
  [[nodiscard]] Tensor counting(const Shape& shape) const {
    return reshape(arange(device(), 0, static_cast<double>(shape.element_count()), 1, DType::f64),
                   shape.dims());
  }
  [[nodiscard]] static std::vector<double> reals(const Tensor& tensor) {
    return cast(tensor, DType::f64).to_vector<double>();
  }
  [[nodiscard]] static std::vector<std::int64_t> integers(const Tensor& tensor) {
    return tensor.to_vector<std::int64_t>();
  }
  /// The code of the error that reading throws.
  [[nodiscard]] static ErrorCode failure(const Tensor& tensor) {
    try {
      static_cast<void>(tensor.read_bytes().get());
    } catch (const DeviceError& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

 private:
  /// The sim is asynchronous, like a GPU.
  [[nodiscard]] static DeviceOptions tested(const std::string& name) {
    return {.name = name,
            .sim_schedule = name == "sim:0" ? std::optional(SimSchedule{}) : std::nullopt};
  }

  Runtime runtime_{RuntimeOptions{.devices = {tested(GetParam())}}};
};

/// All element types.
inline constexpr DType kAllTypes[] = {DType::f32,
                                      DType::f64,
                                      DType::f16,
                                      DType::bf16,
                                      DType::i32,
                                      DType::i64,
                                      DType::u8,
                                      DType::boolean,
                                      DType::i8};

}  // namespace hearth::testing

#define HEARTH_ON_COMPOSED_DEVICES(Suite)                     \
  INSTANTIATE_TEST_SUITE_P(                                   \
      Devices,                                                \
      Suite,                                                  \
      HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"), \
      [](const auto& param) { return std::string(param.param).substr(0, 3); })
