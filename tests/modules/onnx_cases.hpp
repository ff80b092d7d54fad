// The test cases of the ONNX project, as Debian's package libonnx-testdata holds them: a folder
// each, with a model and its inputs and outputs. Values. Threads: any.
#pragma once

#include <hearth/modules/onnx_model.hpp>
#include <hearth/runtime/device.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace hearth::testing {

struct OnnxCase {
  std::string name;  ///< "node/test_abs"
  std::filesystem::path folder;
};

enum class OnnxOutcome { passed, refused, wrong };

struct OnnxVerdict {
  OnnxOutcome outcome = OnnxOutcome::passed;
  std::string reason = {};  ///< One line; empty if it passed.
};

/// The folder of the cases: HEARTH_ONNX_CASES, or the package's. Empty if it does not exist.
[[nodiscard]] std::filesystem::path onnx_case_folder();
/// All cases of one of its folders, by name.
[[nodiscard]] std::vector<OnnxCase> onnx_cases(const std::string& suite);
/// Runs all data sets of a case and compares the results.
[[nodiscard]] OnnxVerdict judge_case(const OnnxCase& one, const Device& device);

}  // namespace hearth::testing
