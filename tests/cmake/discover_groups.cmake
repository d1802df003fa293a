# Writes the tests of a GoogleTest program into a file that ctest reads: one test for each group of cases of a
# parameterised test, instead of a process for each case. The cases of a group have the beginning of their
# parameter's name in common: all sizes of an operation are one group. Cases that begin with their number, such
# as 12_order3, are all of one group.
#   cmake -D PROGRAM=... -D OUTPUT=... -D PROPERTIES=... -P discover_groups.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests --gtest_filter=*/*
  OUTPUT_VARIABLE listed RESULT_VARIABLE status COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," listed "${listed}")
string(REPLACE "\n" ";" lines "${listed}")

set(groups "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([^ ]+)\\.")
    set(suite ${CMAKE_MATCH_1})
  elseif(line MATCHES "^  ([^/ ]+)/([0-9]|[A-Z][^_ ]*|[a-z][^_ ]*_?[^_ ]*)")
    set(test ${suite}.${CMAKE_MATCH_1}/)
    set(parameter ${CMAKE_MATCH_2})
    if(parameter MATCHES "^[0-9]")
      list(APPEND groups ${test}*)
    else()
      list(APPEND groups ${test}${parameter}:${test}${parameter}_*)
    endif()
  elseif(line MATCHES "^  ")
    message(FATAL_ERROR "${PROGRAM}: no group takes the case '${line}'")
  endif()
endforeach()
list(REMOVE_DUPLICATES groups)

set(text "")
foreach(group IN LISTS groups)
  string(REGEX REPLACE "(/\\*$|:.*)" "" name ${group})
  string(APPEND text "add_test([=[${name}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${group}]=])\n"
    "set_tests_properties([=[${name}]=] PROPERTIES FAIL_REGULAR_EXPRESSION [=[ 0 tests from 0 test suites ran]=] ${PROPERTIES})\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
