// Freezing: a tensor whose values every stream of its device will read, for as long as it lives.
// What a use writes down for a tensor that two or three streams share (which stream, how far) is
// not written down for a frozen one: its slot waits for all streams when it is dropped. So threads
// that share it write to none of its memory but its count.
#pragma once

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// From here on the tensor's memory is never reused in place and its uses cost no bookkeeping, on
/// any stream. Its other copies are frozen with it. Cannot be undone. Kernels may keep its values a
/// second time in the order in which they read them, for products of many rows and convolutions: as
/// long as they take no more than a quarter of the device's budget and nothing else needs that.
///
/// Errors: ArgumentError when it is empty. Threads: one, before the tensor is shared; then any may
/// use it. Cost: one record.
void freeze_tensor(const Tensor& tensor);

}  // namespace hearth
