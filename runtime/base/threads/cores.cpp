#include <hearth/runtime/base/cores.hpp>

#include <hearth/runtime/base/control_groups.hpp>
#include <hearth/runtime/base/settings.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>

#include <sched.h>

namespace hearth {
namespace {

/// Kernel set of any size; cpu_set_t alone ends at 1024 cores.
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

int detail::core_share_of(std::size_t core_count,
                          std::optional<std::int64_t> wanted,
                          std::optional<double> quota) noexcept {
  const auto all = static_cast<std::int64_t>(core_count);
  // Clamped first, because a limit far above the cores ("9e18 100000") would overflow.
  const auto left = static_cast<std::int64_t>(
      std::ceil(std::min(quota.value_or(static_cast<double>(all)), static_cast<double>(all))));
  return static_cast<int>(std::clamp<std::int64_t>(wanted.value_or(left), 1, all));
}

std::vector<int> detail::cores_from(const std::vector<int>& cores, int first, int count) {
  const auto begin =
      static_cast<std::size_t>(std::ranges::lower_bound(cores, first) - cores.begin());
  std::vector<int> some;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    some.push_back(cores[(begin + i) % cores.size()]);
  }
  std::ranges::sort(some);
  return some;
}

// An invalid setting counts as unset here; the runtime reports it.
int core_share() {
  const auto wanted =
      detail::Settings::from_environment().integer(detail::Setting::cores, 1, detail::kMostCores);
  return detail::core_share_of(available_cores().size(),
                               wanted.has_value() ? wanted.value() : std::nullopt,
                               detail::processor_quota());
}

std::vector<int> shared_cores() {
  const std::vector<int> all = available_cores();
  const int share = core_share();
  return static_cast<std::size_t>(share) >= all.size()
             ? all
             : detail::cores_from(all, ::sched_getcpu(), share);
}

Status pin_current_thread(std::span<const int> cores) {
  const CoreSet set(kMaxCores);
  std::string list;
  for (const int core : cores) {
    list += (list.empty() ? "" : ", ") + std::to_string(core);
    if (core >= 0) {
      set.add(static_cast<std::size_t>(core));  // the macro ignores cores past the end
    }
  }
  if (sched_setaffinity(0, set.size_bytes(), set.get()) != 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "pin_current_thread: none of these cores can be used: {" + list + "}"};
  }
  return {};
}

}  // namespace hearth
