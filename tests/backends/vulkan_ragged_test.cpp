// Products and lines whose rows are no whole number of words, on a device. Limits make small
// products take the kernels of large ones: copies of sides, exact tiles, unaligned stores of words.
// The test checks the bytes around each result.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/device/own_scratch.hpp"
#include "backends/gpu/launches/launch_encoder.hpp"
#include "backends/gpu/products/matrix_product.hpp"
#include "backends/gpu/rows/cross_entropy.hpp"
#include "backends/gpu/rows/softmax.hpp"
#include "backends/gpu/store/kernel_store.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/queue/vulkan_queue.hpp"
#include "backends/vulkan/vulkan_gpu.hpp"
#include "tests/streams/kernel/example_kernels.hpp"
#include "tests/support/tolerance.hpp"

namespace hearth::vulkan {
namespace {

using namespace gpu;

using namespace std::chrono_literals;
using testing::Precision;
using testing::tolerance;

constexpr std::int64_t kMargin = 64;
constexpr int kMarginByte = 0x5a;

/// Launches under other limits, with scratch up to a limit.
class LimitedEncoder final : public KernelEncoder {
 public:
  LimitedEncoder(const GpuDevice& device, KernelStore& kernels, LaunchStream& ops)
      : memory_(device, ops),
        own_(device.facts().limits, kernels, nullptr, ops, memory_),
        limits_(device.facts().limits) {
    own_.begin({});
  }
  const DeviceLimits& limits() const noexcept override { return limits_; }
  Status dispatch(const KernelKey& key,
                  KernelText text,
                  const ParameterBlock& parameters,
                  Grid grid) override {
    KernelKey own = key;
    own.add(limits_.is_cpu);  // changes texts, but no key of the device
    const std::string made = text();
    texts += made;
    return own_.dispatch(
        own, [&made] { return made; }, parameters, grid);
  }
  void barrier() override { own_.barrier(); }
  Result<std::uint64_t> scratch(std::int64_t size_bytes) override {
    asked_bytes = std::max(asked_bytes, size_bytes);
    if (size_bytes > most_scratch) {
      return Error{.code = ErrorCode::out_of_memory, .text = "no scratch"};
    }
    return own_.scratch(size_bytes);
  }
  std::uint64_t error_cell() const noexcept override { return 0; }
  std::uint64_t guard() const noexcept override { return 0; }
  std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  void set(const DeviceLimits& limits) { limits_ = limits; }
  bool had(std::string_view part) const { return texts.find(part) != std::string::npos; }

  std::string texts;
  std::int64_t asked_bytes = 0;
  std::int64_t most_scratch = std::int64_t{1} << 40U;

 private:
  OwnScratch memory_;
  LaunchEncoder own_;
  DeviceLimits limits_;
};

/// Numbers on the device that begin `offset` elements after a multiple of 64 bytes.
class Numbers final {
 public:
  Numbers(const VulkanDevice& device, DType dtype, std::int64_t count, std::int64_t offset = 0)
      : dtype_(dtype),
        count_(count),
        buffer_(device
                    .make_buffer((count + offset) * size_bytes(dtype) + 2 * kMargin,
                                 MemoryPlace::host_read)
                    .value()),
        begin_(kMargin + offset * size_bytes(dtype)) {
    std::memset(buffer_.host(), kMarginByte, static_cast<std::size_t>(buffer_.size_bytes()));
  }

