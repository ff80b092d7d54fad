#include <hearth/runtime/base/cores.hpp>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>

#include <sched.h>

namespace hearth {
namespace {

/// A kernel set of any size; cpu_set_t alone ends at 1024 cores.
class CoreSet final {
 public:
  explicit CoreSet(std::size_t core_count)
      : size_bytes_(CPU_ALLOC_SIZE(core_count)), set_(CPU_ALLOC(core_count)) {
    CPU_ZERO_S(size_bytes_, set_.get());
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] cpu_set_t* get() const noexcept { return set_.get(); }
  [[nodiscard]] bool has(std::size_t core) const noexcept {
    return CPU_ISSET_S(core, size_bytes_, set_.get());
  }
  void add(std::size_t core) const noexcept { CPU_SET_S(core, size_bytes_, set_.get()); }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
  };
  std::size_t size_bytes_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

constexpr std::size_t kMaxCores = 1 << 16;

}  // namespace

std::vector<int> available_cores() {
  std::vector<int> cores;
  for (std::size_t core_count = 1024; core_count <= kMaxCores; core_count *= 2) {
    const CoreSet set(core_count);
    if (sched_getaffinity(0, set.size_bytes(), set.get()) == 0) {
      for (std::size_t core = 0; core < core_count; ++core) {
        if (set.has(core)) {
          cores.push_back(static_cast<int>(core));
        }
      }
      break;
    }
    if (errno != EINVAL) {
      break;
    }
  }
  if (cores.empty()) {
    cores.push_back(0);
  }
  return cores;
}

Status pin_current_thread(std::span<const int> cores) {
  const CoreSet set(kMaxCores);
  std::string list;
  for (const int core : cores) {
    list += (list.empty() ? "" : ", ") + std::to_string(core);
    if (core >= 0) {
      set.add(static_cast<std::size_t>(core));  // the macro ignores those past the end
    }
  }
  if (sched_setaffinity(0, set.size_bytes(), set.get()) != 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "pin_current_thread: none of these cores can be used: {" + list + "}"};
  }
  return {};
}

}  // namespace hearth
