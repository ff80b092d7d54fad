// ModelServer: answers requests of many clients with one model, in batches made of the requests
// that wait. A device that is free takes what waits, up to max_batch rows. No request waits for
// others, except with ServerOptions::max_delay. Weights may be published while it serves.
// Owned by the program; the Runtime outlives it.
// Threads: ask(), answer(), drain() from any; publish() by one at a time. Construction and
// destruction by one.
// Invariants: (1) each request gets one answer or one error; (2) an answer is that of the request
// alone, within the tolerance of sums in another order; (3) a batch uses one version of the
// weights; (4) the queue is bounded.
#pragma once

#include <hearth/parallel/frozen.hpp>
#include <hearth/parallel/served_model.hpp>
#include <hearth/parallel/server_desk.hpp>
#include <hearth/parallel/server_options.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace hearth {

namespace detail {

/// Lists the tensors in a result: one, a tuple, a pair, or a list.
template <class Result>
void list_tensors(Result&& result, std::vector<Tensor>& into) {
  using Plain = std::remove_cvref_t<Result>;
  if constexpr (std::is_base_of_v<Tensor, Plain>) {
    into.push_back(std::forward<Result>(result));
  } else if constexpr (requires { result.begin(); }) {
    for (auto& each : result) {
      list_tensors(std::move(each), into);
    }
  } else {
    std::apply([&](auto&&... parts) { (list_tensors(std::move(parts), into), ...); },
               std::forward<Result>(result));
  }
}

/// Calls model.forward() with the inputs.
///
/// Errors: ArgumentError if it takes another number of tensors.
template <class Model>
std::vector<Tensor> forward_outputs(const Model& model, std::span<const Tensor> in) {
  std::vector<Tensor> outputs;
  if constexpr (requires { model.forward(in); }) {
    list_tensors(model.forward(in), outputs);
    return outputs;
  } else if constexpr (requires { model.forward(in[0]); }) {
    if (in.size() == 1) {
      list_tensors(model.forward(in[0]), outputs);
      return outputs;
    }
  }
  if constexpr (requires { model.forward(in[0], in[1]); }) {
    if (in.size() == 2) {
      list_tensors(model.forward(in[0], in[1]), outputs);
      return outputs;
    }
  }
  if constexpr (requires { model.forward(in[0], in[1], in[2]); }) {
    if (in.size() == 3) {
      list_tensors(model.forward(in[0], in[1], in[2]), outputs);
      return outputs;
    }
  }
  if constexpr (requires { model.forward(in[0], in[1], in[2], in[3]); }) {
    if (in.size() == 4) {
      list_tensors(model.forward(in[0], in[1], in[2], in[3]), outputs);
      return outputs;
    }
  }
  throw_input_count(in.size());
}

}  // namespace detail

/// Rejects a model that is no Module, with a readable message.
template <class Model>
class ModelServer {
  static_assert(detail::refuse_no_module<Model>());
};

template <Module Model>
class ModelServer<Model> {
 public:
  /// A forward pass: gets the joined inputs in the order of the request, and returns the outputs.
  using Forward = std::function<std::vector<Tensor>(const Model&, std::span<const Tensor>)>;

  /// Serves model.forward(), which takes a span of tensors, as OnnxModel has it, or one to four.
  ///
  /// Errors: ArgumentError for options that contradict one another or the devices; those of fork().
  /// Cost: a copy of the weights on each further device; a thread for each seat, and one more.
  ModelServer(const Runtime& runtime, Frozen<Model> model, ServerOptions options = {})
      : ModelServer(
            runtime, std::move(model), std::move(options), &detail::forward_outputs<Model>) {}
  /// Serves another forward pass of the model.
  ModelServer(const Runtime& runtime, Frozen<Model> model, ServerOptions options, Forward forward)
      : options_(with_devices(std::move(options), model)) {
    for (const Device& device : options_.devices) {
      places_->push_back(std::make_unique<ServedModel<Model>>(placed(model, device)));
    }
    desk_ = std::make_unique<detail::ServerDesk>(
        runtime, options_, [places = places_, forward = std::move(forward)](std::size_t device) {
          // The places live as long as a thread that runs a batch.
          auto reader = std::make_shared<typename ServedModel<Model>::Reader>(*(*places)[device]);
          return detail::SeatModel{.renew =
                                       [places, reader] {
                                         static_cast<void>(reader->current());
                                         return reader->version();
                                       },
                                   .forward =
                                       [places, reader, forward](std::span<const Tensor> inputs) {
                                         return forward(*reader->held(), inputs);
                                       }};
        });
  }