  void draw(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count_; ++i) {
      set(i,
          dtype_ == DType::i8 ? static_cast<double>(static_cast<int>(random() % 255) - 127)
                              : static_cast<double>(normal(random)));
    }
  }
  void set(std::int64_t at, double value) {
    visit_dtype(dtype_, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (requires { zero.bits; }) {
        elements<T>()[at] = T(static_cast<float>(value));
      } else {
        elements<T>()[at] = static_cast<T>(value);
      }
    });
  }
  double operator[](std::int64_t at) const {
    double value = 0;
    visit_dtype(dtype_, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (requires { zero.bits; }) {
        value = static_cast<double>(static_cast<float>(elements<T>()[at]));
      } else {
        value = static_cast<double>(elements<T>()[at]);
      }
    });
    return value;
  }
  const std::byte* data() const {
    return reinterpret_cast<const std::byte*>(  // NOLINT: a device address
        buffer_.address() + static_cast<std::uint64_t>(begin_));
  }
  TensorView view(const hearth::detail::Layout& layout) const {
    return {const_cast<std::byte*>(data()), &layout, dtype_};
  }
  bool has_whole_margins() const {
    const auto is_other = [](std::byte byte) { return byte != std::byte{kMarginByte}; };
    const std::byte* const all = buffer_.host();
    const std::int64_t end = begin_ + count_ * size_bytes(dtype_);
    return std::none_of(all, all + begin_, is_other) &&
           std::none_of(all + end, all + buffer_.size_bytes(), is_other);
  }

 private:
  template <class T>
  T* elements() const {
    return reinterpret_cast<T*>(buffer_.host() + begin_);  // NOLINT
  }

  DType dtype_;
  std::int64_t count_;
  Buffer buffer_;
  std::int64_t begin_;
};

struct Sizes {
  std::int64_t rows, columns, depth;
};

std::string text_of(DType dtype, const Sizes& sizes, int turned) {
  return std::string(name(dtype)) + " " + std::to_string(sizes.rows) + " x " +
         std::to_string(sizes.columns) + " x " + std::to_string(sizes.depth) + " turned " +
         std::to_string(turned);
}

class VulkanRagged : public ::testing::Test {
 protected:
  VulkanRagged() {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front()).value();
    gpu_ = VulkanGpu::make(device_).value();
    kernels_ = std::make_unique<KernelStore>(gpu_->compiler(), nullptr);
    ops_ = std::make_unique<LaunchStream>(gpu_->make_queue(QueueWork::kernels).value());
    encoder_ = std::make_unique<LimitedEncoder>(*gpu_, *kernels_, *ops_);
    DeviceLimits limits = device_->limits();
    limits.copied_from = 0;
    encoder_->set(limits);
  }
  template <class Change>
  void change_limits(const Change& change) {
    DeviceLimits limits = encoder_->limits();
    change(limits);
    encoder_->set(limits);
  }

  Numbers numbers(DType dtype, std::int64_t count, std::int64_t offset = 0) const {
    return {*device_, dtype, count, offset};
  }

  /// Runs the dispatches of `encode` as one launch that touches all buffers.
  template <class Encode>
  Status run(const Encode& encode) {
    encoder_->texts.clear();
    encoder_->asked_bytes = 0;
    HEARTH_TRY_STATUS(ops_->begin_launch({}, {}));
    HEARTH_TRY_STATUS(encode());
    HEARTH_TRY_STATUS(ops_->flush());
    const VkSemaphore semaphore = semaphore_of(ops_->queue());
    const std::uint64_t value = ops_->submitted();
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    const auto limit = static_cast<std::uint64_t>(std::chrono::nanoseconds(300s).count());
    EXPECT_EQ(device_->api().vkWaitSemaphores(device_->handle(), &info, limit), VK_SUCCESS);
    return {};
  }

  /// A product of contiguous or transposed sides against sums in f64.
  void check(DType dtype, const Sizes& s, int turned, std::int64_t offset = 0) {
    SCOPED_TRACE(text_of(dtype, s, turned));
    Numbers a = numbers(dtype, s.rows * s.depth, offset);
    Numbers b = numbers(dtype, s.depth * s.columns, offset);
    a.draw(1);
    b.draw(2);
    const DType out_type = dtype == DType::i8 ? DType::i32 : dtype;
    const Numbers out = numbers(out_type, s.rows * s.columns);
    const MatrixProduct product = product_of(dtype, s, turned, a, b);
    const hearth::detail::Layout layout(Shape{s.rows, s.columns});
    const TensorView view = out.view(layout);
    const OpRecord record;
    const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, nullptr};
    const Status status = run([&] { return encode_product(product, call, *encoder_); });
    ASSERT_TRUE(status.has_value()) << status.error().text;
    EXPECT_TRUE(out.has_whole_margins());
    const auto accepted = tolerance(Precision::sum, out_type, static_cast<double>(s.depth), 16);
    int wrong = 0;
    for (std::int64_t i = 0; i < s.rows * s.columns; ++i) {
      const double want = sum_of(product, a, b, i / s.columns, i % s.columns);
      if (!accepted.accepts(out[i], want) && ++wrong <= 3) {
        ADD_FAILURE() << "[" << i / s.columns << ", " << i % s.columns << "] is " << out[i]
                      << ", not " << want;
      }
    }
    EXPECT_EQ(wrong, 0);
  }

  static MatrixProduct product_of(
      DType dtype, const Sizes& s, int turned, const Numbers& a, const Numbers& b) {
    const bool turns_a = (turned & 1) != 0;
    const bool turns_b = (turned & 2) != 0;
    return {.dtype = dtype,
            .a = a.data(),
            .b = b.data(),
            .rows = s.rows,
            .columns = s.columns,
            .depth = s.depth,
            .a_row = turns_a ? 1 : s.depth,
            .a_depth = turns_a ? s.rows : 1,
            .b_depth = turns_b ? 1 : s.columns,
            .b_column = turns_b ? s.depth : 1};
  }
  static double sum_of(const MatrixProduct& p,
                       const Numbers& a,
                       const Numbers& b,
                       std::int64_t row,
                       std::int64_t column) {
    double sum = 0;
    for (std::int64_t k = 0; k < p.depth; ++k) {
      sum += a[row * p.a_row + k * p.a_depth] * b[k * p.b_depth + column * p.b_column];
    }
    return sum;
  }

  std::shared_ptr<const VulkanDevice> device_;
  std::shared_ptr<const GpuDevice> gpu_;
  std::unique_ptr<KernelStore> kernels_;
  std::unique_ptr<LaunchStream> ops_;
  std::unique_ptr<LimitedEncoder> encoder_;
};

