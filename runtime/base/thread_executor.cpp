#include <hearth/runtime/base/thread_executor.hpp>

#include <hearth/runtime/base/cores.hpp>

#include <thread>

#include <pthread.h>

namespace hearth {
namespace {

constexpr std::size_t kMaxNameBytes = 15;  // what the kernel keeps

void run_body(ThreadOptions options, UniqueFunction<void()> body) {
  ThreadContext context(std::move(options.name));
  exchange_current_context(&context);
  pthread_setname_np(pthread_self(), context.name().substr(0, kMaxNameBytes).c_str());
  if (!options.cores.empty()) {
    static_cast<void>(pin_current_thread(options.cores));  // slower elsewhere, but not wrong
  }
  body();
  body = nullptr;
  context.clear_attachments();
  exchange_current_context(nullptr);
}

class OsThread final : public Joinable {
 public:
  OsThread(ThreadOptions options, UniqueFunction<void()> body)
      : thread_(run_body, std::move(options), std::move(body)) {}
  OsThread(const OsThread&) = delete;
  OsThread& operator=(const OsThread&) = delete;
  ~OsThread() override { finish(); }

  void join() override { finish(); }
  void detach() override {
    if (thread_.joinable()) {
      thread_.detach();
    }
  }

 private:
  void finish() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Joinable> ThreadExecutor::spawn(ThreadOptions options,
                                                UniqueFunction<void()> body) {
  return std::make_unique<OsThread>(std::move(options), std::move(body));
}

}  // namespace hearth
