// freeze_tensor(): for a tensor whose values every stream of its device reads. A use of a shared
// tensor is normally noted (stream, record). Uses of a frozen tensor are not; its slot waits for
// all streams when it is dropped. Threads that share it therefore write none of its memory except
// its count.
#pragma once

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Freezes a tensor: its memory is never reused in place, and its uses cost no bookkeeping on any
/// stream. Its copies are frozen with it. Cannot be undone. Kernels of products with many rows and
/// of convolutions may keep a second copy of its values, in the order in which they read them.
/// These copies use at most a quarter of the device's budget, and are dropped if that memory is
/// needed.
///
/// Errors: ArgumentError if it is empty. Threads: one, before the tensor is shared; then any may
/// use it. Cost: one record.
void freeze_tensor(const Tensor& tensor);

}  // namespace hearth
