// Mistakes in a program's own kernels, in names, declarations and results, on each backend that
// computes.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 2 · x, an element a thread.
CustomKernelConfig twice() {
  CustomKernelConfig config{.name = "twice", .inputs = {{"x"}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
  config.host = [](const HostKernelCall& call) {
    const auto x = call.input<float>(0);
    const auto y = call.output<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = 2 * x[i];
    }
  };
  config.glsl.text = "void kernel() {\n  set_y(ID, 2.0 * x(ID));\n}";
  config.vjp = [](const CustomGradient& call) { return std::vector<Tensor>{call.gradient * 2}; };
  config.reference = [](std::span<const Tensor> in, std::span<const double>) {
    return std::vector<Tensor>{in[0] * 2};
  };
  return config;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& thrown) {
    return thrown.error();
  }
  return Error{.text = "nothing was thrown"};
}

class CustomRefusals : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Tensor x() const { return Tensor::from(runtime_.device(), {1.0F, 2.0F}, {2}); }
  [[nodiscard]] static bool is_vulkan() { return std::string(GetParam()).starts_with("vulkan"); }

  const Runtime runtime_{{.devices = {{.name = GetParam()}}}};
};

TEST_P(CustomRefusals, LeaveNumbersAnyNameThatMeetsNone) {
  for (const char* const name : {"most",
                                 "min",
                                 "watched",
                                 "watched_steps",
                                 "x_n",
                                 "x_at",
                                 "i",
                                 "v",
                                 "bits",
                                 "set_x",
                                 "size",
                                 "undef"}) {
    SCOPED_TRACE(name);
    CustomKernelConfig config = twice();
    config.numbers = {{name}};
    config.glsl.text = std::string("void kernel() {\n  set_y(ID, x(ID) * ") + name + ");\n}";
    EXPECT_THAT(custom_op(config)({x()}, {2}).to_vector<float>(), ElementsAre(2, 4));
  }
}

TEST_P(CustomRefusals, NameAResourceOfTheTexts) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  const auto said = [&](const char* declared, const char* value) {
    CustomKernelConfig config = twice();
    config.glsl.text =
        std::string(declared) + "\nvoid kernel() {\n  set_y(ID, " + std::string(value) + ");\n}";
    return error_of([&] { static_cast<void>(custom_op(config)({x()}).to_vector<float>()); }).text;
  };
  const auto refused = [](const char* name) {
    return std::string("twice: the GLSL text declares '") + name +
           "', a resource of its own: a kernel has its operands and no descriptor sets";
  };
  EXPECT_EQ(said("layout(binding=0) buffer Bound { float q[]; };", "q[ID]"), refused("Bound"));
  EXPECT_EQ(said("layout(set=1, binding=3) readonly buffer Bound { float q[]; } own;", "own.q[ID]"),
            refused("own"));
  EXPECT_EQ(said("layout(binding=0) uniform Block { float q; } block;", "block.q"),
            refused("block"));
  EXPECT_EQ(said("layout(binding=0) uniform sampler2D image_of;",
                 "textureLod(image_of, vec2(0.0), 0.0).x"),
            refused("image_of"));
  EXPECT_EQ(said("layout(binding=0, r32f) uniform image2D place;", "imageLoad(place, ivec2(0)).x"),
            refused("place"));
  EXPECT_THAT(said("layout(push_constant) uniform Own { float q; } own;", "own.q"),
              HasSubstr("twice: the GLSL text does not compile: it declares push constants"));
  EXPECT_EQ(said("layout(constant_id = 3) const float q = 2.0;", "q * x(ID)"),
            "nothing was thrown");
  EXPECT_THAT(custom_op(twice())({x()}).to_vector<float>(), ElementsAre(2, 4));  // others work
}

TEST_P(CustomRefusals, SayThatAnIfHasNoEnd) {
  if (!is_vulkan()) {
    GTEST_SKIP() << "it has no text";
  }
  CustomKernelConfig config = twice();
  config.glsl.text = "#if 1\nvoid kernel() {}";
  EXPECT_EQ(error_of([&] { static_cast<void>(custom_op(config)({x()}).to_vector<float>()); }).text,
            "twice: the GLSL text does not compile: an #if, #ifdef or #ifndef has no #endif");
}

