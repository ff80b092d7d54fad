// save_onnx: each op that a forward pass may call gives the same values from its file.
#include <hearth/modules/onnx_save.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/modules/onnx_model.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: the helpers of tests
using ::testing::HasSubstr;
using Function = Tensor (*)(const Tensor& x);

// A model without weights.
struct Called {
  Function function = nullptr;
  [[nodiscard]] Tensor forward(const Tensor& x) const { return function(x); }
  HEARTH_MODULE(Called)
};

struct NamedFunction {
  const char* name;
  Function function;
};

Tensor positions(const Tensor& x, std::vector<std::int64_t> values) {
  return Tensor::from(x.device(), std::move(values));
}

// Functions of floats, in f32, f64 and 16 bits.
const std::vector<NamedFunction>& float_functions() {
  static const std::vector<NamedFunction> kFunctions{
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"log", [](const Tensor& x) { return log(abs(x) + 0.5); }},
      {"log1p", [](const Tensor& x) { return log1p(abs(x)); }},
      {"sqrt", [](const Tensor& x) { return sqrt(abs(x)); }},
      {"rsqrt", [](const Tensor& x) { return rsqrt(abs(x) + 0.5); }},
      {"sin", [](const Tensor& x) { return sin(x); }},
      {"cos", [](const Tensor& x) { return cos(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"atan", [](const Tensor& x) { return atan(x); }},
      {"atan2", [](const Tensor& x) { return atan2(x, slice(x, 2, {.step = -1})); }},
      {"asin", [](const Tensor& x) { return asin(x / 2.0); }},
      {"acos", [](const Tensor& x) { return acos(x / 2.0); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"recip", [](const Tensor& x) { return recip(abs(x) + 1.0); }},
      {"floor", [](const Tensor& x) { return floor(x); }},
      {"ceil", [](const Tensor& x) { return ceil(x); }},
      {"round", [](const Tensor& x) { return round(x * 2.0); }},
      {"trunc", [](const Tensor& x) { return trunc(x * 3.0); }},
      {"pow", [](const Tensor& x) { return pow(abs(x), 1.5); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
      {"mean", [](const Tensor& x) { return mean(x, {1}, {.keep_dims = true}); }},
      {"stddev", [](const Tensor& x) { return stddev(x, {-1}); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {2}); }},
      {"linspace", [](const Tensor& x) { return x * linspace(x.device(), 0, 1, 4, x.dtype()); }},
  };
  return kFunctions;
}

// Functions of numbers, with equal values in floats and integers.
const std::vector<NamedFunction>& number_functions() {
  static const std::vector<NamedFunction> kFunctions{
      {"neg", [](const Tensor& x) { return -x; }},
      {"abs", [](const Tensor& x) { return abs(x); }},
      {"square", [](const Tensor& x) { return square(x); }},
      {"sub", [](const Tensor& x) { return 1 - x; }},
      {"div", [](const Tensor& x) { return div(x, abs(x) + 1); }},
      {"remainder", [](const Tensor& x) { return remainder(x, abs(x) + 2); }},
      {"sign", [](const Tensor& x) { return sign(x); }},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 1); }},
      {"equal", [](const Tensor& x) { return x == 1; }},
      {"not_equal", [](const Tensor& x) { return x != 1; }},
      {"less", [](const Tensor& x) { return x < 1; }},
      {"less_equal", [](const Tensor& x) { return 1 <= x; }},
      {"greater", [](const Tensor& x) { return x > 1; }},
      {"greater_equal", [](const Tensor& x) { return 1 >= x; }},
      {"and", [](const Tensor& x) { return logical_and(x > -1, x < 2); }},
      {"or", [](const Tensor& x) { return logical_or(x > 1, x < 0); }},
      {"xor", [](const Tensor& x) { return logical_xor(x > 1, x < 2); }},
      {"not", [](const Tensor& x) { return logical_not(x > 1); }},
      {"where", [](const Tensor& x) { return where(x > 0, x, x + 5); }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"fill", [](const Tensor& x) { return x + full(x.device(), x.shape(), 3, x.dtype()); }},
      {"arange",
       [](const Tensor& x) { return x[{0}] * 0 + arange(x.device(), 2, 14, 3, x.dtype()); }},
      {"rows",
       [](const Tensor& x) {
         const auto rows = static_cast<double>(x.shape()[0]);
         return reshape(arange(x.device(), 0, rows, 1, x.dtype()), {-1, 1, 1}) + x;
       }},
      {"sum",
       [](const Tensor& x) {
         return sum(x, {0, 2});
       }},
      {"sum of all", [](const Tensor& x) { return sum(x); }},
      {"max", [](const Tensor& x) { return max(x, {1}); }},
      {"min", [](const Tensor& x) { return min(x, {-1}, {.keep_dims = true}); }},
      {"prod", [](const Tensor& x) { return prod(x, {2}); }},
      {"any", [](const Tensor& x) { return any(x > 1, {1}); }},
      {"all", [](const Tensor& x) { return hearth::all(x > -2, {2}); }},
      {"argmax", [](const Tensor& x) { return argmax(x, 1); }},
      {"argmin", [](const Tensor& x) { return argmin(x, -1, {.keep_dims = true}); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 1); }},
      {"topk", [](const Tensor& x) { return topk(x, 2).values; }},
      {"positions", [](const Tensor& x) { return topk(x, 2, {.axis = 1}).positions; }},
      {"sort", [](const Tensor& x) { return sort(x, {.axis = 1}).values; }},
      {"permute",
       [](const Tensor& x) {
         return permute(x, {2, 0, 1});
       }},
      {"flip", [](const Tensor& x) { return slice(x, 1, {.step = -1}); }},
      {"steps", [](const Tensor& x) { return slice(x, 2, {.start = 1, .step = 2}); }},
      {"last row", [](const Tensor& x) { return slice(x, 0, {.start = -1}); }},
      {"without last", [](const Tensor& x) { return slice(x, 0, {.stop = -1}); }},
      {"from last", [](const Tensor& x) { return slice(x, 0, {.step = -1}); }},
      {"concat",
       [](const Tensor& x) {
         return concat({x, x, x * 2, x, x, x + 1, x}, 1);
       }},
      {"stack",
       [](const Tensor& x) {
         return stack({x, x}, 0);
       }},
      {"repeat",
       [](const Tensor& x) {
         return repeat(x, {2, 1, 3});
       }},
      {"joined axes",
       [](const Tensor& x) {
         return reshape(x, {-1, 4});
       }},
      {"split axes",
       [](const Tensor& x) {
         const std::int64_t rows = x.shape()[0];
         return reshape(permute(x, {1, 0, 2}), {3, rows * 2, 2});
       }},
      {"two sizes",
       [](const Tensor& x) {
         const std::int64_t rows = x.shape()[0];
         return expand(reshape(x, {1, rows * 12}), Shape{rows, rows * 12});
       }},
      {"gather", [](const Tensor& x) { return gather(x, 2, cast(x > 0, DType::i64)); }},
      {"index_select",
       [](const Tensor& x) {
         return index_select(x, 1, positions(x, {2, 0, 2}));
       }},
      {"scatter_add",
       [](const Tensor& x) { return scatter_add(x, 2, cast(x > 0, DType::i64), x); }},
      {"one_hot", [](const Tensor& x) { return one_hot(cast(x > 0, DType::i64), 3); }},
      {"scatter", [](const Tensor& x) { return scatter(x, 2, cast(x > 0, DType::i64), x * 2); }},
      {"scatter of products",
       [](const Tensor& x) {
         return scatter(x, 2, cast(x > 0, DType::i64), x, {.mode = ScatterMode::mul});
       }},
      {"scatter of the largest",
       [](const Tensor& x) {
         return scatter(x, 2, cast(x > 0, DType::i64), x + 1, {.mode = ScatterMode::max});
       }},
  };
  return kFunctions;
}

