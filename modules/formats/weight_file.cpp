#include <hearth/modules/weight_file.hpp>

#include "entry_reader.hpp"

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/host_upload.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth {

// The counter outlives the file: uploads in flight hold it.
struct WeightFile::Open {
  std::vector<detail::FilePart> parts;
  std::shared_ptr<std::atomic<std::size_t>> queued_bytes =
      std::make_shared<std::atomic<std::size_t>>(0);
};

namespace {

// Bytes of an upload that count as queued until the device has read them.
struct QueuedBytes {
  QueuedBytes(std::vector<std::byte> content, std::shared_ptr<std::atomic<std::size_t>> count)
      : bytes(std::move(content)), queued(std::move(count)) {
    queued->fetch_add(bytes.size(), std::memory_order_relaxed);
  }
  QueuedBytes(const QueuedBytes&) = delete;
  QueuedBytes& operator=(const QueuedBytes&) = delete;
  ~QueuedBytes() { queued->fetch_sub(bytes.size(), std::memory_order_relaxed); }

  std::vector<std::byte> bytes;
  std::shared_ptr<std::atomic<std::size_t>> queued;
};

void require_read(const Status& status, SourceLoc loc) {
  if (!status.has_value()) {
    detail::throw_file_error(status.error(), loc);
  }
}

}  // namespace

std::size_t stored_bytes(StoredType stored, DType dtype) noexcept {
  switch (stored) {
    case StoredType::i16:
    case StoredType::u16:
      return 2;
    case StoredType::u32:
      return 4;
    case StoredType::u64:
      return 8;
    case StoredType::same:
      break;
  }
  return static_cast<std::size_t>(size_bytes(dtype));
}

void detail::throw_file_error(Error error, SourceLoc loc) {
  error.location = loc;
  if (error.code == ErrorCode::out_of_memory) {
    throw OutOfMemory(std::move(error));
  }
  throw FileError(std::move(error));
}

void detail::refuse_file(ErrorCode code,
                         const std::filesystem::path& path,
                         std::string_view text,
                         SourceLoc loc) {
  throw FileError(Error{
      .code = code, .text = fmt::format("file {}: {}", path.string(), text), .location = loc});
}

WeightFile::WeightFile(detail::WeightFileContent content)
    : path_(std::move(content.path)),
      open_(std::make_shared<const Open>(Open{.parts = std::move(content.parts)})),
      metadata_(std::move(content.metadata)),
      entries_(std::move(content.entries)),
      main_part_(std::move(content.main_part)),
      remark_(std::move(content.remark)) {}

bool WeightFile::contains(std::string_view name) const noexcept {
  return std::ranges::find(entries_, name, &Entry::name) != entries_.end();
}

void WeightFile::require_there(SourceLoc loc) const {
  if (open_ == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "WeightFile: it was moved from",
                      .op = "WeightFile",
                      .location = loc});
  }
}

const WeightFile::Entry& WeightFile::at(std::string_view name, SourceLoc loc) const {
  require_there(loc);
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) {
    std::vector<std::string_view> names;
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      names.push_back(entry.name);
    }
    detail::refuse_file(ErrorCode::not_found,
                        path_,
                        fmt::format("no tensor '{}'; there are: {}", name, fmt::join(names, ", ")),
                        loc);
  }
  return *found;
}

std::vector<std::byte> WeightFile::bytes(const Entry& entry, SourceLoc loc) const {
  require_there(loc);
  Result<std::vector<std::byte>> content =
      host_vector<std::byte>(entry.size_bytes, "WeightFile::bytes", loc);
  require_read(content.status(), loc);
  const detail::EntryReader reader(open_->parts.at(entry.part), entry);
  require_read(reader.read_raw(0, content.value()), loc);
  return std::move(content).value();
}

Tensor WeightFile::small_tensor(const Entry& entry, const Device& device, SourceLoc loc) const {
  if (open_->queued_bytes->load(std::memory_order_relaxed) > kMostQueuedBytes) {
    device.catch_up_later(loc).get();
  }
  detail::EntryReader reader(open_->parts.at(entry.part), entry);
  Result<std::vector<std::byte>> content =
      host_vector<std::byte>(reader.size_bytes(), "a tensor of a file", loc);
  require_read(content.status(), loc);
  require_read(reader.read(0, content.value()), loc);
  const auto owner =
      std::make_shared<const QueuedBytes>(std::move(content).value(), open_->queued_bytes);
  return Tensor::from_owned_bytes(device, owner->bytes, owner, entry.dtype, entry.shape, loc);
}

Tensor WeightFile::tensor(std::string_view name, const Device& device, SourceLoc loc) const {
  const Entry& entry = at(name, loc);
  if (!entry.unsupported.empty()) {
    detail::refuse_file(ErrorCode::bad_format,
                        path_,
                        fmt::format("tensor '{}': {}", entry.name, entry.unsupported),
                        loc);
  }
  const WeightScope weights(device);
  detail::EntryReader reader(open_->parts.at(entry.part), entry);
  if (reader.size_bytes() <= detail::kUploadPieceBytes) {
    return small_tensor(entry, device, loc);
  }
  Result<Tensor> loaded = detail::upload_in_pieces(
      device,
      entry.dtype,
      entry.shape,
      [&reader](std::size_t offset_bytes, std::span<std::byte> piece) {
        return reader.read(offset_bytes, piece);
      },
      loc);
  require_read(loaded.status(), loc);
  return std::move(loaded).value();
}

void WeightFile::require_exactly(std::span<const NamedTensor> expected, SourceLoc loc) const {
  static_cast<void>(match(expected, {}, loc));
}

void WeightFile::record_load(const Device& device) const {
  device.log().debug([&] {
    std::size_t bytes = 0;
    for (const Entry& entry : entries_) {
      bytes += entry.size_bytes;
    }
    return fmt::format("loaded {} tensors, {} bytes, from {} to {}{}",
                       entries_.size(),
                       bytes,
                       path_.string(),
                       device.name(),
                       remark_);
  });
}

}  // namespace hearth