TEST_F(VulkanRagged, ProductsOfOddSizesAreTheirSums) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
    for (int turned = 0; turned < 4; ++turned) {
      for (const Sizes& sizes : {Sizes{97, 101, 99}, Sizes{129, 66, 33}, Sizes{100, 161, 65}}) {
        check(dtype, sizes, turned);
        EXPECT_TRUE(encoder_->had("word_at(")) << text_of(dtype, sizes, turned);
        EXPECT_TRUE(encoder_->had("LOAD_FRAGMENT(")) << text_of(dtype, sizes, turned);
      }
    }
  }
}

// Small products do not repay a copy: they run one element at a time, as without matrix units.
TEST_F(VulkanRagged, SmallAndLongSizesMixedAreTheirSums) {
  for (const DType dtype : {DType::bf16, DType::i8}) {
    for (const Sizes& sizes : {Sizes{1, 2049, 33},
                               Sizes{2049, 1, 17},
                               Sizes{9, 2049, 31},
                               Sizes{33, 17, 2049},
                               Sizes{2049, 33, 9},
                               Sizes{65, 2049, 71}}) {
      check(dtype, sizes, static_cast<int>(sizes.rows % 4));
    }
  }
}

TEST_F(VulkanRagged, SidesThatBeginAnywhereAreCopied) {
  for (const std::int64_t offset : {1, 3, 8}) {
    check(DType::bf16, {66, 72, 64}, 2, offset);
    EXPECT_EQ(encoder_->had("word_at("), offset != 8);
  }
}

