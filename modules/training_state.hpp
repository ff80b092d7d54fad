// What a training run needs to go on where it stopped: weights, optimizer, generators and the place
// in the data, in one file. A run that stops anywhere and goes on from it computes the same bits as
// one that never stopped.
// Stateless. Threads: as the module.
// Invariants: (1) the file is replaced in one step: a process that is killed while it saves leaves
// the old one; (2) a run is loaded whole or stays as it was.
#pragma once

#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/safetensors.hpp>

#include <hearth/runtime/generator.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

/// The part of a run's state that is no tensor.
struct TrainingProgress {
  LoaderCursor cursor;                     ///< The batch to be read next.
  std::vector<Generator> generators = {};  ///< One a rank, in order.
  Metadata notes = {};  ///< What the program wants to know again; names without "hearth.".
};

namespace detail {
/// The tensors of model and optimizer under their names in the file. Waits for the step under way.
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> training_tensors(Model& model,
                                                        Optimizer& optimizer,
                                                        SourceLoc loc = SourceLoc::current()) {
  optimizer.prepare(model, loc);
  std::vector<NamedTensor> all;
  const auto add = [&](const std::string& path, const Tensor& tensor) {
    all.push_back({path, tensor});
  };
  visit_once(model, "model", add);
  std::as_const(optimizer).visit("optimizer", add);
  return all;
}
/// Errors: those of write_safetensors(); FileError io_error when the folder cannot be made.
void write_training(const std::filesystem::path& file,
                    const std::vector<NamedTensor>& tensors,
                    Optimizer& optimizer,
                    const TrainingProgress& progress,
                    SourceLoc loc);

/// The contents of a file that fits.
struct LoadedTraining {
  std::vector<Tensor> tensors;  ///< As training_tensors() lists them.
  double learning_rate = 0;
  std::int64_t step_count = 0;
  SkippedSteps skipped;
  TrainingProgress progress;
};
/// `expected`: what training_tensors() lists; `parameters`: what named_parameters() does.
[[nodiscard]] LoadedTraining read_training(const std::filesystem::path& file,
                                           const std::vector<NamedTensor>& expected,
                                           const std::vector<NamedTensor>& parameters,
                                           SourceLoc loc);
}  // namespace detail

/// Writes the state of a run to `file`, making its folder if need be. Waits for the step under way.
///
/// Errors: DeviceError when a tensor is poisoned; FileError io_error. The old file is kept.
template <Module Model>
void save_training(Model& model,
                   Optimizer& optimizer,
                   const TrainingProgress& progress,
                   const std::filesystem::path& file,
                   SourceLoc loc = SourceLoc::current()) {
  detail::write_training(
      file, detail::training_tensors(model, optimizer, loc), optimizer, progress, loc);
}

/// Gives model and optimizer, on the devices where they are, the state in `file`; the caller seeks
/// its loaders and sets its generators by what is returned.
///
/// Waits for the step under way, so that nothing can fail once the first tensor is replaced.
///
/// Errors: FileError: not_found, io_error; bad_format when the file is damaged, was written by
/// another program, or is of another model or kind of optimizer; DeadlineExceeded when the step
/// under way does not end.
template <Module Model>
[[nodiscard]] TrainingProgress load_training(Model& model,
                                             Optimizer& optimizer,
                                             const std::filesystem::path& file,
                                             SourceLoc loc = SourceLoc::current()) {
  detail::LoadedTraining loaded = detail::read_training(
      file, detail::training_tensors(model, optimizer, loc), named_parameters(model), loc);
  std::vector<TensorRef> refs = tensor_refs(model);
  for (TensorRef& ref : tensor_refs(optimizer)) {
    refs.push_back(std::move(ref));
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    loaded.tensors[i].set_path(refs[i].path);
  }
  optimizer.set_learning_rate(loaded.learning_rate, loc);
  optimizer.set_step_count(loaded.step_count, loaded.skipped, loc);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const detail::SoleName sole(refs[i]);
    *refs[i].tensor = std::move(loaded.tensors[i]);
  }
  return std::move(loaded.progress);
}

}  // namespace hearth
