// A program's own kernels, on each backend that computes: results, gradients, views, and error
// texts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x / (scale · its rows' largest absolute value + epsilon): a workgroup a row.
CustomKernelConfig row_scale() {  // NOLINT(readability-function-size): one kernel, whole
  CustomKernelConfig config{.name = "row_scale",
                            .inputs = {{"x", {DType::f32, DType::f16}}, {"scale", {DType::f32}}},
                            .outputs = {"y", "largest"},
                            .numbers = {{"epsilon"}, {"power", DType::i32}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    if (in[0].shape.rank() != 2 || in[1].shape != Shape({in[0].shape[0]})) {
      throw std::invalid_argument("x is [rows, columns], scale [rows]");
    }
    return {in[0], {DType::f32, in[1].shape}};
  };
  config.host = [](const HostKernelCall& call) {
    const std::int64_t columns = call.input_shape(0)[1];
    const auto scale = call.input<float>(1);
    const auto largest = call.output<float>(1);
    const auto rows = [&](auto x, auto y) {
      call.parallel_for(call.input_shape(0)[0], 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const auto at = static_cast<std::size_t>(row);
          const auto first = static_cast<std::size_t>(row * columns);
          largest[at] = 0;
          for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i) {
            largest[at] = std::max(largest[at], std::abs(static_cast<float>(x[first + i])));
          }
          const double power = std::pow(scale[at] * largest[at], call.number(1));
          const auto divisor = static_cast<float>(power + call.number(0));
          for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i) {
            y[first + i] = static_cast<std::remove_reference_t<decltype(y[0])>>(
                static_cast<float>(x[first + i]) / divisor);
          }
        }
      });
    };
    if (call.input_dtype(0) == DType::f16) {
      rows(call.input<f16>(0), call.output<f16>(0));
    } else {
      rows(call.input<float>(0), call.output<float>(0));
    }
  };
  config.glsl = {.text = R"(
shared float part[THREADS];
void kernel() {
  const INDEX row = INDEX(GROUP);
  const INDEX columns = x_size(1);
  float most = 0.0;
  for (INDEX i = INDEX(THREAD); i < columns; i += THREADS) {
    most = max(most, abs(x(row * columns + i)));
  }
  part[THREAD] = most;
  barrier();
  for (uint width = THREADS / 2; width > 0; width /= 2) {
    if (THREAD < width) {
      part[THREAD] = max(part[THREAD], part[THREAD + width]);
    }
    barrier();
  }
  float divisor = epsilon;
  float factor = 1.0;
  for (int i = 0; i < power; ++i) {
    factor *= scale(row) * part[0];
  }
  divisor += factor;
  for (INDEX i = INDEX(THREAD); i < columns; i += THREADS) {
    set_y(row * columns + i, y_type(x(row * columns + i)) / divisor);
  }
  if (THREAD == 0) {
    set_largest(row, part[0]);
  }
}
)",
                 .threads = 32,
                 .groups = [](std::span<const TensorForm> in, std::span<const TensorForm>) {
                   return in[0].shape[0];
                 }};
  config.reference = [](std::span<const Tensor> in, std::span<const double> numbers) {
    const Tensor x = cast(in[0], DType::f32);
    const Tensor most = max(abs(x), {1});
    const Tensor divisor = pow(in[1] * most, numbers[1]) + numbers[0];
    return std::vector<Tensor>{cast(x / unsqueeze(divisor, 1), in[0].dtype()), most};
  };
  return config;
}

// a · b, an element a thread, with a gradient.
CustomKernelConfig product() {
  CustomKernelConfig config{.name = "my_product", .inputs = {{"a"}, {"b"}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    if (in[0].shape != in[1].shape) {
      throw std::invalid_argument("shapes differ");
    }
    return {in[0]};
  };
  config.host = [](const HostKernelCall& call) {
    visit_dtype(call.input_dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const auto a = call.input<T>(0);
      const auto b = call.input<T>(1);
      const auto y = call.output<T>();
      call.parallel_for(static_cast<std::int64_t>(y.size()), 2, [&](auto begin, auto end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
            y[i] = T(static_cast<float>(a[i]) * static_cast<float>(b[i]));
          } else if constexpr (std::is_same_v<T, bool>) {
            y[i] = a[i] && b[i];
          } else {
            y[i] = static_cast<T>(a[i] * b[i]);
          }
        }
      });
    });
  };
  config.glsl.text = R"(void kernel() {
  set_y(ID, y_type(a(ID) * b(ID)));
})";
  config.vjp = [](const CustomGradient& call) {
    return std::vector<Tensor>{call.gradient * call.inputs[1],
                               call.is_needed[1] ? call.gradient * call.inputs[0] : Tensor()};
  };
  config.reference = [](std::span<const Tensor> in, std::span<const double>) {
    return std::vector<Tensor>{in[0] * in[1]};
  };
  return config;
}

