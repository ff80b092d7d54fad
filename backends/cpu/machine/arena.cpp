#include "arena.hpp"

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/standby_crew.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <utility>

namespace hearth::cpu {

namespace {

// More threads would spin longer than they save in short loops. Measured with 2 cores only.
constexpr int kMaxStandby = 3;

// Workers move between the arenas of several devices, so each entry pins the worker again. The
// caller keeps its own affinity: it may be a user's thread that borrowed the token. A worker may
// run on any of the device's cores. Pinned to a single core, it could share the caller's core while
// another core stays idle.
class PinToCores final : public tbb::task_scheduler_observer {
 public:
  PinToCores(tbb::task_arena& arena, const std::vector<int>& cores)
      : tbb::task_scheduler_observer(arena), cores_(&cores) {}
  PinToCores(const PinToCores&) = delete;
  PinToCores& operator=(const PinToCores&) = delete;
  ~PinToCores() override { observe(false); }

  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) {
      // A core that the process has lost is no error: the worker then runs on any core.
      static_cast<void>(pin_current_thread(*cores_));
    }
  }

 private:
  const std::vector<int>* cores_;
};

}  // namespace

struct Arena::Impl {
  explicit Impl(const std::vector<int>& cores)
      : arena(static_cast<int>(cores.size()), 1),
        pins(arena, cores),
        crew(threads, cores, std::min(static_cast<int>(cores.size()) - 1, kMaxStandby)) {
    // Initialise the arena first: if the observer finds no memory while its arena is created,
    // oneTBB leaves it half registered and crashes when it ends.
    arena.initialize();
    pins.observe(true);
  }
  tbb::task_arena arena;
  PinToCores pins;
  ThreadExecutor threads;
  StandbyCrew crew;
};

Arena::Arena(std::vector<int> cores, bool serial) : cores_(std::move(cores)), serial_(serial) {
  if (cores_.size() > 1 && !serial_) {
    impl_ = std::make_unique<Impl>(cores_);
  }
}

Arena::~Arena() = default;

void Arena::fork(std::int64_t count, std::int64_t grain, RangeFn fn, const void* context) {
  const std::int64_t range_count = (count + grain - 1) / grain;
  impl_->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, range_count, 1),
        [&](const tbb::blocked_range<std::int64_t>& ranges) {
          const detail::VectorEnvironment environment;  // oneTBB sets that of the arena's creator
          for (std::int64_t range = ranges.begin(); range < ranges.end(); ++range) {
            fn(context, range * grain, std::min(count, (range + 1) * grain));
          }
        },
        tbb::simple_partitioner());
  });
}

int Arena::request_threads() noexcept {
  return impl_->crew.request_threads();
}

void Arena::share_out(int threads, ShareFn fn, const void* context) noexcept {
  impl_->crew.run(threads, fn, context);
}

}  // namespace hearth::cpu
