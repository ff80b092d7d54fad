#include <hearth/runtime/base/fiber_loop.hpp>

#include "fiber.hpp"

namespace hearth::detail {

namespace asio = boost::asio;

FiberThread::FiberThread(std::shared_ptr<FiberLoopState> loop, Body body)
    : loop_(std::move(loop)),
      body_(std::move(body)),
      fiber_(std::make_unique<Fiber>([this] {
        body_(*this);
        body_ = nullptr;
      })),
      work_(asio::make_work_guard(loop_->io)) {}

FiberThread::~FiberThread() = default;

void FiberThread::begin() {
  self_ = shared_from_this();
  run();
}

void FiberThread::run() {
  fiber_->resume();
  if (fiber_->has_ended()) {
    work_.reset();
    const std::shared_ptr<FiberThread> last = std::move(self_);  // ends this object
  }
}

void FiberThread::suspend() {
  fiber_->suspend();
}

FiberLoop::FiberLoop(Executor& executor, const FiberLoopOptions& options)
    : state_(std::make_shared<FiberLoopState>()), work_(asio::make_work_guard(state_->io)) {
  thread_ = std::make_unique<OwnedThread>(
      executor,
      ThreadOptions{.name = options.name},
      OwnedThreadOptions{.subject = "the fibers of " + options.name,
                         .observe = [] { return std::string("a fiber has not ended"); },
                         .limit = options.shutdown_limit,
                         .log = options.log},
      [state = state_] {
        const FiberMark mark;
        state->io.run();
      });
}

FiberLoop::~FiberLoop() {
  work_.reset();
}

void FiberLoop::start(FiberThread::Body body) {
  asio::post(state_->io, [state = state_, body = std::move(body)]() mutable {
    std::make_shared<FiberThread>(std::move(state), std::move(body))->begin();
  });
}

void FiberLoop::post(UniqueFunction<void()> function) {
  asio::post(state_->io, [function = std::move(function)]() mutable { function(); });
}

bool FiberLoop::end(Deadline deadline) {
  work_.reset();
  return thread_->end(deadline);
}

}  // namespace hearth::detail
