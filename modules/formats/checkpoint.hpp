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

/// Returns the file that load_weights() reads; save_weights() writes to the same one. It is `where`
/// itself if that ends in .safetensors or is a file of any name. It is also `where` if that does
/// not exist and has an ending of weight files (.bin, .pt, .pth, …). Otherwise it is
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
};

/// Replaces tensors of a module by those of a file with other names, or with more or fewer tensors.
/// The file may hold part of a network, or come from another program. Tensors stay on their
/// devices. Sets paths. `where`: a safetensors file of any name, or a folder with a
/// model.safetensors.
///
///   load_weights(model, "gpt2.safetensors",
///                {.renames = {{"^h\\.", "layers."}}, .allow_unused = true});
///
/// Errors: those of SafetensorsFile::read() and match(), for every difference that `options` do not
/// permit; shapes must always match. ArgumentError naming a tensor that value_and_grad tracks. On
/// any error the module is unchanged.
template <Module Model>
LoadedWeights load_weights(Model& model,
                           const std::filesystem::path& where,
                           const LoadWeightsOptions& options,
                           SourceLoc loc = SourceLoc::current()) {
  const std::vector<NamedTensor> wanted = named_tensors(model);
  for (const NamedTensor& named : wanted) {
    detail::require_tensor("load_weights", named.name, named.tensor, loc);
    detail::require_untracked("load_weights", named.name, named.tensor, loc);
  }
  const SafetensorsFile file = SafetensorsFile::read(weights_file(where), loc);
  WeightMatches matches = file.match(wanted, options, loc);
  const std::vector<TensorRef> refs = tensor_refs(model);
  std::vector<Tensor> loaded(refs.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto found = matches.names.find(refs[i].path);
    if (found == matches.names.end()) {
      continue;
    }
    const Tensor& old = *refs[i].tensor;
    const WeightScope weights(old.device());
    loaded[i] = file.tensor(found->second, old.device(), loc).to(old.dtype(), loc);
    loaded[i].set_path(refs[i].path);
  }
  if (!refs.empty()) {
    file.record_load(refs.front().tensor->device());
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (loaded[i].is_valid()) {
      const detail::SoleName sole(refs[i]);
      *refs[i].tensor = std::move(loaded[i]);
    }
  }
  return {.metadata = file.metadata(),
          .missing = std::move(matches.missing),
          .unused = std::move(matches.unused)};
}

/// Replaces a module's tensors by those of a file. Tensors stay on their devices. Sets paths.
/// Returns the file's metadata.
///
/// Errors: FileError: those of SafetensorsFile::read(); bad_format when names, dtypes or shapes
/// differ from the module's.
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
