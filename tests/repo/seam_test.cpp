// Rule 8 of the design: all waiting, threads and clocks go through runtime/base, the seam on which
// tests step the whole system. The rule by part of the tree:
// - runtime/base: anything but sleeping.
// - The rest of the library: none of it. It uses Parker, Mailbox, Executor, Clock and
// ThreadContext.
// - tests/backends/cuda/host_*: libraries that stand for NVIDIA's, and do not link ours: anything
// but sleeping.
// - Tests, bench, examples: std::thread and std::jthread only, which stand for the user's threads.
// - Everywhere: no atomic_thread_fence, which TSan cannot see; no sleeping, except in bench.
// oneTBB forks and joins inside the CPU kernels and runtime/base only; it is never a queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

template <typename Predicate>
std::vector<const SourceFile*> select(const std::vector<SourceFile>& tree, Predicate keep) {
  std::vector<const SourceFile*> selected;
  for (const SourceFile& file : tree) {
    if (file.is_cpp() && keep(file)) {
      selected.push_back(&file);
    }
  }
  return selected;
}

bool is_own_library(const SourceFile& file) {
  return file.is_in("runtime/base") || file.path.starts_with("tests/backends/cuda/host_");
}

class Seam : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();
  const std::vector<const SourceFile*> all = select(tree, [](const SourceFile&) { return true; });
  const std::vector<const SourceFile*> above_base =
      select(tree, [](const SourceFile& file) { return !is_own_library(file); });
  const std::vector<const SourceFile*> library_above_base = select(
      tree, [](const SourceFile& file) { return is_library(file) && !file.is_in("runtime/base"); });
};

TEST_F(Seam, OnlyBaseLocksAndWaits) {
  EXPECT_EQ(find_tokens(above_base,
                        {"std::mutex",
                         "std::timed_mutex",
                         "std::recursive_mutex",
                         "std::shared_mutex",
                         "std::lock_guard",
                         "std::unique_lock",
                         "std::scoped_lock",
                         "std::shared_lock",
                         "std::condition_variable",
                         "std::condition_variable_any",
                         "std::call_once",
                         "std::once_flag",
                         "std::latch",
                         "std::barrier",
                         "std::counting_semaphore",
                         "std::binary_semaphore",
                         "std::future",
                         "std::promise",
                         "std::async",
                         "std::packaged_task",
                         "std::atomic_wait",
                         "pthread_mutex_t",
                         "pthread_cond_t",
                         "SYS_futex",
                         "FUTEX_WAIT",
                         "<mutex>",
                         "<shared_mutex>",
                         "<condition_variable>",
                         "<semaphore>",
                         "<latch>",
                         "<barrier>",
                         "<future>",
                         "<linux/futex.h>"}),
            "");
}

TEST_F(Seam, OnlyBaseStartsThreadsInTheLibrary) {
  EXPECT_EQ(find_tokens(library_above_base,
                        {"std::thread",
                         "std::jthread",
                         "std::this_thread",
                         "pthread_create",
                         "<thread>",
                         "<stop_token>"}),
            "");
}

TEST_F(Seam, OnlyBaseHoldsStatePerThread) {
  EXPECT_EQ(find_tokens(above_base, {"thread_local", "__thread", "pthread_getspecific"}), "");
}

// Only programs that measure (bench) or report a speed (examples) read the clock.
TEST_F(Seam, OnlyBaseReadsClocks) {
  const auto others = select(tree, [](const SourceFile& file) {
    return !is_own_library(file) && !file.is_in("tests/base") && !file.is_in("bench") &&
           !file.is_in("examples");
  });
  EXPECT_EQ(find_tokens(others,
                        {"std::chrono::steady_clock",
                         "std::chrono::system_clock",
                         "std::chrono::high_resolution_clock",
                         "steady_clock::now",
                         "system_clock::now",
                         "clock_gettime",
                         "gettimeofday",
                         "__rdtsc"}),
            "");
}

TEST_F(Seam, OnlyBaseKnowsFibers) {
  EXPECT_EQ(
      find_tokens(
          above_base,
          {"boost/fiber", "boost/context", "boost::fibers", "boost::context", "boost::this_fiber"}),
      "");
}

// Sockets: the loops of fibers, and the HTTP server. Boost.Beast has one source.
TEST_F(Seam, OnlyTheHttpServerKnowsAsioAndBeast) {
  const auto without = [this](std::vector<std::string_view> known) {
    return select(tree, [known = std::move(known)](const SourceFile& file) {
      return is_library(file) && std::ranges::none_of(known, [&](std::string_view path) {
               return file.path.starts_with(path);
             });
    });
  };
  EXPECT_EQ(find_tokens(without({"runtime/base/fibers/",
                                 "parallel/serving/http/http_connection.",
                                 "parallel/serving/http/http_server.cpp"}),
                        {"boost/asio", "boost::asio"}),
            "");
  EXPECT_EQ(find_tokens(without({"parallel/serving/http/http_connection.cpp"}),
                        {"boost/beast", "boost::beast"}),
            "");
}

// A benchmark may wait for a device to fall asleep.
TEST_F(Seam, NobodySleeps) {
  const auto others = select(tree, [](const SourceFile& file) { return !file.is_in("bench"); });
  EXPECT_EQ(find_tokens(others, {"sleep_for", "sleep_until", "usleep", "nanosleep"}), "");
}

TEST_F(Seam, NobodyUsesFences) {
  EXPECT_EQ(find_tokens(all, {"atomic_thread_fence", "__sync_synchronize"}), "");
}

TEST_F(Seam, OnlyKernelsCopiesAndBaseUseOneTbb) {
  const auto others = select(tree, [](const SourceFile& file) {
    return is_library(file) && !file.is_in("runtime/base") && !file.is_in("backends/cpu") &&
           file.path != "backends/gpu/copies/host_copier.cpp";
  });
  EXPECT_EQ(find_tokens(others, {"tbb::", "<tbb/", "<oneapi/tbb"}), "");
  EXPECT_EQ(find_tokens(all, {"concurrent_bounded_queue", "concurrent_queue"}), "");
}

}  // namespace
}  // namespace hearth::repo
