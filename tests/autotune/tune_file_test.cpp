#include <hearth/autotune/tune_file.hpp>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>

#include "counted_memory.hpp"
#include "entries.hpp"
#include "tests/base/temporary_folder.hpp"

namespace hearth::detail {
namespace {

using hearth::testing::full_entry;
using hearth::testing::kTuned;
using hearth::testing::MemoryPeak;
using ::testing::HasSubstr;

constexpr std::size_t kMostMemory = std::size_t{16} << 20U;

TuneFile small_file() {
  return {.fingerprint = "isa=avx512;cores=2",
          .entries = {full_entry(1), full_entry(2)},
          .wanted = {{.key = {.sizes = {7}}, .label = "w", .weight = RunTime(5e6), .calls = 9}}};
}

TEST(TuneFile, GivesTheContentBack) {
  const TemporaryFolder folder;
  const TuneFile file = small_file();
  EXPECT_EQ(decode(encode(file)).value(), file);
  write_tune_file(folder.path() / "file", file).value();
  EXPECT_EQ(read_tune_file(folder.path() / "file").value(), file);
  EXPECT_EQ(decode(encode({})).value(), TuneFile{});
}

TEST(TuneFile, WithoutAFileIsNotFound) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_tune_file(folder.path() / "none").error().code, ErrorCode::not_found);
}

// The checksum detects each of them.
TEST(TuneFile, AFlippedByteAnywhereIsDetected) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_tune_file(path, small_file()).value();
  const std::vector<std::byte> good = read_file(path).value();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bytes = good;
    bytes[i] ^= std::byte{0x41};
    write_file_unsynced(path, [&](FileWriter& file) { return file.write(bytes); }).value();
    const MemoryPeak peak;
    const Result<TuneFile> read = read_tune_file(path);
    ASSERT_FALSE(read.has_value()) << i;
    EXPECT_EQ(read.error().code, ErrorCode::bad_format) << i;
    EXPECT_LE(peak.bytes(), kMostMemory);
  }
}

TEST(TuneFile, ATruncationAnywhereIsDetected) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_tune_file(path, small_file()).value();
  const auto size = std::filesystem::file_size(path);
  for (auto length = size; length-- > 0;) {
    std::filesystem::resize_file(path, length);
    const Result<TuneFile> read = read_tune_file(path);
    ASSERT_FALSE(read.has_value()) << length;
    EXPECT_EQ(read.error().code, ErrorCode::bad_format) << length;
  }
}

// Payloads that a checksum does not protect: of a program with a mistake.
TEST(Decode, RefusesEachTruncation) {
  const std::vector<std::byte> good = encode(small_file());
  for (std::size_t length = 0; length < good.size(); ++length) {
    ASSERT_FALSE(decode(std::span(good).first(length)).has_value()) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back({});
  EXPECT_THAT(decode(longer).error().text, HasSubstr("bytes after the end"));
}

TEST(Decode, NeverAllocatesWhatALengthClaims) {
  const std::vector<std::byte> good = encode(small_file());
  for (const std::uint32_t claim : {0xFFFFFFFFU, 0x7FFFFFFFU, 4096U, 200U}) {
    for (std::size_t i = 0; i + sizeof claim <= good.size(); ++i) {
      std::vector<std::byte> bytes = good;
      std::memcpy(bytes.data() + i, &claim, sizeof claim);
      const MemoryPeak peak;
      const Result<TuneFile> read = decode(bytes);
      EXPECT_LE(peak.bytes(), std::size_t{64} << 10U) << i;
      if (read.has_value()) {  // a figure or a text changed
        EXPECT_EQ(encode(read.value()).size(), good.size()) << i;
      }
    }
  }
}

TEST(Decode, RefusesNumbersThatNoTypeHas) {
  const auto refuses = [](const std::function<void(TuneEntry&)>& spoil) {
    TuneFile file = small_file();
    spoil(file.entries[0]);
    return !decode(encode(file)).has_value();
  };
  EXPECT_FALSE(refuses([](TuneEntry&) {}));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.key.input = static_cast<DType>(99); }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.key.family = static_cast<TuneFamily>(0); }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.key.zero = 1; }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.evidence.doubt = static_cast<Doubt>(50); }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.evidence.ratio = -1; }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) {
    entry.ladder[0].low = RunTime(std::numeric_limits<double>::quiet_NaN());
  }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.ladder.resize(5); }));
  EXPECT_TRUE(refuses([](TuneEntry& entry) { entry.label.resize(201); }));
}

