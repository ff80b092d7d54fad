// Copies that a device accepts in parts. Other lanes have turns between two parts. A copy may be
// cancelled there, or its device lost, and no byte arrives too late.
#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/trace_scope.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/runtime/lent.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lend_out;
using testing::Lent;
using testing::live_tensors;
using testing::pass;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr std::size_t kPart = 4096;
constexpr std::size_t kRoom = 2;    // unfinished parts in each direction
constexpr std::size_t kParts = 10;  // of a large tensor
constexpr std::size_t kElements = kPart * kParts / sizeof(float) - 3;  // the last is shorter

struct Control {
  /// The submits in order: 'u' and 'd' parts, 'U' and 'D' parts without room, 'o' ops.
  std::string given = {};
  bool holds = false;         ///< No copy ends.
  std::size_t lost_at = 0;    ///< The part that loses the device, from 1.
  std::size_t forgotten = 0;  ///< Parts whose target was released.
  bool has_host_memory = true;
};

/// Accepts parts through its own memory, like staging rings.
class InParts final : public testing::ForwardingBackend {
 public:
  InParts(std::unique_ptr<Backend> inner, Control& control)
      : ForwardingBackend(std::move(inner)), control_(control), info_(ForwardingBackend::info()) {
    info_.has_host_memory = control.has_host_memory;
  }

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        Points after) override {
    HEARTH_TRY(const std::optional<CopyPart> refused, refuse(kUploadStream, up_, 'u'));
    if (refused && !from.empty()) {
      return *refused;
    }
    const auto part = from.first(std::min(from.size(), kPart));
    up_.push_back({.bytes = {part.begin(), part.end()}});
    HEARTH_TRY(const CopyPart taken, ForwardingBackend::upload(to, up_.back().bytes, after));
    up_.back().point = taken.point;
    return taken;
  }
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          Points after) override {
    HEARTH_TRY(const std::optional<CopyPart> refused, refuse(kDownloadStream, down_, 'd'));
    if (refused && !to.empty()) {
      return *refused;
    }
    const auto part = to.first(std::min(to.size(), kPart));
    down_.push_back({.bytes = std::vector<std::byte>(part.size()), .target = part});
    HEARTH_TRY(const CopyPart taken, ForwardingBackend::download(down_.back().bytes, from, after));
    down_.back().point = taken.point;
    return taken;
  }
  void forget_target(std::span<std::byte> target) noexcept override {
    for (Part& part : down_) {
      if (part.target.data() >= target.data() &&
          part.target.data() < target.data() + target.size()) {
        part.target = {};
        ++control_.forgotten;
      }
    }
  }
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override {
    if (stream == kOpStream) {
      return ForwardingBackend::completed(stream);
    }
    std::uint64_t& ended = ended_[stream == kUploadStream ? 0 : 1];
    ended = control_.holds ? ended : ForwardingBackend::completed(stream);
    std::deque<Part>& parts = stream == kUploadStream ? up_ : down_;
    while (!parts.empty() && parts.front().point.value <= ended) {
      if (!parts.front().target.empty()) {
        std::ranges::copy(parts.front().bytes, parts.front().target.begin());
      }
      parts.pop_front();
    }
    return ended;
  }
  [[nodiscard]] Status wait(Points any_of, Deadline deadline) override {
    std::vector<TimelinePoint> points(any_of.begin(), any_of.end());
    if (control_.holds) {
      std::erase_if(points, [](const TimelinePoint& point) { return point.stream != kOpStream; });
    }
    if (!points.empty()) {
      return ForwardingBackend::wait(points, deadline);
    }
    while (!deadline.has_passed()) {
      detail::current_context().parker().park(deadline);
    }
    return Error{.code = ErrorCode::deadline_exceeded, .text = "copies are held"};
  }

 protected:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    control_.given += 'o';
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  struct Part {
    std::vector<std::byte> bytes;
    std::span<std::byte> target = {};
    TimelinePoint point = {};
  };

  [[nodiscard]] Result<std::optional<CopyPart>> refuse(std::uint8_t stream,
                                                       const std::deque<Part>& parts,
                                                       char kind) {
    static_cast<void>(completed(stream));  // removes ended parts
    const bool is_full = parts.size() >= kRoom;
    control_.given += is_full ? static_cast<char>(kind - 'a' + 'A') : kind;
    if (!is_full && ++taken_ == control_.lost_at) {
      return Error{.code = ErrorCode::device_lost, .text = "lost at a part, by the fault plan"};
    }
    return is_full ? std::optional(CopyPart{.point = parts.front().point}) : std::nullopt;
  }

  Control& control_;
  BackendInfo info_;
  std::deque<Part> up_;
  std::deque<Part> down_;
  std::array<std::uint64_t, 2> ended_{};
  std::size_t taken_ = 0;
};

