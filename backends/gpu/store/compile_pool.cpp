#include "compile_pool.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/base/cores.hpp>

namespace hearth::gpu {
namespace {

constexpr std::size_t kMostCompilers = 8;
/// A model's first step comes some milliseconds after the device opens. A kernel takes some 0.1
/// ms, so this number of kernels is worth a thread, up to kMostPreparing threads.
constexpr std::size_t kPreparedByThread = 8;
constexpr std::size_t kMostPreparing = 4;
/// Limit of a driver's time for one kernel.
constexpr std::chrono::seconds kLongestJob{60};
/// Limit of the wait for a running job when a device closes.
constexpr std::chrono::seconds kCompilersDrainLimit{10};

/// Leaves one core for the threads that submit.
std::size_t free_cores() {
  return static_cast<std::size_t>(std::max(core_share(), 2) - 1);
}

}  // namespace

void KernelJob::run(KernelFactory& factory) {
  if (has_begun_.exchange(true, std::memory_order_acq_rel)) {
    return;
  }
  try {
    made_ = factory.kernel(key_, text_);
  } catch (const std::exception& thrown) {
    made_ = Error{.code = ErrorCode::out_of_memory,
                  .text = std::string("making a kernel: ") + thrown.what()};
  }
  is_done_.store(true, std::memory_order_release);  // partner: is_done
  done_.set_value();
}

Result<KernelHandle> KernelJob::result(KernelFactory& factory) {
  run(factory);
  HEARTH_TRY_STATUS(ready_.wait({.deadline = Deadline::in(kLongestJob)}));
  return made_;
}

CompilePool::~CompilePool() {
  has_ended_->store(true, std::memory_order_release);  // partner: the threads
  jobs_->close();
  const Deadline deadline = Deadline::in(kCompilersDrainLimit);
  for (const std::unique_ptr<hearth::detail::OwnedThread>& thread : threads_) {
    thread->end(deadline);
  }
}

bool CompilePool::add(std::shared_ptr<KernelJob> job) {
  if (!has_threads_) {
    try {
      start();
    } catch (const std::exception&) {
      // Goes on with the threads that exist: the system limits their number.
    }
  }
  return has_threads_ && jobs_->push(std::move(job)) == hearth::detail::MailboxPush::accepted;
}

template <class Body>
void CompilePool::add_thread(Body body) {
  threads_.push_back(std::make_unique<hearth::detail::OwnedThread>(
      executor_,
      hearth::detail::ThreadOptions{.name = "compile"},
      hearth::detail::OwnedThreadOptions{.subject = "a thread that makes kernels",
                                         .observe = [] { return std::string("makes one"); },
                                         .limit = kCompilersDrainLimit},
      std::move(body)));
}

void CompilePool::prepare() {
  const std::size_t wanted = (factory_->known_count() + kPreparedByThread - 1) / kPreparedByThread;
  const std::size_t count = std::min({wanted, kMostPreparing, free_cores()});
  try {
    for (std::size_t i = 0; i < count; ++i) {
      add_thread([factory = factory_, has_ended = has_ended_] {
        try {
          factory->prepare(*has_ended);
        } catch (const std::exception&) {
          // Out of memory: the missing kernels are made where they are needed.
        }
      });
    }
  } catch (const std::exception&) {
    // Without a thread the kernels are made where they are needed.
  }
}

// The bodies share ownership of the state that they touch.
void CompilePool::start() {
  const std::size_t count = std::min(free_cores(), kMostCompilers);
  for (std::size_t i = 0; i < count; ++i) {
    add_thread([factory = factory_, jobs = jobs_, has_ended = has_ended_] {
      while (const auto job = jobs->pop(Deadline::never())) {
        if (!has_ended->load(std::memory_order_acquire)) {  // partner: ~CompilePool
          (*job)->run(*factory);
        }
      }
    });
    has_threads_ = true;
  }
}

}  // namespace hearth::gpu
