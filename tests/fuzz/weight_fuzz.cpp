// The readers of weights that other programs wrote. They take paths: each input goes to a file of a
// folder of this process. A small device reads the tensors that a file offers.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/weight_file.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "fuzz_targets.hpp"
#include "tests/support/torch_bytes.hpp"

namespace hearth::fuzz {
namespace {

namespace fs = std::filesystem;

class InputFolder final {
 public:
  InputFolder()
      : path_(fs::temp_directory_path() / ("hearth-fuzz-" + std::to_string(getpid()) + "-folder")) {
    fs::create_directories(path_);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  ~InputFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path write(const char* name, Input input) const {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    return path_ / name;
  }

 private:
  fs::path path_;
};

void require_true(bool is_true, const std::string& what) {
  if (!is_true) {
    throw FuzzFailure(what);
  }
}

// Reads what a file offers, up to a size that no small file should pass by accident.
void read_tensors(const WeightFile& file) {
  constexpr std::int64_t kMostElements = 1 << 16;
  constexpr std::size_t kMostTensors = 64;
  const Runtime runtime({.devices = {{.name = "reference:0"}}});
  const Device device = runtime.device("reference:0");
  std::size_t count = 0;
  for (const WeightFile::Entry& entry : file.entries()) {
    if (!entry.unsupported.empty() || entry.shape.element_count() > kMostElements ||
        ++count > kMostTensors) {
      continue;
    }
    require_true(file.bytes(entry).size() == entry.size_bytes, "bytes are missing");
    try {
      const Tensor tensor = file.tensor(entry.name, device);
      require_true(
          tensor.read_bytes().get().size() ==
              static_cast<std::size_t>(entry.shape.element_count() * size_bytes(entry.dtype)),
          "a tensor's size is not that of its shape");
    } catch (const FileError& error) {  // a bool of another value, or a number that is too large
      require_true(error.code() == ErrorCode::bad_format, error.what());
    }
  }
}

void read_or_refuse(const fs::path& path) {
  try {
    read_tensors(read_weights(path));
  } catch (const FileError& error) {
    require_true(error.error().text.find(path.parent_path().string()) != std::string::npos,
                 "refused without the file's name: " + error.error().to_string());
  }
}

}  // namespace

void fuzz_torch_file(Input input) {
  const InputFolder folder;
  read_or_refuse(folder.write("model.pt", input));
}

void fuzz_weight_index(Input input) {
  const InputFolder folder;
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string shard = testing::number_bytes(std::uint64_t{header.size()}) + header + "12";
  static_cast<void>(folder.write("one.safetensors", std::as_bytes(std::span(shard))));
  read_or_refuse(folder.write("model.safetensors.index.json", input));
}

}  // namespace hearth::fuzz