SteppedOptions in_parts(Control& control, std::uint64_t seed = 0) {
  const SimSchedule schedule{.queues = 2, .reorder_seed = seed, .cost_seed = seed};
  SteppedOptions options{
      .devices = {{.name = "sim:0", .sim_schedule = schedule}}, .seed = seed, .wait_limit = 10s};
  options.backends = detail::BackendFactory{.make = [&control](const BackendRequest& request) {
    return std::make_unique<InParts>(testing::make_sim(request, {}), control);
  }};
  return options;
}

std::vector<float> counted() {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// A target whose bytes outlive the read.
struct Target {
  std::shared_ptr<std::vector<float>> values = std::make_shared<std::vector<float>>(kElements);

  [[nodiscard]] Pending<void> read(const Tensor& from) const {
    return from.read_into(std::as_writable_bytes(std::span(*values)), values);
  }
};

TEST(PartialCopies, ComeWhole) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Control control;
    stepped(in_parts(control, seed), [&](const World& world) {
      const Tensor large = world.f32(counted());
      EXPECT_EQ(large.to_vector<float>(), counted());
      EXPECT_EQ((large + 1.0F).to_vector<float>().back(), static_cast<float>(kElements) + 1.0F);
      EXPECT_THAT(world.f32({}).to_vector<float>(), ElementsAre());
    });
    EXPECT_EQ(std::ranges::count(control.given, 'u'), static_cast<int>(kParts) + 1);
    EXPECT_EQ(std::ranges::count(control.given, 'd'), static_cast<int>(2 * kParts) + 1);
    EXPECT_GE(std::ranges::count(control.given, 'U'), 1);
    EXPECT_GE(std::ranges::count(control.given, 'D'), 1);
  }
}

TEST(PartialCopies, AStridedTensorIsPackedOnce) {
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    const Tensor turned = transpose(reshape(world.f32(std::vector<float>(kPart, 3.0F)), {2, -1}));
    EXPECT_THAT(turned.to_vector<float>(), Each(3.0F));
    EXPECT_EQ(live_tensors(world.device), 1);
  });
  EXPECT_EQ(std::ranges::count(control.given, 'o'), 1);
}

// While the first stream's bytes are copied up or down, the second one runs its op.
TEST(PartialCopies, AnotherLaneRunsBetweenTwoParts) {
  for (const char kind : {'u', 'd'}) {
    SCOPED_TRACE(kind);
    Control control;
    stepped(in_parts(control), [&](const World& world) {
      Stream first(world.device);
      Stream second(world.device);
      const Tensor there = world.f32(counted());
      world.device.sync();
      const Tensor small = ones(world.device, {2});
      world.device.sync();
      control.given.clear();
      const Target target;
      Tensor large;
      std::optional<Pending<void>> read;
      {
        const StreamScope scope(first);
        if (kind == 'u') {
          large = world.f32(counted());
        } else {
          read = target.read(there);
        }
      }
      {
        const StreamScope scope(second);
        const Tensor other = small + 1.0F;
        world.device.sync();
      }
      if (read) {
        EXPECT_TRUE(read->wait().has_value());
        EXPECT_EQ(*target.values, counted());
      }
      world.device.sync();
      const StreamScope scope(first);
      world.device.sync();
    });
    const std::size_t op = control.given.find('o');
    ASSERT_NE(op, std::string::npos);
    EXPECT_LT(control.given.find(kind), op);
    EXPECT_GT(control.given.rfind(kind), op) << control.given;
  }
}

