// A program's settings of its floating-point environment change no bit of the library's results,
// and the library preserves them.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/csv.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/image_folder.hpp>
#include <hearth/modules/learning_rate_schedule.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/onnx_model.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/table_encoder.hpp>
#include <hearth/runtime/all.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "picture_files.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/onnx_bytes.hpp"

namespace hearth {
namespace {

using Setting = std::function<void()>;

struct Net {
  Linear first;
  Linear last;

  HEARTH_MODULE(Net, first, last)
};

std::vector<std::uint32_t> bits_of(const Tensor& x) {
  std::vector<std::uint32_t> bits;
  for (const float value : cast(x, DType::f32).to_vector<float>()) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

// The weights after some steps, and sums and products over several threads. The program changes its
// environment before or after the devices are opened.
std::vector<std::uint32_t> train(const Setting& set, bool is_before) {
  if (is_before) {
    set();
  }
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  if (!is_before) {
    set();
  }
  Generator generator(1);
  Net net{.first = Linear({.in = 8, .out = 24}, device, generator),
          .last = Linear({.in = 24, .out = 3}, device, generator)};
  Adam adam({.learning_rate = 1e-2, .weight_decay = 1e-3});
  const LearningRateSchedule schedule = CosineRate{.end = 0.1};
  const Tensor targets = zeros(device, {37}, DType::i64);
  for (int i = 0; i < 12; ++i) {
    adam.set_learning_rate(1e-2 * rate_factor(schedule, i, 12));
    const Tensor x = random_normal(device, {37, 8}, generator);
    auto [loss, gradients] = value_and_grad(net, [&](const Net& m) {
      const Tensor hidden = layer_norm(gelu(m.first.forward(x * 0.1)));
      return cross_entropy(m.last.forward(dropout(hidden, 0.3, generator)), targets);
    });
    static_cast<void>(loss.item());
    adam.step(net, std::move(gradients)).get();
  }
  std::vector<std::uint32_t> all = bits_of(net.first.weight);
  const Tensor wide = random_normal(device, {300, 300}, generator);
  const Tensor made = softmax(matmul(wide, wide) * 0.01, 1);
  for (const Tensor& each : {net.last.weight, made, sum(made, 0), attention(wide, made, wide)}) {
    const std::vector<std::uint32_t> more = bits_of(each);
    all.insert(all.end(), more.begin(), more.end());
  }
  std::fesetenv(FE_DFL_ENV);
  return all;
}

class ProgramEnvironment : public ::testing::Test {
 protected:
  ~ProgramEnvironment() override { std::fesetenv(FE_DFL_ENV); }
};

void expect_same_bits(const Setting& set, const std::string& what) {
  static const std::vector<std::uint32_t> kPlain = train([] {}, true);
  for (const bool is_before : {true, false}) {
    EXPECT_TRUE(train(set, is_before) == kPlain)
        << what << (is_before ? ", set before the devices" : ", set behind the devices");
  }
}

TEST_F(ProgramEnvironment, RoundsNothingOfTheLibrarys) {
  expect_same_bits([] { std::fesetround(FE_DOWNWARD); }, "down");
  expect_same_bits([] { std::fesetround(FE_UPWARD); }, "up");
  expect_same_bits([] { std::fesetround(FE_TOWARDZERO); }, "towards zero");
}

// In f64 no conversion hides a host factor that was rounded otherwise.
TEST_F(ProgramEnvironment, RoundsNoStatisticOfALayer) {
  const auto variances = [](int rounding) {
    const Runtime runtime;
    const Device device = runtime.device("cpu:0");
    Generator generator(1);
    BatchNorm2d norm({.channels = 1}, device, DType::f64);
    const Tensor x = random_normal(device, {1, 1, 2, 2}, generator, 0, 1, DType::f64);
    std::fesetround(rounding);
    StateUpdates updates;
    static_cast<void>(norm.forward(x, Mode::train, updates));
    static_cast<void>(norm.forward(x * 0.3, Mode::train, updates));
    updates.commit(norm).get();
    std::fesetround(FE_TONEAREST);
    return norm.running_variance.to_vector<double>();
  };
  const std::vector<double> plain = variances(FE_TONEAREST);
  EXPECT_EQ(variances(FE_DOWNWARD), plain);
  EXPECT_EQ(variances(FE_UPWARD), plain);
}

TEST_F(ProgramEnvironment, StaysAsItWas) {
  std::fesetround(FE_UPWARD);
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_UNDERFLOW);
  const Runtime runtime;
  const Tensor x = full(runtime.device("cpu:0"), {1000}, 0.1);
  const float least = min(log(x - 0.1F) / x).item<float>();
  std::feclearexcept(FE_INEXACT);  // set by the test's own arithmetic
  EXPECT_LT(least, 0);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_UNDERFLOW);
}

std::vector<float> values_of(const HostArray& array) {
  const std::span<const float> values = array.values<float>();
  return {values.begin(), values.end()};
}

// Numbers in braces, and those in expressions of the program.
TEST_F(ProgramEnvironment, RoundsNoNumberOfAProgram) {
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const auto tenths = [&](int rounding) {
    std::fesetround(rounding);
    std::feclearexcept(FE_ALL_EXCEPT);
    const Tensor listed = Tensor::from(device, {0.1, -0.7, 1e-41}, {3});
    const auto tenth = custom_op("tenth", [](auto t) { return t * 0.1; });
    const Tensor computed = tenth(ones(device, {1}));
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0) << rounding;
    std::fesetround(FE_TONEAREST);
    std::vector<std::uint32_t> bits = bits_of(listed);
    const std::vector<std::uint32_t> more = bits_of(computed);
    bits.insert(bits.end(), more.begin(), more.end());
    return bits;
  };
  const std::vector<std::uint32_t> wanted{std::bit_cast<std::uint32_t>(0.1F),
                                          std::bit_cast<std::uint32_t>(-0.7F),
                                          std::bit_cast<std::uint32_t>(1e-41F),
                                          std::bit_cast<std::uint32_t>(0.1F)};
  for (const int rounding : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    EXPECT_EQ(tenths(rounding), wanted) << rounding;
  }
}

