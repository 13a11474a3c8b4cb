# The CUDA back end of calibrate run. Only the kernels are compiled by nvcc, for Ampere, Hopper and Blackwell; the rest is C++ against the libraries.
# nvcc is called directly: CMake's own CUDA language probes the compiler for seconds at every fresh configuration, and its older versions refuse newer toolkits.
set(ORRERY_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities, times ten, that kernels are compiled for")
set(generate)
foreach(architecture ${ORRERY_CUDA_ARCHITECTURES})
  list(APPEND generate -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET ORRERY_CUDA_ARCHITECTURES -1 newest)
list(APPEND generate -gencode arch=compute_${newest},code=compute_${newest})  # and what comes after
set(kernels ${CMAKE_BINARY_DIR}/orrery_cuda_kernels.o)
add_custom_command(
  OUTPUT ${kernels}
  COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O2 --expt-relaxed-constexpr -Xcompiler=-fPIC,-Wall,-Wextra ${generate}
          -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src -c ${PROJECT_SOURCE_DIR}/src/measure/plugin/cuda_kernels.cu -o ${kernels}
  DEPENDS src/measure/plugin/cuda_kernels.cu src/measure/plugin/cuda_kernels.hpp
  COMMENT "Compiling CUDA kernels" VERBATIM)

orrery_plugin(orrery_cuda src/measure/plugin/cuda.cpp src/measure/plugin/cuda_gemm.cpp src/measure/plugin/cuda_collective.cpp src/measure/plugin/cuda_monitor.cpp
              src/measure/plugin/cuda_shapes.cpp ${kernels})
target_include_directories(orrery_cuda SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
target_link_libraries(orrery_cuda PRIVATE CUDA::cudart CUDA::cublasLt ${NCCL_LIBRARY} ${CMAKE_DL_LIBS})