template <class Call>
std::string text_of(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.error().text;
  }
  return "nothing was thrown";
}

class CustomKernels : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] bool is_vulkan() const { return device().name().starts_with("vulkan"); }
  [[nodiscard]] Tensor f32(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor wave(const Shape& shape, double step) const {
    return reshape(
        sin(arange(device(), 0, static_cast<double>(shape.element_count()), 1.0, DType::f32) *
            step),
        shape.dims());
  }

  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(CustomKernels, GiveWhatTheirReferenceGives) {
  const CustomKernel scaled = custom_op(row_scale());
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{70, 33}, Shape{2, 1000}}) {
    const Tensor x = wave(shape, 0.37);
    const Tensor scale = wave({shape[0]}, 0.1) + 2;
    scaled.check({x, scale}, {1e-3, 1});
    scaled.check({x, scale}, {0.5, 2});
    scaled.check({cast(x, DType::f16), scale}, {0.5, 1}, 2e-3);
  }
  const std::vector<Tensor> inputs{f32({1, -4, 2, 8}, {2, 2}), f32({1, 0.5F}, {2})};
  const std::vector<double> numbers{0, 1};
  const std::vector<Tensor> both = scaled.all(inputs, numbers);
  EXPECT_THAT(both[0].to_vector<float>(), ElementsAre(0.25F, -1, 0.5F, 2));
  EXPECT_THAT(both[1].to_vector<float>(), ElementsAre(4, 8));
}

TEST_P(CustomKernels, HaveTheGradientThatTheyWereGiven) {
  const CustomKernel times = custom_op(product());
  times.check({wave({7, 9}, 0.3), wave({7, 9}, 0.7)});
  const Tensor b = f32({5, 6}, {2});
  const std::vector<Tensor> gradients = grad(
      [&](const std::vector<Tensor>& in) {
        return sum(times({in[0], b}) * 2);
      },
      {f32({1, 2}, {2})});
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(10, 12));
}

TEST_P(CustomKernels, TakeEveryElementType) {
  const CustomKernel times = custom_op(product());
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::boolean && is_vulkan()) {
      continue;  // GLSL has no product of bools
    }
    const Tensor a = cast(f32({0, 1, 2, 3, 4}, {5}), dtype);
    const Tensor got = times({a, a});
    EXPECT_EQ(got.dtype(), dtype);
    if (dtype != DType::boolean) {
      EXPECT_THAT(cast(got, DType::f32).to_vector<float>(), ElementsAre(0, 1, 4, 9, 16))
          << name(dtype);
    }
  }
}

TEST_P(CustomKernels, TakeViewsAndEmptyTensors) {
  const CustomKernel times = custom_op(product());
  const Tensor x = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(times({transpose(x, 0, 1), reshape(x, {3, 2})}).to_vector<float>(),
              ElementsAre(1, 8, 6, 20, 15, 36));
  EXPECT_THAT(times({expand(f32({2}, {1}), {3}), slice(x, 1, {.start = 0})[1]}).to_vector<float>(),
              ElementsAre(8, 10, 12));
  EXPECT_EQ(times({zeros(device(), {0, 3}), zeros(device(), {0, 3})}).shape(), Shape({0, 3}));
  EXPECT_TRUE(times({zeros(device(), {0}), zeros(device(), {0})}).to_vector<float>().empty());
}

