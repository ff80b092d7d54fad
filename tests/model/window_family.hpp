// The programs that the model of the window is searched with. Threads: any; values.
#pragma once

#include <cstdint>
#include <vector>

#include "window_program.hpp"

namespace hearth::model {

/// Written by hand, each around one way in which lanes, windows and the world meet.
[[nodiscard]] std::vector<WindowProgram> chosen_programs();
/// The chosen program of this name. Errors: std::out_of_range.
[[nodiscard]] WindowProgram chosen_program(const std::string& name);
/// So many different programs of two lanes with `records` records each: ops on own and on the other
/// lane's tensors, last uses, drops, adoptions, reads, syncs, groups, kernels that fail; with and
/// without plans, memory to spare, shutdowns, questions, restarts, deadlines and threads that end;
/// on host and asynchronous devices. None is another one with its lanes exchanged.
[[nodiscard]] std::vector<WindowProgram> generated_programs(std::uint64_t seed,
                                                            std::size_t count,
                                                            int records);

}  // namespace hearth::model
