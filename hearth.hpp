// Hearth whole, for programs: tensors and devices, modules, training and serving.
#pragma once

// First, so that a compiler that tells how it came to a sentence of theirs has little to tell.
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/visit.hpp>

#include <hearth/modules/all.hpp>
#include <hearth/parallel/all.hpp>
#include <hearth/runtime/all.hpp>
