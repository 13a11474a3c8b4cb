# Third-party libraries. Every failure names the Debian package that brings the library.
function(orrery_need package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found: install it with 'apt-get install ${debian}' (scripts/setup does all of it)")
  endif()
endfunction()
macro(orrery_header target header debian)
  find_path(${target}_INCLUDE_DIR ${header})
  if(NOT ${target}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} was not found: install it with 'apt-get install ${debian}' (scripts/setup does all of it)")
  endif()
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIR})
  endif()
endmacro()

orrery_need(fmt libfmt-dev)
orrery_need(nlohmann_json nlohmann-json3-dev)
orrery_need(CLI11 libcli11-dev)
orrery_header(orrery_expected tl/expected.hpp libexpected-dev)
find_package(Threads REQUIRED)
orrery_need(SQLite3 libsqlite3-dev)          # results of a sweep
orrery_header(orrery_muparserx muparserx/mpParser.h libmuparserx-dev)  # constraints and filters of a sweep
find_library(MUPARSERX_LIBRARY muparserx REQUIRED)
target_link_libraries(orrery_muparserx INTERFACE ${MUPARSERX_LIBRARY})
orrery_header(orrery_boost boost/math/distributions/normal.hpp libboost-dev)  # distributions of the calibration gate
orrery_header(orrery_pugixml pugixml.hpp libpugixml-dev)  # NCCL's topology files
find_library(PUGIXML_LIBRARY pugixml REQUIRED)
orrery_need(Ceres libceres-dev)  # robust least squares of the module fit

# OpenBLAS is optional: with it "orrery calibrate run" measures the host.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread)
find_library(OPENBLAS_LIBRARY openblas)
if(OPENBLAS_INCLUDE_DIR AND OPENBLAS_LIBRARY)
  message(STATUS "OpenBLAS: used by the module measure, the host can be calibrated")
else()
  message(STATUS "OpenBLAS not found: the host back end of calibrate run is skipped ('apt-get install libopenblas-dev' brings it)")
endif()

# MPI is optional: with it "orrery calibrate run --mpi" measures collectives between processes.
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  message(STATUS "MPI ${MPI_CXX_VERSION}: used by the module measure, collectives between processes can be calibrated")
else()
  message(STATUS "MPI not found: calibrate run --mpi is skipped ('apt-get install libopenmpi-dev openmpi-bin' brings one)")
endif()

# CUDA is optional: the module measure uses it where a toolkit stands on the machine. Debian has none. Kernels of its own need nvcc, cuBLASLt and NCCL.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION}: used by the module measure")
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/../lib ${CUDAToolkit_LIBRARY_DIR}/../lib64)
  if(CUDAToolkit_NVCC_EXECUTABLE AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY AND TARGET CUDA::cublasLt AND NOT ORRERY_SANITIZE)
    set(ORRERY_CUDA_BACKEND ON)
  else()
    message(STATUS "nvcc, cuBLASLt or NCCL not found: the CUDA back end of calibrate run is skipped")
  endif()
else()
  message(STATUS "CUDA toolkit not found: skipped; orrery then reports that it sees no devices")
endif()
