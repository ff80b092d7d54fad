// hearth-bench bisect COMMAND...: runs a program that fails with fusion repeatedly, with fewer
// groups fused, until it finds the first group with which it fails.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "commands.hpp"

namespace hearth::bench {
namespace {

constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 40U;

/// Whether the command exits with 0 when the first `limit` groups are fused; nullopt: all groups.
bool is_right(char** command, std::optional<std::uint64_t> limit) {
  const pid_t child = fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread is in the child
    setenv("HEARTH_FUSION", "on", 1);
    setenv("HEARTH_DETERMINISTIC", "on", 1);  // keeps the groups' numbers equal in all runs
    if (limit) {
      setenv("HEARTH_FUSION_LIMIT", std::to_string(*limit).c_str(), 1);
    } else {
      unsetenv("HEARTH_FUSION_LIMIT");
    }
    // NOLINTEND(concurrency-mt-unsafe)
    execvp(command[0], command);
    std::fprintf(stderr, "hearth-bench bisect: %s: %s\n", command[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "waitpid");
    }
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw std::runtime_error(std::string("cannot run ") + command[0]);
  }
  const bool right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::fprintf(stderr,
               "hearth-bench bisect: %s fused: %s\n",
               limit ? (std::to_string(*limit) + " groups").c_str() : "all groups",
               right ? "right" : "wrong");
  return right;
}

// Finds the smallest failing limit, between one that works and one that fails.
std::uint64_t first_wrong(char** command) {
  std::uint64_t right = 0;
  std::uint64_t wrong = 1;
  while (is_right(command, wrong)) {
    right = wrong;
    wrong *= 2;
    if (wrong > kMostGroups) {
      throw std::runtime_error("it is wrong without a limit, and right with any");
    }
  }
  while (wrong - right > 1) {
    const std::uint64_t middle = right + (wrong - right) / 2;
    (is_right(command, middle) ? right : wrong) = middle;
  }
  return wrong;
}

}  // namespace

int bisect_command(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--help") == 0) {
    std::printf(
        "hearth-bench bisect COMMAND [ARGUMENTS...]\n"
        "Runs a program that ends with 0 when it is right, with more and fewer groups of ops "
        "fused\n"
        "(HEARTH_FUSION=on, HEARTH_DETERMINISTIC=on, HEARTH_FUSION_LIMIT), and finds the first "
        "group with which it is "
        "wrong.\n"
        "Ends with 0 when it has found one. One thread should submit the program's ops, or the "
        "groups\n"
        "have other numbers in each run.\n");
    return argc < 2 ? 2 : 0;
  }
  char** const command = argv + 1;
  if (!is_right(command, 0)) {
    std::printf("It is wrong although nothing is fused: fusion is not the cause.\n");
    return 1;
  }
  if (is_right(command, std::nullopt)) {
    std::printf("It is right with all groups fused: there is nothing to find.\n");
    return 1;
  }
  const std::uint64_t wrong = first_wrong(command);
  std::printf(
      "Group %llu is the first with which it is wrong; the program's log names its ops with\n"
      "HEARTH_FUSION=on HEARTH_DETERMINISTIC=on HEARTH_FUSION_LIMIT=%llu (\"the last fused "
      "group\").\n",
      static_cast<unsigned long long>(wrong),
      static_cast<unsigned long long>(wrong));
  return 0;
}

}  // namespace hearth::bench