  /// Queues a request and returns at once. Each input has the request's rows on axis 0.
  ///
  /// Errors: ArgumentError for inputs without rows, different numbers of rows, or more than
  /// max_batch. Errors of the result: ServerOverloaded, at once, if the deadline would be missed or
  /// the queue is full. DeadlineExceeded, within 50 ms of the deadline. DeviceError cancelled by a
  /// stop or the server's end; device_lost. The error of the forward pass.
  [[nodiscard]] Pending<Answer> ask(std::vector<RequestInput> inputs,
                                    const RequestOptions& options = {},
                                    SourceLoc loc = SourceLoc::current()) {
    return desk_->ask(std::move(inputs), options, loc);
  }
  /// Waits for the answer of a request. If the server is idle, the calling thread runs the request
  /// itself. It does not if a stop token or a deadline within ten seconds may end its wait.
  ///
  /// Errors: as ask(), thrown.
  [[nodiscard]] Answer answer(std::vector<RequestInput> inputs,
                              const RequestOptions& options = {},
                              SourceLoc loc = SourceLoc::current()) {
    return desk_->ask_here(std::move(inputs), options, loc).get();
  }

  /// Replaces the weights: batches that begin later use them. A device that was out of service and
  /// works again, such as after Device::restart(), returns to service with them.
  ///
  /// Errors: ArgumentError as ServedModel::publish, and those of fork(); then devices that come
  /// later keep the old weights.
  void publish(const Frozen<Model>& next, SourceLoc loc = SourceLoc::current()) {
    for (std::size_t i = 0; i < options_.devices.size(); ++i) {
      const Device& device = options_.devices[i];
      if (device.is_lost()) {
        continue;
      }
      (*places_)[i]->publish(placed(next, device), loc);
      if (device.generation() != generations_[i]) {
        generations_[i] = device.generation();
        desk_->restore(i);
      }
    }
  }
  /// Version of the weights on the first device: the number of publish() calls, plus one.
  [[nodiscard]] std::uint64_t version() const noexcept { return (*places_)[0]->version(); }

  /// Refuses further requests and waits until all others are answered. Returns false at the
  /// deadline.
  [[nodiscard]] bool drain(Deadline deadline = Deadline::in(kDefaultWait)) {
    return desk_->drain(deadline);
  }
  [[nodiscard]] ServerStatistics statistics() const { return desk_->statistics(); }
  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return options_.devices; }
  /// False for a device that was lost or hangs.
  [[nodiscard]] bool is_in_service(std::size_t device) const {
    return desk_->is_in_service(device);
  }

 private:
  using Places = std::vector<std::unique_ptr<ServedModel<Model>>>;

  [[nodiscard]] static ServerOptions with_devices(ServerOptions options,
                                                  const Frozen<Model>& model) {
    if (options.devices.empty()) {
      options.devices.push_back(model.device());
    }
    return options;
  }
  [[nodiscard]] static Frozen<Model> placed(const Frozen<Model>& model, const Device& device) {
    return model.device() == device ? model : freeze(fork(*model, device));
  }

  ServerOptions options_;
  std::shared_ptr<Places> places_ = std::make_shared<Places>();
  std::vector<std::uint64_t> generations_ = generations_of(options_.devices);
  std::unique_ptr<detail::ServerDesk> desk_;

  [[nodiscard]] static std::vector<std::uint64_t> generations_of(
      const std::vector<Device>& devices) {
    std::vector<std::uint64_t> all;
    for (const Device& device : devices) {
      all.push_back(device.generation());
    }
    return all;
  }
};

template <class Model>
ModelServer(const Runtime&, Frozen<Model>, ServerOptions) -> ModelServer<Model>;
template <class Model>
ModelServer(const Runtime&, Frozen<Model>) -> ModelServer<Model>;

}  // namespace hearth