TEST(PartialCopies, WhatFollowsInTheLaneWaitsForTheLastPart) {
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    const Tensor large = world.f32(counted());
    const Tensor next = large * 2.0F;
    EXPECT_EQ(next.to_vector<float>().back(), 2.0F * static_cast<float>(kElements));
  });
  EXPECT_GT(control.given.find('o'), control.given.rfind('u')) << control.given;
}

TEST(PartialCopies, AnUploadIsGivenUpBetweenTwoParts) {
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    std::stop_source stop;
    stream.set_limits({.stop = stop.get_token()});
    control.holds = true;
    Tensor large = world.f32(counted());
    pass(1ms);
    EXPECT_EQ(std::ranges::count(control.given, 'u'), static_cast<int>(kRoom));
    stop.request_stop();
    EXPECT_EQ(read_error(large).code, ErrorCode::cancelled);
    control.holds = false;
    stream.set_limits({});
    EXPECT_THAT(world.f32({1, 2}).to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(world.f32(counted()).to_vector<float>(), counted());
    large = {};
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.device.memory().live_bytes, 0);
  });
}

// Parts in flight arrive later, but not in the reader's bytes.
TEST(PartialCopies, AReadThatIsGivenUpLeavesItsTargetAlone) {
  for (const bool by_deadline : {false, true}) {
    Control control;
    stepped(in_parts(control), [&](const World& world) {
      const Tensor large = world.f32(counted());
      world.device.sync();
      Stream stream(world.device);
      const StreamScope scope(stream);
      std::stop_source stop;
      if (by_deadline) {
        stream.set_limits({.deadline = Deadline::in(5ms)});
      } else {
        stream.set_limits({.stop = stop.get_token()});
      }
      control.holds = true;
      const Target target;
      const Pending<void> read = target.read(large);
      pass(1ms);
      EXPECT_EQ(std::ranges::count(control.given, 'd'), static_cast<int>(kRoom));
      stop.request_stop();
      EXPECT_EQ(code_of(read.wait({.deadline = Deadline::in(1s)})),
                by_deadline ? ErrorCode::deadline_exceeded : ErrorCode::cancelled);
      EXPECT_EQ(control.forgotten, kRoom);
      control.holds = false;
      stream.set_limits({});
      EXPECT_EQ(large.to_vector<float>(), counted());
      EXPECT_THAT(*target.values, Each(0.0F));
    });
  }
}

TEST(PartialCopies, ADeviceThatIsLostBetweenTwoPartsStartsAnew) {
  for (const bool is_upload : {true, false}) {
    for (std::size_t part = 1; part <= kParts; ++part) {
      SCOPED_TRACE(part);
      Control control;
      stepped(in_parts(control, part), [&](const World& world) {
        const Target target;
        {
          Tensor large;
          if (is_upload) {
            control.lost_at = part;
            large = world.f32(counted());
            EXPECT_EQ(read_error(large).code, ErrorCode::device_lost);
          } else {
            large = world.f32(counted());
            world.device.sync();
            control.lost_at = kParts + part;
            EXPECT_EQ(code_of(target.read(large).wait()), ErrorCode::device_lost);
            std::ranges::fill(*target.values, -1.0F);
          }
          EXPECT_TRUE(world.device.is_lost());
          control.lost_at = 0;
          world.device.restart();
        }
        EXPECT_EQ(world.f32(counted()).to_vector<float>(), counted());
        if (!is_upload) {
          EXPECT_THAT(*target.values, Each(-1.0F));
        }
        EXPECT_EQ(world.device.memory().live_bytes, 0);
      });
    }
  }
}