TEST_P(CustomKernels, RefuseWhatDoesNotFit) {
  const CustomKernel scaled = custom_op(row_scale());
  const std::vector<double> numbers{0, 1};
  const auto call = [&](std::vector<Tensor> inputs) {
    return text_of([&] { static_cast<void>(scaled.all(inputs, numbers)); });
  };
  const Tensor x = zeros(device(), {4, 8});
  const Tensor scale = zeros(device(), {4});
  EXPECT_EQ(call({x, zeros(device(), {3})}),
            "row_scale: x is [rows, columns], scale [rows]: x f32[4, 8], scale f32[3]");
  EXPECT_EQ(call({x}), "row_scale: takes 2 inputs, was given 1");
  EXPECT_EQ(call({cast(x, DType::i32), scale}),
            "row_scale: input 'x' is i32[4, 8]; it takes f32, f16");
  EXPECT_EQ(call({x, Tensor()}), "row_scale: input 'scale' is an empty tensor");
  EXPECT_EQ(text_of([&] {
              static_cast<void>(scaled({x, scale}, {0, 1}));
            }),
            "row_scale: it has 2 results: call all()");
  EXPECT_EQ(text_of([&] {
              static_cast<void>(scaled.all(std::vector<Tensor>{x, scale}));
            }),
            "row_scale: takes 2 numbers, was given 0");
  EXPECT_EQ(
      text_of([&] {
        static_cast<void>(scaled.all(std::vector<Tensor>{x, scale}, std::vector<double>{0, 0.5}));
      }),
      "row_scale: the number 'power' is 0.5, which is no i32");
  EXPECT_THAT(text_of([&] {
                static_cast<void>(grad(
                    [&](const std::vector<Tensor>& in) {
                      return sum(scaled.all(std::vector<Tensor>{in[0], scale}, numbers)[0]);
                    },
                    {x}));
              }),
              HasSubstr("row_scale: it has no vjp, and an input is tracked"));
}

TEST_P(CustomKernels, NameTheDeviceThatTheyHaveNoCodeFor) {
  CustomKernelConfig config = product();
  if (is_vulkan()) {
    config.glsl.text = "";
  } else {
    config.host = {};
  }
  const CustomKernel times = custom_op(config);
  const Tensor x = zeros(device(), {2});
  EXPECT_EQ(text_of([&] {
              static_cast<void>(times({x, x}));
            }),
            std::string("my_product: the kernel has no ") +
                (is_vulkan() ? "GLSL text" : "host function") + "; " + device().name() +
                " needs one");
}

TEST_P(CustomKernels, SayWhatIsWrongInTheirCode) {
  CustomKernelConfig config = product();
  config.glsl.text = "// my product\nvoid kernel() {\n  set_y(ID, a(ID) * wrong(ID));\n}";
  config.host = [](const HostKernelCall& call) {
    call.parallel_for(100, 3, [](std::int64_t begin, std::int64_t) {
      if (begin > 50) {
        throw std::runtime_error("the cat sat on it");
      }
    });
  };
  const CustomKernel times = custom_op(config);
  const Tensor x = f32({1, 2}, {2});
  const Tensor good = x + 1;
  const Tensor bad = times({x, x});
  const std::string text = text_of([&] { static_cast<void>(bad.to_vector<float>()); });
  if (is_vulkan()) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("my_product: the GLSL text does not compile:"),
                      HasSubstr("line 3: 'wrong' : no matching overloaded function found"),
                      HasSubstr("set_y(ID, a(ID) * wrong(ID));")));
  } else {
    EXPECT_EQ(text, "my_product: its host function threw: the cat sat on it");
  }
  EXPECT_THAT(good.to_vector<float>(), ElementsAre(2, 3));  // other kernels still work
}

TEST_P(CustomKernels, TakeTextsWithAByteOrderMark) {
  CustomKernelConfig config = product();
  config.glsl.text = "\xef\xbb\xbf" + config.glsl.text;
  const Tensor x = f32({1, 2}, {2});
  EXPECT_THAT(custom_op(config)({x, x}).to_vector<float>(), ElementsAre(1, 4));
}

TEST_P(CustomKernels, SayWhereATextThatHasNoEndEnds) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  const Tensor x = f32({1, 2}, {2});
  for (const char* const text : {"void kernel() {\n  set_y(ID, a(ID));\n\n",
                                 "void kernel() {}\nfloat last(float x) {\n  set_y(ID, a(ID));",
                                 "void kernel() {}\n  set_y(ID, a(ID));  "}) {
    SCOPED_TRACE(text);
    CustomKernelConfig config = product();
    config.glsl.text = text;
    const std::string said = text_of([&] {
      static_cast<void>(custom_op(config)({x, x}).to_vector<float>());
    });
    EXPECT_THAT(said, HasSubstr("my_product: the GLSL text does not compile:"));
    EXPECT_THAT(said, HasSubstr("set_y(ID, a(ID));"));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("ERROR: ")));
  }
  CustomKernelConfig config = product();
  config.glsl.text = "void kernel() {\n  set_y(ID, a(ID));\n";
  EXPECT_THAT(text_of([&] {
                static_cast<void>(custom_op(config)({x, x}).to_vector<float>());
              }),
              HasSubstr("it ends too early"));
}

