// The weights of a module on disk, or anything else that has visit(): an optimizer's state.
// Stateless. Threads: as the module. Invariant: a module is loaded whole or stays as it was.
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

/// The file that load_weights() reads: `where` itself when it ends in .safetensors, is a file
/// whatever it is called, or is not there and ends as files of weights do (.bin, .pt, .pth, …);
/// else model.safetensors in the folder `where`. What save_weights() takes, it writes to that file.
[[nodiscard]] std::filesystem::path weights_file(const std::filesystem::path& where);

/// Makes a folder, if need be, and locks it for one run: two runs would each replace the other's
/// files. A Trainer locks its own folder. Reading needs no lock. The file training.lock in it names
/// the holder, as long as the lock lives; after a kill the next run takes it over.
///
/// Errors: FileError io_error, also when another run has the folder: it names process, program,
/// host and since when. On a file system without locks the folder is not kept
/// (FileLock::is_held()).
[[nodiscard]] FileLock lock_folder(const std::filesystem::path& folder,
                                   SourceLoc loc = SourceLoc::current());

namespace detail {
/// Errors: ArgumentError for what save_weights() does not write to.
void require_weights_name(const std::filesystem::path& where, SourceLoc loc);
void write_weights(const std::filesystem::path& where,
                   const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata,
                   SourceLoc loc);
}  // namespace detail

/// Writes a module's tensors to `where`: a file whose name ends in .safetensors, or a folder, which
/// is made if need be and gets a model.safetensors. Waits for the values. Tied weights are one
/// entry, under the first of their names; load_weights() into a module with the same ties gives it
/// to all.
///
/// Errors: ArgumentError for a file of another name, or an ending that other programs give to files
/// of weights (.bin, .pt, .pth, .ckpt, .h5, .npz, .onnx, .gguf, …), unless that is a folder, for
/// metadata whose name begins with "hearth.", and naming a tensor that is empty; DeviceError when
/// one is poisoned; FileError io_error. The old file is kept.
template <Module Model>
void save_weights(const Model& model,
                  const std::filesystem::path& where,
                  const Metadata& metadata = {},
                  SourceLoc loc = SourceLoc::current()) {
  detail::write_weights(where, named_tensors(model), metadata, loc);
}

/// What load_weights() with options found.
struct LoadedWeights {
  Metadata metadata;
  std::vector<std::string> missing;  ///< Tensors of the model that the file lacks.
  std::vector<std::string> unused;   ///< Tensors of the file that the model lacks.
};

/// Replaces tensors of a module by those of a file that may have other names, or more or fewer of
/// them: a part of a network, another program's names. On the devices where they are; sets paths.
/// `where`: a safetensors file of any name, or a folder with a model.safetensors.
///
///   load_weights(model, "gpt2.safetensors",
///                {.renames = {{"^h\\.", "layers."}}, .allow_unused = true});
///
/// Errors: those of SafetensorsFile::read() and match(): what is not allowed to differ, and shapes,
/// which never are; ArgumentError naming a tensor that value_and_grad tracks. The module stays as
/// it was then.
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
    file.note_load(refs.front().tensor->device());
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

/// Replaces a module's tensors by those of a file, on the devices where they are; sets paths.
/// Returns the file's metadata.
///
/// Errors: FileError: those of SafetensorsFile::read(); bad_format when names, types or shapes are
/// not exactly the module's.
template <Module Model>
Metadata load_weights(Model& model,
                      const std::filesystem::path& where,
                      SourceLoc loc = SourceLoc::current()) {
  return load_weights(model, where, LoadWeightsOptions{}, loc).metadata;
}

// For what is no module.
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
