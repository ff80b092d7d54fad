// Kernels of a program on CUDA devices: on the host's driver (tests/backends/cuda), or on a card if
// HEARTH_CUDA_LIBRARY_PATH names the folder of NVRTC.
#include "backends/cuda/text/machine_text.hpp"
#include "backends/cuda/text/types_text.hpp"

#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <regex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment_variable.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string library_folder() {
  const char* const folder = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  return folder == nullptr ? HEARTH_HOST_CUDA : folder;
}

template <class Fn>
std::string text_of(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.error().text;
  }
  return "nothing was thrown";
}

class CudaKernels : public ::testing::Test {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(); }

  const testing::EnvironmentVariable folder_{"HEARTH_CUDA_LIBRARY_PATH", library_folder()};
  const testing::EnvironmentVariable no_cache_{"HEARTH_CACHE_DIR", "/dev/null"};
  const Runtime runtime_{{.devices = {{.name = "cuda:0"}}, .blocking_compiles = true}};
};

// y = x + share · x before it.
CustomKernelConfig mixed(std::string text) {
  CustomKernelConfig config{.name = "mixed", .inputs = {{"x"}}, .numbers = {{"share"}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
  config.cuda.text = std::move(text);
  return config;
}

constexpr const char* kMixed = R"(
__device__ void kernel() {
  const float before = ID % x_size(1) == 0 ? 0.0f : x(ID - 1);
  set_y(ID, x(ID) + share * before);
}
)";

TEST_F(CudaKernels, RunOnceForEachElement) {
  const CustomKernel kernel = custom_op(mixed(kMixed));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = cast(reshape(arange(device(), 0, 6), {2, 3}), dtype);
    EXPECT_EQ(cast(kernel({x}, {0.5}), DType::f32).to_vector<float>(),
              (std::vector<float>{0, 1, 2.5, 3, 5.5, 7}))
        << name(dtype);
  }
}

// A number and the sizes are parameters; views come without gaps.
TEST_F(CudaKernels, TakeOtherNumbersSizesAndViews) {
  const CustomKernel kernel = custom_op(mixed(kMixed));
  const Tensor x = transpose(reshape(arange(device(), 0, 6, 1.0, DType::f32), {3, 2}), 0, 1);
  EXPECT_EQ(kernel({x}, {1}).to_vector<float>(), (std::vector<float>{0, 2, 6, 1, 4, 8}));
  EXPECT_EQ(kernel({x}, {2}).to_vector<float>(), (std::vector<float>{0, 2, 8, 1, 5, 11}));
}

// The host's fibers run in an order of their own, so a missing barrier would show.
constexpr const char* kLargest = R"(
struct Best {
  float value;
};
__device__ Best better(Best a, Best b) {
  return a.value < b.value ? b : a;
}
__device__ void kernel() {
  __shared__ Best part[THREADS];
  const INDEX columns = x_size(1);
  Best best{-1.0e30f};
  for (INDEX i = INDEX(threadIdx.x); i < columns; i += THREADS) {
    best = better(best, Best{x(INDEX(GROUP) * columns + i)});
  }
  part[THREAD] = best;
  __syncthreads();
  for (unsigned width = THREADS / 2; width > 0; width /= 2) {
    if (THREAD < width) {
      part[THREAD] = better(part[THREAD], part[THREAD + width]);
    }
    __syncthreads();
  }
  if (THREAD == 0) {
    set_y(INDEX(GROUP), part[0].value);
    set_place(INDEX(GROUP), most);
  }
}
)";

TEST_F(CudaKernels, WorkTogetherInGroups) {
  CustomKernelConfig config{.name = "largest",
                            .inputs = {{"x", {DType::f32}}},
                            .outputs = {"y", "place"},
                            .numbers = {{"most", DType::i32}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    const Shape rows({in[0].shape[0]});
    return {{DType::f32, rows}, {DType::i32, rows}};
  };
  config.cuda = {.text = kLargest,
                 .threads = 64,
                 .groups = [](std::span<const TensorForm> in, std::span<const TensorForm>) {
                   return in[0].shape[0];
                 }};
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kColumns = 331;
  std::vector<float> values;
  std::vector<float> wanted;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kColumns; ++i) {
      values.push_back(static_cast<float>((i * 7919 + row * 31) % 1009));
    }
    wanted.push_back(*std::max_element(values.end() - kColumns, values.end()));
  }
  const std::vector<Tensor> got =
      custom_op(config).all(std::vector<Tensor>{Tensor::from(device(), values, {kRows, kColumns})},
                            std::vector<double>{41});
  EXPECT_EQ(got[0].to_vector<float>(), wanted);
  EXPECT_EQ(got[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>(kRows, 41)));
}

// One text for both languages: literals with f, and no words of either language alone.
TEST_F(CudaKernels, ShareATextOfTheVocabularyWithGlsl) {
  CustomKernelConfig config = mixed(R"(
SHARED(float, part, THREADS);
void kernel() {
  part[THREAD] = x(ID) * 2.0f;
  set_y(ID, part[THREAD] + share);
})");
  config.glsl.text = config.cuda.text;
  const Tensor x = reshape(arange(device(), 0, 4, 1.0, DType::f32), {2, 2});
  EXPECT_EQ(custom_op(config)({x}, {0.5}).to_vector<float>(),
            (std::vector<float>{0.5, 2.5, 4.5, 6.5}));
}

