#include <hearth/parallel/worker.hpp>

#include <hearth/modules/generator_scope.hpp>

#include <fmt/format.h>

#include <exception>
#include <optional>

namespace hearth {

Worker::Worker(const Runtime& runtime, const Device& device, WorkerOptions options)
    : device_(device),
      options_(options),
      subject_(fmt::format("worker {} on {}", options.rank, device.name())) {
  thread_ = runtime.executor().spawn(
      {.name = fmt::format("worker:{}", options.rank), .cores = device.cores()},
      [this] { thread_main(); });
}

Worker::~Worker() {
  stop();
  thread_->join();
}

void Worker::stop() noexcept {
  is_stopping_.store(true, std::memory_order_release);  // partner: thread_main
  jobs_.close();
}

void Worker::post(Job job) {
  if (jobs_.push(std::move(job)) != MailboxPush::accepted) {
    throw_error(Error{.code = ErrorCode::cancelled, .text = subject_ + " has ended"});
  }
}

void Worker::thread_main() {
  WorkerContext context{
      .rank = options_.rank,
      .world = options_.world,
      .device = device_,
      .generator = Generator(options_.seed).fork(static_cast<std::uint64_t>(options_.rank)),
      .communication = Stream(device_)};
  const GeneratorScope generator(context.generator);
  while (std::optional<Job> job = jobs_.pop()) {
    if (!is_stopping_.load(std::memory_order_acquire)) {  // partner: stop
      (*job)(context);
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