// Sizes in the text: the last tiles are shifted back, and elements beyond the last row and column
// of a copy are not stored.
TEST_F(VulkanRagged, LongProductsOfOddSizesAreExact) {
  change_limits([](DeviceLimits& limits) { limits.baked_from = 0; });
  for (int turned = 0; turned < 4; ++turned) {
    check(DType::bf16, {131, 133, 64}, turned);
    EXPECT_TRUE(encoder_->had("#define EXACT 1"));
  }
  // A depth of 1,025 is padded to whole slices in both sides.
  check(DType::bf16, {67, 131, 1025}, 0);
  EXPECT_TRUE(encoder_->had("#define EXACT 1"));
  EXPECT_GE(encoder_->asked_bytes, 2 * 1088 * (67 + 136));
  check(DType::i8, {67, 69, 2049}, 2);
  EXPECT_TRUE(encoder_->had("#define EXACT 1"));
}

TEST_F(VulkanRagged, ALongDepthIsCutIntoParts) {
  change_limits([](DeviceLimits& limits) { limits.multiprocessors = 8; });
  check(DType::i8, {70, 67, 1100}, 0);
  EXPECT_TRUE(encoder_->had("FOLD_WIDTH 1"));
  check(DType::bf16, {66, 67, 4100}, 1);
  EXPECT_TRUE(encoder_->had("FOLD_WIDTH 1"));
}

TEST_F(VulkanRagged, AShortageOfScratchIsNoError) {
  encoder_->most_scratch = 1000;
  check(DType::bf16, {97, 101, 99}, 0);
  EXPECT_GT(encoder_->asked_bytes, 1000);
  EXPECT_FALSE(encoder_->had("LOAD_FRAGMENT("));
}

TEST_F(VulkanRagged, BatchesShareOneCopyOfASideThatStands) {
  constexpr std::int64_t kBatch = 3;
  constexpr Sizes kOdd{65, 67, 66};
  Numbers a = numbers(DType::bf16, kBatch * kOdd.rows * kOdd.depth);
  Numbers b = numbers(DType::bf16, kOdd.depth * kOdd.columns);
  a.draw(3);
  b.draw(4);
  const Numbers out = numbers(DType::bf16, kBatch * kOdd.rows * kOdd.columns);
  const hearth::detail::Layout layout(Shape{kBatch, kOdd.rows, kOdd.columns});
  const TensorView view = out.view(layout);
  const OpRecord record;
  const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, nullptr};
  MatrixProduct product = product_of(DType::bf16, kOdd, 1, a, b);
  product.add_batch({.size = kBatch, .a = kOdd.rows * kOdd.depth});
  ASSERT_TRUE(run([&] { return encode_product(product, call, *encoder_); }).has_value());
  EXPECT_TRUE(out.has_whole_margins());
  EXPECT_EQ(encoder_->asked_bytes, 2 * (kBatch * 66 * 72 + 66 * 72));
  const auto accepted = tolerance(Precision::sum, DType::bf16, 66, 16);
  for (std::int64_t i = 0; i < kBatch * kOdd.rows * kOdd.columns; ++i) {
    const std::int64_t matrix = i / (kOdd.rows * kOdd.columns);
    double want = 0;
    for (std::int64_t k = 0; k < kOdd.depth; ++k) {
      want += a[matrix * kOdd.rows * kOdd.depth + k * kOdd.rows + i / kOdd.columns % kOdd.rows] *
              b[k * kOdd.columns + i % kOdd.columns];
    }
    ASSERT_TRUE(accepted.accepts(out[i], want)) << i << ": " << out[i] << ", not " << want;
  }
}

