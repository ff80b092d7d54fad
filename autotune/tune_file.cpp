#include <hearth/autotune/tune_file.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <sstream>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/chrono.hpp>
#include <cereal/types/common.hpp>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/dtype.hpp>

namespace hearth::detail {

// Lists and texts with a limit. cereal's own containers allocate what a length states; these check
// the length first, and a list grows by the elements that were read.
template <class T>
struct LimitedList {
  std::vector<T>& items;
  std::size_t most;
};
struct LimitedText {
  std::string& text;
  std::size_t most;
};

template <class Archive>
std::uint32_t load_count(Archive& archive, std::size_t most) {
  std::uint32_t count = 0;
  archive(count);
  if (count > most) {
    throw cereal::Exception(
        fmt::format("a length of {} where at most {} is possible", count, most));
  }
  return count;
}

template <class Archive, class T>
void save(Archive& archive, const LimitedList<T>& list) {
  archive(static_cast<std::uint32_t>(list.items.size()));
  for (const T& each : list.items) {
    archive(each);
  }
}
template <class Archive, class T>
void load(Archive& archive, LimitedList<T>& list) {
  const std::uint32_t count = load_count(archive, list.most);
  list.items.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    archive(list.items.emplace_back());
  }
}
template <class Archive>
void save(Archive& archive, const LimitedText& text) {
  archive(static_cast<std::uint32_t>(text.text.size()),
          cereal::binary_data(text.text.data(), text.text.size()));
}
template <class Archive>
void load(Archive& archive, LimitedText& text) {
  text.text.resize(load_count(archive, text.most));
  archive(cereal::binary_data(text.text.data(), text.text.size()));
}

template <class Archive>
void serialize(Archive& archive, TuneKey& key) {
  archive(key.sizes, key.epilogue_hash, key.prologue_hash, key.attributes, key.kind, key.cores);
  archive(key.family, key.input, key.accumulator, key.output, key.operands, key.zero);
}
template <class Archive>
void serialize(Archive& archive, Rung& rung) {
  archive(rung.id, rung.text_hash, rung.low, rung.median);
}
template <class Archive>
void serialize(Archive& archive, Verified& verified) {
  archive(verified.id, verified.how, verified.text_hash);
}
template <class Archive>
void serialize(Archive& archive, Quarantined& quarantined) {
  archive(quarantined.id, quarantined.text_hash);
  archive(LimitedText{quarantined.reason, TuneEntry::kMostText});
}
template <class Archive>
void serialize(Archive& archive, TuneEvidence& evidence) {
  archive(evidence.ratio_low, evidence.ratio, evidence.ratio_high, evidence.spread);
  archive(evidence.pair_count, evidence.dirty_share, evidence.clock_mhz, evidence.load);
  archive(evidence.doubt);
}
template <class Archive>
void serialize(Archive& archive, TuneEntry& entry) {
  archive(entry.key, LimitedText{entry.label, TuneEntry::kMostText});
  archive(LimitedList<Rung>{entry.ladder, TuneEntry::kMostRungs}, entry.evidence);
  archive(LimitedList<Verified>{entry.verified, TuneEntry::kMostRemarks});
  archive(LimitedList<Quarantined>{entry.quarantined, TuneEntry::kMostRemarks});
  archive(entry.tuned_at, entry.slow_sittings);
}
template <class Archive>
void serialize(Archive& archive, WantedKey& wanted) {
  archive(wanted.key, LimitedText{wanted.label, TuneEntry::kMostText});
  archive(wanted.weight, wanted.calls);
}
template <class Archive>
void serialize(Archive& archive, TuneFile& file) {
  archive(LimitedText{file.fingerprint, TuneFile::kMostFingerprint});
  archive(LimitedList<TuneEntry>{file.entries, TuneFile::kMostEntries});
  archive(LimitedList<WantedKey>{file.wanted, TuneFile::kMostWanted});
}

namespace {

constexpr FileFormat kFormat{.magic = {'H', 'T', 'U', 'N', 'E'}, .version = 1};

// A stream buffer over bytes that it does not own.
class ByteBuffer final : public std::streambuf {
 public:
  explicit ByteBuffer(std::span<const std::byte> bytes) {
    // std::streambuf has no const areas; nothing writes to an input stream's.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    char* const first = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(first, first, first + bytes.size());
  }
  [[nodiscard]] bool is_at_end() const noexcept { return gptr() == egptr(); }
};

bool is_at_least_zero(double value) noexcept {
  return std::isfinite(value) && value >= 0;
}
bool is_at_least_zero(RunTime time) noexcept {
  return is_at_least_zero(time.count());
}

bool is_dtype(DType dtype) noexcept {
  return static_cast<int>(dtype) < kDTypeCount;
}

bool is_sound(const TuneKey& key) noexcept {
  return key.family >= TuneFamily::product && key.family <= TuneFamily::transfer &&
         is_dtype(key.input) && is_dtype(key.accumulator) && is_dtype(key.output) && key.zero == 0;
}

bool is_sound(const TuneEvidence& evidence) noexcept {
  return is_at_least_zero(evidence.ratio_low) && is_at_least_zero(evidence.ratio) &&
         is_at_least_zero(evidence.ratio_high) && is_at_least_zero(evidence.spread) &&
         evidence.pair_count >= 0 && is_at_least_zero(evidence.dirty_share) &&
         is_at_least_zero(evidence.clock_mhz) && is_at_least_zero(evidence.load) &&
         evidence.doubt <= Doubt::noise;
}

bool is_sound(const TuneEntry& entry) noexcept {
  return is_sound(entry.key) && is_sound(entry.evidence) &&
         std::ranges::all_of(entry.ladder,
                             [](const Rung& rung) {
                               return is_at_least_zero(rung.low) && is_at_least_zero(rung.median);
                             }) &&
         std::ranges::all_of(entry.verified, [](const Verified& verified) {
           return verified.how == VerifiedBy::same_bytes || verified.how == VerifiedBy::reference;
         });
}

bool is_sound(const WantedKey& wanted) noexcept {
  return is_sound(wanted.key) && is_at_least_zero(wanted.weight);
}

Error bad_payload(std::string_view what) {
  return Error{.code = ErrorCode::bad_format, .text = fmt::format("tuning results: {}", what)};
}

/// Returns whether the entry needs no further trial for now. Age is for the caller, who has a
/// clock.
bool is_settled(const TuneEntry& entry) noexcept {
  return !is_stale(entry, entry.tuned_at);
}

void merge_entries(TuneFile& file, const TuneFile& more) {
  std::unordered_map<TuneKey, std::size_t, TuneKeyHash> places;
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    places.emplace(file.entries[i].key, i);
  }
  for (const TuneEntry& each : more.entries) {
    const auto [place, is_new] = places.try_emplace(each.key, file.entries.size());
    if (is_new) {
      file.entries.push_back(each);
    } else {
      file.entries[place->second] = merged(file.entries[place->second], each);
    }
  }
}

