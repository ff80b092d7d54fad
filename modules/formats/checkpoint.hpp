// Saves and loads the weights of a module, or of any type with visit(), such as an optimizer.
// Stateless. Threads: as the module. Invariant: a module is loaded whole or not changed.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/runtime/base/file_lock.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// Returns the file that save_weights() writes, and that load_weights() reads if it exists. It is
/// `where` itself if that ends in .safetensors or is a file of any name. It is also `where` if that
/// does not exist and has an ending of weight files (.bin, .pt, .pth, …). Otherwise it is
/// model.safetensors in the folder `where`.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& where);

/// Creates a folder if it does not exist, and locks it for one run, so that no second run replaces
/// its files. A Trainer locks its own folder. Reading needs no lock. The file training.lock in it
/// names the holder while the lock lives. After a kill the next run takes the lock over.
///
/// Errors: FileError io_error, also when another run holds the lock: it names process, program,
/// host and start time. On a file system without locks the folder is not locked
/// (FileLock::is_held()).
[[nodiscard]] FileLock lock_folder(const std::filesystem::path& folder,
                                   SourceLoc loc = SourceLoc::current());

namespace detail {
/// Returns the file that load_weights() reads from `where`: weights_file(), or another program's
/// file of weights in the folder `where` if that lacks model.safetensors.
[[nodiscard]] std::filesystem::path weights_to_read(const std::filesystem::path& where);
/// Checks that load_weights() may replace these tensors.
///
/// Errors: ArgumentError naming an empty or a tracked tensor.
void require_loadable(const std::vector<NamedTensor>& tensors, SourceLoc loc);
/// Checks that save_weights() can write to `where`.
///
/// Errors: ArgumentError otherwise.
void require_weights_name(const std::filesystem::path& where, SourceLoc loc);
void write_weights(const std::filesystem::path& where,
                   const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata,
                   SourceLoc loc);
}  // namespace detail

/// Writes a module's tensors to `where`: a file whose name ends in .safetensors, or a folder, which
/// is created if needed and gets a model.safetensors. Waits for the values. A tied tensor is one
/// entry, under its first name; load_weights() into a module with the same ties restores all names.
///
/// Errors: ArgumentError for an existing file whose name does not end in .safetensors;
/// ArgumentError for an ending that other programs give to weight files (.bin, .pt, .pth, .ckpt,
/// .h5, .npz, .onnx, .gguf, …) unless that is a folder; ArgumentError for metadata whose name
/// begins with "hearth.", and for an empty tensor; DeviceError when one is poisoned; FileError
/// io_error. On any error the old file is kept.
template <Module Model>
void save_weights(const Model& model,
                  const std::filesystem::path& where,
                  const Metadata& metadata = {},
                  SourceLoc loc = SourceLoc::current()) {
  detail::write_weights(where, named_tensors(model), metadata, loc);
}

/// Result of load_weights() with options.
struct LoadedWeights {
  Metadata metadata;
  std::vector<std::string> missing;  ///< Tensors of the model that the file lacks.
  std::vector<std::string> unused;   ///< Tensors of the file that the model lacks.
  /// Unused tensors that the library cannot represent: "name: reason".
  std::vector<std::string> skipped;
};

/// Replaces tensors of a module by those of a file with other names, or with more or fewer tensors.
/// The file may hold part of a network, or come from another program. Tensors stay on their
/// devices. Sets paths. `where`: a file that read_weights() reads, whatever its name, or a folder
/// with model.safetensors, model.safetensors.index.json, pytorch_model.bin.index.json or
/// pytorch_model.bin, the first of them that exists.
///
///   load_weights(model, "gpt2.safetensors",
///                {.renames = {{"^h\\.", "layers."}}, .allow_unused = true});
///
/// Errors: those of read_weights(), WeightFile::match() and WeightFile::tensor(), for every
/// difference that `options` do not permit; shapes must always match. ArgumentError naming a tensor
/// that value_and_grad tracks. On any error the module is unchanged.
template <Module Model>
LoadedWeights load_weights(Model& model,
                           const std::filesystem::path& where,
                           const LoadWeightsOptions& options,
                           SourceLoc loc = SourceLoc::current()) {
  detail::require_loadable(named_tensors(model), loc);
  const WeightFile file = read_weights(detail::weights_to_read(where), loc);
  WeightMatches matches = file.match(named_tensors(model), options, loc);
  const std::vector<TensorRef> refs = tensor_refs(model);
  std::vector<Tensor> loaded(refs.size());
  const auto replace = [&](std::size_t i) {
    if (loaded[i].is_valid()) {
      const detail::SoleName sole(refs[i]);
      *refs[i].tensor = std::move(loaded[i]);
    }
  };
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto found = matches.names.find(refs[i].path);
    if (found == matches.names.end()) {
      continue;
    }
    const Tensor& old = *refs[i].tensor;
    const WeightScope weights(old.device());
    loaded[i] = file.tensor(found->second, old.device(), loc).to(old.dtype(), loc);
    loaded[i].set_path(refs[i].path);
    if (options.one_by_one) {
      replace(i);
    }
  }
  if (!refs.empty()) {
    file.record_load(refs.front().tensor->device());
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    replace(i);
  }
  return {.metadata = file.metadata(),
          .missing = std::move(matches.missing),
          .unused = std::move(matches.unused),
          .skipped = std::move(matches.skipped)};
}

/// Replaces a module's tensors by those of a file. Tensors stay on their devices. Sets paths.
/// Returns the file's metadata.
///
/// Errors: FileError: those of read_weights() and WeightFile::tensor(); bad_format when names,
/// dtypes or shapes differ from the module's.
template <Module Model>
Metadata load_weights(Model& model,
                      const std::filesystem::path& where,
                      SourceLoc loc = SourceLoc::current()) {
  return load_weights(model, where, LoadWeightsOptions{}, loc).metadata;
}

// Overloads for types that are no modules: each fails with a readable static_assert.
template <class Model>
requires(!Module<Model>) void save_weights(const Model& /*model*/,
                                           const std::filesystem::path& /*where*/,
                                           const Metadata& /*metadata*/ = {}) {
  static_assert(detail::refuse_no_module<Model>());
}
template <class Model>
requires(!Module<Model>) Metadata
    load_weights(Model& /*model*/, const std::filesystem::path& /*where*/) {
  static_assert(detail::refuse_no_module<Model>());
  return {};
}

}  // namespace hearth
