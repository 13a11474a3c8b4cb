# Language level, warnings and build speed: the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(orrery_build INTERFACE)
target_compile_options(orrery_build INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(orrery_build INTERFACE -Wno-restrict)  # false alarms in std::string at -O3: gcc bug 105651
endif()
option(ORRERY_WERROR "Warnings are errors" ON)
if(ORRERY_WERROR)
  target_compile_options(orrery_build INTERFACE -Werror)
endif()
set(ORRERY_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined")
if(ORRERY_SANITIZE)
  add_compile_options(-fsanitize=${ORRERY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ORRERY_SANITIZE})
endif()

# A build from nothing spends a third of its time on the standard library's headers. Off by default: precompiled headers differ from build
# folder to build folder, so that ccache no longer finds the objects of one in another. For tests it does not pay (Catch2's file is 120 MB).
set(default OFF)
if("$ENV{ORRERY_PRECOMPILE}")
  set(default ON)
endif()
option(ORRERY_PRECOMPILE "Precompile the standard headers of the modules (default: the environment's ORRERY_PRECOMPILE)" ${default})
if(ORRERY_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # false alarms in std::string, no longer seen as a system header
  target_compile_options(orrery_build INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
