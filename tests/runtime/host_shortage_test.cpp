// Waits for a device's answer while one host allocation of the device's thread fails: each
// allocation in turn, in a separate process. Every ticket is answered, or the process has ended; no
// thread waits for ever.
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/lent.hpp"
#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace {

/// Remaining allocations of the device's thread before the one that fails; below 0: none fails.
long allocations_left = -1;
const hearth::detail::ThreadContext* actor = nullptr;

bool fails_now() {
  return allocations_left >= 0 && hearth::detail::thread_context == actor &&
         allocations_left-- == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  if (fails_now()) {
    throw std::bad_alloc();
  }
  if (void* const bytes = std::malloc(size == 0 ? 1 : size)) {  // NOLINT: as the library's own
    return bytes;
  }
  throw std::bad_alloc();
}
void operator delete(void* bytes) noexcept {
  std::free(bytes);  // NOLINT: as above
}
void operator delete(void* bytes, std::size_t /*size*/) noexcept {
  std::free(bytes);  // NOLINT: as above
}

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kUnanswered = 7;
constexpr int kLastAllocation = 60;

/// Fails allocation number `number` after the first kernel.
class Starving final : public ForwardingBackend {
 public:
  Starving(std::unique_ptr<Backend> sim, long number)
      : ForwardingBackend(std::move(sim)), number_(number) {}

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    Issue issue = ForwardingBackend::submit_one(launch, after);
    if (std::exchange(is_first_, false)) {
      actor = detail::thread_context;
      allocations_left = number_;
    }
    return issue;
  }

  const long number_;
  bool is_first_ = true;
};

/// Exit status of a child in which `body` runs and the allocation fails.
template <class Body>
int status_of(long number, const Body& body) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    SteppedOptions options{.wait_limit = 10s, .fusion = Fusion::off};
    options.backends = detail::BackendFactory{
        .make = [number](const BackendRequest& request) -> std::unique_ptr<Backend> {
          return request.name == "sim:0" ? std::make_unique<Starving>(make_sim(request, {}), number)
                                         : nullptr;
        }};
    bool are_answered = false;
    stepped(options, [&](const World& world) {
      are_answered = body(world);
      allocations_left = -1;
    });
    std::_Exit(are_answered ? 0 : kUnanswered);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

/// With a short deadline, so that the device's own thread does the work and not the caller's memory
/// fails.
template <class T>
bool is_answered(const Pending<T>& pending) {
  return detail::PendingAccess::is_ready_by(pending, Deadline::in(5s));
}

template <class Body>
void expect_answers(const Body& body) {
  int ended = 0;
  for (long number = 0; number < kLastAllocation; ++number) {
    const int status = status_of(number, body);
    ended += WIFSIGNALED(status) ? 1 : 0;  // std::terminate: the loop itself had no memory
    EXPECT_TRUE(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << "allocation " << number << ", status " << status;
  }
  EXPECT_LT(ended, kLastAllocation / 2);
}

TEST(HostShortage, OfTheDeviceAnswersReadsAndSyncs) {
  expect_answers([](const World& world) {
    const Tensor x = ones(world.device, {4});
    const Pending<std::vector<std::byte>> read = (x + 1).read_bytes();
    const Pending<void> sync = world.device.sync_later();
    return is_answered(read) && is_answered(sync);
  });
}

TEST(HostShortage, OfTheDeviceAnswersTakersOfLoans) {
  expect_answers([](const World& world) {
    const Tensor x = ones(world.device, {4});
    int answers = 0;
    const Tensor lent = lend(
        x + 1,
        [&answers](Result<LentRegion> region) {
          ++answers;
          if (region.has_value()) {
            region.value().done();
          }
        },
        Deadline::never());
    const Pending<std::vector<std::byte>> read = lent.read_bytes();
    return is_answered(read) && answers == 1;
  });
}

TEST(HostShortage, OfTheDeviceAnswersUpdatesAndCopies) {
  expect_answers([](const World& world) {
    Tensor parameter = ones(world.device, {4});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(parameter, parameter + 1, none, {.learning_rate = 1});
    const Pending<void> update = group.commit();
    const Pending<std::vector<std::byte>> read = parameter.read_bytes();
    const Tensor copy = Tensor::from(world.device, std::vector<float>{1, 2}, {2});
    const Pending<std::vector<std::byte>> other =
        (copy.to(world.runtime.device("sim:1")) + 1).read_bytes();
    pass(30s);  // the bytes of the copy may be late
    return is_answered(update) && is_answered(read) && is_answered(other);
  });
}

}  // namespace
}  // namespace hearth::testing