// Pixels are scaled on the program's thread where no loader reads them.
TEST_F(ProgramEnvironment, RoundsNoPixel) {
  const std::vector<std::int64_t> first{0};
  const TemporaryFolder folder;
  testing::write_bytes(folder.path() / "a" / "1.png",
                       testing::png_bytes(testing::plain_picture(2, 3, {99})));
  const auto pixels = [&](int rounding) {
    std::fesetround(rounding);
    const ImageDataset digits(make_digits({.count = 1}), {.mean = 0.1307F, .deviation = 0.3081F});
    const ImageFolder pictures(folder.path(),
                               {.channels = 1, .mean = {0.1307F}, .deviation = {0.3081F}});
    std::vector<float> all = values_of(digits.read(first).inputs);
    const std::vector<float> more = values_of(pictures.read(first).inputs);
    all.insert(all.end(), more.begin(), more.end());
    std::fesetround(FE_TONEAREST);
    return all;
  };
  const std::vector<float> plain = pixels(FE_TONEAREST);
  EXPECT_EQ(pixels(FE_DOWNWARD), plain);
  EXPECT_EQ(pixels(FE_UPWARD), plain);
}

// The C library rounds the numbers of a text by the program's setting.
TEST_F(ProgramEnvironment, ReadsAnEncodersFile) {
  const CsvTable table = parse_csv("a,y\n0.1,1.7\n0.33,2.9\n0.7,5.1\n");
  const TableEncoder encoder(table, {.target = "y"});
  const TemporaryFolder folder;
  for (const int rounding : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    encoder.save(folder.path() / "encoder.json");
    const TableEncoder read = TableEncoder::load(folder.path() / "encoder.json");
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(values_of(read.encode(table).examples().inputs),
              values_of(encoder.encode(table).examples().inputs));
  }
}

