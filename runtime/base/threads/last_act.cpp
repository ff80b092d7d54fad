#include <hearth/runtime/base/last_act.hpp>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/sync.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace hearth {
namespace {

struct LastActs {
  detail::Mutex mutex;
  std::vector<LastAct*> acts HEARTH_GUARDED_BY(mutex);
  std::atomic<std::terminate_handler> handler = nullptr;  // the handler that was installed before
};

// Never destroyed: a program may terminate during static destruction.
LastActs& last_acts() {
  static auto* const acts = new LastActs;
  return *acts;
}

// Prints the exception being handled to stderr, because no log may be available.
void report_failure() noexcept {
  std::fprintf(stderr,
               "hearth: a last act failed: %s\n",
               detail::error_of_current_exception()->to_string().c_str());
}

}  // namespace

LastAct::LastAct(UniqueFunction<void()> act) : act_(std::move(act)) {
  LastActs& all = last_acts();
  const detail::MutexLock lock(all.mutex);
  if (all.handler.load() == nullptr) {
    all.handler.store(std::set_terminate(&LastAct::die));
  }
  all.acts.push_back(this);
}

LastAct::~LastAct() {
  LastActs& all = last_acts();
  const detail::MutexLock lock(all.mutex);
  std::erase(all.acts, this);
}

void LastAct::run_all() noexcept {
  LastActs& all = last_acts();
  for (;;) {
    UniqueFunction<void()> act;
    {
      const detail::MutexLock lock(all.mutex);
      if (all.acts.empty()) {
        return;
      }
      act = std::move(all.acts.back()->act_);
      all.acts.pop_back();
    }
    try {
      act();
    } catch (...) {
      report_failure();
    }
  }
}

void LastAct::die() noexcept {
  try {
    std::packaged_task<void()> acts(&LastAct::run_all);
    const std::future<void> over = acts.get_future();
    std::thread(std::move(acts)).detach();
    static_cast<void>(over.wait_for(kLimit));
  } catch (...) {
    report_failure();  // no thread could be created
  }
  LastActs& all = last_acts();
  all.handler.load()();
}

}  // namespace hearth
