// The readers of data and model files. They take paths: each input goes to a file of this process.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <hearth/modules/idx.hpp>
#include <hearth/modules/safetensors.hpp>

#include "fuzz_targets.hpp"

namespace hearth::fuzz {
namespace {

class InputFile {
 public:
  explicit InputFile(Input input)
      : path_(std::filesystem::temp_directory_path() /
              ("hearth-fuzz-" + std::to_string(getpid()))) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

void require(bool is_true, const std::string& what) {
  if (!is_true) {
    throw FuzzFailure(what);
  }
}

void require_format_error(const FileError& error, const InputFile& file) {
  require(error.code() == ErrorCode::bad_format &&
              error.error().text.find(file.path().string()) != std::string::npos,
          "refused without the file's name: " + error.error().to_string());
}

}  // namespace

void fuzz_idx(Input input) {
  const InputFile file(input);
  try {
    const IdxArray array = read_idx(file.path());
    std::size_t count = 1;
    for (const std::int64_t size : array.dims) {
      require(size >= 0, "a negative dimension");
      count *= static_cast<std::size_t>(size);
    }
    require(count == array.values.size(), "the values are not as many as the dimensions say");
  } catch (const FileError& error) {
    require_format_error(error, file);
  }
}

void fuzz_safetensors(Input input) {
  const InputFile file(input);
  try {
    const SafetensorsFile read = SafetensorsFile::read(file.path());
    std::size_t end = 0;
    for (const SafetensorsFile::Entry& entry : read.entries()) {
      require(entry.offset_bytes == end, "the tensors do not follow one another");
      require(!entry.unsupported.empty() ||
                  entry.size_bytes == static_cast<std::size_t>(entry.shape.element_count() *
                                                               size_bytes(entry.dtype)),
              "a tensor's size is not that of its shape");
      const std::vector<std::byte> bytes = read.bytes(entry);
      require(bytes.size() == entry.size_bytes, "bytes are missing");
      unsigned sum = 0;
      for (const std::byte each : bytes) {
        sum += static_cast<unsigned>(each);
      }
      require(sum <= 255U * bytes.size(), "bytes that are no bytes");
      require(&read.at(entry.name) == &entry, "a name stands for another tensor");
      end += entry.size_bytes;
    }
  } catch (const FileError& error) {
    require_format_error(error, file);
  }
}

}  // namespace hearth::fuzz
