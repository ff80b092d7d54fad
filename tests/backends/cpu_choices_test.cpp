// The choices of CPU products: each candidate of a call computes the bytes of the rule.
#include "cpu_contraction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
};

enum class Order { rows, columns, gaps };

// One operand of the last two axes in some order. Its elements use the whole mantissa, so that sums
// in another order have other bits.
class Matrix {
 public:
  Matrix(DType dtype,
         std::int64_t batch,
         std::int64_t rows,
         std::int64_t columns,
         Order order,
         std::mt19937& engine)
      : values_(random(dtype, batch * rows * (columns + kGap), engine)) {
    const Shape shape = batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
    Strides strides{};
    const std::int64_t width = order == Order::gaps ? columns + kGap : columns;
    const std::size_t first = batch == 1 ? 0 : 1;
    strides[0] = rows * width;
    strides[first] = order == Order::columns ? 1 : width;
    strides[first + 1] = order == Order::columns ? rows : 1;
    layout_ = std::make_unique<detail::Layout>(shape, strides);
  }
  [[nodiscard]] TensorView view() const { return values_.view(*layout_, 0); }

 private:
  static constexpr std::int64_t kGap = 3;

  static SmallTensor random(DType dtype, std::int64_t count, std::mt19937& engine) {
    std::uniform_real_distribution<double> unit(-1, 1);
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(unit(engine));
    }
    return {dtype, {count}, values};
  }

  SmallTensor values_;
  std::unique_ptr<detail::Layout> layout_;
};

// A product whose result lies between guard elements.
class PickedCall {
 public:
  PickedCall(DType dtype, const Sizes& sizes, Order a, Order b, bool has_bias, std::mt19937& engine)
      : a_(dtype, sizes.batch, sizes.m, sizes.k, a, engine),
        b_(dtype, sizes.batch, sizes.k, sizes.n, b, engine),
        bias_(dtype, 1, 1, sizes.n, Order::rows, engine),
        bias_layout_(Shape{sizes.n}),
        result_layout_(sizes.batch == 1 ? Shape{sizes.m, sizes.n}
                                        : Shape{sizes.batch, sizes.m, sizes.n}),
        result_bytes_(
            static_cast<std::size_t>(result_layout_.shape.element_count() * size_bytes(dtype)) +
            2 * kGuard) {
    std::vector<TensorView> inputs{a_.view(), b_.view()};
    if (has_bias) {
      inputs.push_back({bias_.view().data, &bias_layout_, dtype});
    }
    call_.emplace(OpKind::matmul,
                  std::move(inputs),
                  std::vector<TensorView>{{result_bytes_.data() + kGuard, &result_layout_, dtype}});
  }

  [[nodiscard]] KernelCall call() const { return call_->call(); }
  [[nodiscard]] Issue submit(cpu::CpuBackend& device, detail::CandidateId pick) {
    std::ranges::fill(result_bytes_, std::byte{0x5A});
    const Launch launch{.call = call(), .pick = pick};
    return device.submit({&launch, 1}, {});
  }
  /// The result and its guards after a run with this pick.
  [[nodiscard]] std::vector<std::byte> run(cpu::CpuBackend& device, detail::CandidateId pick) {
    submit(device, pick).status.value();
    return result_bytes_;
  }
  [[nodiscard]] static bool are_guards_intact(const std::vector<std::byte>& bytes) {
    const auto is_guard = [](std::byte each) { return each == std::byte{0x5A}; };
    return std::all_of(bytes.begin(), bytes.begin() + kGuard, is_guard) &&
           std::all_of(bytes.end() - kGuard, bytes.end(), is_guard);
  }

 private:
  static constexpr std::int64_t kGuard = 64;

  Matrix a_;
  Matrix b_;
  Matrix bias_;
  detail::Layout bias_layout_;
  detail::Layout result_layout_;
  std::vector<std::byte> result_bytes_;
  std::optional<SmallCall> call_;
};

std::vector<std::string> names_of(const std::vector<detail::Candidate>& candidates) {
  std::vector<std::string> names;
  for (const detail::Candidate& each : candidates) {
    names.emplace_back(each.name);
  }
  return names;
}

