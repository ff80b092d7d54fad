#include <hearth/modules/checkpoint.hpp>

#include <hearth/runtime/base/file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurs = ".safetensors";

bool is_folder(const fs::path& where) {
  std::error_code ignored;
  return fs::is_directory(where, ignored);
}

bool is_file(const fs::path& where) {
  std::error_code ignored;
  return fs::exists(where, ignored) && !fs::is_directory(where, ignored);
}

// Whether a name has an ending that programs give to weight files: "w.pt". Any other ending is part
// of a folder's name: "epoch-0.5".
bool names_weights(const fs::path& where) {
  static constexpr std::array<std::string_view, 23> kEndings{
      kOurs, ".safetensor", ".bin", ".pt",  ".pth",     ".pkl",     ".pickle", ".ckpt",
      ".h5", ".hdf5",       ".npy", ".npz", ".onnx",    ".gguf",    ".ggml",   ".keras",
      ".pb", ".tflite",     ".bpk", ".mpk", ".msgpack", ".weights", ".params"};
  std::string ending = where.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char letter) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

bool is_file_of_weights(const fs::path& where) {
  return where.extension() == kOurs || is_file(where) ||
         (names_weights(where) && !is_folder(where));
}

}  // namespace

fs::path weights_file(const fs::path& where) {
  return is_file_of_weights(where) ? where : where / "model.safetensors";
}

FileLock lock_folder(const fs::path& folder, SourceLoc loc) {
  const Status made = make_folder(folder);
  if (!made.has_value()) {
    detail::throw_file_error(made.error(), loc);
  }
  Result<FileLock> lock = FileLock::claim(folder / "training.lock");
  if (!lock.has_value()) {
    Error error = lock.error();
    error.text = fmt::format(
        "folder {}: cannot be taken for this run: {}; each run needs a folder "
        "of its own",
        folder.string(),
        error.text);
    detail::throw_file_error(std::move(error), loc);
  }
  return std::move(lock).value();
}

namespace detail {

fs::path weights_to_read(const fs::path& where) {
  fs::path file = weights_file(where);
  if (file == where || is_file(file)) {
    return file;
  }
  for (const char* const name :
       {"model.safetensors.index.json", "pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    if (is_file(where / name)) {
      return where / name;
    }
  }
  return file;
}

void require_loadable(const std::vector<NamedTensor>& tensors, SourceLoc loc) {
  for (const NamedTensor& named : tensors) {
    require_tensor("load_weights", named.name, named.tensor, loc);
    require_untracked("load_weights", named.name, named.tensor, loc);
  }
}

void require_weights_name(const fs::path& where, SourceLoc loc) {
  if (where.extension() == kOurs || !is_file_of_weights(where)) {
    return;
  }
  fs::path file = where;
  if (names_weights(where)) {
    file.replace_extension();
  }
  file += kOurs;
  throw_error(
      Error{.code = ErrorCode::invalid_argument,
            .text = fmt::format("save_weights: '{}' {}: weights go into a file whose name ends in "
                                ".safetensors, or into a folder, as model.safetensors: write '{}'",
                                where.string(),
                                is_file(where) ? "is a file of another name" : "has another ending",
                                file.string()),
            .op = "save_weights",
            .location = loc});
}

void write_weights(const fs::path& where,
                   const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata,
                   SourceLoc loc) {
  require_weights_name(where, loc);
  require_own_names(metadata, "save_weights", loc);
  for (const NamedTensor& named : tensors) {
    require_tensor("save_weights", named.name, named.tensor, loc);
  }
  const fs::path file = weights_file(where);
  if (file != where) {
    const Status made = make_folder(where);
    if (!made.has_value()) {
      throw_file_error(made.error(), loc);
    }
  }
  write_safetensors(file, tensors, metadata, loc);
}

}  // namespace detail
}  // namespace hearth
