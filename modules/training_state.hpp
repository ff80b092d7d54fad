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
#include <hearth/modules/weight_average.hpp>

#include <hearth/runtime/generator.hpp>

#include <filesystem>
#include <span>
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
/// What a run's state is taken from, or put into.
struct TrainingParts {
  std::vector<TensorRef> model;       ///< All its tensors.
  std::vector<TensorRef> parameters;  ///< Those that are trained.
  Optimizer& optimizer;
  WeightAverage* average = nullptr;  ///< Saved with the run, where there is one.
};
/// All tensors of a run under their names in its file. Waits for the step under way.
[[nodiscard]] std::vector<NamedTensor> training_tensors(const TrainingParts& parts, SourceLoc loc);
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> training_tensors(Model& model,
                                                        Optimizer& optimizer,
                                                        SourceLoc loc = SourceLoc::current()) {
  return training_tensors(TrainingParts{tensor_refs(model), parameter_refs(model), optimizer}, loc);
}
/// Errors: those of save_training().
void save_parts(const TrainingParts& parts,
                const std::filesystem::path& file,
                const TrainingProgress& progress,
                SourceLoc loc);

/// The contents of a file that fits.
struct LoadedTraining {
  std::vector<Tensor> tensors;  ///< As they stand in the file.
  double learning_rate = 0;
  std::int64_t step_count = 0;
  SkippedSteps skipped;
  std::int64_t average_updates = 0;
  TrainingProgress progress;
};
/// Waits until these tensors have values. Errors: DeviceError when one is poisoned.
void require_values(std::span<const Tensor> tensors, SourceLoc loc);
/// Changes nothing, and waits until the values are on their devices. Errors: those of
/// load_training().
[[nodiscard]] LoadedTraining read_parts(const TrainingParts& parts,
                                        const std::filesystem::path& file,
                                        SourceLoc loc);
/// Cannot fail half-way.
[[nodiscard]] TrainingProgress place_parts(const TrainingParts& parts,
                                           LoadedTraining loaded,
                                           SourceLoc loc);
}  // namespace detail

/// Writes the state of a run to `file`, making its folder if need be. Waits for the step under way.
///
/// Errors: ArgumentError naming a tensor of the model that is empty, or a note whose name begins
/// with "hearth."; DeviceError when one is poisoned; FileError io_error. The old file is kept.
template <Module Model>
void save_training(Model& model,
                   Optimizer& optimizer,
                   const TrainingProgress& progress,
                   const std::filesystem::path& file,
                   SourceLoc loc = SourceLoc::current()) {
  detail::save_parts({tensor_refs(model), parameter_refs(model), optimizer}, file, progress, loc);
}

/// Gives model and optimizer, on the devices where they are, the state in `file`; the caller seeks
/// its loaders and sets its generators by what is returned.
///
/// Waits for the step under way, so that nothing can fail once the first tensor is replaced.
///
/// Errors: FileError: not_found, io_error; bad_format when the file is damaged, was written by
/// another program, or is of another model or kind of optimizer, or of one of which other parts
/// are frozen; ArgumentError when value_and_grad tracks the model; DeviceError when a device does
/// not take the values; DeadlineExceeded when the step under way does not end. State that an older
/// version wrote in 16 bits is widened.
template <Module Model>
[[nodiscard]] TrainingProgress load_training(Model& model,
                                             Optimizer& optimizer,
                                             const std::filesystem::path& file,
                                             SourceLoc loc = SourceLoc::current()) {
  const detail::TrainingParts parts{tensor_refs(model), parameter_refs(model), optimizer};
  return detail::place_parts(parts, detail::read_parts(parts, file, loc), loc);
}

}  // namespace hearth
