# One library per folder. Headers are included by their path from the root of the source tree:
#   #include "kernels/core/tensors/tensor.h"

include(GNUInstallDirs)

add_library(comera_options INTERFACE)
target_include_directories(comera_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/comera>)
target_compile_features(comera_options INTERFACE cxx_std_20)

add_library(comera_warnings INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-sign-compare -Werror=switch)
list(JOIN warnings "," host_warnings) # nvcc hands them on to the compiler of the host's part
target_compile_options(comera_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_warnings}>")

if(COMERA_SANITIZE)
  add_compile_options(-fsanitize=${COMERA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${COMERA_SANITIZE})
endif()

set_property(GLOBAL PROPERTY COMERA_LIBRARIES "comera_options")

# Several source files are compiled as one, since headers cost most of the compiler's time: names in the unnamed
# namespaces of a folder differ from each other and from those of its headers. Tools that read compile commands
# want -DCOMERA_UNITY_BUILD=OFF.
function(comera_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${COMERA_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 8)
  # Classes of a source file may have members of its unnamed namespace: no header has them.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

function(comera_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# comera_library(NAME sources... [PUBLIC libraries...] [PRIVATE libraries...] [COLD])
# COLD: nobody waits for what it does, so that the compiler takes less time over it.
# makes comera_NAME with the alias comera::NAME and installs it with the package.
function(comera_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(comera_${name} STATIC ${ARG_SOURCES})
  add_library(comera::${name} ALIAS comera_${name})
  set_target_properties(comera_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(comera_${name} PUBLIC comera_options ${ARG_PUBLIC}
                        PRIVATE $<BUILD_INTERFACE:comera_warnings> ${ARG_PRIVATE})
  comera_compile_together(comera_${name})
  if(ARG_COLD)
    comera_compile_quickly(comera_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY COMERA_LIBRARIES comera_${name})
endfunction()