TEST_P(CustomKernels, SayWhatIsWrongWithATextAsAWhole) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  const Tensor x = f32({1, 2}, {2});
  const auto said = [&](const char* text) {
    CustomKernelConfig config = product();
    config.glsl.text = text;
    return text_of([&] { static_cast<void>(custom_op(config)({x, x}).to_vector<float>()); });
  };
  constexpr const char* kNoKernel =
      "my_product: the GLSL text does not compile: it has no function 'void kernel()', without "
      "parameters, which is what runs";
  EXPECT_EQ(said("void kernal() {}"), kNoKernel);
  EXPECT_EQ(said("void kernel(int i) {}"), kNoKernel);
  EXPECT_EQ(said("void main() {}\nvoid kernel() {}"),
            "my_product: the GLSL text does not compile: it has a function 'main', which is "
            "Hearth's own: call it 'kernel'");
  EXPECT_EQ(said("float f(float x) { return f(x - 1.0); }\n"
                 "void kernel() { set_y(ID, f(a(ID))); }"),
            "my_product: the GLSL text does not compile: the function 'f' calls itself, or others "
            "that call it, and GLSL has no recursion");
}

// The compiler names an unknown letter by its first byte.
TEST_P(CustomKernels, AreQuotedInWholeLetters) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  const Tensor x = f32({1, 2}, {2});
  CustomKernelConfig config = product();
  config.glsl.text = "void kernel() {\n  set_y(ID, \xc3\xa9);\n}";
  const std::string said = text_of([&] {
    static_cast<void>(custom_op(config)({x, x}).to_vector<float>());
  });
  EXPECT_THAT(said, HasSubstr("line 2: '?"));
  EXPECT_THAT(said, HasSubstr("set_y(ID, \xc3\xa9);"));
}

TEST_P(CustomKernels, MayNotShareMoreThanTheDeviceHas) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  const Tensor x = f32({1, 2}, {2});
  CustomKernelConfig config = product();
  config.glsl.text =
      "struct Pair { vec3 a; float b[2]; };\nshared Pair many[1 << 18];\n"
      "void kernel() {\n  many[THREAD].b[0] = a(ID);\n  set_y(ID, many[THREAD].b[0]);\n}";
  EXPECT_THAT(text_of([&] {
                static_cast<void>(custom_op(config)({x, x}).to_vector<float>());
              }),
              HasSubstr("my_product: its shared variables have 5242880 bytes, a workgroup of the "
                        "device at most "));
}

TEST_P(CustomKernels, SayWhatTheirFunctionsGetWrong) {
  CustomKernelConfig config = product();
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    return {in[0], in[0]};
  };
  const Tensor x = f32({1, 2}, {2});
  EXPECT_EQ(text_of([&] {
              static_cast<void>(custom_op(config)({x, x}));
            }),
            "my_product: its rule gives 2 results for a f32[2], b f32[2], it has 1");
  config = product();
  config.vjp = [](const CustomGradient& call) {
    return std::vector<Tensor>{sum(call.gradient), Tensor()};
  };
  EXPECT_EQ(text_of([&] {
              static_cast<void>(grad(
                  [&](const std::vector<Tensor>& in) {
                    return sum(custom_op(config)({in[0], x}));
                  },
                  {x}));
            }),
            "my_product: its vjp gives f32[] for 'a', which is f32[2]");
  config = product();
  config.reference = [](std::span<const Tensor> in, std::span<const double>) {
    return std::vector<Tensor>{in[0] * in[1] + 0.5 * cast(in[0] > 1, DType::f32)};
  };
  EXPECT_THAT(text_of([&] {
                custom_op(config).check({x, x});
              }),
              HasSubstr("my_product: 'y' differs from the reference's at [1]: 4, should be 4.5"));
  config = product();
  config.vjp = [](const CustomGradient& call) {
    return std::vector<Tensor>{call.gradient, call.gradient * call.inputs[0]};
  };
  EXPECT_THAT(text_of([&] {
                custom_op(config).check({x, x});
              }),
              HasSubstr("my_product: the gradient of 'a' differs from the reference's at [1]"));
}

TEST_P(CustomKernels, AreNoPartOfRecordingsAndCaptures) {
  const CustomKernel times = custom_op(product());
  const Tensor x = f32({1, 2}, {2});
  const CustomOp around = custom_op("around", [&](const Tensor& each) {
    return times({each, each});
  });
  EXPECT_THAT(text_of([&] { static_cast<void>(around(x)); }),
              HasSubstr("my_product: 'around' is captured from plain ops, and this is a kernel"));
  std::optional<RecordScope> recording(std::in_place, runtime_);
  EXPECT_THAT(text_of([&] {
                static_cast<void>(times({x, x}));
              }),
              HasSubstr("my_product: its code can be no part of a recording"));
  recording.reset();
  EXPECT_THAT(times({x, x}).to_vector<float>(), ElementsAre(1, 4));
}

