#include <hearth/parallel/replica.hpp>

#include <memory>
#include <string>
#include <utility>

namespace hearth::detail {

void throw_model_taken(SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "DataParallel: the model was taken: the training has ended",
                    .op = "DataParallel",
                    .location = where});
}

ErrorRef given_up() {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled,
                                             .text = "DataParallel: the trainer was destroyed",
                                             .op = "DataParallel"});
}

Gradients without_values(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> paths;
  std::vector<Tensor> tensors;
  for (const NamedTensor& parameter : parameters) {
    paths.push_back(parameter.name);
    const bool comes_later = is_float(parameter.tensor.dtype());
    tensors.push_back(comes_later ? Tensor() : zeros_like(parameter.tensor));
  }
  return Gradients(std::move(paths), std::move(tensors));
}

}  // namespace hearth::detail
