#include <hearth/parallel/worker.hpp>

#include <hearth/modules/generator_scope.hpp>

#include <fmt/format.h>

#include <exception>
#include <optional>

namespace hearth {

Worker::Worker(const Runtime& runtime, const Device& device, WorkerOptions options)
    : device_(device),
      options_(options),
      subject_(fmt::format("worker {} on {}", options.rank, device.name())),
      watchdog_(&runtime.watchdog()) {
  // It may be in the middle of a function for long, so what it is at is seen from outside.
  const auto look = [books = books_] {
    return fmt::format("{}; {} functions wait",
                       books->is_running.load(std::memory_order_acquire) ? "runs one" : "is idle",
                       books->queued.load(std::memory_order_acquire));
  };
  witness_ =
      watchdog_->watch({.name = subject_,
                        .ask = [look](Promise<std::string> answer) { answer.set_value(look()); },
                        .observe = look});
  thread_ = runtime.executor().spawn(
      {.name = fmt::format("worker:{}", options.rank), .cores = device.cores()},
      [this] { thread_main(); });
}

Worker::~Worker() {
  stop();
  thread_->join();
}

void Worker::stop() noexcept {
  stop_.request_stop();
  jobs_.close();
}

void Worker::post(Job job) {
  books_->queued.fetch_add(1, std::memory_order_acq_rel);
  if (jobs_.push(std::move(job)) != MailboxPush::accepted) {
    books_->queued.fetch_sub(1, std::memory_order_acq_rel);
    throw_error(Error{.code = ErrorCode::cancelled, .text = subject_ + " has ended"});
  }
}

void Worker::thread_main() {
  WorkerContext context{
      .rank = options_.rank,
      .world = options_.world,
      .device = device_,
      .generator = Generator(options_.seed).fork(static_cast<std::uint64_t>(options_.rank)),
      .communication = Stream(device_),
      .stop = stop_.get_token()};
  const GeneratorScope generator(context.generator);
  while (std::optional<Job> job = jobs_.pop(Deadline::never())) {
    books_->queued.fetch_sub(1, std::memory_order_acq_rel);
    if (!stop_.stop_requested()) {
      books_->is_running.store(true, std::memory_order_release);  // partner: the witness
      (*job)(context);
      books_->is_running.store(false, std::memory_order_release);
    }
  }
}

ErrorRef Worker::failure() const {
  ErrorRef cause;
  const auto foreign = [](std::string text) {
    return std::make_shared<const Error>(
        Error{.code = ErrorCode::worker_failed, .text = std::move(text)});
  };
  try {
    throw;
  } catch (const Exception& exception) {
    cause = exception.shared_error();
  } catch (const std::exception& exception) {
    cause = foreign(exception.what());
  } catch (...) {
    cause = foreign("something that is no std::exception");
  }
  return std::make_shared<const Error>(Error{.code = ErrorCode::worker_failed,
                                             .text = subject_ + ": its function threw",
                                             .device = device_.name(),
                                             .cause = std::move(cause)});
}

}  // namespace hearth
