// Hearth whole, for programs: tensors and devices, modules, training and serving.
#pragma once

#include <hearth/modules/all.hpp>
#include <hearth/parallel/all.hpp>
#include <hearth/runtime/all.hpp>
