// Values that a tape does not keep because recomputing them is cheaper: which ones, the bytes that
// kernels then move, and that no bit of a gradient changes.
#include "runtime/client/device_endpoint.hpp"
#include "runtime/tape/tape_context.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using Tensors = std::vector<Tensor>;
using Model = std::function<Tensor(const Tensors&)>;

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kColumns = 512;
constexpr std::int64_t kValue = kRows * kColumns * 4;  // bytes: the tape considers them
constexpr RecomputeOptions kKeepAll{.kept_bytes = std::numeric_limits<std::int64_t>::max()};

/// A fixed number of additions a byte, whatever the machine's peaks.
class FixedPeaks {
 public:
  explicit FixedPeaks(float additions_per_byte)
      : before_(detail::exchange_traffic_limits({.additions_per_byte = additions_per_byte})) {}
  FixedPeaks(const FixedPeaks&) = delete;
  FixedPeaks& operator=(const FixedPeaks&) = delete;
  ~FixedPeaks() { detail::exchange_traffic_limits(before_); }

 private:
  detail::TrafficLimits before_;
};

class TapeTraffic : public ::testing::Test {
 protected:
  /// Without deterministic mode, a thread that is not scheduled for a moment gets other kernels.
  explicit TapeTraffic(Fusion fusion = Fusion::on,
                       std::int64_t rows = kRows,
                       bool is_deterministic = true)
      : runtime_(
            {.devices = {{.name = "cpu:0"}}, .fusion = fusion, .deterministic = is_deterministic}) {
    Generator generator(3);
    x_ = random_normal(device(), {rows, 64}, generator);
    weight_ = random_normal(device(), {64, kColumns}, generator, 0, 0.2);
    bias_ = random_normal(device(), {kColumns}, generator);
  }
  FixedPeaks peaks_{2.5F};  // the estimate
  [[nodiscard]] Device device() const { return runtime_.device("cpu:0"); }
  [[nodiscard]] Tensors inputs() const { return {x_, weight_, bias_}; }
  static Tensor linear(const Tensors& in) { return matmul(in[0], in[1]) + in[2]; }

  [[nodiscard]] std::vector<std::vector<std::byte>> gradients(const Model& model) const {
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& gradient :
         grad([&](const Tensors& in) { return sum(model(in)); }, inputs())) {
      bytes.push_back(gradient.read_bytes().get());
    }
    return bytes;
  }
  void expect_same_bits(const Model& model) const {
    const auto here = gradients(model);
    const RecomputeScope keeps_all(kKeepAll);
    EXPECT_EQ(here, gradients(model));
  }
  /// Live values between the passes beyond those before, in units of kValue bytes.
  [[nodiscard]] double kept_values(const Model& model) const {
    double kept = 0;
    const auto run = [&] {
      (void)grad(
          [&](const Tensors& in) {
            device().sync();
            const std::int64_t before = device().memory().live_bytes;
            const Tensor loss = sum(model(in));
            device().sync();
            kept = static_cast<double>(device().memory().live_bytes - before) / kValue;
            return loss;
          },
          inputs());
    };
    run();
    run();  // with existing plans
    return kept;
  }
  /// The traffic of a grad call of the model.
  [[nodiscard]] Explanation moved_by(const Model& model) const {
    Tensors gradients;  // gradients without a handle are not computed
    const auto run = [&] {
      device().sync();
      gradients = grad([&](const Tensors& in) { return sum(model(in)); }, inputs());
    };
    run();
    return explain(device(), run);
  }

  Runtime runtime_;
  Tensor x_;
  Tensor weight_;
  Tensor bias_;
};

const Model kGelu = [](const Tensors& in) { return gelu(matmul(in[0], in[1]) + in[2]); };
const Model kGeluByTanh = [](const Tensors& in) {
  return gelu(matmul(in[0], in[1]) + in[2], GeluForm::tanh);
};
const Model kSilu = [](const Tensors& in) { return silu(matmul(in[0], in[1]) + in[2]); };
const Model kNorm = [](const Tensors& in) {
  return square(layer_norm(matmul(in[0], in[1]), in[2], in[2]));
};
const Model kOfLeaves = [](const Tensors& in) {
  const Tensor wide = expand(in[2], {kRows, kColumns});
  return exp(tanh(wide) * sigmoid(wide)) + square(sin(wide));
};

