// Saves and loads all that a training run needs to resume: weights, optimizer, generators and data
// position, in one file. A resumed run computes the same bits as one that never stopped.
// Stateless. Threads: as the module.
// Invariants: (1) the file is replaced atomically: a process killed while it saves leaves the old
// file; (2) a run is loaded whole or not changed.
#pragma once

#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/loss_scaler.hpp>
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

/// The parts of a run's state that are not tensors.
struct TrainingProgress {
  LoaderCursor cursor;                     ///< Position of the next batch.
  std::vector<Generator> generators = {};  ///< One per rank, in order.
  Metadata notes = {};  ///< Values of the program; names must not begin with "hearth.".
};

namespace detail {
/// The objects whose state is saved or loaded.
struct TrainingParts {
  std::vector<TensorRef> model;       ///< All tensors of the model.
  std::vector<TensorRef> parameters;  ///< The model's parameters.
  Optimizer& optimizer;
  WeightAverage* average = nullptr;  ///< Saved with the run; null: none.
  LossScaler* scaler = nullptr;      ///< Its scale and counts are saved with the run; null: none.
};
/// All tensors of a run under their names in its file. Waits for the step in flight.
[[nodiscard]] std::vector<NamedTensor> training_tensors(const TrainingParts& parts, SourceLoc loc);
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> training_tensors(Model& model,
                                                        Optimizer& optimizer,
                                                        SourceLoc loc = SourceLoc::current()) {
  return training_tensors(TrainingParts{tensor_refs(model), parameter_refs(model), optimizer}, loc);
}
/// Writes the file of save_training(). Errors: those of save_training().
void save_parts(const TrainingParts& parts,
                const std::filesystem::path& file,
                const TrainingProgress& progress,
                SourceLoc loc);

/// The validated contents of a file.
struct LoadedTraining {
  std::vector<Tensor> tensors;  ///< In the order of training_tensors().
  double learning_rate = 0;
  std::int64_t step_count = 0;
  SkippedSteps skipped;
  std::int64_t average_updates = 0;
  TrainingProgress progress;
};
/// Waits until these tensors have values.
///
/// Errors: DeviceError when one is poisoned.
void require_values(std::span<const Tensor> tensors, SourceLoc loc);
/// Reads a file, and waits until its values are on their devices. Changes no part of the run.
///
/// Errors: those of load_training().
[[nodiscard]] LoadedTraining read_parts(const TrainingParts& parts,
                                        const std::filesystem::path& file,
                                        SourceLoc loc);
/// Assigns the loaded state to the parts. Cannot fail half-way.
[[nodiscard]] TrainingProgress place_parts(const TrainingParts& parts,
                                           LoadedTraining loaded,
                                           SourceLoc loc);
}  // namespace detail

/// Writes the state of a run to `file`, creating its folder if needed. Waits for the step in
/// flight.
///
/// Errors: ArgumentError naming an empty tensor of the model, or a note whose name begins with
/// "hearth."; DeviceError when a tensor is poisoned; FileError io_error. On any error the old file
/// is kept.
template <Module Model>
void save_training(Model& model,
                   Optimizer& optimizer,
                   const TrainingProgress& progress,
                   const std::filesystem::path& file,
                   SourceLoc loc = SourceLoc::current()) {
  detail::save_parts({tensor_refs(model), parameter_refs(model), optimizer}, file, progress, loc);
}

/// Also writes the scale and the counts of a loss scaler.
template <Module Model>
void save_training(Model& model,
                   Optimizer& optimizer,
                   LossScaler& scaler,
                   const TrainingProgress& progress,
                   const std::filesystem::path& file,
                   SourceLoc loc = SourceLoc::current()) {
  detail::save_parts({.model = tensor_refs(model),
                      .parameters = parameter_refs(model),
                      .optimizer = optimizer,
                      .scaler = &scaler},
                     file,
                     progress,
                     loc);
}

/// Loads the state in `file` into model and optimizer, on their devices. The caller seeks its
/// loaders and sets its generators from the result.
///
/// Waits for the step in flight, so that nothing can fail after the first tensor is replaced.
/// 16-bit state in older files is widened.
///
/// Errors: FileError: not_found, io_error; bad_format when the file is damaged, was written by
/// another program, or belongs to another model, kind of optimizer or set of frozen parts;
/// ArgumentError when value_and_grad tracks the model; DeviceError when an upload fails;
/// DeadlineExceeded when the step in flight does not end.
template <Module Model>
[[nodiscard]] TrainingProgress load_training(Model& model,
                                             Optimizer& optimizer,
                                             const std::filesystem::path& file,
                                             SourceLoc loc = SourceLoc::current()) {
  const detail::TrainingParts parts{tensor_refs(model), parameter_refs(model), optimizer};
  return detail::place_parts(parts, detail::read_parts(parts, file, loc), loc);
}
/// Also loads the scale and the counts of a loss scaler.
///
/// Errors: also FileError bad_format when one of the two runs scales its loss, and the other does
/// not.
template <Module Model>
[[nodiscard]] TrainingProgress load_training(Model& model,
                                             Optimizer& optimizer,
                                             LossScaler& scaler,
                                             const std::filesystem::path& file,
                                             SourceLoc loc = SourceLoc::current()) {
  const detail::TrainingParts parts{.model = tensor_refs(model),
                                    .parameters = parameter_refs(model),
                                    .optimizer = optimizer,
                                    .scaler = &scaler};
  return detail::place_parts(parts, detail::read_parts(parts, file, loc), loc);
}

}  // namespace hearth
