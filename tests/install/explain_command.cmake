# What `hearth-bench explain` prints, and what it refuses before it has printed anything. TOOL: the program; WORK_DIR: a folder.
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

# said(environment arguments...): what it prints, which must end well.
function(said environment)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${environment} ${TOOL} explain ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "explain ${ARGN} ended with ${status}:\n${output}${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# must_say(what): a piece of the last output.
function(must_say what)
  string(FIND "${output}" "${what}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "no \"${what}\" in:\n${output}")
  endif()
endfunction()

# refuses(what arguments...): it fails, says so, and prints nothing else.
function(refuses what)
  execute_process(COMMAND ${TOOL} explain ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE output)
  if(status EQUAL 0 OR NOT printed STREQUAL "")
    message(FATAL_ERROR "explain ${ARGN} ended with ${status} and printed:\n${printed}")
  endif()
  must_say("${what}")
  set(output "${output}" PARENT_SCOPE)
endfunction()

said("HEARTH_FUSION=on" gelu)
must_say("5 ops in 1 kernel, 1 launch, 4 launches saved")
said("HEARTH_FUSION=off" gelu)
must_say("5 ops in 5 kernels, 5 launches, 0 launches saved")
said("HEARTH_FUSION=off" gelu --fusion on)
must_say("5 ops in 1 kernel")
said("HEARTH_FUSION=on" gelu --fusion single)
must_say("5 ops in 5 kernels")
said("HEARTH_FUSION=on" gelu --json --svg ${WORK_DIR}/gelu.svg)
must_say("\"launches_saved\": 4")
file(READ ${WORK_DIR}/gelu.svg output)
must_say("1 launch, 4 launches saved")
must_say("explain_programs.cpp:")
said("HEARTH_FUSION=on" adamw_200)
must_say("200 ops in 200 kernels, 1 launch, 199 launches saved")

# The first group alone, which no run before has used up.
said("HEARTH_FUSION_LIMIT=1" gelu)
must_say("5 ops in 1 kernel")
said("HEARTH_FUSION_LIMIT=0" gelu)
must_say("5 ops in 5 kernels")
# A recording has the lines of the program that was recorded.
said("HEARTH_RECORD_FILE=${WORK_DIR}/gelu.rec" gelu)
said("HEARTH_FUSION=on" ${WORK_DIR}/gelu.rec)
must_say("random_normal")
must_say("at explain_programs.cpp:")

refuses("'gelo' is no program" gelo)
must_say("Did you mean gelu?")
must_say("layer_norm")
refuses("it is a folder" ${WORK_DIR})
refuses("tpu:0" gelu --device tpu:0)
refuses("--svg" gelu --svg ${WORK_DIR}/none/gelu.svg)
refuses("--backward" adamw_200 --backward)
file(WRITE ${WORK_DIR}/words.rec "no recording")
refuses("words.rec" ${WORK_DIR}/words.rec)