TEST_F(TapeTraffic, AnActivationKeepsItsArgumentAlone) {
  EXPECT_NEAR(kept_values(kGelu), 1, 0.01);
  EXPECT_NEAR(kept_values(kSilu), 1, 0.01);
  {
    const FixedPeaks many(4);
    EXPECT_NEAR(kept_values(kGeluByTanh), 1, 0.01) << "a tanh takes as long as two erf";
  }
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_NEAR(kept_values(kGelu), 3, 0.01) << "without it";
}

/// A model of 16 bits with weights of f32.
Model in_bf16(const std::function<Tensor(const Tensor&, const Tensor&)>& of_product) {
  return [of_product](const Tensors& in) {
    const Tensor x = cast(in[0], DType::bf16);
    return of_product(matmul(x, cast(in[1], DType::bf16)), cast(in[2], DType::bf16));
  };
}
const Model kGelu16 = in_bf16([](const Tensor& y, const Tensor& bias) { return gelu(y + bias); });
const Model kNorm16 =
    in_bf16([](const Tensor& y, const Tensor& bias) { return square(layer_norm(y, bias, bias)); });

// The operands of the product in 16 bits take an eighth of a value.
TEST_F(TapeTraffic, ArithmeticInF32KeepsTheArgumentOf16Bits) {
  EXPECT_NEAR(kept_values(kGelu16), 0.5 + 0.125, 0.02);
  EXPECT_NEAR(kept_values(kNorm16), 1 + 0.125, 0.02) << "the product and the result of the norm";
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_GT(kept_values(kGelu16), 1.6);
  EXPECT_GT(kept_values(kNorm16), 2);
}

// In deterministic mode, measurements decide nothing.
class MeasuredTapeTraffic : public TapeTraffic {
 protected:
  MeasuredTapeTraffic() : TapeTraffic(Fusion::on, kRows, false) {}
};

// If arithmetic is expensive compared with memory, no value is recomputed. For a measured device,
// its measurement decides.
TEST_F(MeasuredTapeTraffic, WhatADeviceReachesDecides) {
  {
    const FixedPeaks dear(0.1F);
    EXPECT_NEAR(kept_values(kGelu), 3, 0.01);
  }
  const FixedPeaks as_measured(0);
  device().endpoint().set_peaks({.copy_bytes_per_second = 1e9, .additions_per_second = 1e8});
  EXPECT_NEAR(kept_values(kGelu), 3, 0.01);
  device().endpoint().set_peaks({.copy_bytes_per_second = 1e9, .additions_per_second = 4e9});
  EXPECT_NEAR(kept_values(kGelu), 1, 0.01);
}

TEST_F(TapeTraffic, NoGradientHasAnotherBit) {
  for (const Model& model : {kGelu, kGeluByTanh, kSilu, kNorm, kOfLeaves, kGelu16, kNorm16}) {
    expect_same_bits(model);
  }
}

// A gradient drops its node's values, from which the other operand is recomputed.
TEST_F(TapeTraffic, ANodeMayKeepWhatItsOtherOperandIsMadeOf) {
  Generator generator(5);
  const Tensor target = random_normal(device(), {kRows, kColumns}, generator);
  const Tensor more = random_normal(device(), {64, kColumns}, generator);
  expect_same_bits([&](const Tensors& in) {
    const Tensor distance = matmul(in[0], in[1]) - target;
    return 0.5 * distance * distance;
  });
  expect_same_bits([&](const Tensors& in) {
    const Tensor other = matmul(in[0], more);
    const Tensor distance = matmul(in[0], in[1]) - target;
    const Tensor all = square(other);
    return 0.5 * distance * distance + all;
  });
  expect_same_bits([&](const Tensors& in) {
    const Tensor both = concat({matmul(in[0], in[1]), target}, 0);
    return 0.5 * both * both;
  });
  expect_same_bits([&](const Tensors& in) {
    const Tensor shares = sigmoid(linear(in) - target) / target;
    return shares * shares * (shares + target);
  });
}

// The backward pass of a GELU reads the argument and writes its gradient; that of the sum is one
// element.
TEST_F(TapeTraffic, TheKernelThatMakesThemAgainMovesNothingForIt) {
  const auto elementwise_traffic = [](const Explanation& said) {
    std::int64_t bytes = 0;
    for (const ExplainedKernel& kernel : said.kernels) {
      bytes += kernel.name.find("matmul") == std::string::npos
                   ? kernel.bytes_read + kernel.bytes_written
                   : 0;
    }
    return static_cast<double>(bytes) / kValue;
  };
  const double here = elementwise_traffic(moved_by(kGelu));
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_LT(here, elementwise_traffic(moved_by(kGelu)) - 0.9);
}

