// Which lists of error cells the host treats as already checked.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/launches/guards.hpp"

namespace hearth::gpu {
namespace {

/// Counts dispatches, one of which fails.
class Counting final : public KernelEncoder {
 public:
  explicit Counting(int failing = 0) : failing_(failing) {}

  [[nodiscard]] const DeviceLimits& limits() const noexcept override { return limits_; }
  [[nodiscard]] Status dispatch(const KernelKey& /*key*/,
                                KernelText /*text*/,
                                const ParameterBlock& /*parameters*/,
                                Grid /*grid*/) override {
    ++dispatches;
    return dispatches == failing_
               ? Status(Error{.code = ErrorCode::kernel_failed, .text = "it does not compile"})
               : Status();
  }
  void barrier() override {}
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t /*size_bytes*/) override { return 0; }
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return 0; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  int dispatches = 0;

 private:
  int failing_;
  DeviceLimits limits_;
};

TEST(Guards, AWordIsKnownOnceItsKernelsAreDispatched) {
  Guards guards;
  Counting encoder;
  const std::array<ErrorCell, 2> cells{3, 4};
  EXPECT_TRUE(guards.scan(cells, 64, 8, encoder).has_value());
  EXPECT_EQ(guards.known(cells), 8U);
  EXPECT_EQ(guards.known(std::span(cells).first(1)), 0U);
  guards.forget();
  EXPECT_EQ(guards.known(cells), 0U);
}

TEST(Guards, AWordWhoseKernelFailedIsNotKnown) {
  const std::vector<ErrorCell> many(100, ErrorCell{5});  // two kernels
  for (const int failing : {1, 2}) {
    Guards guards;
    Counting encoder(failing);
    EXPECT_FALSE(guards.scan(many, 64, 8, encoder).has_value());
    EXPECT_EQ(encoder.dispatches, failing);
    EXPECT_EQ(guards.known(many), 0U) << "nobody writes it";
  }
}

}  // namespace
}  // namespace hearth::gpu