// The program abandons it while a copy is between two parts that never end.
TEST(PartialCopies, ADeviceThatHangsBetweenTwoPartsStartsAnew) {
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    const Tensor there = world.f32(counted());
    world.device.sync();
    const Target target;
    Stream stream(world.device);
    control.holds = true;
    const Tensor large = world.f32(counted());
    std::optional<Pending<void>> read;
    {
      const StreamScope scope(stream);
      read = target.read(there);
    }
    pass(1ms);
    world.device.restart();
    control.holds = false;
    EXPECT_EQ(read_error(large).code, ErrorCode::device_lost);
    EXPECT_EQ(code_of(read->wait()), ErrorCode::device_lost);
    EXPECT_EQ(world.f32(counted()).to_vector<float>(), counted());
    EXPECT_THAT(*target.values, Each(0.0F));
  });
}

TEST(PartialCopies, ACopyWithoutEndSaysThatTheDeviceDoesNotAnswer) {
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    const Tensor there = world.f32(counted());
    world.device.sync();
    control.holds = true;
    const detail::TimePoint start = testing::now();
    const Tensor large = world.f32(counted());
    const Target target;
    const Pending<void> read = target.read(there);
    const Error error = read_error(large);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(error.text, HasSubstr("the device does not answer"));
    EXPECT_EQ(code_of(read.wait({.deadline = Deadline::in(1h)})), ErrorCode::deadline_exceeded);
    EXPECT_LT(testing::now() - start, 40s);
    control.holds = false;
    EXPECT_EQ(there.to_vector<float>(), counted());
    EXPECT_THAT(*target.values, Each(0.0F));
  });
}

TEST(PartialCopies, ARuntimeEndsWithACopyBetweenTwoParts) {
  Control control;
  const Target target;
  std::optional<Pending<void>> read;
  SteppedOptions options = in_parts(control);
  options.shutdown_limit = 1s;
  stepped(options, [&](const World& world) {
    const Tensor there = world.f32(counted());
    world.device.sync();
    control.holds = true;
    read = target.read(there);
    pass(1ms);
    EXPECT_FALSE(read->is_ready());
  });
  ASSERT_TRUE(read->is_ready());
  EXPECT_EQ(code_of(read->wait()), ErrorCode::device_closed);
  EXPECT_EQ(control.forgotten, kRoom);
  EXPECT_THAT(*target.values, Each(0.0F));
}

TEST(PartialCopies, ALoanBringsItsCopyDownAndBack) {
  Control control{.has_host_memory = false};
  stepped(in_parts(control), [&](const World& world) {
    Lent lent = lend_out(world.f32(counted()) + 1.0F);
    LentRegion region = std::move(lent.region).get();
    const std::span floats(reinterpret_cast<float*>(region.bytes().data()),  // NOLINT: elements
                           region.bytes().size() / sizeof(float));
    ASSERT_EQ(floats.size(), kElements);
    EXPECT_EQ(floats.front(), 2.0F);
    EXPECT_EQ(floats.back(), static_cast<float>(kElements) + 1.0F);
    for (float& each : floats) {
      each *= 2;
    }
    region.done();
    EXPECT_EQ(lent.result.to_vector<float>().back(), 2.0F * static_cast<float>(kElements) + 2.0F);
  });
}

TEST(PartialCopies, AreOneEventOfATrace) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "trace.json";
  Control control;
  stepped(in_parts(control), [&](const World& world) {
    pass(1ms);  // copies that take no time are not traced
    const TraceScope trace(world.runtime, file);
    const Tensor large = world.f32(counted());
    EXPECT_EQ(large.to_vector<float>(), counted());
  });
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string bytes = "\"bytes\":" + std::to_string(kElements * sizeof(float));
  const std::string any = "\"bytes\":";
  int all = 0;
  int whole = 0;
  for (std::size_t at = text.str().find(any); at != std::string::npos;
       at = text.str().find(any, at + 1)) {
    ++all;
    whole += text.str().compare(at, bytes.size(), bytes) == 0 ? 1 : 0;
  }
  EXPECT_EQ(whole, 2) << "an upload and a readback: " << text.str();
  EXPECT_EQ(all, whole);
}

}  // namespace
}  // namespace hearth
