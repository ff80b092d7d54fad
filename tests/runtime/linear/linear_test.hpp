// Random matrices on each tested device, and checks of them in f64. For tests of runtime/linear.
// Threads: the test's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/autodiff.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

namespace hearth::testing {

using Tensors = std::vector<Tensor>;
using TensorFunction = std::function<Tensor(const Tensors&)>;

class LinearTest : public ComposedTest {
 protected:
  /// Elements from -1 to 1.
  [[nodiscard]] Tensor random(const Shape& shape,
                              DType dtype = DType::f64,
                              std::uint32_t seed = 1) const {
    return cast(HostRandom(seed).uniform(shape, -1, 1).on(device()), dtype);
  }
  /// Square matrices with a diagonal that keeps them well away from singular ones.
  [[nodiscard]] Tensor regular(const Shape& shape, DType dtype = DType::f64) const {
    const auto n = static_cast<double>(shape[-1]);
    return random(shape, dtype) + eye(device(), shape[-1], {}, dtype) * (2 * std::sqrt(n) + 1);
  }
  /// Symmetric positive definite matrices.
  [[nodiscard]] Tensor positive(const Shape& shape, DType dtype = DType::f64) const {
    const Tensor x = random(shape, dtype);
    return matmul(x, transpose(x)) + eye(device(), shape[-1], {}, dtype);
  }
  [[nodiscard]] static Tensor symmetric(const Tensor& x) { return x + transpose(x); }

  /// Expects |a - b| <= roundings · n · the type's · the largest |b|, for results of `n` steps.
  static void expect_close(const Tensor& a, const Tensor& b, std::int64_t n, const char* what) {
    ASSERT_EQ(a.shape(), b.shape()) << what;
    if (a.element_count() == 0) {
      return;
    }
    const double epsilon = a.dtype() == DType::f32 ? 0x1p-23 : 0x1p-52;
    const Tensor wide_a = cast(a, DType::f64);
    const Tensor wide_b = cast(b, DType::f64);
    const double scale = std::max(max(abs(wide_b)).item(), 1.0);
    EXPECT_LE(max(abs(wide_a - wide_b)).item(),
              16 * epsilon * scale * static_cast<double>(std::max<std::int64_t>(n, 4)))
        << what << " of size " << n << " in " << name(a.dtype());
  }

  /// The gradient of fn, and the gradient of a function of that gradient, equal differences.
  void check_twice(const TensorFunction& fn, const std::vector<HostTensor>& inputs) const {
    check_gradients(device(), fn, inputs);
    const auto slopes = [&](const Tensors& in) {
      const Tensors gradients = grad(
          [&](const Tensors& tracked) {
            const Tensor value = fn(tracked);
            return sum(square(value)) * 0.5 + sum(value) * 0.7;
          },
          in);
      Tensor total;
      for (const Tensor& gradient : gradients) {
        const Tensor part = sum(square(gradient) * 0.3 + gradient * 0.6);
        total = total.is_valid() ? total + part : part;
      }
      return total;
    };
    check_gradients(device(), slopes, inputs);
  }

  /// An asynchronous device with host functions, which only the sim is, is lost if one fails.
  [[nodiscard]] static bool loses_devices() { return std::string(GetParam()) == "sim:0"; }
  /// The text of the DeviceError that the call or a read of its result throws.
  [[nodiscard]] static std::string failure_text(const std::function<Tensor()>& call) {
    try {
      static_cast<void>(call().read_bytes().get());
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
      return error.error().text;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }
};

inline constexpr DType kReals[] = {DType::f32, DType::f64};
inline constexpr std::int64_t kMatrixSizes[] = {0, 1, 3, 65, 257};

}  // namespace hearth::testing