// The device waits for the kernel, so a wait for the device, for another one or for room in a
// stream would hang. Such a wait is refused at once, also on the threads of parallel_for().
TEST(CustomKernelWaits, ForADeviceAreRefusedInsideAKernel) {
  for (const bool forks : {false, true}) {
    const Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}});
    for (const char* const awaited : {"cpu:0", "reference:0"}) {
      const Tensor other = ones(runtime.device(awaited), {2});
      CustomKernelConfig config{.name = "waits", .inputs = {{"x"}}, .outputs = {"y"}};
      config.rule = [](std::span<const TensorForm> in) { return std::vector{in[0]}; };
      config.host = [&](const HostKernelCall& call) {
        const auto wait = [&](std::int64_t, std::int64_t) {
          static_cast<void>((other + 1).to_vector<float>());
        };
        if (forks) {
          call.parallel_for(64, 1, wait);
        } else {
          wait(0, 1);
        }
      };
      const CustomKernel kernel = custom_op(std::move(config));
      try {
        static_cast<void>(kernel({ones(runtime.device("cpu:0"), {3})}).to_vector<float>());
        ADD_FAILURE() << awaited;
      } catch (const Exception& error) {
        EXPECT_THAT(error.what(), HasSubstr("is waited for inside the kernel 'waits'"));
      }
      EXPECT_THAT((other + 1).to_vector<float>(), ElementsAre(2, 2)) << "outside it is allowed";
    }
  }
}

TEST(CustomKernelConfigs, AreCheckedWhenTheyAreMade) {
  const auto made = [](const std::function<void(CustomKernelConfig&)>& change) {
    CustomKernelConfig config = product();
    change(config);
    return text_of([&] { static_cast<void>(custom_op(config)); });
  };
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.rule = {}; }),
            "my_product: it needs a name and a rule for the types and shapes of its results");
  EXPECT_EQ(
      made([](CustomKernelConfig& c) {
        c.host = {};
        c.glsl = {};
      }),
      "my_product: it has no code: give it a host function, GLSL text, CUDA text or several of "
      "them");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.inputs[1].name = "a"; }),
            "my_product: the name 'a' is taken, for an input");
  EXPECT_EQ(
      made([](CustomKernelConfig& c) { c.outputs[0] = "2y"; }),
      "my_product: '2y' is no name for a result: letters, digits and single _, a letter first");
  for (const char* const word : {"input",
                                 "filter",
                                 "half",
                                 "buffer",
                                 "for",
                                 "float",
                                 "vec4",
                                 "u64vec2",
                                 "mat3",
                                 "dmat2x4",
                                 "uint8_t",
                                 "sampler2DArrayShadow",
                                 "uimage2D",
                                 "gl_x",
                                 "gl"}) {
    EXPECT_EQ(
        made([&](CustomKernelConfig& c) { c.inputs[1].name = word; }),
        std::string("my_product: '") + word + "' is a word of GLSL's own, no name for an input");
  }
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.inputs[1].name = "sign"; }),
            "my_product: 'sign' is a function of GLSL's own, no name for an input");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.outputs[0] = "sign"; }), "nothing was thrown");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.outputs[0] = "output"; }),
            "my_product: 'output' is a word of GLSL's own, no name for a result");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.numbers = {{"sample"}}; }),
            "my_product: 'sample' is a word of GLSL's own, no name for a number");
  for (const char* const name : {"image", "texture", "vec5", "matrix", "mat3x", "inputs", "vec"}) {
    EXPECT_EQ(made([&](CustomKernelConfig& c) { c.inputs[1].name = name; }), "nothing was thrown");
  }
  EXPECT_EQ(made([](CustomKernelConfig& c) {
              c.numbers = {{"n", DType::i64}};
            }),
            "my_product: the number 'n' is i64; f32 and i32 are possible");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.inputs = std::vector<CustomInput>(9); }),
            "my_product: 9 inputs; 1 to 8 are possible");
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.glsl.threads = 2000; }),
            "my_product: 2000 threads in a workgroup; 1 to 1024 are possible");
}

INSTANTIATE_TEST_SUITE_P(Devices, CustomKernels, HEARTH_TESTED_DEVICES("cpu:0", "reference:0"));

}  // namespace
}  // namespace hearth
