# Everything comes from the system's packages; scripts/setup.sh installs them on Debian.
# The installed package includes this file too: its libraries are static.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Or from a folder, on a machine where nothing can be installed.
set(COMERA_DEPENDENCIES "" CACHE PATH "Folder with unpacked dependencies (scripts/gpu_check.sh carry); empty: the system's packages")
if(COMERA_DEPENDENCIES)
  include(ComeraCarriedDependencies)
  return()
endif()

find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET GLOBAL sentencepiece)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET GLOBAL libzstd)

# Optional: Apache Arrow's library reads Parquet and Arrow files. Debian 12 has none.
set(COMERA_ARROW "" CACHE PATH "Folder with Apache Arrow's include/ and libraries, for instance pyarrow of a wheel (scripts/setup.sh --arrow); empty: where CMake finds them, if at all")
if(COMERA_ARROW AND NOT TARGET comera_arrow)
  file(GLOB arrow_libraries ${COMERA_ARROW}/libarrow.so.[0-9]*00 ${COMERA_ARROW}/libparquet.so.[0-9]*00)
  list(LENGTH arrow_libraries arrow_count)
  if(NOT arrow_count EQUAL 2)
    message(FATAL_ERROR "COMERA_ARROW: ${COMERA_ARROW} has no libarrow.so and libparquet.so of one version")
  endif()
  add_library(comera_arrow INTERFACE IMPORTED GLOBAL)
  target_include_directories(comera_arrow SYSTEM INTERFACE ${COMERA_ARROW}/include)
  target_link_libraries(comera_arrow INTERFACE ${arrow_libraries})
elseif(NOT TARGET comera_arrow)
  find_package(Arrow CONFIG QUIET)
  find_package(Parquet CONFIG QUIET)
  if(Arrow_FOUND AND Parquet_FOUND)
    add_library(comera_arrow INTERFACE IMPORTED GLOBAL)
    target_link_libraries(comera_arrow INTERFACE Arrow::arrow_shared Parquet::parquet_shared)
  endif()
endif()

# oneDNN's own config file asks for OpenCL headers that its Debian package does not need.
if(NOT TARGET comera_onednn)
  find_path(ONEDNN_INCLUDE_DIR dnnl.h REQUIRED)
  find_library(ONEDNN_LIBRARY dnnl REQUIRED)
  add_library(comera_onednn UNKNOWN IMPORTED GLOBAL)
  set_target_properties(comera_onednn PROPERTIES IMPORTED_LOCATION ${ONEDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
endif()

# LAPACK and its BLAS, for decompositions of matrices. Debian's folders; the one that shares its threads with
# OpenMP is preferred. Its own config file may name another variant than the one that is linked.
if(NOT TARGET comera_lapack)
  set(openblas_folders openblas-openmp openblas-pthread openblas openblas-serial)
  find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES ${openblas_folders} REQUIRED)
  find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES ${openblas_folders} REQUIRED)
  add_library(comera_lapack UNKNOWN IMPORTED GLOBAL)
  set_target_properties(comera_lapack PROPERTIES IMPORTED_LOCATION ${OPENBLAS_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE_DIR})
endif()

# FindHDF5 sets variables only.
if(NOT TARGET comera_hdf5)
  add_library(comera_hdf5 INTERFACE IMPORTED GLOBAL)
  target_include_directories(comera_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(comera_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()
