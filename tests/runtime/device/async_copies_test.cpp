// Copies that fail in their middle on an asynchronous device: the part in flight continues, and no
// other tensor may use its block until then.
#include <cstddef>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::stepped;
using testing::World;

constexpr std::size_t kSize = 20'000;

/// Begins copies of many bytes, and then fails them.
class HalfCopies final : public testing::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        Points after) override {
    if (from.size() < kSize) {
      return ForwardingBackend::upload(to, from, after);
    }
    // The part in flight reads staging memory, because the caller may change its bytes.
    staged_.emplace_back(from.begin(), from.end());
    HEARTH_TRY(const CopyPart begun, ForwardingBackend::upload(to, staged_.back(), after));
    newest_ = begun.point;
    return late();
  }
  [[nodiscard]] TimelinePoint newest_copy(std::uint8_t stream) const noexcept override {
    return stream == kUploadStream ? newest_ : TimelinePoint{.value = 0, .stream = stream};
  }

 private:
  [[nodiscard]] static Error late() {
    return {.code = ErrorCode::deadline_exceeded, .text = "the rest does not come on"};
  }
  std::list<std::vector<std::byte>> staged_;
  TimelinePoint newest_ = {.value = 0, .stream = kUploadStream};
};

TEST(AsyncCopies, ABlockWhoseUploadFailedIsHandedOutWhenWhatHasBegunHasEnded) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SimSchedule schedule{.queues = 2, .reorder_seed = seed, .cost_seed = seed};
    const detail::BackendFactory factory{.make = [](const BackendRequest& request) {
      return std::make_unique<HalfCopies>(testing::make_sim(request, {}));
    }};
    stepped({.devices = {{.name = "sim:0", .sim_schedule = schedule}},
             .seed = seed,
             .backends = factory},
            [](const World& world) {
              const std::vector<float> ones(kSize, 1.0F);
              for (int i = 0; i < 4; ++i) {
                {
                  const Tensor lost = world.f32(ones);
                  EXPECT_THAT(testing::read_error(lost).text, HasSubstr("does not come on"));
                }
                const Tensor next = full(world.device, {std::int64_t{kSize}}, 3.0);
                EXPECT_THAT(next.to_vector<float>(), Each(3.0F)) << i;
              }
              static_cast<void>(world.device.sync_later().wait());
              EXPECT_EQ(world.device.memory().live_bytes, 0);
            });
  }
}

}  // namespace
}  // namespace hearth
