#include <hearth/runtime/base/last_act.hpp>

#include <hearth/runtime/base/sync.hpp>

#include <exception>
#include <utility>
#include <vector>

namespace hearth {
namespace {

struct LastActs {
  Mutex mutex;
  std::vector<LastAct*> acts HEARTH_GUARDED_BY(mutex);
  std::terminate_handler handler HEARTH_GUARDED_BY(mutex) = nullptr;
};

// Never destroyed: a program may die while statics are.
LastActs& last_acts() {
  static auto* const acts = new LastActs;
  return *acts;
}

}  // namespace

LastAct::LastAct(UniqueFunction<void()> act) : act_(std::move(act)) {
  LastActs& all = last_acts();
  const MutexLock lock(all.mutex);
  if (all.handler == nullptr) {
    all.handler = std::set_terminate(&LastAct::run_all);
  }
  all.acts.push_back(this);
}

LastAct::~LastAct() {
  LastActs& all = last_acts();
  const MutexLock lock(all.mutex);
  std::erase(all.acts, this);
}

void LastAct::run_all() noexcept {
  LastActs& all = last_acts();
  for (;;) {
    UniqueFunction<void()> act;
    {
      const MutexLock lock(all.mutex);
      if (all.acts.empty()) {
        break;
      }
      act = std::move(all.acts.back()->act_);
      all.acts.pop_back();
    }
    try {
      act();
    } catch (
        const std::
            exception&) {  // NOLINT(bugprone-empty-catch): what the program dies of comes first
    }
  }
  std::terminate_handler handler = nullptr;
  {
    const MutexLock lock(all.mutex);
    handler = all.handler;
  }
  handler();
}

}  // namespace hearth
