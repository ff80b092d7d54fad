// A runtime with only reference devices, which compute in f64 inside, so that tests of ops and
// gradients compare with plain arithmetic; or with two devices of the kind that TESTED_DEVICE
// names (tested_devices.hpp). For tests of runtime/.
// Threads: the test's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/tensor.hpp>

#include "tests/support/tested_devices.hpp"

namespace hearth::testing {

class ReferenceTest : public ::testing::Test {
 protected:
  ReferenceTest()
      : names_(two_tested("reference")),
        runtime_(RuntimeOptions{.devices = {{.name = names_[0]}, {.name = names_[1]}}}) {}

  [[nodiscard]] Device device() const { return runtime_.device(names_[0]); }
  [[nodiscard]] Device other_device() const { return runtime_.device(names_[1]); }

  [[nodiscard]] Tensor f64(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor f32(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor i32(const std::vector<std::int32_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor booleans(const std::vector<std::uint8_t>& values, const Shape& shape) const {
    return cast(Tensor::from(device(), values, shape), DType::boolean);
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
    return cast(tensor, DType::i64).to_vector<std::int64_t>();
  }

 private:
  std::array<std::string, 2> names_;
  Runtime runtime_;
};

/// The text of the exception of type E that fn throws; fails the test if fn does not throw.
template <class E, class Fn>
[[nodiscard]] std::string thrown_text(const Fn& fn) {
  try {
    fn();
  } catch (const E& error) {
    EXPECT_NE(error.error().location.line, 0U)
        << "the error does not say which line called: " << error.what();
    return error.error().text;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace hearth::testing
