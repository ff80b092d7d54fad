#include <hearth/modules/checkpoint.hpp>

#include <hearth/runtime/base/file.hpp>

namespace hearth {

std::filesystem::path weights_file(const std::filesystem::path& where) {
  return where.extension() == ".safetensors" ? where : where / "model.safetensors";
}

namespace detail {

void write_weights(const std::filesystem::path& where,
                   const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata,
                   SourceLoc loc) {
  const std::filesystem::path file = weights_file(where);
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