// Every second element of a row: neither side nor depth has adjacent elements.
TEST_F(VulkanRagged, SidesWithStepsAreCopied) {
  constexpr Sizes kOdd{65, 72, 64};
  Numbers a = numbers(DType::f16, kOdd.rows * kOdd.depth * 2);
  Numbers b = numbers(DType::f16, kOdd.depth * kOdd.columns);
  a.draw(5);
  b.draw(6);
  const Numbers out = numbers(DType::f16, kOdd.rows * kOdd.columns);
  const hearth::detail::Layout layout(Shape{kOdd.rows, kOdd.columns});
  const TensorView view = out.view(layout);
  const OpRecord record;
  const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, nullptr};
  MatrixProduct product = product_of(DType::f16, kOdd, 0, a, b);
  product.a_row = 2 * kOdd.depth;
  product.a_depth = 2;
  ASSERT_TRUE(run([&] { return encode_product(product, call, *encoder_); }).has_value());
  EXPECT_TRUE(encoder_->had("word_of_elements("));
  const auto accepted = tolerance(Precision::sum, DType::f16, 64, 16);
  for (std::int64_t i = 0; i < kOdd.rows * kOdd.columns; ++i) {
    const double want = sum_of(product, a, b, i / kOdd.columns, i % kOdd.columns);
    ASSERT_TRUE(accepted.accepts(out[i], want)) << i << ": " << out[i] << ", not " << want;
  }
}

// The product times a row, plus a matrix and a column, through erf: by words, as on a card.
Expression after(DType dtype) {
  KernelBuilder b({0, 1});
  const std::vector<AffineIndex> map{testing::axis(0), testing::axis(1)};
  std::vector<KernelValue> in;
  for (int i = 0; i < 4; ++i) {
    in.push_back(b.convert(b.input(dtype, map), DType::f32));
  }
  b.output(b.convert(erf(in[0] * in[1] + in[2] + in[3]), dtype));
  Expression out;
  out.name = "after";
  out.kernel = b.take();
  out.hash = hash(out.kernel);
  return out;
}

TEST_F(VulkanRagged, EpiloguesOfACardsStoresHaveTheirOperands) {
  change_limits([](DeviceLimits& limits) {
    limits.is_cpu = false;
    limits.only_tile = 11;
  });
  const Expression expression = after(DType::bf16);
  for (const bool is_exact : {false, true}) {
    change_limits([&](DeviceLimits& limits) { limits.baked_from = is_exact ? 0 : 1e30; });
    const Sizes s{67, is_exact ? 133 : 69, 64};
    Numbers a = numbers(DType::bf16, s.rows * s.depth);
    Numbers b = numbers(DType::bf16, s.depth * s.columns);
    Numbers row = numbers(DType::bf16, s.columns);
    Numbers matrix = numbers(DType::bf16, s.rows * s.columns);
    Numbers column = numbers(DType::bf16, s.rows);
    int seed = 7;
    for (Numbers* each : {&a, &b, &row, &matrix, &column}) {
      each->draw(static_cast<std::uint64_t>(++seed));
    }
    const Numbers out = numbers(DType::bf16, s.rows * s.columns);
    const hearth::detail::Layout of_row(Shape{s.columns});
    const hearth::detail::Layout of_matrix(Shape{s.rows, s.columns});
    const hearth::detail::Layout of_column(Shape{s.rows, 1});
    const std::array inputs{row.view(of_row), matrix.view(of_matrix), column.view(of_column)};
    const Epilogue epilogue{.expression = &expression, .inputs = inputs};
    const TensorView view = out.view(of_matrix);
    const OpRecord record;
    const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, &epilogue};
    const MatrixProduct product = product_of(DType::bf16, s, 0, a, b);
    const Status status = run([&] { return encode_product(product, call, *encoder_); });
    ASSERT_TRUE(status.has_value()) << status.error().text;
    EXPECT_TRUE(encoder_->had("#define PUTS_RAGGED 1"));
    EXPECT_EQ(encoder_->had("#define EXACT 1"), is_exact);
    EXPECT_TRUE(out.has_whole_margins());
    for (std::int64_t i = 0; i < s.rows * s.columns; ++i) {
      const double sum = sum_of(product, a, b, i / s.columns, i % s.columns);
      const auto rounded = static_cast<double>(static_cast<float>(bf16(static_cast<float>(sum))));
      const double want =
          std::erf(rounded * row[i % s.columns] + matrix[i] + column[i / s.columns]);
      ASSERT_NEAR(out[i], want, 0.06 + 0.02 * std::abs(row[i % s.columns] * rounded))
          << i / s.columns << ", " << i % s.columns;
    }
  }
}