// The recomputing ops are submitted while the original ones are still in the window, but run with
// the gradient's ops. Reads: x by the loss, which stores one number, and x by the gradient.
TEST_F(TapeTraffic, NothingIsMadeAgainBeforeItIsUsed) {
  const Tensor x = matmul(x_, weight_);
  Tensor loss;
  Tensors gradients;
  const auto run = [&] {
    device().sync();
    gradients = grad([&](const Tensors& in) { return loss = sum(gelu(in[0])); }, {x});
  };
  run();
  const Explanation said = explain(device(), run);
  EXPECT_EQ(said.kernels.size(), 2U) << said.to_string();
  EXPECT_NEAR(static_cast<double>(said.bytes_read()) / kValue, 2, 0.01) << said.to_string();
  EXPECT_NEAR(static_cast<double>(said.bytes_written()) / kValue, 1, 0.01) << said.to_string();
}

// An unread loss is not computed, only the gradient.
TEST_F(TapeTraffic, ALossThatNobodyReadsCostsNothing) {
  const Tensor x = matmul(x_, weight_);
  Tensors gradients;
  const auto run = [&] {
    device().sync();
    gradients = grad([](const Tensors& in) { return sum(gelu(in[0])); }, {x});
  };
  run();
  const Explanation said = explain(device(), run);
  EXPECT_EQ(said.kernels.size(), 1U) << said.to_string();
  EXPECT_NEAR(static_cast<double>(said.bytes_read()) / kValue, 1, 0.01) << said.to_string();
}

TEST_F(TapeTraffic, WhatIsReadInBetweenStillEndsRight) {
  expect_same_bits([](const Tensors& in) {
    const Tensor x = linear(in);
    const Tensor half = sigmoid(x);
    (void)sum(half).item();
    const Tensor y = x * half;
    return gelu(y) * tanh(y) + y;
  });
}

TEST_F(TapeTraffic, UnderACheckpointToo) {
  const auto block = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return silu(gelu(matmul(x, weight) + bias));
  };
  const Model plain = [&](const Tensors& in) { return block(in[0], in[1], in[2]); };
  const Model checkpointed = [&](const Tensors& in) {
    const Tensor y = checkpoint(block, in[0], in[1], in[2]);
    return y * gelu(y);
  };
  expect_same_bits(plain);
  expect_same_bits(checkpointed);
}

// Each slice of the value would recompute twice the whole.
TEST_F(TapeTraffic, WhatIsSlicedIsNotMadeAgain) {
  const Model of_slices = [](const Tensors& in) {
    const Tensor twice = expand(in[2], {4, kRows, kColumns}) * 2.0;
    Tensors parts;
    for (std::int64_t i = 0; i < 4; ++i) {
      parts.push_back(relu(slice(twice, 0, {i, i + 1})));
    }
    return concat(parts, 0);
  };
  const std::int64_t ops = moved_by(of_slices).op_count();
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_EQ(ops, moved_by(of_slices).op_count());
}

// Four reads in place of a write and a read.
TEST_F(TapeTraffic, WhatIsMadeOfManyIsKept) {
  Generator generator(5);
  Tensors others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(random_normal(device(), {kRows, kColumns}, generator));
  }
  const Model of_many = [&](const Tensors& in) {
    Tensor all = expand(in[2], {kRows, kColumns});
    for (const Tensor& other : others) {
      all = all * other;
    }
    return relu(all);
  };
  const std::int64_t ops = moved_by(of_many).op_count();
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_EQ(ops, moved_by(of_many).op_count());
}

class SmallTapeTraffic : public TapeTraffic {
 protected:
  SmallTapeTraffic() : TapeTraffic(Fusion::on, kRows / 2) {}
};

// The recomputing ops would cost more than a read from a cache.
TEST_F(SmallTapeTraffic, SmallValuesAreKept) {
  const std::int64_t ops = moved_by(kGelu).op_count();
  const RecomputeScope keeps_all(kKeepAll);
  EXPECT_EQ(ops, moved_by(kGelu).op_count());
}

class SingleTapeTraffic : public TapeTraffic {
 protected:
  SingleTapeTraffic() : TapeTraffic(Fusion::off) {}
};

TEST_F(SingleTapeTraffic, WithoutFusionAllAreKept) {
  EXPECT_NEAR(kept_values(kGelu), 3, 0.01);
}

}  // namespace
}  // namespace hearth