class OnnxSaveOps : public ::testing::Test {
 protected:
  // Small whole and half numbers, some of them twice.
  [[nodiscard]] Tensor numbers(std::int64_t rows, DType dtype) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * 12; ++i) {
      values.push_back(static_cast<float>((i * 7 + 3) % 9 - 4) / (is_float(dtype) ? 2.0F : 1.0F));
    }
    return cast(Tensor::from(devices.cpu, values, {rows, 3, 4}), dtype);
  }

  void expect_same(const Called& model, DType dtype, const Tolerance& allowed) const {
    save_onnx(model, file, numbers(4, dtype));
    const OnnxModel loaded = load_onnx(file, devices.cpu);
    EXPECT_TRUE(loaded.report().sync_points.empty());
    for (const std::int64_t rows : {1, 4, 5}) {
      const Tensor x = numbers(rows, dtype);
      const Tensor got = loaded.forward(x);
      const Tensor want = model.forward(x);
      ASSERT_EQ(got.shape(), want.shape());
      ASSERT_EQ(got.dtype(), want.dtype());
      const std::vector<double> a = cast(got, DType::f64).to_vector<double>();
      const std::vector<double> b = cast(want, DType::f64).to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_TRUE(allowed.accepts(a[i], b[i])) << i << ": " << a[i] << ", not " << b[i];
      }
    }
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "model.onnx";
  TestRuntime devices;
};