// ---- lines ----

// Rows whose distances from a whole pack differ, short enough for registers and too long for them.
TEST_F(VulkanRagged, LinesThatBeginAnywhereAreNormalised) {
  change_limits([](DeviceLimits& limits) { limits.is_cpu = false; });
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Sizes& s : {Sizes{5, 131, 0}, Sizes{3, 35003, 0}}) {
      Numbers x = numbers(dtype, s.rows * s.columns);
      x.draw(21);
      const Numbers out = numbers(dtype, s.rows * s.columns);
      const hearth::detail::Layout layout(Shape{s.rows, s.columns});
      const TensorView in = x.view(layout);
      const TensorView result = out.view(layout);
      const AxisAttributes attributes{.axis = 1};
      OpRecord record;
      record.kind = OpKind::softmax;
      std::memcpy(&record.immediate, &attributes, sizeof(attributes));
      const KernelCall call{OpView(record, nullptr), {&in, 1}, {&result, 1}};
      const Status status = run([&] { return encode_softmax(call, *encoder_); });
      ASSERT_TRUE(status.has_value()) << status.error().text;
      EXPECT_TRUE(encoder_->had("#define RAGGED 1"));
      EXPECT_TRUE(out.has_whole_margins());
      const auto accepted = tolerance(Precision::function, dtype);
      for (std::int64_t row = 0; row < s.rows; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < s.columns; ++i) {
          sum += std::exp(x[row * s.columns + i]);
        }
        for (std::int64_t i = 0; i < s.columns; ++i) {
          const double want = std::exp(x[row * s.columns + i]) / sum;
          ASSERT_TRUE(accepted.accepts(out[row * s.columns + i], want))
              << row << ", " << i << ": " << out[row * s.columns + i] << ", not " << want;
        }
      }
    }
  }
}

TEST_F(VulkanRagged, GradientsOfLossesHavePacksInTwoRows) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Sizes& s : {Sizes{7, 13, 0}, Sizes{6, 44, 0}, Sizes{5, 8, 0}, Sizes{1, 9, 0}}) {
      Numbers grad = numbers(dtype, s.rows);
      Numbers x = numbers(dtype, s.rows * s.columns);
      Numbers targets = numbers(DType::i64, s.rows);
      grad.draw(31);
      x.draw(32);
      for (std::int64_t row = 0; row < s.rows; ++row) {
        targets.set(row, static_cast<double>(row * 5 % s.columns));
      }
      const Numbers out = numbers(dtype, s.rows * s.columns);
      const hearth::detail::Layout of_rows(Shape{s.rows});
      const hearth::detail::Layout layout(Shape{s.rows, s.columns});
      const std::array in{grad.view(of_rows), x.view(layout), targets.view(of_rows)};
      const TensorView result = out.view(layout);
      OpRecord record;
      record.kind = OpKind::cross_entropy_backward;
      const KernelCall call{OpView(record, nullptr), in, {&result, 1}};
      const Status status = run([&] { return encode_cross_entropy_backward(call, *encoder_); });
      ASSERT_TRUE(status.has_value()) << status.error().text;
      EXPECT_EQ(encoder_->had("#define CROSSES 1"),
                s.columns != 8 && !(dtype == DType::f32 && s.columns == 44));
      EXPECT_TRUE(out.has_whole_margins());
      const auto accepted = tolerance(Precision::rounded, dtype);
      for (std::int64_t i = 0; i < s.rows * s.columns; ++i) {
        const std::int64_t row = i / s.columns;
        const double hit = static_cast<double>(i % s.columns) == targets[row] ? 1 : 0;
        const double want = grad[row] * (x[i] - hit);
        ASSERT_NEAR(out[i], want, accepted.relative * 2 * (std::abs(want) + 1e-3)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::vulkan