class CpuChoices : public ::testing::Test {
 protected:
  // One size of an axis: small ones and multiples of a panel are as frequent as others.
  std::int64_t size(std::int64_t most) {
    const auto draw = [&](std::int64_t limit) {
      return std::uniform_int_distribution<std::int64_t>(1, limit)(engine_);
    };
    switch (draw(4)) {
      case 1:
        return draw(std::min<std::int64_t>(most, 24));
      case 2:
        return 32 * draw(std::max<std::int64_t>(1, most / 32));
      default:
        return draw(most);
    }
  }
  // `part`: the sizes are at most this part of the usual ones.
  PickedCall random_call(std::int64_t part = 1) {
    constexpr DType kTypes[] = {
        DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
    const auto pick = [&](std::size_t count) { return engine_() % count; };
    const DType dtype = kTypes[pick(6)];
    const Sizes sizes{.batch = pick(4) == 0 ? 2 + static_cast<std::int64_t>(pick(3)) : 1,
                      .m = size(300 / part),
                      .n = size(700 / part),
                      .k = size(500 / part)};
    const auto order = [&] { return static_cast<Order>(pick(3)); };
    const Order a = order();
    const Order b = order();
    return {dtype, sizes, a, b, pick(3) == 0, engine_};
  }

  std::mt19937 engine_{20};  // NOLINT(cert-msc51-cpp): repeatable
  cpu::CpuBackend baseline_{serial_device(cpu::IsaLevel::baseline)};
  cpu::CpuBackend avx2_{serial_device(cpu::IsaLevel::avx2)};
  cpu::CpuBackend avx512_{serial_device(cpu::IsaLevel::avx512)};
  cpu::CpuBackend crew_{cpu::CpuOptions{}};

  std::vector<cpu::CpuBackend*> devices() {
#ifdef HEARTH_CPU_ONE_LEVEL  // for the thread sanitizer, to which serial devices show nothing
    return {&crew_};
#else
    return {&baseline_, &avx2_, &avx512_, &crew_};
#endif
  }
};

// CHOICES_CALLS=100000 runs as many calls, of smaller sizes, and prints how far it came.
TEST_F(CpuChoices, EachCandidateComputesTheBytesOfTheRule) {
  const char* const wanted = std::getenv("CHOICES_CALLS");  // NOLINT(concurrency-mt-unsafe)
  const int count = wanted == nullptr ? 150 : std::stoi(wanted);
  std::map<std::string, int> runs;
  for (int i = 0; i < count; ++i) {
    PickedCall call = random_call(count > 1000 ? 4 : 1);
    if (count > 1000 && i % 1000 == 0) {
      std::cout << i << " calls" << std::endl;
    }
    for (cpu::CpuBackend* const device : devices()) {
      const std::vector<detail::Candidate> candidates = device->kernels().candidates(call.call());
      const std::vector<std::byte> expected = call.run(*device, detail::kRulePick);
      ASSERT_TRUE(PickedCall::are_guards_intact(expected));
      for (const detail::Candidate& each : candidates) {
        ASSERT_EQ(each.bits, candidates[0].bits);
        ASSERT_TRUE(call.run(*device, each.id) == expected) << each.name << " in call " << i;
        ++runs[std::string(each.name)];
      }
    }
  }
  EXPECT_EQ(runs.size(), 16U) << "each row ran";
}

TEST_F(CpuChoices, TheRuleIsFirstAndNoRowRepeatsIt) {
  for (int i = 0; i < 50; ++i) {
    const PickedCall call = random_call();
    const std::vector<detail::Candidate> candidates = avx512_.kernels().candidates(call.call());
    if (candidates.empty()) {
      continue;
    }
    EXPECT_GT(candidates.size(), 1U);
    EXPECT_EQ(candidates[0].id, detail::kRulePick);
    std::vector<std::string> names = names_of(candidates);
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
    EXPECT_TRUE(std::ranges::all_of(candidates, [&](const detail::Candidate& each) {
      return each.text_hash != 0 && each.text_hash == candidates[0].text_hash;
    }));
  }
}

// The form that is twice as fast for a few rows by large weights along the depth.
TEST_F(CpuChoices, FewRowsByWeightsAlongTheDepthMaySwap) {
  const PickedCall call(
      DType::f32, {.m = 32, .n = 512, .k = 512}, Order::rows, Order::columns, false, engine_);
  EXPECT_THAT(names_of(avx512_.kernels().candidates(call.call())),
              Contains("swapped/read-a/tasks-b"));
}

// The sizes at which another choice of equal bits was up to twice as fast.
TEST_F(CpuChoices, TheRuleReadsTheLargerSideInPlace) {
  const auto rule = [&](const Sizes& sizes, Order a, Order b, bool has_bias) {
    const PickedCall call(DType::f32, sizes, a, b, has_bias, engine_);
    const std::vector<detail::Candidate> list = avx512_.kernels().candidates(call.call());
    return list.empty() ? std::string() : std::string(list[0].name);
  };
  const auto rows = Order::rows;
  const auto columns = Order::columns;
  EXPECT_EQ(rule({.m = 32, .n = 768, .k = 768}, rows, columns, false), "swapped/read-a/rows");
  EXPECT_EQ(rule({.m = 192, .n = 768, .k = 300}, rows, columns, false), "swapped/rows");
  EXPECT_EQ(rule({.m = 32, .n = 512, .k = 784}, rows, rows, false), "swapped/read-a/rows");
  EXPECT_EQ(rule({.m = 32, .n = 512, .k = 784}, rows, rows, true), "packed/read-b");
  EXPECT_EQ(rule({.m = 9, .n = 512, .k = 784}, rows, rows, false), "packed/read-b");
  EXPECT_EQ(rule({.m = 3136, .n = 10, .k = 64}, columns, rows, false), "read-a/rows");
  EXPECT_EQ(rule({.m = 33, .n = 999, .k = 33}, rows, rows, false), "packed/rows");
}

// A swapped product adds the bias after the sum.
TEST_F(CpuChoices, AProductWithABiasIsNotSwapped) {
  const PickedCall call(
      DType::f32, {.m = 32, .n = 512, .k = 512}, Order::rows, Order::columns, true, engine_);
  const std::vector<detail::Candidate> candidates = avx512_.kernels().candidates(call.call());
  EXPECT_FALSE(candidates.empty());
  for (const detail::Candidate& each : candidates) {
    EXPECT_FALSE(each.name.starts_with("swapped")) << each.name;
  }
}

TEST_F(CpuChoices, ThinProductsAndOtherKindsHaveNone) {
  const PickedCall thin(
      DType::f32, {.m = 4, .n = 512, .k = 512}, Order::rows, Order::rows, false, engine_);
  EXPECT_THAT(avx512_.kernels().candidates(thin.call()), IsEmpty());
  const SmallTensor x = random_tensor(DType::f32, {8}, 1);
  const SmallTensor y(DType::f32, {8});
  EXPECT_THAT(avx512_.kernels().candidates(SmallCall(OpKind::exp, {x.view()}, {y.view()}).call()),
              IsEmpty());
}

TEST_F(CpuChoices, APickThatTheCallDoesNotAllowIsRefusedBeforeItRuns) {
  PickedCall call(
      DType::f32, {.m = 4, .n = 512, .k = 512}, Order::rows, Order::rows, false, engine_);
  for (const auto pick : std::initializer_list<detail::CandidateId>{1, 16, 17, 0xFFFF}) {
    const Issue issue = call.submit(avx512_, pick);
    EXPECT_TRUE(issue.is_pick_refused) << pick;
    EXPECT_FALSE(issue.may_have_begun);
    EXPECT_EQ(issue.issued, 0U);
    EXPECT_EQ(issue.status.error().code, ErrorCode::unsupported);
  }
  EXPECT_FALSE(call.submit(avx512_, detail::kRulePick).is_pick_refused);
}

// A batch runs up to the refused launch, like one that fails.
TEST_F(CpuChoices, ABatchEndsAtARefusedPick) {
  PickedCall good(
      DType::f32, {.m = 32, .n = 512, .k = 64}, Order::rows, Order::columns, false, engine_);
  const PickedCall thin(
      DType::f32, {.m = 4, .n = 512, .k = 64}, Order::rows, Order::rows, false, engine_);
  const std::vector<std::byte> expected = good.run(avx512_, detail::kRulePick);
  const detail::CandidateId pick = avx512_.kernels().candidates(good.call()).back().id;
  const Launch batch[] = {{.call = good.call(), .pick = pick},
                          {.call = thin.call(), .pick = pick},
                          {.call = good.call()}};
  const Issue issue = avx512_.submit(batch, {});
  EXPECT_EQ(issue.issued, 1U);
  EXPECT_TRUE(issue.is_pick_refused);
  EXPECT_TRUE(good.run(avx512_, detail::kRulePick) == expected);
}

}  // namespace
}  // namespace hearth::testing