// Nodes whose operands are known are computed on the program's thread.
TEST_F(ProgramEnvironment, RoundsNothingOfAnOnnxFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.onnx";
  const testing::OnnxGraphParts parts{
      .nodes = {testing::onnx_node("Div", {"a", "b"}, {"quotient"}),
                testing::onnx_node("Resize",
                                   {"x", "", "scales"},
                                   {"large"},
                                   {testing::onnx_attribute("mode", std::string_view("linear"))}),
                testing::onnx_node("Add", {"large", "quotient"}, {"y"})},
      .initialisers = {testing::onnx_tensor("a", {1}, {1}),
                       testing::onnx_tensor("b", {1}, {3}),
                       testing::onnx_tensor("scales", {4}, {1, 1, 1, 1.7F})},
      .inputs = {testing::onnx_value("x", {1, 1, 1, 4})},
      .outputs = {testing::onnx_value("y", {1, 1, 1, -1})}};
  std::ofstream(file, std::ios::binary) << testing::onnx_file(parts, 17);
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const Tensor x = Tensor::from(device, {0.1, 0.3, -0.7, 0.2}, {1, 1, 1, 4});
  const auto run = [&](int rounding) {
    std::fesetround(rounding);
    const OnnxModel model = load_onnx(file, device);
    const Tensor y = model.forward(x);
    std::fesetround(FE_TONEAREST);
    return bits_of(y);
  };
  const std::vector<std::uint32_t> plain = run(FE_TONEAREST);
  EXPECT_EQ(run(FE_DOWNWARD), plain);
  EXPECT_EQ(run(FE_UPWARD), plain);
#ifdef __GLIBC__
  testing::OnnxGraphParts strange = parts;
  strange.initialisers[0] = testing::onnx_tensor("a", {1}, {0});
  strange.initialisers[1] = testing::onnx_tensor("b", {1}, {0});
  std::ofstream(file, std::ios::binary) << testing::onnx_file(strange, 17);
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INVALID);
  const OnnxModel model = load_onnx(file, device);
  const Tensor y = model.forward(x);
  fedisableexcept(FE_INVALID);
  EXPECT_TRUE(std::isnan(y.to_vector<float>()[0]));
#endif
}

#ifdef __x86_64__
TEST_F(ProgramEnvironment, FlushesNoDenormalOfTheLibrarys) {
  constexpr unsigned kFlushAll = 0x8040;
  const auto flush = [] { _mm_setcsr(_mm_getcsr() | kFlushAll); };
  expect_same_bits(flush, "flush to zero");
  flush();
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const std::vector<std::uint32_t> small = bits_of(full(device, {70'000}, 1e-40) * 0.5);
  EXPECT_EQ(small.front(), std::bit_cast<std::uint32_t>(5e-41F));
  EXPECT_EQ(small.back(), std::bit_cast<std::uint32_t>(5e-41F));
  EXPECT_EQ(_mm_getcsr() & kFlushAll, kFlushAll);
}
#endif

#ifdef __GLIBC__
TEST_F(ProgramEnvironment, OfSignalsDoesNotEndATrainingStep) {
  constexpr int kTrapped = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;
  expect_same_bits([] { feenableexcept(kTrapped); }, "signals");
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(kTrapped);
  const Runtime runtime;
  const Device device = runtime.device("cpu:0");
  const Tensor x = Tensor::from(device, std::vector<float>{-1, 0, 3e38F}, {3});
  const Tensor strange = concat({log(x), x / 0.0, x * 1e30}, 0);
  EXPECT_NE(strange.to_string().find("nan"), std::string::npos);
  EXPECT_EQ(cast(strange, DType::i32).to_vector<std::int32_t>().size(), 9U);
  EXPECT_TRUE(std::isnan(sum(strange * 0.0).item()));
  Generator generator(1);
  EXPECT_EQ(random_uniform(device, {9}, generator).to_vector<float>().size(), 9U);  // from 0 on
  EXPECT_EQ(fegetexcept(), kTrapped);
}
#endif

// The program's functions run in the library's environment; their changes of it end with the call.
TEST_F(ProgramEnvironment, IsNotThatOfItsKernels) {
  std::fesetround(FE_DOWNWARD);
  const Runtime runtime;
  int rounding = -1;
  CustomKernelConfig config{.name = "look", .inputs = {{"x", {DType::f32}}}, .outputs = {"y"}};
  config.rule = [](std::span<const TensorForm> in) { return std::vector{in[0]}; };
  config.host = [&rounding](const HostKernelCall& call) {
    rounding = std::fegetround();
    call.output<float>(0)[0] = call.input<float>(0)[0];
    std::fesetround(FE_UPWARD);
  };
  const CustomKernel look = custom_op(config);
  const Tensor third = look({full(runtime.device("cpu:0"), {1}, 1.0)}) / 3.0;
  EXPECT_EQ(third.item<float>(), 1.0F / 3.0F);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
}

}  // namespace
}  // namespace hearth
