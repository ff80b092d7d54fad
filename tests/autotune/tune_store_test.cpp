#include <hearth/autotune/tune_store.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include "counted_memory.hpp"
#include "entries.hpp"
#include "tests/base/temporary_folder.hpp"

namespace hearth::detail {
namespace {

using hearth::testing::full_entry;
using hearth::testing::MemoryPeak;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TuneStoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<TuneStore> try_open(TuneAccess access = TuneAccess::read_write) {
    return TuneStore::open(
        {.folder = folder.path() / "autotune", .fingerprint = fingerprint, .access = access}, log);
  }
  [[nodiscard]] TuneStore open(TuneAccess access = TuneAccess::read_write) {
    return std::move(try_open(access)).value();
  }
  [[nodiscard]] std::vector<std::string> file_names() const {
    std::vector<std::string> names;
    if (std::filesystem::exists(folder.path() / "autotune")) {
      for (const auto& each : std::filesystem::directory_iterator(folder.path() / "autotune")) {
        names.push_back(each.path().filename().string());
      }
    }
    std::ranges::sort(names);
    return names;
  }
  // Runs `body` in a child; returns its wait status.
  static int in_child(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  TemporaryFolder folder;
  Fingerprint fingerprint = Fingerprint::of({{"isa", "avx512"}, {"cores", "2"}});
  std::vector<std::string> lines;  // of the log
  Log log{{.level = LogLevel::info,
           .output = [this](LogLevel, std::string_view line) { lines.emplace_back(line); }}};
};

constexpr Candidate kCandidate{.id = 3, .text_hash = 103, .name = "swapped/read-a"};

TEST_F(TuneStoreTest, KeepsEntriesBetweenPrograms) {
  {
    TuneStore store = open();
    EXPECT_TRUE(store.content().entries.empty());
    store.merge({full_entry(1)}, {{.key = {.sizes = {7}}, .weight = RunTime(5)}}).value();
    store.merge({full_entry(2)}, {}).value();
  }
  const TuneStore store = open();
  ASSERT_EQ(store.content().entries.size(), 2U);
  EXPECT_THAT(store.content().entries, ::testing::Contains(full_entry(1)));
  EXPECT_EQ(store.content().wanted.size(), 1U);
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(TuneStoreTest, EachFingerprintHasItsFile) {
  open().merge({full_entry(1)}, {}).value();
  const Fingerprint first = std::exchange(fingerprint, Fingerprint::of({{"isa", "avx2"}}));
  EXPECT_TRUE(open().content().entries.empty());
  fingerprint = first;
  EXPECT_EQ(open().content().entries.size(), 1U);
}

TEST_F(TuneStoreTest, MergesWhatOthersWroteMeanwhile) {
  TuneStore one = open();
  TuneStore two = open();
  one.merge({full_entry(1)}, {}).value();
  two.merge({full_entry(2)}, {}).value();
  EXPECT_EQ(two.content().entries.size(), 2U);
  EXPECT_EQ(open().content().entries.size(), 2U);
}

TEST_F(TuneStoreTest, WaitsForTheLockWithALimit) {
  ManualExecutor executor;
  executor.run([&] {
    TuneStore store = open();
    std::filesystem::path lock = store.path();
    lock += ".lock";
    std::optional<FileLock> held = FileLock::try_acquire(lock).value();
    const Status refused = store.merge({full_entry(1)}, {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::deadline_exceeded);
    held.reset();
    EXPECT_TRUE(store.merge({full_entry(1)}, {}).has_value());
  });
}

// Of each offset, a store that begins anew and works.
TEST_F(TuneStoreTest, AFlippedByteOrATruncationSetsTheFileAside) {
  std::filesystem::path path;
  {
    TuneStore store = open();
    store.merge({full_entry(1)}, {}).value();
    path = store.path();
  }
  const std::vector<std::byte> good = read_file(path).value();
  for (std::size_t i = 0; i < 2 * good.size(); ++i) {
    std::vector<std::byte> bytes = good;
    if (i < good.size()) {
      bytes[i] ^= std::byte{0x10};
    } else {
      bytes.resize(i - good.size());
    }
    write_file_unsynced(path, [&](FileWriter& file) { return file.write(bytes); }).value();
    lines.clear();
    const MemoryPeak peak;
    TuneStore store = open();
    EXPECT_LE(peak.bytes(), std::size_t{16} << 20U);
    ASSERT_THAT(store.content().entries, IsEmpty()) << i;
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines[0], HasSubstr("set aside"));
    EXPECT_FALSE(std::filesystem::exists(path));
    std::filesystem::path bad = path;
    bad += ".bad";
    EXPECT_EQ(read_file(bad).value(), bytes);
    if (i % 97 == 0) {  // each writes and syncs
      store.merge({full_entry(5)}, {}).value();
      ASSERT_EQ(open().content().entries.size(), 1U);
    }
  }
}

TEST_F(TuneStoreTest, AFileOfAnotherMachineUnderThisNameIsSetAside) {
  TuneStore store = open();
  write_tune_file(store.path(), {.fingerprint = "other", .entries = {full_entry(1)}}).value();
  EXPECT_THAT(open().content().entries, IsEmpty());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("is of another machine: other"));
}

TEST_F(TuneStoreTest, AReaderWritesNothing) {
  EXPECT_THAT(open(TuneAccess::read).content().entries, IsEmpty());
  EXPECT_THAT(file_names(), IsEmpty()) << "not even the folder";
  std::filesystem::path path;
  {
    TuneStore store = open();
    store.merge({full_entry(1)}, {}).value();
    path = store.path();
  }
  const std::vector<std::string> before = file_names();
  TuneStore reader = open(TuneAccess::read);
  EXPECT_EQ(reader.content().entries.size(), 1U);
  EXPECT_EQ(reader.merge({full_entry(2)}, {}).error().code, ErrorCode::unsupported);
  EXPECT_EQ(reader.begin_trying({}, "x", kCandidate).status().error().code, ErrorCode::unsupported);
  EXPECT_EQ(reader.clear().error().code, ErrorCode::unsupported);
  std::filesystem::resize_file(path, 40);
  EXPECT_THAT(open(TuneAccess::read).content().entries, IsEmpty());
  EXPECT_EQ(file_names(), before);
  EXPECT_EQ(std::filesystem::file_size(path), 40U);
}

TEST_F(TuneStoreTest, ClearRemovesTheEntries) {
  TuneStore store = open();
  store.clear().value();
  store.merge({full_entry(1)}, {}).value();
  store.clear().value();
  EXPECT_THAT(store.content().entries, IsEmpty());
  EXPECT_THAT(open().content().entries, IsEmpty());
}

TEST_F(TuneStoreTest, ExportsAndImports) {
  const auto bundle = folder.path() / "bundle";
  {
    TuneStore store = open();
    store.merge({full_entry(1)}, {}).value();
    store.export_to(bundle).value();
    store.clear().value();
    store.import_from(bundle).value();
    EXPECT_THAT(store.content().entries, ElementsAre(full_entry(1)));
  }
  fingerprint = Fingerprint::of({{"isa", "avx2"}});
  const Status refused = open().import_from(bundle);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().text, HasSubstr("this one is isa=avx2"));
}

TEST_F(TuneStoreTest, ACandidateThatKillsItsProcessIsQuarantinedAtTheNextOpening) {
  const TuneEntry known = full_entry(1);
  open().merge({known}, {}).value();
  const int status = in_child([&] {
    TuneStore store = open();
    const Result<TryingMark> mark = store.begin_trying(known.key, known.label, kCandidate);
    ::kill(::getpid(), mark.has_value() ? SIGKILL : SIGTERM);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  const TuneStore store = open();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("matmul f32 1"));
  EXPECT_THAT(lines[0], HasSubstr("swapped/read-a ended the process in its first run"));
  ASSERT_EQ(store.content().entries.size(), 1U);
  const TuneEntry& entry = store.content().entries[0];
  EXPECT_TRUE(is_quarantined(entry, kCandidate));
  ASSERT_EQ(entry.ladder.size(), 1U) << "its rung is gone";
  EXPECT_EQ(entry.ladder[0].id, kRulePick);
  lines.clear();
  EXPECT_TRUE(is_quarantined(open().content().entries.at(0), kCandidate));
  EXPECT_THAT(lines, IsEmpty()) << "stated once";
}

TEST_F(TuneStoreTest, ARunThatEndedLeavesNoMark) {
  TuneStore store = open();
  for (int i = 0; i < 3; ++i) {
    const Result<TryingMark> mark = store.begin_trying(full_entry(i).key, "label", kCandidate);
    ASSERT_TRUE(mark.has_value());
  }
  EXPECT_THAT(open().content().entries, IsEmpty());
  EXPECT_THAT(lines, IsEmpty());
}

// The mark of a living process is no crash, of its own store or another's.
TEST_F(TuneStoreTest, TheMarkOfALivingProcessIsLeftAlone) {
  TuneStore one = open();
  TuneStore two = open();
  {
    const Result<TryingMark> first = one.begin_trying(full_entry(1).key, "1", kCandidate);
    const Result<TryingMark> second = two.begin_trying(full_entry(2).key, "2", kCandidate);
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(second.has_value());
    EXPECT_THAT(open().content().entries, IsEmpty());
    const int status = in_child([&] { ::_exit(open().content().entries.empty() ? 0 : 1); });
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(open().content().entries, IsEmpty());
}

TEST_F(TuneStoreTest, ADamagedMarkIsLoggedAndRemoved) {
  const int status = in_child([&] {
    TuneStore store = open();
    const Result<TryingMark> mark = store.begin_trying({}, "x", kCandidate);
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  for (const std::string& name : file_names()) {
    if (name.ends_with(".trying-0")) {
      std::filesystem::resize_file(folder.path() / "autotune" / name, 33);
    }
  }
  EXPECT_THAT(open().content().entries, IsEmpty());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("unknown which"));
  lines.clear();
  EXPECT_THAT(open().content().entries, IsEmpty());
  EXPECT_THAT(lines, IsEmpty());
}

// A child that merges entries one by one and writes the number of each committed one to a pipe.
class Writer final {
 public:
  Writer(const std::function<TuneStore()>& open, std::int64_t first, std::int64_t count) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[0]);
      TuneStore store = open();
      for (std::int64_t number = first; number < first + count; ++number) {
        if (!store.merge({full_entry(number)}, {}).has_value() ||
            ::write(ends[1], &number, sizeof number) != sizeof number) {
          ::_exit(1);
        }
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    ::close(pipe_);
    int status = 0;
    ::waitpid(child_, &status, 0);
  }

  /// Reads commits until there are `count` or the child has ended.
  void read_commits(std::size_t count, std::set<std::int64_t>& committed) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < count && ::read(pipe_, &number, sizeof number) == sizeof number;
         ++i) {
      committed.insert(number);
    }
  }
  void kill() const { ::kill(child_, SIGKILL); }

 private:
  pid_t child_ = -1;
  int pipe_ = -1;
};

// Two of four writers are killed after some commits, in the middle of the next one.
TEST_F(TuneStoreTest, FourWritersAndKillsLoseNoCommittedEntry) {
  const std::function<TuneStore()> opener = [&] { return open(); };
  std::set<std::int64_t> committed;
  for (std::int64_t round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<Writer>> writers;
    for (std::int64_t i = 0; i < 4; ++i) {
      writers.push_back(std::make_unique<Writer>(opener, 100 * (4 * round + i), 8));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      writers[i]->read_commits(static_cast<std::size_t>(round) % 3 + 1 + i, committed);
      writers[i]->kill();
    }
    for (const auto& each : writers) {
      each->read_commits(8, committed);
    }
    writers.clear();
    std::set<std::int64_t> stored;
    const TuneStore store = open();
    for (const TuneEntry& each : store.content().entries) {
      stored.insert(each.key.sizes[0]);
      ASSERT_EQ(each, full_entry(each.key.sizes[0]));
    }
    for (const std::int64_t number : committed) {
      ASSERT_TRUE(stored.contains(number)) << number << " in round " << round;
    }
  }
  EXPECT_GE(committed.size(), 6U * 2 * 8) << "the writers that lived committed all";
  EXPECT_THAT(lines, IsEmpty()) << "nothing was set aside";
}

}  // namespace
}  // namespace hearth::detail
