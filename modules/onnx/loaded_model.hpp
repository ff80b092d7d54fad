// What all copies of an OnnxModel share. Const after load, except the cache, which threads share.
#pragma once

#include "modules/onnx/graph/host_cache.hpp"
#include "modules/onnx/graph/plan.hpp"

#include <hearth/modules/onnx_report.hpp>

namespace hearth::onnx {

struct LoadedModel {
  Program program;
  OnnxReport report;
  mutable HostCache cache;
};

}  // namespace hearth::onnx
