#include <hearth/runtime/model_tensor.hpp>

#include <fmt/format.h>

namespace hearth::detail {

void throw_empty_tensor(std::string_view op, const std::string& path, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: the model's '{}' is empty: the model was moved from, "
                                        "or the member was never set",
                                        op,
                                        path),
                    .op = std::string(op),
                    .module_path = path,
                    .location = loc});
}

void throw_tracked(std::string_view op, const std::string& path, SourceLoc loc) {
  throw_error(
      Error{.code = ErrorCode::invalid_argument,
            .text = fmt::format("{}: '{}' is tracked by value_and_grad, and {} cuts it from "
                                "the tape: the loss would lose its gradient; call {} outside "
                                "of the function that is differentiated",
                                op,
                                path,
                                op,
                                op),
            .op = std::string(op),
            .module_path = path,
            .location = loc});
}

}  // namespace hearth::detail