TEST_P(CustomRefusals, NameAReferenceThatGivesNoTensor) {
  CustomKernelConfig config = twice();
  config.reference = [](std::span<const Tensor>, std::span<const double>) {
    return std::vector<Tensor>(1);
  };
  const SourceLoc here = SourceLoc::current();
  const Error error = error_of([&] { custom_op(config).check({x()}); });
  EXPECT_EQ(error.text, "twice: its reference gives no tensor for 'y'");
  EXPECT_EQ(std::string(error.location.file), here.file);
  EXPECT_EQ(error.location.line, here.line + 1);
}

TEST_P(CustomRefusals, NameTheKernelWhoseGradientThrows) {
  const auto thrown = [&](const std::function<void()>& inside) {
    CustomKernelConfig config = twice();
    config.vjp = [&](const CustomGradient& call) {
      inside();
      return std::vector<Tensor>{call.gradient};
    };
    const CustomKernel kernel = custom_op(config);
    return error_of([&] {
      static_cast<void>(
          grad([&](const std::vector<Tensor>& in) { return sum(kernel({in[0]})); }, {x()}));
    });
  };
  const Error own = thrown([] { throw std::runtime_error("the cat sat on it"); });
  EXPECT_EQ(own.text, "twice: its vjp threw: the cat sat on it");
  EXPECT_EQ(own.code, ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(own.location.file), HasSubstr("custom_kernel_refusals_test"));
  const Error ours = thrown([&] { static_cast<void>(matmul(x(), zeros(x().device(), {3, 2}))); });
  EXPECT_THAT(ours.text, HasSubstr("twice: its vjp threw: matmul: "));
  EXPECT_EQ(ours.code, ErrorCode::shape_mismatch);
  EXPECT_EQ(ours.op, "twice");
}

TEST(CustomNames, MeetNoNameThatTheTextHasForAnother) {
  const auto made = [](const std::function<void(CustomKernelConfig&)>& change) {
    CustomKernelConfig config = twice();
    change(config);
    return error_of([&] { static_cast<void>(custom_op(config)); }).text;
  };
  for (const char* const name : {"y_size", "y_count", "y_address", "y_type", "y_rank", "set_y"}) {
    EXPECT_EQ(made([&](CustomKernelConfig& c) { c.inputs[0].name = name; }),
              std::string("twice: '") + name +
                  "' is no name for an input beside 'y', whose text has y_address, y_count, "
                  "y_rank, y_size, y_type, set_y");
  }
  for (const char* const name : {"x_size", "x_count", "x_address", "x_type", "x_rank"}) {
    EXPECT_EQ(made([&](CustomKernelConfig& c) { c.numbers = {{name}}; }),
              std::string("twice: '") + name +
                  "' is no name for a number beside 'x', whose text has x_address, x_count, "
                  "x_rank, x_size, x_type");
  }
  EXPECT_EQ(made([](CustomKernelConfig& c) {
              c.inputs[0].name = "set";
              c.outputs[0] = "count";
            }),
            "twice: 'set' and 'count' are no names beside one another: the text has 'set_count' "
            "for both");
  for (const char* const name : {"Words32", "load_f32", "watched_main", "ID", "p"}) {
    EXPECT_EQ(made([&](CustomKernelConfig& c) { c.inputs[0].name = name; }),
              std::string("twice: '") + name +
                  "' is a word of the text around each kernel, no name for an input");
  }
  EXPECT_EQ(made([](CustomKernelConfig& c) {
              c.inputs[0].name = "a";
              c.numbers = {{"x"}};
            }),
            "twice: 'x' is a part of ID, GROUP and THREAD, no name for a number");
  EXPECT_THAT(made([](CustomKernelConfig& c) { c.inputs.push_back({"GL_a"}); }),
              HasSubstr("is a word of GLSL's own"));
  EXPECT_EQ(made([](CustomKernelConfig& c) { c.inputs[0].name = "z_size"; }), "nothing was thrown");
}

INSTANTIATE_TEST_SUITE_P(Devices, CustomRefusals, HEARTH_TESTED_DEVICES("cpu:0", "reference:0"));

}  // namespace
}  // namespace hearth