TEST_F(OnnxSaveOps, OfFloatsAgree) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const NamedFunction& each : float_functions()) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::string(name(dtype)));
      // 16-bit files round between nodes, as the program does between ops.
      Tolerance allowed = tolerance(testing::Precision::sum, dtype, 12, 4);
      allowed.relative *= size_bytes(dtype) == 2 ? 2 : 1;
      expect_same({each.function}, dtype, allowed);
    }
  }
}

TEST_F(OnnxSaveOps, OfNumbersAreEqual) {
  for (const DType dtype : {DType::f32, DType::i64, DType::i32}) {
    for (const NamedFunction& each : number_functions()) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::string(name(dtype)));
      expect_same({each.function}, dtype, tolerance(testing::Precision::rounded, dtype));
    }
  }
}

TEST_F(OnnxSaveOps, OfBitsAreEqual) {
  const std::vector<NamedFunction> functions{
      {"and", [](const Tensor& x) { return bitwise_and(x, 6); }},
      {"or", [](const Tensor& x) { return bitwise_or(x, 1); }},
      {"xor", [](const Tensor& x) { return bitwise_xor(x, x * 3); }},
      {"not", [](const Tensor& x) { return ~x; }},
      {"of bools", [](const Tensor& x) { return bitwise_xor(x > 0, x > 2); }}};
  for (const DType dtype : {DType::i64, DType::i32}) {
    for (const NamedFunction& each : functions) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::string(name(dtype)));
      expect_same({each.function}, dtype, tolerance(testing::Precision::rounded, dtype));
    }
  }
  expect_same({[](const Tensor& x) { return shift_left(shift_right(x, 1), 3); }},
              DType::u8,
              tolerance(testing::Precision::rounded, DType::u8));
}

// A scan is no sum unless it is one: nothing is written as another op.
TEST_F(OnnxSaveOps, ThatOnnxLacksAreRefused) {
  const auto refusal = [&](Function function, DType dtype) -> std::string {
    try {
      save_onnx(Called{function}, file, numbers(2, dtype));
    } catch (const OnnxError& error) {
      return error.what();
    }
    return "none";
  };
  const std::vector<std::pair<std::string, Function>> scans{
      {"cumprod", [](const Tensor& x) { return cumprod(x, 1); }},
      {"cummax", [](const Tensor& x) { return cummax(x, 1); }},
      {"cummin", [](const Tensor& x) { return cummin(x, 1); }}};
  for (const auto& [name, function] : scans) {
    const std::string text = refusal(function, DType::f32);
    EXPECT_THAT(text, HasSubstr(name));
    EXPECT_THAT(text, HasSubstr("no rule writes this op"));
  }
  EXPECT_THAT(refusal([](const Tensor& x) { return shift_left(x, 1); }, DType::i32),
              HasSubstr("ONNX's BitShift takes no integers with a sign"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(OnnxSaveOps, AtTheEndsOfTheirRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::from(
      devices.cpu,
      std::vector<float>{0, -0.0F, 1e-7F, -1e-7F, 1e-3F, 90, -90, 1e30F, float(kInfinity)},
      {9});
  for (const Function function : {Function([](const Tensor& v) { return expm1(v); }),
                                  Function([](const Tensor& v) { return log1p(abs(v)); })}) {
    const Called model{function};
    save_onnx(model, file, x);
    const std::vector<double> got =
        cast(load_onnx(file, devices.cpu).forward(x), DType::f64).to_vector<double>();
    const std::vector<double> want = cast(model.forward(x), DType::f64).to_vector<double>();
    const Tolerance allowed = tolerance(testing::Precision::function, DType::f32);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(Tolerance{.relative = allowed.relative}.accepts(got[i], want[i]))
          << i << ": " << got[i] << ", not " << want[i];
    }
  }
}

}  // namespace
}  // namespace hearth
