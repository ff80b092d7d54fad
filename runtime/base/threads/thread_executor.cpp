#include <hearth/runtime/base/thread_executor.hpp>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <new>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

namespace hearth {
namespace {

constexpr std::size_t kMaxNameBytes = 15;  // limit of the kernel

void run_body(detail::ThreadOptions options, UniqueFunction<void()> body, Promise<void> ended) {
  // the program's environment is inherited from the spawning thread
  const detail::FloatEnvironment environment;
  detail::ThreadContext context(std::move(options.name));
  detail::exchange_current_context(&context);
  pthread_setname_np(pthread_self(), context.name().substr(0, kMaxNameBytes).c_str());
  if (!options.cores.empty()) {
    static_cast<void>(pin_current_thread(options.cores));  // on failure only slower
  }
  body();
  body = nullptr;
  context.clear_attachments();
  ended.set_value();
  detail::exchange_current_context(nullptr);
}

class OsThread final : public detail::Joinable {
 public:
  OsThread(detail::ThreadOptions options, UniqueFunction<void()> body, Promise<void> ended)
      : ended_(ended.pending()),
        thread_(run_body, std::move(options), std::move(body), std::move(ended)) {}
  OsThread(const OsThread&) = delete;
  OsThread& operator=(const OsThread&) = delete;
  ~OsThread() override { static_cast<void>(OsThread::join(Deadline::never())); }

  bool join(Deadline deadline) override {
    if (!thread_.joinable()) {
      return true;
    }
    if (!deadline.is_never() && !detail::PendingAccess::is_ready_by(ended_, deadline)) {
      return false;
    }
    thread_.join();
    return true;
  }
  void detach() override {
    if (thread_.joinable()) {
      thread_.detach();
    }
  }

 private:
  const Pending<void> ended_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<detail::Joinable> ThreadExecutor::spawn(detail::ThreadOptions options,
                                                        UniqueFunction<void()> body) {
  const std::string name = options.name;
  try {
    return std::make_unique<OsThread>(
        std::move(options),
        std::move(body),
        Promise<void>(PendingOptions{.subject = "the end of a thread"}));
  } catch (const std::system_error& refused) {
    throw_error(Error{.code = ErrorCode::out_of_memory,
                      .text = fmt::format("the thread '{}' cannot be started: {}; the system has "
                                          "no room for one more, or for its stack (ulimit -u, -v)",
                                          name,
                                          refused.what())});
  } catch (const std::bad_alloc&) {
    throw_error(
        Error{.code = ErrorCode::out_of_memory,
              .text = fmt::format(
                  "the thread '{}' cannot be started: the program has no memory left", name)});
  }
}

}  // namespace hearth
