#include <hearth/parallel/worker.hpp>

#include <hearth/modules/generator_scope.hpp>
#include <hearth/runtime/base/thrown_error.hpp>

#include <fmt/format.h>

#include <exception>
#include <optional>

namespace hearth {
namespace {

// The function's own error, with the worker's name added. A file's error does not depend on the
// worker, so its text stays.
ErrorRef own_error(const ErrorRef& thrown, const WorkerContext& context, bool is_of_file) {
  Error error = *thrown;
  if (!is_of_file) {
    error.text += fmt::format(" ({})", context.subject);
    error.device = error.device.empty() ? context.device.name() : error.device;
  } else if (error.code == ErrorCode::not_found) {
    error.code = ErrorCode::io_error;  // with not_found it would become an ArgumentError
  }
  error.location = error.location.line == 0 ? context.where : error.location;
  return std::make_shared<const Error>(std::move(error));
}

}  // namespace

DeviceWorker::DeviceWorker(const Runtime& runtime, const Device& device, WorkerOptions options)
    : device_(device),
      options_(options),
      subject_(fmt::format("worker {} on {}", options.rank, device.name())),
      watchdog_(&runtime.watchdog()) {
  // A function may run for long, so the worker's state is observed from outside.
  const auto describe = [desk = desk_] { return desk->describe(); };
  std::shared_ptr<const void> witness = watchdog_->watch(
      {.name = subject_,
       .ask = [describe](Promise<std::string> answer) { answer.set_value(describe()); },
       .observe = describe});
  auto body = [desk = desk_,
               device,
               options,
               subject = subject_,
               witness = std::move(witness)] {  // kept by an abandoned thread, too
    WorkerContext context{
        .rank = options.rank,
        .world = options.world,
        .device = device,
        .generator = Generator(options.seed).fork(static_cast<std::uint64_t>(options.rank)),
        .communication = Stream(device),
        .stop = desk->stop.get_token(),
        .subject = subject};
    desk->work(context);
  };
  thread_ = std::make_unique<detail::OwnedThread>(
      runtime.executor(),
      detail::ThreadOptions{.name = fmt::format("worker:{}", options.rank),
                            .cores = device.cores()},
      detail::OwnedThreadOptions{.subject = subject_,
                                 .observe = describe,
                                 .limit = options.shutdown_limit,
                                 .log = &runtime.log()},
      std::move(body));
}

DeviceWorker::~DeviceWorker() {
  end(Deadline::in(options_.shutdown_limit));
}

void DeviceWorker::stop() noexcept {
  desk_->stop.request_stop();
  desk_->jobs.close();
  while (desk_->jobs.try_pop()) {
    // Destroyed here; its Pending ends as `cancelled`.
  }
}

bool DeviceWorker::end(Deadline deadline) {
  stop();
  return thread_->end(deadline);
}

void DeviceWorker::post(Job job) {
  if (desk_->jobs.push(std::move(job)) != detail::MailboxPush::accepted) {
    throw_error(Error{.code = ErrorCode::cancelled, .text = subject_ + " has ended"});
  }
}

std::string DeviceWorker::Desk::describe() const {
  return fmt::format("{}; {} functions wait",
                     is_running.load(std::memory_order_acquire) ? "runs one" : "is idle",
                     jobs.size());
}

void DeviceWorker::Desk::work(WorkerContext& context) {
  const GeneratorScope generator(context.generator);
  while (std::optional<Job> job = jobs.pop(Deadline::never())) {
    if (!context.stop.stop_requested()) {
      is_running.store(true, std::memory_order_release);  // partner: describe
      context.where = {};
      (*job)(context);
      is_running.store(false, std::memory_order_release);
    }
  }
}

ErrorRef WorkerContext::failure() const {
  ErrorRef cause;
  const auto foreign = [](std::string text) {
    return std::make_shared<const Error>(
        Error{.code = ErrorCode::worker_failed, .text = std::move(text)});
  };
  try {
    throw;
  } catch (const Exception& exception) {
    cause = exception.shared_error();
    detail::mark_unread(*cause);  // the function read it, and rethrows it
    if (detail::describes_failure(*cause)) {
      const bool is_of_file = dynamic_cast<const FileError*>(&exception) != nullptr;
      return device.failures().enter(own_error(cause, *this, is_of_file));
    }
  } catch (const std::exception& exception) {
    cause = foreign(exception.what());
  } catch (...) {
    cause = foreign("something that is no std::exception");
  }
  return device.failures().enter(
      std::make_shared<const Error>(Error{.code = ErrorCode::worker_failed,
                                          .text = subject + ": its function threw",
                                          .device = device.name(),
                                          .location = where,
                                          .cause = std::move(cause)}));
}

}  // namespace hearth
