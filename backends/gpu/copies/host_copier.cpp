#include "host_copier.hpp"

#include <hearth/runtime/base/cores.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

namespace hearth::gpu {
namespace {

/// A thread's share of a copy: some 0.1 ms, several times the cost of waking one.
constexpr std::size_t kShareBytes = std::size_t{1} << 20;

// TBB workers come from the arenas of cpu devices, pinned to those devices' cores; this unpins
// them.
class Unpin final : public tbb::task_scheduler_observer {
 public:
  explicit Unpin(tbb::task_arena& arena)
      : tbb::task_scheduler_observer(arena), cores_(available_cores()) {}
  Unpin(const Unpin&) = delete;
  Unpin& operator=(const Unpin&) = delete;
  ~Unpin() override { observe(false); }

  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) {
      static_cast<void>(pin_current_thread(cores_));
    }
  }

 private:
  const std::vector<int> cores_;
};

}  // namespace

struct HostCopier::Crew {
  explicit Crew(int threads) : arena(threads, 1), unpin(arena) {
    arena.initialize();  // before the observer, as in a cpu device's arena
    unpin.observe(true);
  }
  tbb::task_arena arena;
  Unpin unpin;
};

HostCopier::HostCopier(int threads)
    : crew_(threads > 1 ? std::make_unique<Crew>(threads) : nullptr) {}

HostCopier::~HostCopier() = default;

// If the crew finds no memory for its tasks, the caller copies everything once more.
void HostCopier::copy(std::byte* to, std::span<const std::byte> from) noexcept {
  const std::size_t shares = from.size() / kShareBytes;  // the last share includes the rest
  if (crew_ != nullptr && shares > 1) {
    try {
      crew_->arena.execute([&] {
        tbb::parallel_for(
            tbb::blocked_range<std::size_t>(0, shares, 1),
            [&](const tbb::blocked_range<std::size_t>& range) {
              const std::size_t begin = range.begin() * kShareBytes;
              const std::size_t end =
                  range.end() == shares ? from.size() : range.end() * kShareBytes;
              std::memcpy(to + begin, from.data() + begin, end - begin);
            },
            tbb::simple_partitioner());
      });
      return;
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the caller copies
    }
  }
  if (!from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}

}  // namespace hearth::gpu
