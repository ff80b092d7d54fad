// The readers behind read_weights(), one for each format. Private to modules. Stateless; any
// thread.
#pragma once

#include <hearth/modules/weight_file.hpp>

#include <cstdint>
#include <filesystem>

namespace hearth::detail {

/// Reads an index: a JSON object whose weight_map names the file of each tensor. The files lie in
/// the folder of the index or below it. The index decides: other tensors of its files take no part.
///
/// Errors: FileError: bad_format naming a missing file, or a tensor that its file lacks; those of
/// the files.
[[nodiscard]] WeightFileContent read_weight_index(const std::filesystem::path& path, SourceLoc loc);

/// Reads the file of a format that its first bytes identify; no index.
///
/// Errors: as read_weights().
[[nodiscard]] WeightFileContent read_one_file(const std::filesystem::path& path, SourceLoc loc);

/// Forms of the files of torch.save().
enum class TorchForm : std::uint8_t {
  zip,     ///< A zip archive, since PyTorch 1.6; TorchScript's archives too.
  legacy,  ///< Pickles, and the storages behind them.
};
/// Reads a file of torch.save(). Executes nothing: a tensor that an unknown class or function makes
/// is unsupported, and its reason names that.
///
/// Errors: FileError bad_format.
[[nodiscard]] WeightFileContent read_torch_file(FileReader reader, TorchForm form, SourceLoc loc);

}  // namespace hearth::detail