TEST(TuneFile, ALargeFileIsNotEvenRead) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_tune_file(path, small_file()).value();
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40U);  // sparse
  const MemoryPeak peak;
  const Result<TuneFile> read = read_tune_file(path);
  EXPECT_EQ(read.error().code, ErrorCode::bad_format);
  EXPECT_LE(peak.bytes(), std::size_t{64} << 10U);
}

// The oldest entries are dropped; a full file is read within the limit.
TEST(TuneFile, StaysWithinItsLimits) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  TuneFile file;
  for (int i = 0; i < 5000; ++i) {
    TuneEntry entry = full_entry(i);
    entry.tuned_at = kTuned + std::chrono::seconds(i);
    for (std::uint64_t text = 0; text < 20; ++text) {
      quarantine(entry, 9, text, std::string(TuneEntry::kMostText, 'x'));
    }
    file.entries.push_back(std::move(entry));
  }
  write_tune_file(path, file).value();
  EXPECT_LE(std::filesystem::file_size(path), TuneFile::kMostBytes);
  const MemoryPeak peak;
  const TuneFile read = read_tune_file(path).value();
  EXPECT_LE(peak.bytes(), kMostMemory);
  ASSERT_GT(read.entries.size(), 500U);
  EXPECT_EQ(read.entries.front().key, full_entry(4999).key);
  EXPECT_EQ(read.entries.back().key.sizes[0],
            5000 - static_cast<std::int64_t>(read.entries.size()));
}

TEST(TuneFile, KeepsTheHeaviestWishes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  TuneFile file;
  for (int i = 0; i < 1000; ++i) {
    file.wanted.push_back({.key = {.sizes = {i}}, .weight = RunTime(i)});
  }
  write_tune_file(path, file).value();
  const TuneFile read = read_tune_file(path).value();
  ASSERT_EQ(read.wanted.size(), TuneFile::kMostWanted);
  EXPECT_EQ(read.wanted.front().weight, RunTime(999));
  EXPECT_EQ(read.wanted.back().weight, RunTime(1000 - TuneFile::kMostWanted));
}

TEST(MergeInto, KeepsTheNewerLadderAndTheHeavierWish) {
  TuneFile file = small_file();
  TuneEntry newer = full_entry(2);
  newer.tuned_at = kTuned + std::chrono::seconds(1);
  newer.ladder[0].median = RunTime(70);
  TuneFile more{.entries = {newer, full_entry(3)},
                .wanted = {{.key = {.sizes = {7}}, .weight = RunTime(1), .calls = 1},
                           {.key = {.sizes = {8}}, .weight = RunTime(2), .calls = 2}}};
  merge_into(file, more);
  ASSERT_EQ(file.entries.size(), 3U);
  EXPECT_EQ(file.entries[1].ladder[0].median, RunTime(70));
  ASSERT_EQ(file.wanted.size(), 2U);
  for (const WantedKey& each : file.wanted) {
    EXPECT_EQ(each.calls, each.key.sizes[0] == 7 ? 9U : 2U);
  }
}

TEST(MergeInto, ASettledKeyIsWantedNoLonger) {
  TuneFile file = small_file();
  TuneEntry settled = full_entry(7);
  settled.key = {.sizes = {7}};
  settled.slow_sittings = 0;
  TuneEntry unclear = settled;
  unclear.evidence.doubt = Doubt::noise;
  TuneFile copy = file;
  merge_into(copy, {.entries = {unclear}});
  EXPECT_EQ(copy.wanted.size(), 1U);
  merge_into(file, {.entries = {settled}});
  EXPECT_TRUE(file.wanted.empty());
}

}  // namespace
}  // namespace hearth::detail
