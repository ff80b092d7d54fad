#include "cache_save.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/owned_thread.hpp>

namespace hearth::gpu {
namespace {

// Deletes the oldest quarter of the files. A file that cannot be read or removed is left for
// another time.
void drop_oldest(const std::filesystem::path& folder, std::string_view ending, std::size_t most) {
  using Age = std::pair<std::filesystem::file_time_type, std::filesystem::path>;
  std::error_code failed;
  std::vector<Age> files;
  std::filesystem::directory_iterator each(folder, failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code unread;
    const auto age = each->last_write_time(unread);
    if (!unread && each->is_regular_file(unread) && each->path().string().ends_with(ending)) {
      files.emplace_back(age, each->path());
    }
  }
  if (files.size() <= most) {
    return;
  }
  std::ranges::sort(files);
  files.resize(files.size() - most * 3 / 4);
  for (const Age& old : files) {
    std::filesystem::remove(old.second, failed);
  }
}

}  // namespace

void CacheSave::add(std::filesystem::path path,
                    const FileFormat& format,
                    std::vector<std::byte> bytes) {
  files_.push_back({std::move(path), format, std::move(bytes)});
}

void CacheSave::keep_most(std::filesystem::path folder, std::string ending, std::size_t most) {
  folders_.push_back({std::move(folder), std::move(ending), most});
}

// Two processes that save at the same time write the same bytes.
Status CacheSave::write() const {
  Status all;
  for (const File& file : files_) {
    Status status = make_folder(file.path.parent_path());
    if (status.has_value()) {
      status = write_cache_file(file.path, file.format, file.bytes);
    }
    if (all.has_value()) {
      all = std::move(status);
    }
  }
  for (const Folder& folder : folders_) {
    drop_oldest(folder.path, folder.ending, folder.most);
  }
  return all;
}

void CacheSave::write_within(CacheSave files, const SaveTerms& terms, const std::string& device) {
  if (files.is_empty()) {
    return;
  }
  struct Shared {
    CacheSave files;
    Status status = {};
  };
  const auto shared = std::make_shared<Shared>(Shared{.files = std::move(files)});
  const auto write = [shared] {
    try {
      shared->status = shared->files.write();
    } catch (const std::exception& thrown) {
      shared->status = Error{.code = ErrorCode::out_of_memory, .text = thrown.what()};
    }
  };
  bool has_ended = true;
  if (terms.executor == nullptr || terms.executor->is_manual()) {
    write();
  } else {
    try {
      hearth::detail::OwnedThread thread(
          *terms.executor,
          {.name = "save"},
          {.subject = fmt::format("the thread that caches the compiled kernels of {}", device),
           .observe = [] { return std::string("writes to a disk that is slow"); },
           .limit = terms.limit,
           .log = terms.log},
          write);
      has_ended = thread.end(Deadline::in(terms.limit));
    } catch (const std::exception&) {
      write();  // the system gives no thread
    }
  }
  if (has_ended && !shared->status.has_value() && terms.log != nullptr) {
    terms.log->warn(fmt::format("{}: compiled kernels are not cached for the next run: {}",
                                device,
                                shared->status.error().text));
  }
}

}  // namespace hearth::gpu