// In GLSL 1e-9 would be a float, and vanish beside 1.
TEST_F(CudaKernels, HaveDoublesAsCppHasThem) {
  const CustomKernel kernel =
      custom_op(mixed("void kernel() { set_y(ID, float(((1.0 + 1e-9) - 1.0) * 1e9)); }"));
  const Tensor x = zeros(device(), {1, 1});
  EXPECT_NEAR(kernel({x}, {0}).item<float>(), 1.0, 1e-3);
}

// NVRTC leaves out textures and CUDA's own types where a text needs none, and defines this macro.
TEST_F(CudaKernels, MayNameTheTypesOfCudasRuntime) {
  const CustomKernel kernel = custom_op(mixed(R"(
#ifdef __CUDACC_RTC_MINIMAL__
#error no types of CUDA's runtime
#endif
void kernel() { set_y(ID, x(ID) + share); })"));
  EXPECT_EQ(kernel({ones(device(), {1, 2})}, {2}).to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST_F(CudaKernels, AreRefusedWithoutATextAtOnce) {
  CustomKernelConfig config = mixed("");
  config.glsl.text = "void kernel() {}";
  config.host = [](const HostKernelCall&) {};
  const CustomKernel kernel = custom_op(config);
  EXPECT_EQ(text_of([&] {
              static_cast<void>(kernel({zeros(device(), {1, 4})}, {0}));
            }),
            "mixed: the kernel has no CUDA text; cuda:0 needs one");
}

TEST_F(CudaKernels, NameTheWrongLines) {
  const Tensor x = zeros(device(), {1, 2});
  const Tensor good = x + 1;
  const CustomKernel kernel =
      custom_op(mixed("// mine\nvoid kernel() {\n  set_y(ID, x(ID) * ahsre);\n}"));
  const std::string said = text_of([&] { static_cast<void>(kernel({x}, {0}).to_vector<float>()); });
  EXPECT_THAT(said,
              AllOf(HasSubstr("mixed: the CUDA text does not compile:\n  line 3: "),
                    HasSubstr("ahsre"),
                    HasSubstr("\n    set_y(ID, x(ID) * ahsre);"),
                    Not(HasSubstr("line 4"))));
  EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{1, 1}));  // other kernels still work
}

TEST_F(CudaKernels, SayWhatIsWrongWithATextAsAWhole) {
  const Tensor x = zeros(device(), {1, 2});
  const auto said = [&](const char* text) {
    const CustomKernel kernel = custom_op(mixed(text));
    return text_of([&] { static_cast<void>(kernel({x}, {0}).to_vector<float>()); });
  };
  EXPECT_EQ(said("void kernal() {}"),
            "mixed: the CUDA text does not compile: it has no function 'void kernel()', without "
            "parameters, which is what runs");
  EXPECT_EQ(said("void main() {}\nvoid kernel() {}"),
            "mixed: the CUDA text does not compile: it has a function 'main', which is Hearth's "
            "own: call it 'kernel'");
  EXPECT_THAT(said("void kernel() {\n  set_y(ID, x(ID));\n\n"),
              HasSubstr("it ends too early: a brace, a bracket or an #endif is missing, at its end "
                        "or before\n    set_y(ID, x(ID));"));
}

TEST_F(CudaKernels, HaveNoWordsOfCudaAsNames) {
  const auto refused = [](const std::string& word) {
    CustomKernelConfig config = mixed(kMixed);
    config.inputs.push_back({word});
    return text_of([&] { static_cast<void>(custom_op(config)); });
  };
  EXPECT_EQ(refused("operator"),
            "mixed: 'operator' is a word of CUDA C++ or of the text around it, no name for an "
            "input");
  EXPECT_EQ(refused("weights"), "nothing was thrown");
  // Each function in front of the kernel.
  const std::string prelude = std::string(cuda::kMachine) + std::string(cuda::kTypes);
  const std::regex function(R"(FN [\w<>, ]*[ &*](\w+)\()");
  int count = 0;
  for (auto it = std::sregex_iterator(prelude.begin(), prelude.end(), function);
       it != std::sregex_iterator();
       ++it) {
    const std::string word = (*it)[1];
    if (word != "explicit" && word != "op" && word != "name") {  // of macros
      EXPECT_NE(refused(word), "nothing was thrown") << word;
      ++count;
    }
  }
  EXPECT_GT(count, 40);
}

TEST_F(CudaKernels, KeepTheirTextWithItsByteOrderMark) {
  const Tensor x = reshape(arange(device(), 0, 2, 1.0, DType::f32), {1, 2});
  const CustomKernel kernel = custom_op(mixed(std::string("\xef\xbb\xbf") + kMixed));
  EXPECT_EQ(kernel({x}, {1}).to_vector<float>(), (std::vector<float>{0, 1}));
}

}  // namespace
}  // namespace hearth