void merge_wanted(TuneFile& file, const TuneFile& more) {
  std::unordered_map<TuneKey, std::size_t, TuneKeyHash> places;
  for (std::size_t i = 0; i < file.wanted.size(); ++i) {
    places.emplace(file.wanted[i].key, i);
  }
  for (const WantedKey& each : more.wanted) {
    const auto [place, is_new] = places.try_emplace(each.key, file.wanted.size());
    if (is_new) {
      file.wanted.push_back(each);
    } else if (each.weight > file.wanted[place->second].weight) {
      file.wanted[place->second] = each;
    }
  }
}

std::size_t size_of(const TuneFile& file) {
  return encode(file).size() + kCheckedHeaderBytes;
}

/// Keeps the first items that the remaining bytes and `most` have room for.
template <class T>
void keep_first(std::vector<T>& items,
                std::size_t most,
                std::size_t& bytes_left,
                const std::function<std::size_t(const T&)>& bytes_of) {
  std::size_t count = 0;
  while (count < std::min(most, items.size())) {
    const std::size_t bytes = bytes_of(items[count]);
    if (bytes > bytes_left) {
      break;
    }
    bytes_left -= bytes;
    ++count;
  }
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(count), items.end());
}

void apply_limits(TuneFile& file) {
  std::ranges::stable_sort(file.entries, std::ranges::greater(), &TuneEntry::tuned_at);
  std::ranges::stable_sort(file.wanted, std::ranges::greater(), &WantedKey::weight);
  const std::size_t empty = size_of({});
  std::size_t bytes_left = TuneFile::kMostBytes - size_of({.fingerprint = file.fingerprint});
  keep_first<TuneEntry>(
      file.entries, TuneFile::kMostEntries, bytes_left, [&](const TuneEntry& each) {
        return size_of({.entries = {each}}) - empty;
      });
  keep_first<WantedKey>(file.wanted, TuneFile::kMostWanted, bytes_left, [&](const WantedKey& each) {
    return size_of({.wanted = {each}}) - empty;
  });
}

}  // namespace

void merge_into(TuneFile& file, const TuneFile& more) {
  merge_entries(file, more);
  std::erase_if(file.wanted, [&](const WantedKey& wanted) {
    return std::ranges::any_of(more.entries, [&](const TuneEntry& each) {
      return each.key == wanted.key && is_settled(each);
    });
  });
  merge_wanted(file, more);
}

std::vector<std::byte> encode(const TuneFile& file) {
  std::ostringstream stream;
  cereal::PortableBinaryOutputArchive archive(
      stream, cereal::PortableBinaryOutputArchive::Options::LittleEndian());
  archive(file);
  const std::string_view text = stream.view();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<TuneFile> decode(std::span<const std::byte> payload) {
  TuneFile file;
  ByteBuffer buffer(payload);
  std::istream stream(&buffer);
  try {
    cereal::PortableBinaryInputArchive archive(stream);
    archive(file);
  } catch (const cereal::Exception& error) {
    return bad_payload(error.what());
  }
  if (!buffer.is_at_end()) {
    return bad_payload("bytes after the end");
  }
  const bool is_file_sound =
      std::ranges::all_of(file.entries, [](const TuneEntry& each) { return is_sound(each); }) &&
      std::ranges::all_of(file.wanted, [](const WantedKey& each) { return is_sound(each); });
  if (!is_file_sound) {
    return bad_payload("a value that its type does not have");
  }
  return file;
}

Result<TuneFile> read_tune_file(const std::filesystem::path& path) {
  std::error_code unknown;  // then read_checked_file() has the reason
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (!unknown && size > TuneFile::kMostBytes) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("file {}: has {} bytes, at most {} are possible",
                                     path.string(),
                                     size,
                                     TuneFile::kMostBytes)};
  }
  HEARTH_TRY(const std::vector<std::byte> payload, read_checked_file(path, kFormat));
  Result<TuneFile> file = decode(payload);
  if (!file.has_value()) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("file {}: {}", path.string(), file.error().text)};
  }
  return file;
}

Status write_tune_file(const std::filesystem::path& path, TuneFile file) {
  apply_limits(file);
  return write_checked_file(path, kFormat, encode(file));
}

}  // namespace hearth::detail
