// Strings. They lie on the host, and so do their results.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/host/host_text.hpp"

namespace hearth::onnx {
namespace text_ops {
namespace {

std::string check_case(const NodeInfo& node) {
  const std::string action = node.text("case_change_action", "NONE");
  return action == "NONE" || action == "LOWER" || action == "UPPER"
             ? std::string{}
             : fmt::format("attribute case_change_action is '{}'", action);
}

std::string check_counts(const NodeInfo& node) {
  const std::string mode = node.text("mode", "");
  return mode == "TF" || mode == "IDF" || mode == "TFIDF"
             ? std::string{}
             : fmt::format("attribute mode is '{}'", mode);
}

constexpr OpRow kRows[] = {
    {.op = "StringNormalizer", .since = 10, .on_host = normalise_strings, .check = check_case},
    {.op = "TfIdfVectorizer", .since = 9, .on_host = count_ngrams, .check = check_counts},
    {.op = "StringConcat", .since = 20, .on_host = concat_strings},
    {.op = "StringSplit", .since = 20, .on_host = split_strings},
};

}  // namespace
}  // namespace text_ops

std::span<const OpRow> text_rows() {
  return text_ops::kRows;
}

}  // namespace hearth::onnx
