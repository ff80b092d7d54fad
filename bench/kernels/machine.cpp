#include "machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <hearth/runtime/base/cores.hpp>

#include "build_facts.hpp"
#include "stopwatch.hpp"

extern char** environ;  // NOLINT: of the system

namespace hearth::bench {
namespace {

/// The first line of a file of the system; empty without it.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first such line of /proc/cpuinfo.
std::string processor_fact(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) {
      const std::size_t colon = line.find(": ");
      return colon == std::string::npos ? std::string() : line.substr(colon + 2);
    }
  }
  return {};
}

bool has_flag(std::string_view flag) {
  return (" " + processor_fact("flags") + " ").find(fmt::format(" {} ", flag)) != std::string::npos;
}

std::string caches() {
  std::string all;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string size = line_of(folder + "size");
    if (!size.empty() && line_of(folder + "type") != "Instruction") {
      all += fmt::format("{}L{} {}", all.empty() ? "" : ", ", line_of(folder + "level"), size);
    }
  }
  return all;
}

std::string or_unknown(const std::string& text) {
  return text.empty() ? std::string("unknown") : text;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Facts machine_facts() {
  Facts facts{{"commit", std::string(kCommit)},
              {"compiler", std::string(kCompiler)},
              {"flags", std::string(kFlags)}};
  utsname system{};
  ::uname(&system);
  facts.push_back({"system", fmt::format("{} {}", system.sysname, system.release)});
  facts.push_back({"processor", processor_fact("model name")});
  facts.push_back(
      {"cores",
       fmt::format("{} usable of {}", available_cores().size(), ::sysconf(_SC_NPROCESSORS_ONLN))});
  facts.push_back({"caches", or_unknown(caches())});
  facts.push_back({"hypervisor", has_flag("hypervisor") ? "yes" : "no"});
  const std::string governor = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  facts.push_back({"governor", or_unknown(governor)});
  const std::time_t now = std::time(nullptr);
  facts.push_back({"date", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(now))});
  std::set<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    for (const std::string_view prefix : {"OPENBLAS_", "OMP_", "HEARTH_"}) {
      if (text.starts_with(prefix)) {
        variables.emplace(text);
      }
    }
  }
  facts.push_back(
      {"variables", variables.empty() ? "none" : fmt::format("{}", fmt::join(variables, ", "))});
  return facts;
}

LoadWatch::LoadWatch() : load_(load_average()), stolen_(stolen_seconds()), begin_(seconds_now()) {}

Facts LoadWatch::facts() const {
  const double taken = seconds_now() - begin_;
  const double cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return {
      {"load", fmt::format("{:.2f} -> {:.2f}", load_, load_average())},
      {"steal",
       fmt::format("{:.1f} %", 100 * (stolen_seconds() - stolen_) / std::max(taken * cores, 1e-3))},
      {"seconds", fmt::format("{:.1f}", taken)}};
}

std::vector<std::string> machine_warnings() {
  std::vector<std::string> warnings;
  const char* const core = std::getenv("OPENBLAS_CORETYPE");  // NOLINT: no other thread yet
  const bool is_below =
      core != nullptr && has_flag("avx512f") && std::string_view(core) != "SkylakeX" &&
      std::string_view(core) != "Cooperlake" && std::string_view(core) != "SapphireRapids";
  if (is_below) {
    warnings.push_back(fmt::format(
        "OPENBLAS_CORETYPE={} is below this processor's AVX-512: OpenBLAS, and peers that use it, "
        "run at about half of their speed",
        core));
  }
  return warnings;
}

}  // namespace hearth::bench
